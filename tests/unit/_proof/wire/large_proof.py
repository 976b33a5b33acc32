# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents of hunts over simulated fabrics of up to a thousand nodes, made of rows, without the steps behind them."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._proof.schedule import most_rounds, rounds
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.culprits import next_turns
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.document import build_document, pair_row
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.shell import Output
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.side import Known, PodState, examine
from ansible_collections.rdma.fabric.tests.unit._proof.faulty_fabric import LEAST, RATE, Fabric, Fault
from ansible_collections.rdma.fabric.tests.unit._proof.wire.memory_pods import MemoryPods, network_status, probe_text

Json = dict[str, Any]
DEAD, SLOW = 71, 412
COUNTED = {"np_cnp_sent": 40, "symbol_error": 3}
LOST = {"problem": "no answer", "cause": "the wire between the two is cut", "next_step": "check cable"}


def large_proof(count: int, *, rails: int = 8, leaf: int = 0, faults: Sequence[Fault] | None = None) -> Json:
    """Return the document of a hunt: one end is dead, one slow, and one leaf oversubscribed, unless others are given.

    Nodes have a leaf of so many, if it is told.
    """
    usual = [Fault("end", ("rail3", DEAD % count), 0.0), Fault("end", ("rail5", SLOW % count), 0.4)]
    made = Fabric(count, rails, leaf or 32, True, False, Random(1), noise=0.0)  # noqa: S311 - the same in every run
    made.faults = list(usual if faults is None else faults)
    nodes = [f"gpu-{number + 1:04d}" for number in range(count)]
    leaves = {node: f"leaf-{number // leaf + 1:02d}" for number, node in enumerate(nodes)} if leaf else {}
    networks = [_network(f"default/rail{rail}", rail, nodes, leaves) for rail in range(rails)]
    rows: list[Json] = []
    turns = {network["network"]: network["rounds"][0] for network in networks}
    for number in range(most_rounds("hunt", count)):
        for network in networks:
            rows += [_row(made, network, pair, nodes, number) for pair in turns.get(network["network"], ())]
        turns = next_turns(networks, rows, 0)
    shell = MemoryPods()
    shell.answers[("default/pod", "probe")] = [Output(0, probe_text("192.168.0.1"), "")]
    state = PodState("default/pod", network_status("192.168.0.1", "default/rail0"))
    side = examine(shell, "pod", state, network="default/rail0", mtu=None, limits=lambda _choice: Known(RATE))
    return build_document(
        {"schedule": "hunt", "networks": networks, "left_out": [], "tests": []},
        run="0a1b2c3d",
        image="mellanox/rping-test",
        rows=rows,
        sides={network["network"]: [replace(side, node=node) for node in nodes] for network in networks},
        started_at="2026-01-02T03:04:05Z",
        seconds=412.0,
    )


def _network(name: str, rail: int, nodes: Sequence[str], leaves: Json) -> Json:
    turn = [[nodes[one], nodes[other]] for one, other in rounds("hunt", range(len(nodes)), seed=rail)[0]]
    plain = {"kind": "MacvlanNetwork", "namespace": "default", "resource": f"rdma/rail{rail}", "mtu": 9000}
    more = {"master": f"rail{rail}", "rail": rail, "leaves": leaves, "places": {}, "rounds": [turn]}
    return {"network": name, "nodes": {node: node for node in nodes}, **plain, **more}


def _row(made: Fabric, network: Json, pair: Sequence[str], nodes: Sequence[str], number: int) -> Json:
    rail, (a, b) = f"rail{network['rail']}", pair
    _passed, *rates = made.measure(rail, nodes.index(a), nodes.index(b))
    lost = rates[0] is None
    tests = [_test("ping", pair, "fail" if lost else "pass", "no answer" if lost else "4 of 4 packets")]
    for one, other, rate in ((a, b, rates[0]), (b, a, rates[1])):
        verdict = "skipped" if rate is None else "pass" if rate >= LEAST else "fail"
        told = "no ping was answered" if rate is None else f"{rate:.0f} Gb/s measured, {RATE:.0f} Gb/s expected"
        limits = {"expected_gbps": RATE, "limit": "link", "threshold": 0.9}
        counted = {one: COUNTED} if number == 0 and nodes.index(one) % 97 == 5 else {}
        figures = None if rate is None else {"measured_gbps": round(rate, 1), **limits, "counters": counted}
        tests.append(_test("bandwidth", (one, other), verdict, told, figures))
    return pair_row(network, pair, tests, number)


def _test(name: str, ends: Sequence[str], verdict: str, summary: str, figures: Json | None = None) -> Any:
    told = {"test": name, "from": ends[0], "to": ends[1], "verdict": verdict, "summary": summary, "seconds": 1.0}
    problem = {**LOST, "problem": summary} if verdict == "fail" else None
    return {**told, "figures": figures, "problem": problem, "command": "", "output": None}
