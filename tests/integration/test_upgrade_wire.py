# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wire test of a turn of ``upgrade``: a node is proved with a neighbour before it takes pods again.

The cluster is a real API server with a scheduler and nodes of KWOK whose pods run commands. The hosts are this machine,
each with files of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.neighbours import in_order
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import ANNOTATION
from ansible_collections.rdma.fabric.tests.integration.after_site import States
from ansible_collections.rdma.fabric.tests.integration.exec_nodes import ExecNodes, running
from ansible_collections.rdma.fabric.tests.integration.guides import blocks_of, guide
from ansible_collections.rdma.fabric.tests.integration.killing import kill
from ansible_collections.rdma.fabric.tests.integration.own_files import OwnFiles, inventory_of
from ansible_collections.rdma.fabric.tests.integration.playbooks import (
    ADMINISTRATOR,
    Json,
    Outcome,
    User,
    stored_writes,
)
from ansible_collections.rdma.fabric.tests.integration.test_verify import OURS, RESOURCE, fabric_in, prove, push_fabric
from ansible_collections.rdma.fabric.tests.integration.upgrading import LIMITS
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.guests.budget import until
from ansible_collections.rdma.fabric.tests.lab.programs import Programs

# Long enough for stand-ins on a busy machine: a pair that is done ends its slot.
SLOT = 60
OLD, NEW = {"memlock": 65536}, {"memlock": "unlimited"}


@dataclass
class Turns:
    """A fleet of three whose first host is upgraded, with its neighbours in the order in which they are asked."""

    cluster: ControlPlane
    nodes: ExecNodes
    namespace: str
    fabric: Json
    user: User
    inventory: Path
    host: OwnFiles

    @property
    def node(self) -> str:
        return self.nodes.names[0]

    @property
    def neighbours(self) -> list[str]:
        return in_order(self.node, self.nodes.names[1:])

    @property
    def arguments(self) -> Json:
        return {**self.fabric, "rdma_fabric_wire_test": True, "rdma_fabric_verify_test_timeout": SLOT}

    def run(self, *arguments: str, limits: Json | None = None, **variables: Any) -> Outcome:
        given = {**self.arguments, "rdma_fabric_limits": limits or NEW, **variables}
        return self.user.run(
            "upgrade", "--limit", "one", *arguments, inventory=self.inventory, variables=given, cluster=self.cluster
        )

    def proof(self, *, check: bool = False) -> Json:
        """Return what the test of the node comes to, in this process."""
        return prove(
            self.cluster, self.fabric, self.nodes.names, self.user, check=check, node=self.node, test_timeout=SLOT
        )

    def kubectl(self, *words: str) -> str:
        return self.cluster.kubectl(*words)

    def pods(self) -> list[str]:
        template = "jsonpath={.items[*].metadata.name}"
        return self.kubectl("get", "pods", "-n", self.namespace, "-l", OURS, "-o", template).split()

    def limits(self) -> str:
        return self.host.text(LIMITS).split()[-1] if self.host.has(LIMITS) else ""

    def cordoned(self) -> list[str]:
        found = json.loads(self.kubectl("get", "nodes", *self.nodes.names, "-o", "json"))["items"]
        return [node["metadata"]["name"] for node in found if node["spec"].get("unschedulable")]

    def wire(self) -> Json:
        """Return what the last test of the node has written."""
        path = self.user.here / "rdma-fabric-run" / "wire" / f"{self.node}.json"
        found: Json = json.loads(path.read_text(encoding="utf-8"))
        return found

    def restore(self) -> None:
        """Have every node in service, and no slot."""
        self.kubectl("uncordon", *self.nodes.names)
        self.kubectl("annotate", "nodes", *self.nodes.names, f"{ANNOTATION}-")
        self.kubectl("delete", "leases", "-n", self.fabric["rdma_fabric_namespace"], "-l", "rdma.fabric/slots")


@pytest.fixture(scope="module")
def control_plane(lab_programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane in which nothing but these tests puts the programs of networks."""
    with ControlPlane(tmp_path_factory.mktemp("wire-cluster"), programs=lab_programs) as plane:
        yield plane


@pytest.fixture(scope="module")
def pushed(
    control_plane: ControlPlane, lab_programs: Programs, module_namespace: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ExecNodes, Json]]:
    """Three nodes, and a fabric with one network that is in the cluster."""
    folder, fabric = tmp_path_factory.mktemp("wire-turns"), fabric_in(module_namespace)
    nodes = ExecNodes(folder / "nodes", f"turn-{module_namespace[-6:]}", 3, RESOURCE, f"{module_namespace}/rail0")
    with running(control_plane, lab_programs, nodes):
        push_fabric(control_plane, fabric)
        yield nodes, fabric


@pytest.fixture
def turns(
    control_plane: ControlPlane, module_namespace: str, pushed: tuple[ExecNodes, Json], tmp_path: Path
) -> Iterator[Turns]:
    """The fleet with hosts and a user of the test's own; whatever the test did, no pod may be left."""
    nodes, fabric = pushed
    nodes.pull_wire(pulled=False)
    hosts = {name: OwnFiles(tmp_path / name) for name in ("one", "two", "three")}
    inventory = inventory_of(tmp_path, hosts)
    document = json.loads(inventory.read_text(encoding="utf-8"))
    for host, node in zip(document["rdma_fabric"]["hosts"].values(), nodes.names):
        host["rdma_fabric_node_name"] = node
    inventory.write_text(json.dumps(document), encoding="utf-8")
    fleet = Turns(control_plane, nodes, module_namespace, fabric, User(tmp_path / "user"), inventory, hosts["one"])
    yield fleet
    fleet.restore()
    assert fleet.pods() == []


def flat(outcome: Outcome) -> str:
    return " ".join(outcome.output.split())


def test_a_node_that_passes_is_given_back_and_one_that_fails_twice_goes_back_and_stays_cordoned(
    turns: Turns, states: States
) -> None:
    states.give([turns.host], rdma_fabric_limits=OLD)
    turns.nodes.cut(turns.node)
    said = flat(turns.run().refused())
    reason = f"{turns.node} fails with {turns.neighbours[0]} and with {turns.neighbours[1]}"
    assert reason in said
    assert (turns.limits(), turns.cordoned(), turns.pods()) == ("65536", [turns.node], [])
    described = turns.kubectl("describe", "node", turns.node)
    events = " ".join(described.partition("\nEvents:")[2].split())
    assert reason in events
    assert "rolled back to what it was before" in events
    assert [network["verdict"] for network in turns.wire()["networks"]] == ["fail"]

    turns.nodes.pull_wire(pulled=False)
    mark = turns.cluster.audit.mark()
    turns.run().succeeded()
    assert (turns.limits(), turns.cordoned(), turns.pods()) == ("unlimited", [], [])
    (network,) = turns.wire()["networks"]
    assert (network["verdict"], network["neighbours"]) == ("pass", turns.neighbours[:1])
    requests = turns.cluster.audit.requests(mark, user=ADMINISTRATOR)
    stored = [each for each in requests if each.resource == "pods" and each.verb == "patch" and not each.dry_run]
    assert len({each.name for each in stored}) == 2
    assert [
        each.uri for each in requests if each.uri.split("?")[0] == "/api/v1/pods" and "nodeName" not in each.uri
    ] == []


def test_a_neighbour_that_is_at_fault_is_named_and_the_node_passes(turns: Turns) -> None:
    first, second = turns.neighbours
    turns.nodes.cut(first)
    result = turns.proof()
    assert f"{first} fails with {turns.node}, which passes with {second}: look at {first}" in str(result["notices"])
    (network,) = turns.wire()["networks"]
    assert (network["verdict"], network["neighbours"]) == ("pass", [first, second])


def test_without_a_neighbour_nothing_is_tested_and_that_is_said(turns: Turns) -> None:
    turns.kubectl("cordon", *turns.neighbours)
    mark = turns.cluster.audit.mark()
    result = turns.proof()
    assert not result.get("failed"), result
    said = f"{turns.node} is not tested: no other node of the fabric is in service with a free device"
    assert said in str(result["notices"])
    assert [each for each in stored_writes(turns.cluster.audit, mark) if "/pods/" in each] == []


def test_check_mode_shows_the_pair_and_makes_no_pod(turns: Turns) -> None:
    mark = turns.cluster.audit.mark()
    said = str(turns.proof(check=True)["notices"])
    assert f"{turns.namespace}/rail0: {turns.node} is to be tested with {turns.neighbours[0]}" in said
    assert stored_writes(turns.cluster.audit, mark) == []


def test_what_a_killed_test_leaves_is_removed_by_the_next_run_which_tests_the_node_again(turns: Turns) -> None:
    pinging = turns.nodes.folder / "pinging"
    pinging.unlink(missing_ok=True)
    turns.nodes.program("ping", f"#!/bin/sh\ntouch {pinging}\nexec sleep 100\n")
    asked = {**turns.arguments, "rdma_fabric_limits": NEW}
    with turns.user.start(
        "upgrade", "--limit", "one", inventory=turns.inventory, variables=asked, cluster=turns.cluster
    ) as process:
        try:
            until(pinging.exists, 180)
        finally:
            kill(process, alone=False)
    assert (len(turns.pods()), turns.limits(), turns.cordoned()) == (2, "unlimited", [turns.node])
    turns.nodes.pull_wire(pulled=False)
    outcome = turns.run().succeeded()
    assert f"removed test pods that an earlier run left in {turns.namespace}" in flat(outcome)
    assert (turns.cordoned(), turns.pods()) == ([], [])
    assert [network["verdict"] for network in turns.wire()["networks"]] == ["pass"]


def test_the_play_of_the_guide_tests_a_cordoned_node(turns: Turns, tmp_path: Path) -> None:
    (block,) = blocks_of(guide("guide-verify.md"))[-1:]
    play = tmp_path / "play.yml"
    play.write_text(block.replace("gpu-07", turns.node), encoding="utf-8")
    turns.kubectl("cordon", turns.node)
    outcome = turns.user.run(str(play), inventory=turns.inventory, variables=turns.fabric, cluster=turns.cluster)
    outcome.succeeded()
    assert (turns.wire()["verdict"], turns.cordoned(), turns.pods()) == ("pass", [turns.node], [])
