# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the page shows of the fabric test, bars of a few pairs, a matrix of many, every failure, and of NCCL. Pure."""

from __future__ import annotations

from typing import Any

_WIDTH = 400
_OPEN_FAILURES = 8
_MOST_ACCUSED = 12


def proof_view(section: dict[str, Any] | None, pairs: int, matrix: int) -> dict[str, Any] | None:
    """Return what the template prints of the report's ``validation``, None when nothing was proved.

    At most ``pairs`` pairs of a network are drawn, the worst first, and a matrix has at most ``matrix`` nodes on an
    edge, those of failing pairs first.
    """
    if section is None:
        return None
    return {
        **{key: section[key] for key in ("run", "started_at", "seconds", "image", "schedule", "verdict", "headline")},
        "failures": {
            "entries": section["failures"][:pairs],
            "more": max(0, len(section["failures"]) - pairs),
            "count": len(section["failures"]),
            "open": len(section["failures"]) <= _OPEN_FAILURES,
        },
        "parity": {"entries": section["parity"][:pairs], "more": max(0, len(section["parity"]) - pairs)},
        "networks": [_network(network, pairs, matrix) for network in section["networks"]],
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


def _network(network: dict[str, Any], most: int, edge: int) -> dict[str, Any]:
    order = {"fail": 0, "reported": 1, "skipped": 2, "pass": 3}
    worst = sorted(network["pairs"], key=lambda pair: order[pair["verdict"]])
    verdicts = [pair["verdict"] for pair in network["pairs"]]
    emulated = {pod["node"] for pod in network["pods"] if pod["software"]}
    counts = [(verdict, verdicts.count(verdict)) for verdict in order if verdict in verdicts]
    return {
        **{key: network[key] for key in ("label", "resource", "slow", "held_back", "any_cpu")},
        "pods": {"entries": network["pods"][:most], "more": max(0, len(network["pods"]) - most)},
        "counts": counts,
        "pairs": [_drawn(pair, emulated) for pair in worst[:most]],
        "more": max(0, len(worst) - most),
        "matrix": _matrix(network, worst, edge) if len(network["nodes"]) > 2 else None,
        "accused": [each["says"] for each in network["accused"][:_MOST_ACCUSED]],
        "more_accused": max(0, len(network["accused"]) - _MOST_ACCUSED),
    }


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


def _matrix(network: dict[str, Any], worst: list[dict[str, Any]], edge: int) -> dict[str, Any]:
    nodes = network["nodes"]
    if len(nodes) > edge:
        first = dict.fromkeys(node for pair in worst for node in (pair["a"], pair["b"]))
        at_fault = [node for each in network["accused"] for node in each["nodes"]]
        kept = set([*at_fault, *first][:edge])
        nodes = [node for node in nodes if node in kept]
    cells = {(pair["a"], pair["b"]): pair for pair in network["pairs"]}
    rows = []
    for node in nodes:
        row = [_cell(cells.get((node, other)) or cells.get((other, node)), node == other) for other in nodes]
        rows.append({"node": node, "cells": row})
    return {"nodes": nodes, "rows": rows, "more": len(network["nodes"]) - len(nodes)}


def _cell(pair: dict[str, Any] | None, same: bool) -> dict[str, str]:
    if pair is None:
        return {"verdict": "none", "text": "", "title": "" if same else "not tested"}
    # Those of GPU memory are lower by the path between GPU and NIC, which is no matter of the pair.
    rates = [float(rate["gbps"]) for rate in pair["rates"] if rate["gbps"] is not None and rate["memory"] == "host"]
    text = _short(min(rates)) if rates else {"fail": "\u2715"}.get(pair["verdict"], "")
    return {"verdict": pair["verdict"], "text": text, "title": f"{pair['a']} - {pair['b']}: {pair['verdict']}"}


def _short(gbps: float) -> str:
    return f"{gbps:.0f}" if gbps >= 10 else f"{gbps:.2g}"
