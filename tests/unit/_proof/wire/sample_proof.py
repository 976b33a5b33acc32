# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents of fabric tests, made by the steps themselves on stand-ins of pods."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._proof.schedule import rounds
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.document import build_document, pair_row
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.shell import Output
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.side import Known, PodState, Side, examine
from ansible_collections.rdma.fabric.tests.unit._proof.wire.memory_pods import (
    LOST_PING,
    PASSED_PING,
    PASSED_RPING,
    UNREACHABLE_RPING,
    MemoryPods,
    latency_table,
    meet,
    network_status,
    probe_text,
    table,
)


def document(
    nodes: list[str],
    *,
    bad: tuple[str, ...] = (),
    slow: tuple[str, ...] = (),
    far: tuple[str, ...] = (),
    late: tuple[str, ...] = (),
    soft: bool = False,
    networks: int = 1,
    slots: Mapping[str, dict[str, Any]] = MappingProxyType({}),
    parity: Sequence[Mapping[str, Any]] = (),
    places: Mapping[str, dict[str, Any]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the document of a proof of all pairs.

    ``bad`` nodes answer no ping, ``slow`` ones write at half rate, ``far`` ones answer late, ``late`` ones miss
    every slot; ``slots`` are PCIe links, ``parity`` what was found before, ``places``
    where the ends of each network are.
    """
    plan: dict[str, Any] = {"schedule": "all", "networks": [], "left_out": [], "tests": [], "parity": parity}
    rows: list[dict[str, Any]] = []
    sides: dict[str, list[Side]] = {}
    for number in range(networks):
        name = f"default/rail{number}"
        network = {**_network(name, number if networks > 1 else None, nodes), "places": places}
        plan["networks"].append(network)
        rates = {node: 0.42 if soft else 47.0 if node in slow else 96.5 for node in nodes}
        shell, found = _pods(rates, name, number, soft=soft)
        found = {node: replace(side, known=side.known._replace(pcie=slots.get(node))) for node, side in found.items()}
        sides[name] = list(found.values())
        shell.late = {found[node].pod for node in late}
        for place, turn in enumerate(network["rounds"]):
            for one, other in turn:
                shell.answers.update({key: [value] for key, value in _pings(one, other, bad).items()})
                latency = latency_table(5.2 if {one, other} & {*far} else 1.82)
                shell.answers[(found[one].pod, "ib_write_lat")] = [Output(0, latency, "")]
                tests = meet(shell, found[one], found[other])
                rows.append(pair_row(network, (one, other), tests, place))
    return build_document(
        plan,
        run="0a1b2c3d",
        image="mellanox/rping-test",
        rows=rows,
        sides=sides,
        started_at="2026-01-02T03:04:05Z",
        seconds=61.5,
    )


def _network(name: str, rail: int | None, nodes: list[str]) -> dict[str, Any]:
    return {
        "network": name,
        "kind": "MacvlanNetwork",
        "namespace": "default",
        "resource": "rdma/rdma_shared_device_a",
        "master": "rail0",
        "rail": rail,
        "mtu": 9000,
        "nodes": {node: node for node in nodes},
        "leaves": {},
        "rounds": [
            [[sorted(nodes)[one], sorted(nodes)[other]] for one, other in turn]
            for turn in rounds("all", range(len(nodes)), seed=0)
        ],
        "more_rounds": 0,
        "deadline": 900,
        "wave": 0,
    }


def _pods(rates: dict[str, float], network: str, number: int, *, soft: bool) -> tuple[MemoryPods, dict[str, Side]]:
    shell, found = MemoryPods(), {}
    for place, (node, rate) in enumerate(rates.items(), 1):
        address = f"192.168.{number}.{place}"
        changes = {"device": "rxe0|"} if soft else {}
        shell.answers[(f"default/{node}", "probe")] = [Output(0, probe_text(address, **changes), "")]
        shell.answers[(f"default/{node}", "ib_write_bw")] = [Output(0, table(rate), "")]
        state = PodState(f"default/{node}", network_status(address, network))
        found[node] = examine(shell, node, state, network=network, mtu=None, limits=lambda _choice: Known())
    return shell, found


def _pings(one: str, other: str, bad: tuple[str, ...]) -> dict[tuple[str, str], Output]:
    lost = {one, other} & set(bad)
    good = {"ping": Output(0, PASSED_PING, ""), "rping": Output(0, PASSED_RPING, "")}
    cut = {"ping": Output(1, LOST_PING, ""), "rping": Output(255, UNREACHABLE_RPING, "")}
    outputs = cut if lost else good
    return {(f"default/{node}", program): output for node in (one, other) for program, output in outputs.items()}
