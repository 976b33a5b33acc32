# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The grid of hosts and rails: a row for each group of hosts whose rails are alike, a column for each rail. Pure."""

from __future__ import annotations

from typing import Any, Iterable

from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import natural_key

# States of a cell in words, the worst first; "odd" is a rail with a link that a remark is about, in the remark's words.
STATES = {
    "down": "no link",
    "init": "waits for a subnet manager",
    "partial": "one port of several down",
    "odd": "has a remark",
    "unknown": "link unknown",
    "up": "up",
    "none": "no such rail",
}
_WELL = ("up", "none")
# Remarks on a NIC that make its rail unlike others, though it has a link, and what a row says of them.
_ODD = {
    "link_rate_differs": "{}",
    "pcie_degraded": "PCIe {}",
    "pcie_differs": "{}",
    "mtu_differs": "{}",
    "rail_across_cpus": "its GPU is on another CPU",
    "zero_guid": "{}",
}
_MOST_RAILS = 32


def rails_view(
    hosts: list[dict[str, Any]], remarks: list[dict[str, Any]], most: int, unfolded: int
) -> dict[str, Any] | None:
    """Return what the template prints of ``hosts``, rows of the report; None when none of them has a rail.

    At most ``most`` rows are shown, ``unfolded`` of them at once; those with the most faults come first.
    """
    odd = _odd_devices(remarks)
    with_rails = [host for host in hosts if host["rails"]]
    if not with_rails:
        return None
    rails = sorted({rail["rail"] for host in with_rails for rail in host["rails"]})
    rows: dict[Any, dict[str, Any]] = {}
    for host in sorted(with_rails, key=lambda host: natural_key(host["name"])):
        cells = _cells(host, odd)
        same = tuple(sorted(cells.items()))
        rows.setdefault(same, {"hosts": [], "found": cells})["hosts"].append(host["name"])
    ordered = sorted(rows.values(), key=_place)
    shown = [_row(row, rails[:_MOST_RAILS]) for row in ordered[:most]]
    return {
        "rails": rails[:_MOST_RAILS],
        "more_rails": len(rails) - len(rails[:_MOST_RAILS]),
        "lame": [_lame(ordered, rail) for rail in rails[:_MOST_RAILS]],
        "hosts": len(with_rails),
        "open": shown[:unfolded],
        "folded": shown[unfolded:],
        "more_folded": sum(len(row["hosts"]) for row in shown[unfolded:]),
        "more": sum(len(row["hosts"]) for row in ordered[most:]),
        "legend": [(state, words) for state, words in STATES.items() if state != "none" and _seen(state, ordered)],
    }


def _odd_devices(remarks: Iterable[dict[str, Any]]) -> dict[tuple[str, str], str]:
    """Return what remarks say of devices, by host and address."""
    found: dict[tuple[str, str], str] = {}
    for remark in remarks:
        if remark["kind"] in _ODD:
            for device in remark["devices"]:
                place, words = (remark["host"], device["address"]), _ODD[remark["kind"]].format(device["seen"])
                found[place] = f"{found[place]}; {words}" if place in found else words
    return found


def _cells(host: dict[str, Any], odd: dict[tuple[str, str], str]) -> dict[int, tuple[str, str]]:
    """Return state and words of each rail of a host; of a rail with several NICs those of the worst."""
    cells: dict[int, tuple[str, str]] = {}
    order = list(STATES)
    for rail in host["rails"]:
        said = odd.get((host["name"], rail["nic"]))
        state = "odd" if rail["link"] == "up" and said else rail["link"]
        words = said if said and state == "odd" else STATES[state]
        known = cells.get(rail["rail"])
        if known is None or order.index(state) < order.index(known[0]):
            cells[rail["rail"]] = (state, words)
    return cells


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    states = [state for state, _words in row["found"].values()]
    broken = sum(state not in (*_WELL, "unknown") for state in states)
    return (-broken, "unknown" not in states, natural_key(row["hosts"][0]))


def _row(row: dict[str, Any], rails: list[int]) -> dict[str, Any]:
    told: dict[str, list[int]] = {}
    for rail, (state, words) in sorted(row["found"].items()):
        if state not in _WELL:
            told.setdefault(words, []).append(rail)
    return {
        "hosts": row["hosts"],
        "cells": [(state, STATES[state]) for state, _words in (row["found"].get(rail, ("none", "")) for rail in rails)],
        "told": [f"{_named(numbers)}: {words}" for words, numbers in told.items()],
    }


def _named(rails: list[int]) -> str:
    if len(rails) > 2 and rails == list(range(rails[0], rails[-1] + 1)):
        return f"rails {rails[0]} to {rails[-1]}"
    return f"rail{'s' if len(rails) > 1 else ''} {', '.join(map(str, rails))}"


def _lame(rows: Iterable[dict[str, Any]], rail: int) -> int:
    """Return on how many hosts something is the matter with a rail: of a leaf switch, on all of its hosts."""
    states = ((row["found"].get(rail, ("none", ""))[0], len(row["hosts"])) for row in rows)
    return sum(hosts for state, hosts in states if state not in (*_WELL, "unknown"))


def _seen(state: str, rows: Iterable[dict[str, Any]]) -> bool:
    return any(state == found for row in rows for found, _words in row["found"].values())
