# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ansible-doc shows of a host's spec is what the checks take."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.doc_fragments.host_spec import ModuleDocFragment
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.arguments import NETNS_MODES
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.functions import (
    ESWITCH_MODES,
    LINK_STATES,
    VF_DRIVERS,
    VF_KEYS,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import CONSENTS, check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.interfaces import (
    INTERFACE_KEYS,
    QUEUE_KEYS,
    STATES,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.memory import LIMIT_KEYS
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.pcie import PCIE_KEYS, READ_REQUESTS
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.qos import QOS_KEYS
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.routes import ROUTE_KEYS, RULE_KEYS
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput

SPEC: dict[str, Any] = yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"]["desired"]["suboptions"]
INTERFACE: dict[str, Any] = SPEC["interfaces"]["suboptions"]
WRONG: dict[str, Any] = {"int": "text", "bool": "text", "str": [], "list": "text", "dict": "text"}


def test_every_key_is_documented_and_no_other() -> None:
    documented = {
        "a host": (SPEC, list(check_spec({}))),
        "an interface": (INTERFACE, INTERFACE_KEYS),
        "vf_settings": (INTERFACE["vf_settings"]["suboptions"], VF_KEYS),
        "queues": (INTERFACE["queues"]["suboptions"], QUEUE_KEYS),
        "routes": (INTERFACE["routes"]["suboptions"], ROUTE_KEYS),
        "routing-policy": (INTERFACE["routing-policy"]["suboptions"], RULE_KEYS),
        "roce_qos": (SPEC["roce_qos"]["suboptions"], QOS_KEYS),
        "limits": (SPEC["limits"]["suboptions"], LIMIT_KEYS),
        "pcie": (SPEC["pcie"]["suboptions"], PCIE_KEYS),
    }
    assert [
        f"{where}: {set(told) ^ set(known)}" for where, (told, known) in documented.items() if set(told) ^ set(known)
    ] == []
    assert [consent for consent in CONSENTS if f"C({consent})" not in SPEC["consents"]["description"]] == []


def test_choices_are_those_that_the_checks_take() -> None:
    assert tuple(INTERFACE["state"]["choices"]) == STATES
    assert tuple(INTERFACE["vf_driver"]["choices"]) == VF_DRIVERS
    assert tuple(INTERFACE["eswitch_mode"]["choices"]) == ESWITCH_MODES
    assert tuple(INTERFACE["vf_settings"]["suboptions"]["link_state"]["choices"]) == LINK_STATES
    assert set(SPEC["netns_mode"]["choices"]) == set(NETNS_MODES)
    assert tuple(SPEC["pcie"]["suboptions"]["max_read_request"]["choices"]) == READ_REQUESTS


@pytest.mark.parametrize("level", ["host", "interface", "vf_settings", "roce_qos"])
def test_a_value_of_another_type_than_documented_is_refused(level: str) -> None:
    options = {
        "host": SPEC,
        "interface": INTERFACE,
        "vf_settings": INTERFACE["vf_settings"]["suboptions"],
        "roce_qos": SPEC["roce_qos"]["suboptions"],
    }[level]
    taken = []
    for name, option in options.items():
        if option["type"] == "raw":
            continue
        given: Any = {name: WRONG[option["type"]]}
        if level == "vf_settings":
            given = {"vf_settings": given}
        if level in {"interface", "vf_settings"}:
            given = {"interfaces": [{"current_name": "eth0", **given}]}
        elif level == "roce_qos":
            given = {"roce_qos": given}
        try:
            check_spec(given)
        except InvalidInput:
            continue
        taken.append(name)
    assert taken == []
