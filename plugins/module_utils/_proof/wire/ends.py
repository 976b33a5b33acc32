# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all pairs of a network tell of each of its ends, what the counters mean, and what got worse since. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, Dict, Iterable, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from .counters import MEANINGS

Row = Mapping[str, Any]
Network = Mapping[str, Any]
Ends = Dict[str, Dict[str, Any]]

NOTHING: Mapping[str, Any] = {"pairs": 0, "failed": 0, "sends_gbps": None, "receives_gbps": None, "share": None}
"""What is told of an end that met nobody."""
_WAYS = (("sends_gbps", "from"), ("receives_gbps", "to"))
_MOST_NODES = 5
# Of two healthy runs the best rates of an end differ by less.
_WORSE = 0.9


def ends_of(rows: Iterable[Row]) -> Ends:
    """Return of each node in the rows of one network how many pairs it was in, how many of them failed, and the best
    rates with which it sent and received.

    The best, because a bad partner lowers the others: a port that is slow is so with everybody. ``share`` is that of
    the expected rate, of the worse direction.
    """
    found: Ends = {}
    shares: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        for node in (row["a"], row["b"]):
            end = found.setdefault(node, dict(NOTHING))
            end["pairs"] += row["verdict"] != "skipped"
            end["failed"] += row["verdict"] == "fail"
        for test in row["tests"]:
            figures = test.get("figures") or {}
            gbps, expected = figures.get("measured_gbps"), figures.get("expected_gbps")
            if test["test"] != "bandwidth" or gbps is None:
                continue
            for key, side in _WAYS:
                node = test[side]
                found[node][key] = max(gbps, found[node][key] or 0)
                # Without a limit a rate is told and not judged: the device is emulated.
                if expected and figures.get("threshold"):
                    shares[node][key] = max(gbps / expected, shares[node].get(key, 0))
    for node, each in shares.items():
        found[node]["share"] = round(min(each.values()), 3)
    return found


def counter_rows(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return a row for each thing that counters which rose say: lost packets first, congestion that was handled last.

    ``kind`` is ``loss``, ``sign`` or ``load``; ``most`` are the nodes with the largest rises, of ``nodes``.
    """
    risen: dict[tuple[str, str], Counter[str]] = {meaning: Counter() for meaning in MEANINGS.values()}
    names: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        for test in row["tests"]:
            for node, counters in ((test.get("figures") or {}).get("counters") or {}).items():
                for name, by in counters.items():
                    risen[MEANINGS[name]][node] += by
                    names[MEANINGS[name]].add(name)
    return [
        {
            "kind": kind,
            "says": says,
            "counters": sorted(names[(kind, says)]),
            "nodes": len(by_node),
            "total": sum(by_node.values()),
            "most": [{"node": node, "by": by} for node, by in by_node.most_common(_MOST_NODES)],
        }
        for (kind, says), by_node in risen.items()
        if by_node
    ]


def worse_since(networks: Sequence[Network], former: Sequence[Network]) -> list[dict[str, Any]]:
    """Return what is worse on ``networks`` of a document than on those of a former one: ``network``, ``node``,
    ``says``. The largest loss of rate comes first; what one of both did not test is no comparison.
    """
    before = {network["network"]: network for network in former}
    found: list[tuple[float, dict[str, Any]]] = []
    for network in networks:
        old = before.get(network["network"])
        if old is None:
            continue
        blamed = {node for each in old["accused"] for node in each["nodes"]}
        fresh = {node: each["says"] for each in network["accused"] for node in each["nodes"] if node not in blamed}
        known = {pod["node"]: pod for pod in old["pods"]}
        for pod in network["pods"]:
            node = pod["node"]
            share, lost = _lost(pod, known.get(node, NOTHING))
            says = [fresh[node]] if node in fresh else []
            if says or lost:
                row = {"network": network["network"], "node": node, "says": "; ".join([*says, *lost])}
                found.append((share, row))
    return [row for _share, row in sorted(found, key=lambda each: each[0])]


def _lost(pod: Mapping[str, Any], before: Mapping[str, Any]) -> tuple[float, list[str]]:
    """Return the least share of its former rates that an end has kept, and in words what it lost."""
    kept, told = 1.0, []
    for key, way in (("sends_gbps", "sends"), ("receives_gbps", "receives")):
        now, then = pod.get(key), before.get(key)
        # Rates of emulated devices are those of a busy machine.
        if then and pod.get("pairs") and not pod.get("software") and (now or 0) < _WORSE * then:
            kept = min(kept, (now or 0) / then)
            told.append(f"{way} {now:g} Gb/s, {then:g} before" if now else f"{way} nothing, {then:g} Gb/s before")
    return kept, told


def worse_lines(document: Mapping[str, Any], most: int = 20) -> list[str]:
    """Return a line for everything that got worse since the former run, those alike on several networks together."""
    same: dict[tuple[str, str], list[str]] = {}
    for each in document.get("worse") or ():
        same.setdefault((each["node"], each["says"]), []).append(each["network"])
    lines = [
        f"worse than in {document['since']['run']}: {node} on {named(places)}: {says}"
        for (node, says), places in same.items()
    ]
    more = len(lines) - most
    return lines if more <= 0 else [*lines[:most], f"and {more} more that are worse, in verify.json"]
