# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One proof from its plan to its results: test pods made, told whom to meet and when, asked what they found, removed.

Networks that share no port are tested at once. In between the pods are alone: each is sent one table and asked once.
Whatever happens, the pods are removed before this is left.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Iterable, Mapping, Protocol, Sequence, Tuple, TypeVar

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.proof_pods import pod_name, test_pod
from ansible_collections.rdma.fabric.plugins.module_utils._proof.problem import Problem
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire import scripts
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.campaign import (
    Settings,
    Slot,
    Words,
    read_words,
    table,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.culprits import next_turns
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.document import network_label, pair_row
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.endpoint import Choice
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.pair import judge_pair, may_meet
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.plan import (
    AT_ONCE,
    apart,
    device_limits,
    lead,
    slots_of,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.rows import brief_row
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.shell import Shell, ShellTrouble, trouble_problem
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.side import (
    Known,
    PodState,
    Side,
    examine,
    unreadable,
)
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.interruption import results_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import Json

Item = TypeVar("Item")
Result = TypeVar("Result")
End = Tuple[str, str]
"""A network and one of its nodes."""

Turns = Mapping[str, Sequence[Sequence[Sequence[str]]]]
"""Rounds of pairs of nodes by network."""

# The interface that Multus gives the first network of a pod.
INTERFACE = "net1"
_REACH = 30
"""Seconds that a busy node may take to start a command, beside the command's own limit."""
_AFTER = 5
MOST_WHOLE = 1_000
"""Pairs of a plan of which every row is kept whole, with outputs and commands; of more those that pass are brief."""


class TestPods(Protocol):
    """The cluster as a proof needs it. Every method may raise the errors of the room that implements it."""

    def make(self, pod: Json) -> None:
        """Create a pod."""

    def wait(self, namespace: str, names: list[str], timeout: float) -> dict[str, PodState]:
        """Wait until the named pods are ready or cannot become so; return the state of each by its name."""

    def remove(self, pods: list[Json]) -> None:
        """Delete the pods, and say what may be left when that fails."""


@dataclass(frozen=True)
class Request:
    """What is proved: the plan, the run's ID, pods' image and settings, how pairs are tested, facts by host.

    ``first`` is the number of the plan's first network in the run, where one makes several plans. ``pairs_of`` is the
    one node whose pairs are tested, if so. ``runtime_class`` is the RuntimeClass of the pods, if one is given.
    ``parallel`` requests about pods are under way at a time.
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

    @property
    def brief(self) -> bool:
        """Whether of pairs that pass no more is kept than what was measured."""
        return sum(len(turn) for each in self.plan["networks"] for turn in each["rounds"]) > MOST_WHOLE


@dataclass
class ProofRun:
    """A running proof; ``stop`` ends every wait in it, ``pause`` waits for so many seconds.

    Pairs of planned rounds that are in ``rows`` from the start are not tested again. ``keep`` gets each row once.
    """

    request: Request
    pods: TestPods
    shell: Shell
    now: Callable[[], float]
    progress: Callable[[str], None]
    stop: threading.Event = field(default_factory=threading.Event)
    pause: Callable[[float], object] | None = None
    rows: list[Json] = field(default_factory=list)
    sides: dict[str, list[Side]] = field(default_factory=dict)
    keep: Callable[[Sequence[Json]], object] = lambda _rows: None
    slots: int = 0
    """Rounds that are left at most, when the networks that are tested now began."""

    def run(self) -> None:
        """Test every network of the plan; the results are in ``rows`` and ``sides``."""
        waves: dict[int, list[int]] = defaultdict(list)
        networks = self.request.plan["networks"]
        for index, network in enumerate(networks):
            waves[network["wave"]].append(index)
        for wave, indices in sorted(waves.items()):
            self.slots = sum(max(slots_of(networks[at]) for at in waves[each]) for each in waves if each >= wave)
            numbers, turns = self._left([networks[index] for index in indices])
            if not turns:
                continue
            manifests = {index: pods_of(self.request, index) for index in indices}
            everything = [pod for pods in manifests.values() for pod in pods]
            try:
                self._at_once(self.pods.make, everything)
                self._test(manifests, numbers, turns)
            finally:
                self.pods.remove(everything)

    def _left(self, networks: Sequence[Json]) -> tuple[list[int], Turns]:
        """Return the numbers of the rounds that are left to test, and these by network."""
        known = {(row["network"], row["round"], row["a"], row["b"]) for row in self.rows}
        left = {
            each["network"]: {
                number: [pair for pair in turn if (each["network"], number, *pair) not in known]
                for number, turn in enumerate(each["rounds"])
            }
            for each in networks
        }
        numbers = sorted({number for turns in left.values() for number, turn in turns.items() if turn})
        if numbers:
            return numbers, {name: [turns.get(number, []) for number in numbers] for name, turns in left.items()}
        return self._next(networks, max(map(len, left.values())))

    def _test(self, manifests: Mapping[int, Sequence[Json]], numbers: list[int], turns: Turns) -> None:
        networks = [self.request.plan["networks"][index] for index in manifests]
        places: dict[str, list[str]] = defaultdict(list)
        pods: dict[End, str] = {}
        for network, made in zip(networks, manifests.values()):
            names = [pod["metadata"]["name"] for pod in made]
            pods.update(((network["network"], node), name) for node, name in zip(sorted(network["nodes"]), names))
            places[network["namespace"]] += names
        labels = ", ".join(map(network_label, networks))
        self.progress(f"{labels}: waiting for {len(pods)} test pods")
        states: dict[str, PodState] = {}
        for namespace, names in places.items():
            states.update(self.pods.wait(namespace, names, self.request.ready_timeout))
        of = {network["network"]: network for network in networks}

        def look(end: End) -> Side:
            network, node = of[end[0]], end[1]
            state = states[pods[end]]
            host = network["nodes"][node]

            def limits(choice: Choice) -> Known:
                return device_limits(self.request.facts.get(host), choice)

            place = replace(state, name=f"{network['namespace']}/{state.name}")
            name, mtu, gpu = network["network"], network["mtu"], self.request.settings.gpu
            return examine(self.shell, node, place, network=name, mtu=mtu, limits=limits, gpu=gpu)

        sides = dict(zip(pods, self._at_once(look, pods)))
        while turns:
            self._meet([network for network in networks if network["network"] in turns], turns, sides, numbers)
            numbers, turns = self._next(networks, numbers[-1] + 1)
        for network in networks:
            self.sides[network["network"]] = [sides[(network["network"], node)] for node in sorted(network["nodes"])]

    def _next(self, networks: Sequence[Json], before: int) -> tuple[list[int], Turns]:
        """Return the next round, after so many, of each network where somebody is undecided on, and its numbers.

        It is several where few pairs of a leaf may meet at once.
        """
        may = {each["network"]: each for each in networks if before < slots_of(each)}
        turns = next_turns(networks, self.rows, self.request.plan.get("seed", 0)) if may else {}
        found = {
            name: apart(turn, may[name]["leaves"], may[name]["per_leaf"]) for name, turn in turns.items() if name in may
        }
        return [before + number for number in range(max(map(len, found.values()), default=0))], found

    def _meet(self, networks: Sequence[Json], turns: Turns, sides: dict[End, Side], numbers: Sequence[int]) -> None:
        """Let the pods of these networks meet in these rounds of these numbers, and take the rows of it."""
        slots: dict[End, list[Slot]] = defaultdict(list)
        for network in networks:
            name, settings = network["network"], self._settings(network)
            for number, turn in enumerate(turns[name]):
                for pair in turn:
                    one, other = ((name, node) for node in pair)
                    if may_meet(sides[one], sides[other], settings):
                        slots[one].append(Slot(number, sides[other]))
                        slots[other].append(Slot(number, sides[one]))
        of = {network["network"]: network for network in networks}
        limit, rounds = self.request.settings.limit, max(map(len, turns.values()))
        begin = self.now() + lead(len(slots), limit)

        def tell(end: End) -> Problem | None:
            side, settings = sides[end], self._settings(of[end[0]])
            try:
                text = table(side, slots[end], settings, wait=begin - self.now())
                output = self.shell.run(side.pod, scripts.begin(side.node), _REACH, text)
            except ShellTrouble as trouble:
                return trouble_problem(trouble)
            return None if output.stdout.strip() == "begun" else unreadable(output.text)

        def ask(end: End) -> Words | Problem:
            grace = max(1, round(begin + rounds * limit - self.now()) + _AFTER)
            try:
                return read_words(self.shell.run(sides[end].pod, scripts.collect(end[1], grace), grace + _REACH).stdout)
            except ShellTrouble as trouble:
                return trouble_problem(trouble)

        told = dict(zip(slots, self._at_once(tell, slots)))
        for number in range(rounds if slots else 0):
            (self.pause or self.stop.wait)(max(0.0, begin + number * limit - self.now()))
            pairs = sum(len(each[number]) for each in turns.values() if number < len(each))
            left = max(self.slots - numbers[number], rounds - number) * limit
            self.progress(f"round {numbers[number] + 1}: {pairs} pairs, {left} s of rounds at most are left")
        reached = [end for end, problem in told.items() if problem is None]
        found = dict(zip(reached, self._at_once(ask, reached)))
        words: dict[End, Words] = {}
        for end in slots:
            problem = told[end]
            answer = found.get(end, problem)
            if isinstance(answer, Words):
                words[end] = answer
            elif answer is not None:
                sides[end] = replace(sides[end], problems={"pods": answer})
        for network in networks:
            name, settings = network["network"], self._settings(network)
            for number, turn in enumerate(turns[name]):
                if not turn:
                    continue
                rows = []
                for pair in turn:
                    met = [sides[(name, node)] for node in pair]
                    said = {node: words.get((name, node), Words()).slots.get(number, {}) for node in pair}
                    tests = judge_pair(met[0], met[1], said, settings, number)
                    rows.append(pair_row(network, pair, tests, numbers[number]))
                self.keep(rows)
                self.rows += map(brief_row, rows) if self.request.brief else rows
                self.progress(f"{network_label(network)}: round {numbers[number] + 1}: {said_of(rows)}")

    def _settings(self, network: Json) -> Settings:
        return self.request.settings._replace(mtu=network["mtu"], idle=self.request.pairs_of)

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
            command=scripts.probe(INTERFACE, gpu=request.settings.gpu, stay=True),
        )
        for place, node in enumerate(sorted(network["nodes"]))
    ]


def first_pods(request: Request) -> list[Json]:
    """Return the first test pod of every network of the plan: the others differ from it in name and node alone."""
    found = (pods_of(request, index)[:1] for index in range(len(request.plan["networks"])))
    return [pod for pods in found for pod in pods]
