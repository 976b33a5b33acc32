# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One proof from its plan to its results: test pods made, looked into, measured pair by pair, and removed.

Networks are tested one after another, pairs of a round at the same time. Whatever happens, the pods of a network
are removed before this is left.
"""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Iterable, Iterator, Mapping, Protocol, Sequence, TypeVar

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.proof_pods import pod_name, test_pod
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.culprits import next_turn
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.document import network_label, pair_row
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.endpoint import Choice
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.pair import Settings, prove
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.plan import AT_ONCE, device_limits
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.shell import Shell
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.side import Known, PodState, Side, examine
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.interruption import results_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import Json

Item = TypeVar("Item")
Result = TypeVar("Result")

_FIRST_PORT = 18515
_PORTS = 12000
_PORTS_OF_A_PAIR = 6


class TestPods(Protocol):
    """The cluster as a proof needs it. Every method may raise the errors of the room that implements it."""

    def make(self, pods: list[Json]) -> None:
        """Create the pods."""

    def wait(self, namespace: str, names: list[str], timeout: float) -> dict[str, PodState]:
        """Wait until the named pods are ready or cannot become so; return the state of each by its name."""

    def remove(self, pods: list[Json]) -> None:
        """Delete the pods, and say what may be left when that fails."""


@dataclass(frozen=True)
class Request:
    """What is proved: the plan, the run's ID, pods' image and settings, how pairs are tested, facts by host.

    ``first`` is the number of the plan's first network in the run, where one makes several plans. ``pairs_of`` is the
    one node whose pairs are tested, if so. ``runtime_class`` is the RuntimeClass of the pods, if one is given.
    ``parallel`` pods are looked into, and pairs of a round tested, at a time.
    """

    plan: Mapping[str, Any]
    run: str
    image: str
    settings: Settings
    ready_timeout: int
    spec: Mapping[str, Any]
    facts: Mapping[str, Mapping[str, Any] | None]
    first: int = 0
    pairs_of: str = ""
    runtime_class: str = ""
    parallel: int = AT_ONCE


@dataclass
class ProofRun:
    """A running proof; ``stop`` ends every wait in it."""

    request: Request
    pods: TestPods
    shell: Shell
    now: Callable[[], float]
    progress: Callable[[str], None]
    stop: threading.Event = field(default_factory=threading.Event)
    rows: list[Json] = field(default_factory=list)
    sides: dict[str, list[Side]] = field(default_factory=dict)

    def run(self) -> None:
        """Test every network of the plan; the results are in ``rows`` and ``sides``."""
        for index, network in enumerate(self.request.plan["networks"]):
            manifests = pods_of(self.request, index)
            try:
                self.pods.make(manifests)
                self._test(network, manifests)
            finally:
                self.pods.remove(manifests)

    def _test(self, network: Json, manifests: list[Json]) -> None:
        names = {node: pod["metadata"]["name"] for node, pod in zip(sorted(network["nodes"]), manifests)}
        self.progress(f"{network_label(network)}: waiting for {len(names)} test pods")
        states = self.pods.wait(network["namespace"], list(names.values()), self.request.ready_timeout)

        def look(node: str) -> Side:
            state = states[names[node]]
            host = network["nodes"][node]

            def limits(choice: Choice) -> Known:
                return device_limits(self.request.facts.get(host), choice)

            place = replace(state, name=f"{network['namespace']}/{state.name}")
            name, mtu, gpu = network["network"], network["mtu"], self.request.settings.gpu
            return examine(self.shell, node, place, network=name, mtu=mtu, limits=limits, gpu=gpu)

        sides = {side.node: side for side in self._at_once(look, sorted(names))}
        self.sides[network["network"]] = [sides[node] for node in sorted(sides)]
        settings = replace(self.request.settings, mtu=network["mtu"], idle=self.request.pairs_of)
        count = 0
        for number, turn in enumerate(self._turns(network), 1):
            tasks = [(pair, port_of(count + place)) for place, pair in enumerate(turn)]
            count += len(turn)
            told = ", ".join(" - ".join(pair) for pair in turn[:3]) + (" ..." if len(turn) > 3 else "")
            self.progress(f"{network_label(network)}: round {number}: {told}")

            def test(task: tuple[list[str], int], number: int = number) -> Json:
                (one, other), port = task
                tests = prove(self.shell, self.now, sides[one], sides[other], settings=settings, port=port)
                return pair_row(network, (one, other), tests, number - 1)

            rows = self._at_once(test, tasks)
            self.rows += rows
            self.progress(f"{network_label(network)}: round {number}: {said_of(rows)}")

    def _turns(self, network: Json) -> Iterator[list[list[str]]]:
        """Yield the planned rounds, and those that follow from what came of them."""
        yield from network["rounds"]
        seed = self.request.plan.get("seed", 0)
        while network["more_rounds"] and (turn := next_turn(network, self.rows, seed)):
            yield turn

    def _at_once(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return the result of ``work`` for each item, done at the same time; an interruption ends the waits in it."""
        with ThreadPoolExecutor(max_workers=self.request.parallel) as pool:
            futures = [pool.submit(work, item) for item in items]
            try:
                return results_of(futures)
            except BaseException:
                self.stop.set()
                for future in futures:
                    future.cancel()
                raise


def said_of(rows: Sequence[Json]) -> str:
    """Return the verdicts on the pairs of one round in a line: how many of each, and the first that fail."""
    counts = Counter(str(row["verdict"]) for row in rows)
    told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    red = [f"{row['a']} - {row['b']}" for row in rows if row["verdict"] == "fail"]
    return f"{told}; fail: {named(red)}" if red else told


def pods_of(request: Request, index: int) -> list[Json]:
    """Return the test pods of one network of the plan, in the order of its nodes."""
    network = request.plan["networks"][index]
    policy = (request.spec.get("cluster_policy") or {}).get("spec") or {}
    return [
        test_pod(
            pod_name(request.run, request.first + index, place),
            run=request.run,
            node=node,
            namespace=network["namespace"],
            network=network["network"],
            resources=network["resources"],
            image=request.image,
            deadline=network["deadline"],
            settings=request.spec.get("settings") or {},
            tolerations=list(policy.get("tolerations") or []),
            pairs_of=request.pairs_of,
            runtime_class=request.runtime_class,
        )
        for place, node in enumerate(sorted(network["nodes"]))
    ]


def first_pods(request: Request) -> list[Json]:
    """Return the first test pod of every network of the plan: the others differ from it in name and node alone."""
    found = (pods_of(request, index)[:1] for index in range(len(request.plan["networks"])))
    return [pod for pods in found for pod in pods]


def port_of(count: int) -> int:
    """Return the first of six ports of the ``count``-th pair: no two pairs in flight share one."""
    return _FIRST_PORT + (count * _PORTS_OF_A_PAIR) % _PORTS
