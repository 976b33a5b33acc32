# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that are virtual machines see only the VFs that they were given: they offer them, and the PFs are left alone.

What stands in for the VF: e1000e, which has no SR-IOV and no PF beside it, shows the ids of a ConnectX VF. The tests
build on each other, in the order of the file.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import REFUSED
from ansible_collections.rdma.fabric.tests.guests.conftest import started
from ansible_collections.rdma.fabric.tests.guests.host_runs import CARD, FUNCTION, Json
from ansible_collections.rdma.fabric.tests.guests.pci_ids import show_ids
from ansible_collections.rdma.fabric.tests.guests.rolled_out import Fleet
from ansible_collections.rdma.fabric.tests.guests.site_runs import await_offer
from ansible_collections.rdma.fabric.tests.integration.playbooks import User
from ansible_collections.rdma.fabric.tests.lab.guests.cluster import Lab
from ansible_collections.rdma.fabric.tests.lab.guests.lab import POLICY, Options
from ansible_collections.rdma.fabric.tests.lab.guests.topology import NESTED, WITHOUT_SRIOV

VF = {"8086:10D3": ("15B3:101E", "20000")}
SHARED, VFS = "rdma/rdma_shared_device_a", "nvidia.com/hostdev"
NETWORK = "default/rdma-shared"
# What the PF alone has.
OF_THE_PF = {"eswitch_mode": "switchdev", "firmware": {"NUM_OF_VFS": 4}}
VERIFY = {
    "rdma_fabric_verify_networks": [NETWORK],
    "rdma_fabric_verify_timeout": 900,
    "rdma_fabric_verify_test_timeout": 900,
}


class Nested(Fleet):
    """The guests, of which the lab's policy is asked as it is for bare metal; its VFs have another driver."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        inventory, variables = folder / "inventory.yml", folder / "group_vars"
        shutil.copy(lab.inventory, inventory)
        shutil.copytree(POLICY, variables)
        text = (variables / "all.yml").read_text(encoding="utf-8")
        # The plugin's container shows e1000e's own ids.
        text = text.replace('"vendors": ["8086"],', "").replace('"igbvf"', f'"{WITHOUT_SRIOV}"')
        (variables / "all.yml").write_text(text, encoding="utf-8")
        super().__init__(lab, User(folder / "user"), inventory)

    def documents(self) -> dict[str, Json]:
        """Give what the last run read and planned, by host."""
        folder = self.user.here / "rdma-fabric-run" / "hosts"
        return {each: json.loads((folder / f"{each}.json").read_text(encoding="utf-8")) for each in self.lab.guests}


@pytest.fixture(scope="module")
def nested(capable: None, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nested]:
    """Two nodes whose cards are VFs."""
    options = Options(tmp_path_factory.mktemp("nested"), topology=NESTED)
    for directory in started(options, pytestconfig):
        lab = Lab(directory)
        for guest in lab.guests:
            show_ids(directory, guest, VF)
        yield Nested(lab, tmp_path_factory.mktemp("fleet"))


def test_a_guest_makes_no_functions_and_offers_those_that_it_was_given(nested: Nested) -> None:
    nested.run("site").succeeded()
    for document in nested.documents().values():
        (card,) = (nic for nic in document["facts"]["nics"] if nic["address"] == FUNCTION)
        assert (card["function"], card.get("pf"), card.get("sriov"), card["netdevs"]) == ("vf", None, None, [CARD])
        assert any("vfs 2 is skipped" in notice for notice in document["plan"]["notices"])
    assert set(nested.each(f"cat /sys/class/net/{CARD}/mtu").values()) == {"9000"}
    await_offer(nested.lab, SHARED, 63)
    await_offer(nested.lab, VFS, 1)
    assert set(nested.run("site").succeeded().changed.values()) == {0}


def test_what_takes_the_pf_is_refused_by_that_cause(nested: Nested) -> None:
    asked: list[dict[str, Any]] = [{"pci": FUNCTION, **OF_THE_PF}]
    nested.run("site", "--check", rdma_fabric_interfaces=asked)
    for document in nested.documents().values():
        refused = {step["concern"]: step["detail"] for step in document["plan"]["steps"] if step["status"] == REFUSED}
        assert set(refused) == {"firmware", "eswitch"}
        assert all("it is not a PF" in cause for cause in refused.values())


def test_two_pods_write_into_each_others_memory_over_the_functions(nested: Nested) -> None:
    nested.run("verify", **VERIFY).succeeded()
    path = nested.user.here / "rdma-fabric-run" / "verify.json"
    (pair,) = json.loads(path.read_text(encoding="utf-8"))["pairs"]
    assert (pair["a"], pair["b"], pair["verdict"]) == (*sorted(nested.lab.guests), "reported")
    assert {test["verdict"] for test in pair["tests"]} == {"pass", "reported"}
