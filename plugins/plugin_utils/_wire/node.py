# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proves one node against a healthy neighbour on each network; the pairs themselves are those of every proof.

Of the cluster only what it takes is read: the node, neighbours one after the other until one will do, and their pods.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Protocol

from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.document import network_label
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.neighbours import (
    Attempt,
    Judged,
    devices_in_use,
    in_order,
    is_healthy,
    is_over,
    judge,
    lacks_device,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.plan import (
    Plan,
    ProofOptions,
    Surroundings,
    make_plan,
    networks_to_test,
    node_row,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import Json

# A neighbour that others are being tested with is asked last, unless this many would do.
_MOST_BUSY = 4


class Cluster(Protocol):
    """The cluster as the choice of neighbours needs it. Every method may raise ApiFault."""

    def node(self, name: str) -> Json | None:
        """Return a node, None where there is none of this name."""

    def pods_on(self, name: str) -> list[Json]:
        """Return the pods on a node."""

    def slots(self) -> frozenset[str]:
        """Return the nodes that have a slot, so are or will be out of service."""


@dataclass
class _OnNetwork:
    """What became of the node on one network: its pairs so far, and the verdict once there is one."""

    network: Json
    label: str
    attempts: list[Attempt] = field(default_factory=list)
    judged: Judged | None = None


@dataclass
class NodeProof:
    """One node and its neighbours. ``around`` is all but nodes and facts; ``facts_of`` returns those of a host."""

    node: str
    options: ProofOptions
    around: Surroundings
    cluster: Cluster
    facts_of: Callable[[str], Json | None]
    is_test: Callable[[Json], bool]
    _on: dict[str, _OnNetwork] = field(default_factory=dict)
    _own: Json = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Nothing is read yet."""
        self._host_of = {self.around.names[host]: host for host in self.around.hosts}

    def begin(self) -> None:
        """Look what can be tested at all. Raises InvalidInput, ActionFailure, ApiFault."""
        if self.node not in self._host_of:
            hint = "give it as its host has it in rdma_fabric_node_name, else in the inventory"
            raise ActionFailure(f"node {self.node} is of no host of the fabric ({hint})")
        networks = networks_to_test(self.options, self.around)
        body = self.cluster.node(self.node)
        own = node_row(body) if body else None
        if own is None or not own["ready"]:
            problem = "is not Ready" if own else "is not there"
            raise ActionFailure(f"node {self.node} {problem}, so its wire can't be tested: look at its kubelet")
        # What is cordoned for this test is tested all the same.
        self._own = {**own, "unschedulable": False}
        used = devices_in_use(self.cluster.pods_on(self.node))
        for network in networks:
            found = _OnNetwork(network, network["network"])
            lacks = lacks_device(own, network["resources"], used)
            if lacks:
                self._leave_out(found, f"{self.node} {lacks}")
            self._on[network["network"]] = found

    def next_plan(self) -> Plan | None:
        """Return the plan of the next pairs, on each network one at most; None when there is a verdict on all."""
        planned: list[Json] = []
        slots = self.cluster.slots() if any(each.judged is None for each in self._on.values()) else frozenset()
        for each in self._on.values():
            if each.judged is not None:
                continue
            neighbour = None if is_over(each.attempts) else self._neighbour(each, slots)
            if neighbour is not None:
                # Networks may share a port of the node, so they take turns.
                planned.append({**self._planned(each, neighbour), "wave": len(planned)})
            elif each.attempts:
                each.judged = judge(self.node, each.label, each.attempts)
            else:
                self._leave_out(each, "no other node of the fabric is in service with a free device")
        if not planned:
            return None
        return {"schedule": "node", "networks": planned, "left_out": [], "tests": self.options.tests}

    def pairs_of(self, plan: Plan) -> list[str]:
        """Return one line for each network of a plan that is not carried out."""
        return [
            f"{network_label(each)}: {self.node} is to be tested with {name}"
            for each in plan["networks"]
            for name in each["nodes"]
            if name != self.node
        ]

    def note(self, rows: list[Json]) -> None:
        """Take the rows of the last plan into account."""
        slots = self.cluster.slots()
        for row in rows:
            other = row["b"] if row["a"] == self.node else row["a"]
            counts = row["verdict"] == "fail" and is_healthy(self._row(other), slots)
            self._on[row["network"]].attempts.append(Attempt(other, row["verdict"], counts))

    def results(self) -> list[Json]:
        """Return what came of each network: its verdict, one line, and the neighbours in their order."""
        return [
            {
                "network": name,
                "verdict": each.judged.verdict,
                "neighbours": [attempt.neighbour for attempt in each.attempts],
                "line": each.judged.line,
            }
            for name, each in self._on.items()
            if each.judged is not None
        ]

    def notices(self) -> list[str]:
        """Return what deserves a look beside what failed."""
        return [notice for each in self._on.values() if each.judged is not None for notice in each.judged.notices]

    def _leave_out(self, found: _OnNetwork, why: str) -> None:
        line = f"{found.label}: {self.node} is not tested: {why}"
        found.judged = Judged("skipped", line, (line,))

    def _planned(self, found: _OnNetwork, neighbour: Json) -> Json:
        hosts = [self._host_of[each["name"]] for each in (self._own, neighbour)]
        around = self.around._replace(nodes=[self._own, neighbour], hosts={host: self.facts_of(host) for host in hosts})
        (planned,) = make_plan(self.options._replace(networks=[found.network["network"]]), around)["networks"]
        found.label = network_label(planned)
        return dict(planned)

    def _row(self, name: str) -> Json | None:
        body = self.cluster.node(name)
        return node_row(body) if body else None

    def _neighbour(self, found: _OnNetwork, slots: frozenset[str]) -> Json | None:
        """Return the next neighbour, preferably one that nobody else is being tested with."""
        known = {self.node, *(attempt.neighbour for attempt in found.attempts)}
        busy: list[Json] = []
        for name in in_order(self.node, set(self._host_of) - known - slots):
            row = self._row(name)
            if row is None or not is_healthy(row, slots):
                continue
            pods = self.cluster.pods_on(name)
            if lacks_device(row, found.network["resources"], devices_in_use(pods)):
                continue
            if not any(map(self.is_test, pods)):
                return row
            busy.append(row)
            if len(busy) >= _MOST_BUSY:
                break
        return busy[0] if busy else None
