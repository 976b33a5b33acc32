# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of pairs as the outcomes that blame is solved from, and who is at fault in words. Pure.

The number of an end is the place of its node among the sorted nodes of its network.
"""

from __future__ import annotations

from typing import Any, Collection, Iterable, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ..blame import Accused, Cause, Outcome, Place, Places, blame, next_rounds

Row = Mapping[str, Any]
Network = Mapping[str, Any]

_MOST = 8
_VERBS = {"dead": "fails", "slow": "is slow", "unsteady": "fails now and then"}


def next_turns(networks: Sequence[Network], rows: Sequence[Row], seed: int) -> dict[str, list[list[str]]]:
    """Return the pairs of the next round of a hunt by network, none of one where everybody is decided on.

    The networks are looked at together, as they are when somebody is accused: of more ends one fails more often by
    chance, so it takes more pairs to be sure.
    """
    nodes = {network["network"]: sorted(network["nodes"]) for network in networks}
    ends = {name: range(len(members)) for name, members in nodes.items()}
    found = next_rounds(outcomes_of(networks, rows), ends, places=places_of(networks), seed=seed)
    return {name: [[nodes[name][one], nodes[name][other]] for one, other in turn] for name, turn in found.items()}


def accused_by_network(networks: Sequence[Network], rows: Sequence[Row]) -> dict[str, list[dict[str, Any]]]:
    """Return ``says``, ``nodes`` and ``sure`` of all at fault by network; what is at fault on several is in each."""
    found: dict[str, list[dict[str, Any]]] = {network["network"]: [] for network in networks}
    places = places_of(networks)
    for each in blame(outcomes_of(networks, rows), places=places):
        for name in dict.fromkeys(network for network, _end in each.ends):
            own = sorted({places[end].host for end in each.ends if end[0] == name})
            found[name].append({"says": words_of(each, places), "nodes": own, "sure": each.sure})
    return found


def slow_nodes(network: Network, rows: Sequence[Row], slow: Collection[tuple[str, str]]) -> list[str]:
    """Return the nodes whose pairs all are among ``slow`` ones, as far as that is told from their partners."""
    seen = [each._replace(passed=True, least=None) for each in outcomes_of([network], rows)]
    nodes = sorted(network["nodes"])
    judged = [
        each._replace(passed=(nodes[each.a], nodes[each.b]) not in slow, a_to_b=None, b_to_a=None) for each in seen
    ]
    found = blame(judged, places={})
    return sorted({nodes[end] for each in found if each.sure and each.fault == "dead" for _network, end in each.ends})


def places_of(networks: Sequence[Network]) -> Places:
    """Return where the ends are, as far as that is known: the leaf of a node is one of its own on each network."""
    return {
        (network["network"], number): Place(node, _leaf(network, node), *_way_of(network, node))
        for network in networks
        for number, node in enumerate(sorted(network["nodes"]))
    }


def _leaf(network: Network, node: str) -> str:
    leaf = (network.get("leaves") or {}).get(node)
    return f"{leaf} of {network['network']}" if leaf else ""


def _way_of(network: Network, node: str) -> tuple[str, str]:
    """Return the names of the port of a node and of its NIC, which other networks may go by as well."""
    place = network["places"].get(node)
    if not place:
        return "", ""
    port = ", ".join(filter(None, (place["netdev"], place["cabled_to"])))
    return f"{node} ({port})", f"{place['nic']} of {node}" if place["nic"] else ""


def outcomes_of(networks: Sequence[Network], rows: Iterable[Row]) -> list[Outcome]:
    """Return the outcomes of the pairs of these networks that were tested."""
    numbers = {
        network["network"]: {node: number for number, node in enumerate(sorted(network["nodes"]))}
        for network in networks
    }
    return [
        _outcome(row, numbers[row["network"]])
        for row in rows
        if row["network"] in numbers and row["verdict"] != "skipped"
    ]


def _outcome(row: Row, number: Mapping[str, int]) -> Outcome:
    a, b = row["a"], row["b"]
    figures = {test["from"]: test["figures"] or {} for test in row["tests"] if test["test"] == "bandwidth"}
    rates = [figures.get(node, {}).get("measured_gbps") for node in (a, b)]
    asked = [
        each["expected_gbps"] * each["threshold"]
        for each in figures.values()
        if each.get("expected_gbps") and each.get("threshold")
    ]
    return Outcome(
        row["network"],
        number[a],
        number[b],
        row["verdict"] != "fail",
        rates[0],
        rates[1],
        min(asked) if asked else None,
        row.get("round", 0),
    )


def words_of(accused: Accused, places: Places) -> str:
    """Return who is at fault and why, in one sentence without its end."""
    who = [_named(cause, places) for cause in accused.causes]
    told = " or ".join([part for part in (", ".join(who[:-1]), who[-1]) if part])
    if len(who) > _MOST:
        told = named(who, _MOST)
    pairs = f"{accused.failed} pair{'s' if accused.failed > 1 else ''}"
    worst = f", {accused.slowest:g} Gb/s at worst" if accused.slowest is not None else ""
    if accused.fault == "shared":
        return f"{told} is oversubscribed: {pairs} are slow together that pass with fewer at a time{worst}"
    if accused.sure:
        good = "all" if accused.good == accused.failed else f"{accused.good} of them"
        return f"{told} {_VERBS[accused.fault]}: {pairs}, {good} with partners that are good{worst}"
    return f"it is open whether {told} is at fault: {pairs}{worst}"


def _named(cause: Cause, places: Places) -> str:
    kind, *where = cause
    if kind in ("end", "send", "receive"):
        way = {"end": "", "send": " as it sends", "receive": " as it receives"}[kind]
        place = places[(where[0], where[1])]
        return f"the port or cable of {place.cable or place.host}{way}"
    if kind == "path":
        ends = [places[(where[0], end)].host for end in where[1:]] if len(where) == 3 else where
        return f"the path between {' and '.join(ends)}"
    if kind == "crowd":
        return f"what pairs of {where[0]} share"
    if kind in ("uplinks", "up", "down"):
        way = {"uplinks": "", "up": " outwards", "down": " inwards"}[kind]
        return f"the uplinks of leaf {where[0]}{way}"
    told = {
        "host": f"{where[0]} on all networks",
        "network": "the network itself",
        "cable": f"the port or cable of {where[0]}",
        "nic": f"the NIC {where[0]}",
        "leaf": f"leaf {where[0]}",
    }
    return told[kind]
