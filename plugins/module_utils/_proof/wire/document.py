# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The document of a proof: every pair on every network with its tests, counts, who is at fault, failures. Pure.

It is what ``verify.json`` holds and what the report shows.
"""

from __future__ import annotations

import json
from collections import Counter
from statistics import median
from typing import Any, Dict, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ..bandwidth import HOST_THRESHOLD
from .culprits import accused_by_network, slow_nodes
from .ends import NOTHING, counter_rows, ends_of
from .outputs import carried_by
from .pair import VERDICTS, Test
from .placement import words_of
from .side import Side

FORMAT, NCCL_FORMAT = "rdma.fabric/verify/v1", "rdma.fabric/nccl/v1"
NODE_FORMAT = "rdma.fabric/wire-test/v1"
Document = Dict[str, Any]
_FEW_PAIRS = 4
# Times the usual latency. A switch adds some tenths of a microsecond to one or two.
_FAR = 2.0
_MOST_SLOW = 5
_MOST_SUSPECTS = 20


def network_label(network: Mapping[str, Any]) -> str:
    """Return how a network is called in messages: with its rail where that is known."""
    rail = network.get("rail")
    return str(network["network"]) if rail is None else f"rail {rail} ({network['network']})"


def pair_row(
    network: Mapping[str, Any], nodes: Sequence[str], tests: Sequence[Test], number: int = 0
) -> dict[str, Any]:
    """Return the row of one pair on one network in a round; its verdict is the worst of its tests.

    Outputs are kept of tests that failed: those of all pairs of a large cluster would be its greater part.
    """
    verdicts = {test["verdict"] for test in tests}
    verdict = next(each for each in ("fail", "reported", "pass", "skipped") if each in verdicts)
    return {
        "network": network["network"],
        "rail": network["rail"],
        "a": nodes[0],
        "b": nodes[1],
        "round": number,
        "verdict": verdict,
        "tests": [test if test["verdict"] == "fail" else {**test, "output": None} for test in tests],
    }


def side_row(side: Side) -> dict[str, Any]:
    """Return what was found in one test pod; programs measure on ``cpus``, or ``any_cpu`` says why on any."""
    seen, attached, choice = side.seen, side.attached, side.choice
    return {
        "node": side.node,
        "pod": side.pod,
        "interface": attached.interface if attached else None,
        "address": attached.address if attached else None,
        "mtu": seen.mtu if seen else None,
        "device": choice.device if choice else None,
        "port": choice.port if choice else None,
        "gid_index": choice.gid_index if choice else None,
        "rate_gbps": (choice.rate_gbps if choice else None) or side.known.link_gbps,
        "pcie_gbps": carried_by(side.known.pcie),
        "software": choice.software if choice else None,
        "cpus": side.placement.cpus or None,
        "any_cpu": side.placement.why or None,
    }


def build_document(
    plan: Mapping[str, Any],
    *,
    run: str,
    image: str,
    rows: Sequence[dict[str, Any]],
    sides: Mapping[str, Sequence[Side]],
    started_at: str,
    seconds: float,
    brief: bool = False,
) -> Document:
    """Return the document of one run. ``sides`` are by network; ``started_at`` is an ISO 8601 time in UTC.

    Pairs that pass are not in the text of a ``brief`` one, but in the file beside it (``rows``).
    """
    accused = accused_by_network(plan["networks"], rows)
    networks = [
        {**_network_row(network, rows, sides.get(network["network"], ())), "accused": accused[network["network"]]}
        for network in plan["networks"]
    ]
    counts, parity = Counter(row["verdict"] for row in rows), list(plan.get("parity", ()))
    fails = counts["fail"] or any(each["verdict"] == "fail" for each in parity)
    labels = {network["network"]: network_label(network) for network in plan["networks"]}
    return {
        "format": FORMAT,
        "run": run,
        "started_at": started_at,
        "seconds": round(seconds, 1),
        "image": image,
        "schedule": plan["schedule"],
        "level": plan.get("level"),
        "networks": networks,
        "left_out": list(plan["left_out"]),
        "parity": parity,
        "brief": brief,
        "pairs": list(rows),
        "counts": {"total": len(rows), **{verdict: counts[verdict] for verdict in VERDICTS}},
        "verdict": "fail" if fails else "reported" if counts["reported"] or counts["skipped"] else "pass",
        "failures": [failure for row in rows for failure in _failures(row, labels[row["network"]])],
    }


def node_document(
    node: str, networks: Sequence[dict[str, Any]], parts: Sequence[Document], started_at: str, seconds: float
) -> Document:
    """Return the document of one node: the verdict and one line for each network, and a document for each time that
    pairs were tested.
    """
    verdicts = {each["verdict"] for each in networks}
    return {
        "format": NODE_FORMAT,
        "node": node,
        "started_at": started_at,
        "seconds": round(seconds, 1),
        "verdict": next(each for each in ("fail", "reported", "pass", "skipped") if each in verdicts),
        "networks": list(networks),
        "parts": list(parts),
    }


def node_failure_lines(document: Document) -> list[str]:
    """Return what a node has failed by: one line with its networks, one for each red test, and what may explain it."""
    red = [each["line"] for each in document["networks"] if each["verdict"] == "fail"]
    lines = [line for part in document["parts"] for line in (*failure_lines(part), *any_cpu_lines(part))]
    return [f"node {document['node']} fails the wire test: {'; '.join(red)}", *[f"  - {line}" for line in lines]]


def document_text(document: Document) -> str:
    """Return the document as JSON text: sorted keys, plain ASCII, one newline at the end."""
    kept = [row for row in document.get("pairs", ()) if row["verdict"] != "pass"]
    written = {**document, "pairs": kept} if document.get("brief") else document
    return json.dumps(written, indent=1, sort_keys=True) + "\n"


def failure_lines(document: Document, most: int = 20) -> list[str]:
    """Return one sentence for each red test: pair, rail, test, what was seen, cause, next step."""
    lines = [
        f"{each['pair']} on {each['network']}: {each['test']} {each['direction']}: {each['problem']}"
        f" ({each['cause']}; {each['next_step']})"
        for each in document["failures"]
    ]
    more = len(lines) - most
    return lines if more <= 0 else [*lines[:most], f"and {more} more, in verify.json"]


def left_out_together(left_out: Sequence[Mapping[str, str]]) -> list[tuple[str, str]]:
    """Return hosts that take no part, those for the same reason together: who and where, and why."""
    hosts: dict[tuple[str, str], list[str]] = {}
    for each in left_out:
        hosts.setdefault((each["network"], each["why"]), []).append(each["host"])
    return [
        (f"{named(members)}{' on ' + network if network else ''}", why) for (network, why), members in hosts.items()
    ]


def left_out_lines(left_out: Sequence[Mapping[str, str]], most: int = 20) -> list[str]:
    """Return one sentence for each reason that keeps hosts from taking part."""
    lines = [f"not tested: {who}: {why}" for who, why in left_out_together(left_out)]
    more = len(lines) - most
    return lines if more <= 0 else [*lines[:most], f"not tested for {more} more reasons, which the plan has"]


def accused_lines(document: Document) -> list[str]:
    """Return a line for everybody at fault, the largest fault first; what several networks share is said once."""
    lines: dict[str, list[str]] = {}
    for network in document["networks"]:
        for each in network["accused"]:
            lines.setdefault(each["says"], []).append(network_label(network))
    told = [f"{named(labels)}: {says}" for says, labels in lines.items()]
    more = len(told) - _MOST_SUSPECTS
    return told if more <= 0 else [*told[:_MOST_SUSPECTS], f"and {more} more at fault, in verify.json"]


def slow_lines(document: Document) -> list[str]:
    """Return a line for each network that has pairs whose latency stands out."""
    lines = []
    for network in document["networks"]:
        words = slow_words([row for row in document["pairs"] if row["network"] == network["network"]])
        lines += [f"{network_label(network)}: {words}"] if words else []
    return lines


def slow_words(rows: Sequence[dict[str, Any]]) -> str:
    """Return which pairs of a network stand out by their latency, and what next; empty when none does.

    Few pairs have no usual latency, and one more switch on the way is none that stands out.
    """
    measured = {
        (row["a"], row["b"]): float(test["figures"]["typical_us"])
        for row in rows
        for test in row["tests"]
        if test["test"] == "latency" and test["verdict"] == "pass"
    }
    usual = median(measured.values()) if len(measured) >= _FEW_PAIRS else 0.0
    slow = {pair: us for pair, us in measured.items() if us > _FAR * usual} if usual else {}
    if not slow:
        return ""
    nodes = {node: node for pair in measured for node in pair}
    blamed = slow_nodes({"network": rows[0]["network"], "nodes": nodes}, rows, slow)
    if all(set(pair) & set(blamed) for pair in slow):
        told = f"that of all pairs of {named(blamed, _MOST_SUSPECTS)}, up to {max(slow.values()):g} us"
    else:
        slowest = sorted(slow, key=lambda pair: -slow[pair])
        told = ", ".join(f"{' - '.join(pair)} {slow[pair]:g} us" for pair in slowest[:_MOST_SLOW])
        told += f" and {len(slow) - _MOST_SLOW} more" if len(slow) > _MOST_SLOW else ""
    return (
        f"latency stands out: {told}; {usual:g} us is usual here (compare cables, switch hops and PCIe of these nodes)"
    )


def held_back_lines(document: Document) -> list[str]:
    """Return a line for each network with ports that PCIe holds back; their pairs pass by what PCIe carries."""
    lines = []
    for network in document["networks"]:
        words = held_back_words(network["pods"])
        lines += [f"{network_label(network)}: {words}"] if words else []
    return lines


def held_back_words(pods: Sequence[Mapping[str, Any]]) -> str:
    """Return which nodes of a network have a NIC whose PCIe link carries less than is asked of its port."""
    slow = {
        str(pod["node"]): (float(pod["pcie_gbps"]), float(pod["rate_gbps"]))
        for pod in pods
        if pod.get("pcie_gbps") and pod["rate_gbps"] and pod["pcie_gbps"] < HOST_THRESHOLD * pod["rate_gbps"]
    }
    if not slow:
        return ""
    worst = sorted(slow, key=lambda node: slow[node][0] / slow[node][1])
    told = named([f"{node} ({slow[node][0]:g} of {slow[node][1]:g} Gb/s)" for node in worst], _MOST_SLOW)
    return f"PCIe holds back the port of {told}: look at speed and width of the slot, riser and BIOS"


def any_cpu_lines(document: Document) -> list[str]:
    """Return a line for each network with programs that are held to no CPUs; those that say the same are one."""
    networks: dict[str, list[str]] = {}
    for network in document["networks"]:
        words = any_cpu_words(network["pods"])
        if words:
            networks.setdefault(words, []).append(network_label(network))
    return [f"{', '.join(labels)}: programs are {words}" for words, labels in networks.items()]


def any_cpu_words(pods: Sequence[Mapping[str, Any]]) -> str:
    """Return in which pods of a network programs are held to no CPUs, and why; empty when there are none."""
    return words_of([(str(pod["node"]), str(pod.get("any_cpu") or "")) for pod in pods])


def headline(document: Document) -> str:
    """Return the verdict in one line."""
    counts = document["counts"]
    told = [f"{counts[verdict]} {verdict}" for verdict in ("fail", "pass", "reported", "skipped") if counts[verdict]]
    noun = "pair" if counts["total"] == 1 else "pairs"
    differs = sum(each["verdict"] == "fail" for each in document["parity"])
    ports = f"; ports are not alike in {differs} ways" if differs > 1 else "; ports are not alike" if differs else ""
    return f"{counts['total']} {noun} tested: {', '.join(told) or 'none'}{ports}"


def _network_row(network: Mapping[str, Any], rows: Sequence[dict[str, Any]], sides: Sequence[Side]) -> dict[str, Any]:
    own = [row for row in rows if row["network"] == network["network"]]
    kept = ("network", "kind", "namespace", "resource", "master", "rail", "mtu", "leaves")
    ends, places = ends_of(own), network["places"]
    ways = {side.node: {key: places.get(side.node, {}).get(key) for key in ("netdev", "cabled_to")} for side in sides}
    return {
        **{key: network[key] for key in kept},
        "nodes": sorted(network["nodes"]),
        "rounds": 1 + max((row["round"] for row in own), default=-1),
        "pods": [{**side_row(side), **ways[side.node], **ends.get(side.node, NOTHING)} for side in sides],
        "counters": counter_rows(own),
    }


def _failures(row: dict[str, Any], label: str) -> list[dict[str, Any]]:
    found = []
    for test in row["tests"]:
        if test["verdict"] == "fail":
            problem = test["problem"] or {}
            found.append(
                {
                    "pair": f"{row['a']} - {row['b']}",
                    "network": label,
                    "test": test["test"],
                    "direction": f"from {test['from']} to {test['to']}",
                    "problem": test["summary"],
                    "cause": problem.get("cause", "unknown"),
                    "next_step": problem.get("next_step", "run it by hand"),
                }
            )
    return found
