# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mutated input of every kind: it is refused with its place, or rendered and planned; nothing else comes of it."""

from __future__ import annotations

import json
import random
from functools import lru_cache
from pathlib import Path
from typing import Any, Mapping

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.helm_values import CHART
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.read import NAMED_VARIABLES
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.settings import SETTINGS
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import render
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import make_plan
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import CONSENTS, check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions import base
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.texts import is_blank
from ansible_collections.rdma.fabric.tests.sweeps import shares_of
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import EXAMPLES, QUICK_STARTS, SEEDS
from ansible_collections.rdma.fabric.tests.unit._fabric.test_leaves import CASES
from ansible_collections.rdma.fabric.tests.unit._host.guard.test_every_concern import ENTRIES, OF_HOST
from ansible_collections.rdma.fabric.tests.unit._host.test_hostile_wishes import PF, recording
from ansible_collections.rdma.fabric.tests.unit.campaigns.mutations import campaign, change_value
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

HOST = "roce-h100-01"
LONGEST_SENTENCE = 5000
_DRIVER = {
    "flavour": "doca-ofed",
    "version": "25.10",
    "source": "repository",
    "repository": {"url": "https://mirror.example/doca", "gpg_check": False},
}


def of_host() -> dict[str, Any]:
    """Return variables of a host with every key that an interface or the host may have."""
    entry = {key: value for _host, part in ENTRIES.values() for key, value in part.items()}
    given: dict[str, Any] = {key: value for part in OF_HOST.values() for key, value in part.items()}
    given.update(
        interfaces=[{"pci": PF, **entry}, {"pci": "0000:40:00.0", "mtu": 4200}],
        kernel_modules=["ib_umad"],
        kernel_arguments=["iommu=pt"],
        limits={"memlock": "unlimited", "nofile": 65536},
        hugepages={"2Mi": 8, "1Gi": {"0": 1}},
        driver=_DRIVER,
        peer_memory={"module": "nvidia-peermem"},
        roce_qos={"pfc": [3], "trust": "dscp"},
        node_labels={"example.com/rack": "a1"},
        protected_interfaces=["eno1"],
        netns_mode="shared",
    )
    consents = dict.fromkeys(CONSENTS.values(), True)
    return {**{f"rdma_fabric_{name}": value for name, value in given.items()}, **consents}


@lru_cache(maxsize=None)
def inputs() -> dict[str, dict[str, Any]]:
    """Return every sample of input: documents of a file, arguments of the action, or variables of a host."""
    found: dict[str, dict[str, Any]] = {"host": {"host": of_host()}}
    for folder in (SEEDS / "egx-v0.1.0", SEEDS / "guide", EXAMPLES, QUICK_STARTS):
        for path in sorted(folder.glob("*.y*ml")):
            documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
            found[path.stem] = {"documents": documents}
    variables = {**{kind: name for name, kind in NAMED_VARIABLES.items()}, "NicClusterPolicy": "nic_cluster_policy"}
    for case in CASES:
        if case.model.name in variables:
            name = variables[case.model.name]
            value = case.base if name == "nic_cluster_policy" else {"gpu": case.base}
            found[case.name] = {"arguments": {name: value}}
        elif case.model is CHART:
            found[case.name] = {"arguments": {"helm_values": case.base}}
        elif case.model is SETTINGS:
            policy: dict[str, Any] = {"ofedDriver": {}, "secondaryNetwork": {"multus": {}}, "nvIpam": {}}
            found[case.name] = {"arguments": {**case.base, "nic_cluster_policy": policy}}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seeds", shares_of(200_000, 400), ids=str)
def test_mutated_input_is_refused_with_its_place_or_taken(
    seeds: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base.display, "warning", lambda *_words: None)
    campaign(seeds, inputs(), change_input, lambda given: problem(given, tmp_path))


def change_input(dice: random.Random, given: dict[str, Any]) -> None:
    """Change a document, a host's variables or the value of an argument, whose names are those of the role."""
    owner = given.get("arguments", given)
    key = dice.choice(sorted(owner))
    holder = [owner[key]]
    change_value(dice, holder)
    owner[key] = holder[0] if holder else None


def problem(given: dict[str, Any], folder: Path) -> str:
    """Return what is wrong with how an input is taken."""
    arguments = {name: value for name, value in given.get("arguments", {}).items() if value and not is_blank(value)}
    # The role gives the action what a variable has, and leaves out what is empty.
    task_vars: dict[str, Any] = {f"rdma_fabric_{name}": value for name, value in arguments.items()}
    if "documents" in given:
        path = folder / "p.yaml"
        documents = given["documents"] if isinstance(given["documents"], list) else [given["documents"]]
        path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
        arguments = {"manifests": [str(path)]}
    if "host" in given:
        variables = given["host"] if isinstance(given["host"], dict) else {}
        arguments, task_vars = {"hosts": [HOST]}, {"hostvars": {HOST: variables}}
    result = run_action("fabric_input", arguments, task_vars=task_vars)
    if "exception" in result:
        return str(result["exception"])
    return refusal_problem(result) if result.get("failed") else taken_problem(result)


def refusal_problem(result: Mapping[str, Any]) -> str:
    if not result.get("violations"):
        return f"refused without a place: {result['msg']}"
    for each in result["violations"]:
        said = Violation(**each).sentence()
        if not each["source"] or not said.isprintable() or len(said) > LONGEST_SENTENCE:
            return f"refused in no sentence: {said!r}"
    return ""


def taken_problem(result: Mapping[str, Any]) -> str:
    json.dumps(result, ensure_ascii=False).encode()
    render(result["spec"])
    for spec in result["spec"]["hosts"].values():
        desired = check_spec(spec)
        make_plan(desired, gather(RecordedHost(recording()), desired=desired))
    return ""
