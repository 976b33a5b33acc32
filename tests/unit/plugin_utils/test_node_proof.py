# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proof of one node: only what it takes is read, and every network comes to a verdict."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.neighbours import in_order
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure
from ansible_collections.rdma.fabric.plugins.plugin_utils._wire.node import NodeProof
from ansible_collections.rdma.fabric.tests.unit._proof.wire.test_plan import RESOURCE, around, network, options

Json = dict[str, Any]

NODE = "gpu-00"
OTHERS = [f"gpu-{number:02}" for number in range(1, 30)]
ORDER = in_order(NODE, OTHERS)
OTHER_RESOURCE = "rdma/other"


def holder(amount: int, *, test: bool = False) -> Json:
    labels = {"test": "yes"} if test else {}
    return {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"resources": {"requests": {RESOURCE: str(amount)}}}]},
    }


class Nodes:
    """Nodes in memory that say what was read of them; all are alike until a test changes one."""

    def __init__(self) -> None:
        self.changes: dict[str, Json | None] = {}
        self.pods: dict[str, list[Json]] = {}
        self.taken: set[str] = set()
        self.read: list[str] = []
        self.listed: list[str] = []

    def node(self, name: str) -> Json | None:
        self.read.append(name)
        own = self.changes.get(name, {})
        if own is None:
            return None
        status = {
            "conditions": [{"type": "Ready", "status": own.get("ready", "True")}],
            "allocatable": own.get("allocatable", {RESOURCE: "1"}),
        }
        return {"metadata": {"name": name}, "spec": {"unschedulable": own.get("cordoned", False)}, "status": status}

    def pods_on(self, name: str) -> list[Json]:
        self.listed.append(name)
        return self.pods.get(name, [])

    def slots(self) -> frozenset[str]:
        return frozenset(self.taken)


def proof(nodes: Nodes, node: str = NODE, facts: Json | None = None, **there: Any) -> NodeProof:
    hosts = [NODE, *OTHERS]
    there = {"hosts": dict.fromkeys(hosts), "names": {host: host for host in hosts}, "nodes": [], **there}
    found = NodeProof(
        node, options(), around(**there), nodes, lambda _host: facts, lambda pod: bool(pod["metadata"]["labels"])
    )
    found.begin()
    return found


def partners(found: NodeProof) -> list[str]:
    """Return the neighbours of the next plan, an empty list when there is no further one."""
    plan = found.next_plan() or {"networks": []}
    return [name for each in plan["networks"] for name in each["nodes"] if name != found.node]


def row(neighbour: str, verdict: str, name: str = "default/rail0") -> Json:
    one, other = sorted((NODE, neighbour))
    return {"network": name, "a": one, "b": other, "verdict": verdict}


def test_a_cordoned_node_is_tested_with_the_first_neighbour_and_hardly_anything_is_read() -> None:
    nodes = Nodes()
    nodes.changes[NODE] = {"cordoned": True}
    found = proof(nodes)
    plan = found.next_plan()
    assert plan is not None
    (planned,) = plan["networks"]
    assert planned["rounds"] == [[sorted((NODE, ORDER[0]))]]
    assert (nodes.read, nodes.listed) == ([NODE, ORDER[0]], [NODE, ORDER[0]])
    found.note([row(ORDER[0], "pass")])
    assert partners(found) == []
    assert [(each["verdict"], each["neighbours"]) for each in found.results()] == [("pass", ORDER[:1])]
    assert found.notices() == []


def test_who_is_out_of_service_or_has_no_free_device_is_passed_over() -> None:
    nodes = Nodes()
    nodes.taken = {ORDER[0]}
    nodes.changes = {
        ORDER[1]: {"cordoned": True},
        ORDER[2]: {"ready": "Unknown"},
        ORDER[3]: None,
        ORDER[4]: {"allocatable": {}},
    }
    nodes.pods[ORDER[5]] = [holder(1)]
    assert partners(proof(nodes)) == [ORDER[6]]
    assert ORDER[0] not in nodes.read


def test_a_neighbour_that_others_are_tested_with_is_asked_last() -> None:
    nodes = Nodes()
    for name in [NODE, *OTHERS]:
        nodes.changes[name] = {"allocatable": {RESOURCE: "8"}}
    nodes.pods[ORDER[0]] = [holder(1, test=True)]
    assert partners(proof(nodes)) == [ORDER[1]]
    nodes.pods = {name: [holder(1, test=True)] for name in OTHERS}
    nodes.read = []
    assert partners(proof(nodes)) == [ORDER[0]]
    assert len(nodes.read) < 8, "not everybody is asked for one that is idle"


def test_a_node_that_fails_is_tested_with_a_second_neighbour_which_decides() -> None:
    nodes = Nodes()
    found = proof(nodes)
    assert partners(found) == ORDER[:1]
    found.note([row(ORDER[0], "fail")])
    assert partners(found) == ORDER[1:2]
    found.note([row(ORDER[1], "fail")])
    assert partners(found) == []
    assert [each["verdict"] for each in found.results()] == ["fail"]


def test_a_failure_with_a_neighbour_that_went_out_of_service_does_not_count() -> None:
    nodes = Nodes()
    found = proof(nodes)
    for name in ORDER[:2]:
        assert partners(found) == [name]
        nodes.taken.add(name)
        found.note([row(name, "fail")])
    assert partners(found) == ORDER[2:3]
    found.note([row(ORDER[2], "pass")])
    assert partners(found) == []
    assert [each["verdict"] for each in found.results()] == ["pass"]


def test_without_a_neighbour_or_a_device_nothing_is_tested_and_that_is_said() -> None:
    nodes = Nodes()
    nodes.taken = set(OTHERS)
    networks = [network(), network("rail1", resource=OTHER_RESOURCE, candidates=[OTHER_RESOURCE])]
    found = proof(nodes, networks=networks)
    assert partners(found) == []
    assert [each["verdict"] for each in found.results()] == ["skipped", "skipped"]
    assert found.notices() == [
        f"default/rail0: {NODE} is not tested: no other node of the fabric is in service with a free device",
        f"default/rail1: {NODE} is not tested: {NODE} offers no {OTHER_RESOURCE}",
    ]


def test_networks_come_to_their_verdicts_by_themselves() -> None:
    nodes = Nodes()
    found = proof(nodes, networks=[network(), network("rail1")])
    assert partners(found) == [ORDER[0], ORDER[0]]
    found.note([row(ORDER[0], "pass"), row(ORDER[0], "fail", "default/rail1")])
    assert partners(found) == [ORDER[1]]
    found.note([row(ORDER[1], "pass", "default/rail1")])
    assert partners(found) == []
    assert [(each["network"], each["neighbours"]) for each in found.results()] == [
        ("default/rail0", ORDER[:1]),
        ("default/rail1", ORDER[:2]),
    ]
    assert len(found.notices()) == 1


def test_a_network_is_called_by_its_rail_once_the_facts_of_a_host_tell_it() -> None:
    facts = {"netdevs": [{"name": "rail0", "pci": "0000:1a:00.0"}], "rails": [{"nic": "0000:1a:00.0", "rail": 3}]}
    found = proof(Nodes(), facts=facts)
    plan = found.next_plan()
    assert plan is not None
    assert found.pairs_of(plan) == [f"rail 3 (default/rail0): {NODE} is to be tested with {ORDER[0]}"]
    found.note([row(ORDER[0], "pass")])
    assert partners(found) == []
    assert [each["line"] for each in found.results()] == [f"rail 3 (default/rail0): {NODE} passes with {ORDER[0]}"]


@pytest.mark.parametrize(
    ("node", "change", "said"),
    [
        ("elsewhere", {}, "node elsewhere is of no host of the fabric"),
        (NODE, None, f"node {NODE} is not there"),
        (NODE, {"ready": "False"}, f"node {NODE} is not Ready"),
    ],
)
def test_a_node_that_can_not_be_tested_is_named(node: str, change: Json | None, said: str) -> None:
    nodes = Nodes()
    nodes.changes[NODE] = change
    with pytest.raises(ActionFailure, match=said):
        proof(nodes, node)
