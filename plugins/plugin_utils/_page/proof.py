# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the page shows of the fabric test: who is at fault, every end of every rail, pairs, failures; and NCCL. Pure."""

from __future__ import annotations

from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import natural_key

_WIDTH = 400
_FOLD = 10
"""Nodes that are drawn together where no leaf is known."""
_FEW_PAIRS = 12
# Of the rate that is expected; the default of what is asked for is the second.
_SHARES = (0.95, 0.9, 0.75, 0.5)
_OPEN_FAILURES = 8
_OF_SECTION = ("run", "started_at", "seconds", "image", "schedule", "verdict", "headline", "accused", "level", "worse")


def proof_view(section: dict[str, Any] | None, pairs: int, matrix: int, hosts: int) -> dict[str, Any] | None:
    """Return what the template prints of the report's ``validation``, None when nothing was proved.

    At most ``pairs`` pairs of a network are drawn, the worst first. Up to ``matrix`` nodes are an edge of a matrix of
    all pairs; more are a square each, at most ``hosts`` of them.
    """
    if section is None:
        return None
    networks = [_network(network, pairs, matrix, hosts) for network in section["networks"]]
    return {
        **{key: section[key] for key in _OF_SECTION},
        "failures": {
            "entries": section["failures"][:pairs],
            "more": max(0, len(section["failures"]) - pairs),
            "count": len(section["failures"]),
            "open": len(section["failures"]) <= _OPEN_FAILURES,
        },
        "parity": {"entries": section["parity"][:pairs], "more": max(0, len(section["parity"]) - pairs)},
        "networks": sorted(networks, key=lambda network: not network["is_open"]),
    }


def nccl_view(section: dict[str, Any] | None, most: int) -> dict[str, Any] | None:
    """Return what the template prints of the report's ``nccl``, at most so many tests, those that failed first."""
    if section is None:
        return None
    tests = sorted(section["tests"], key=lambda test: test["verdict"] != "fail")
    return {
        **{key: section[key] for key in ("started_at", "image", "launcher")},
        "nodes": len(section["nodes"]),
        "gpus": section["gpus_of_each"],
        "tests": {"entries": tests[:most], "more": max(0, len(tests) - most)},
    }


def _network(network: dict[str, Any], most: int, edge: int, hosts: int) -> dict[str, Any]:
    order = {"fail": 0, "reported": 1, "skipped": 2, "pass": 3}
    is_large = len(network["nodes"]) > edge
    worst = sorted(network["pairs"], key=lambda pair: order[pair["verdict"]])
    verdicts = [pair["verdict"] for pair in network["pairs"]]
    emulated = {pod["node"] for pod in network["pods"] if pod["software"]}
    # Pairs that passed are not in a brief document; its ends count them.
    met = sum(pod["pairs"] or 0 for pod in network["pods"]) // 2
    passed = max(verdicts.count("pass"), met - verdicts.count("fail") - verdicts.count("reported"))
    counts = [(each, passed if each == "pass" else verdicts.count(each)) for each in order]
    # Of a large network those that need a look: its squares tell the others.
    shown = min(most, verdicts.count("fail") or _FEW_PAIRS) if is_large else most
    return {
        **{key: network[key] for key in ("label", "resource", "slow", "held_back", "any_cpu", "counters")},
        "pods": {"entries": network["pods"][:most], "more": max(0, len(network["pods"]) - most)},
        "counts": [(verdict, count) for verdict, count in counts if count],
        "is_open": "fail" in verdicts,
        "pairs": [_drawn(pair, emulated) for pair in worst[:shown]],
        "more": max(0, len(worst) - shown),
        "matrix": _matrix(network) if 2 < len(network["nodes"]) <= edge else None,
        "heat": _heat(network, hosts) if is_large else None,
    }


def _heat(network: dict[str, Any], most: int) -> dict[str, Any]:
    """Return a square for each node, folded by leaf, or by tens; groups with somebody at fault come first."""
    sure = {node for each in network["accused"] if each["sure"] for node in each["nodes"]}
    pods = {pod["node"]: pod for pod in network["pods"]}
    nodes = sorted(network["nodes"], key=natural_key)
    leaves = network["leaves"]
    groups: dict[str, list[str]] = {}
    for place, node in enumerate(nodes):
        groups.setdefault(leaves.get(node, "no leaf known") if leaves else str(place // _FOLD), []).append(node)
    folded: list[dict[str, Any]] = []
    for name, members in groups.items():
        cells = [_square(pods.get(node), node in sure) for node in members]
        bad = [cell for cell in cells if cell["title"]]
        label = name if leaves else " to ".join(dict.fromkeys((members[0], members[-1])))
        folded.append({"label": label, "cells": cells, "bad": bad, "sure": any(cell["at_fault"] for cell in cells)})
    folded.sort(key=lambda group: (not group["sure"], not group["bad"]))
    shown, left = [], most
    for group in folded:
        shown += [group] if left > 0 else []
        left -= len(group["cells"])
    count = sum(len(group["cells"]) for group in shown)
    return {"groups": shown, "more": len(nodes) - count, "bad": sum(len(group["bad"]) for group in folded)}


def _square(pod: dict[str, Any] | None, at_fault: bool) -> dict[str, Any]:
    """Return how a node is drawn: by the share of the rate that the best of its pairs had, or by none that passed."""
    found = {"heat": "n", "title": "", "at_fault": at_fault}
    if pod is None or not pod["pairs"]:
        words = "not tested"
    elif pod["failed"] == pod["pairs"] and pod["share"] is None:
        found["heat"], words = "4", f"all {pod['pairs']} pairs failed"
    elif pod["share"] is None:
        return {**found, "heat": "p"}
    else:
        heat = sum(pod["share"] < least for least in _SHARES)
        found["heat"], words = str(heat), f"{100 * pod['share']:.0f} % of what is expected"
        if heat < 2 and not at_fault:
            return found
    return {**found, "title": f"{pod['node']}: {words}" if pod else words}


def _drawn(pair: dict[str, Any], emulated: set[str]) -> dict[str, Any]:
    # An emulated device is no match for the rate that its driver names: there is nothing to draw its own against.
    against = not emulated & {pair["a"], pair["b"]}
    bars = []
    for rate in pair["rates"]:
        expected = rate["expected_gbps"] if against else None
        share = min(float(rate["gbps"] or 0) / expected, 1) if expected else 0
        bars.append(
            {
                **rate,
                "expected": expected,
                "width": round(_WIDTH * share, 1),
                "mark": round(_WIDTH * rate["threshold"], 1) if expected and rate["threshold"] else None,
            }
        )
    failed = [test for test in pair["tests"] if test["verdict"] == "fail"]
    return {
        **pair,
        "bars": bars,
        "failed": failed[:3],
        "tests": [{"words": f"{test['test']} {test['from']} to {test['to']}", **test} for test in pair["tests"]],
    }


def _matrix(network: dict[str, Any]) -> dict[str, Any]:
    nodes = network["nodes"]
    cells = {(pair["a"], pair["b"]): pair for pair in network["pairs"]}
    rows = []
    for node in nodes:
        row = [_cell(cells.get((node, other)) or cells.get((other, node)), node == other) for other in nodes]
        rows.append({"node": node, "cells": row})
    return {"nodes": nodes, "rows": rows}


def _cell(pair: dict[str, Any] | None, same: bool) -> dict[str, str]:
    if pair is None:
        return {"verdict": "none", "text": "", "title": "" if same else "not tested"}
    # Those of GPU memory are lower by the path between GPU and NIC, which is no matter of the pair.
    rates = [float(rate["gbps"]) for rate in pair["rates"] if rate["gbps"] is not None and rate["memory"] == "host"]
    text = _short(min(rates)) if rates else {"fail": "\u2715"}.get(pair["verdict"], "")
    return {"verdict": pair["verdict"], "text": text, "title": f"{pair['a']} - {pair['b']}: {pair['verdict']}"}


def _short(gbps: float) -> str:
    return f"{gbps:.0f}" if gbps >= 10 else f"{gbps:.2g}"
