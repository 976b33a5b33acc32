# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ports that are cabled to switches of another rail, by what is at the other end of each cable. Pure.

A rail may have several switches, one for each group of nodes, and a switch several rails. So a switch counts for the
rails that have more than half as many ports on it as the one with most, and a port is misplaced only on a switch that
does not count for its rail while another does.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Collection, Mapping, NamedTuple, Protocol, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

_MOST_NAMED = 4


class CabledPort(Protocol):
    """A port of a node, by which it is called, and the switches that it is cabled to."""

    @property
    def node(self) -> str:
        """The node that it is of."""

    @property
    def neighbours(self) -> Sequence[Mapping[str, str]] | None:
        """What it is cabled to."""


class Rail(NamedTuple):
    """The ports of a network, and the switches that they are to be cabled to, if somebody says so."""

    ports: Sequence[CabledPort]
    switches: Any = None


class Misplaced(NamedTuple):
    """Ports of one node that are cabled wrongly: of which network, in words, and what to do."""

    label: str
    says: str
    step: str
    ports: Sequence[str]


class _Stray(NamedTuple):
    port: CabledPort
    label: str
    switch: str
    socket: str

    def __str__(self) -> str:
        return f"{self.port} is cabled to {self.switch} {self.socket}"


def misplaced(rails: Mapping[str, Rail]) -> list[Misplaced]:
    """Return the ports of rails, by the names of these, that are cabled to switches of others; two that are crossed
    together.
    """
    own = _own_switches(rails)
    # Two networks may be on the same ports.
    strays = {
        (str(port), each["switch"]): _Stray(port, label, each["switch"], each["port"])
        for label, rail in rails.items()
        for port in rail.ports
        for each in port.neighbours or ()
        if own[label] and each["switch"] not in own[label]
    }
    found = []
    while strays:
        one = strays.pop(next(iter(strays)))
        crossed = next(
            (
                key
                for key, each in strays.items()
                if each.port.node == one.port.node and one.switch in own[each.label] and each.switch in own[one.label]
            ),
            None,
        )
        found.append(_crossed(one, strays.pop(crossed)) if crossed else _alone(one, rails[one.label], own[one.label]))
    return found


def _own_switches(rails: Mapping[str, Rail]) -> dict[str, Collection[str]]:
    """Return the switches of each rail: those that are given, else those that it has most ports of, or nearly, on."""
    counts: dict[str, Counter[str]] = {}
    for label, rail in rails.items():
        for port in rail.ports:
            for each in port.neighbours or ():
                counts.setdefault(each["switch"], Counter())[label] += 1
    found: dict[str, Collection[str]] = {}
    for label, rail in rails.items():
        given = [rail.switches] if isinstance(rail.switches, str) else rail.switches
        usual = [name for name, those in counts.items() if 2 * those[label] > max(those.values())]
        found[label] = [str(each) for each in given] if given else usual
    return found


def _alone(stray: _Stray, rail: Rail, switches: Collection[str]) -> Misplaced:
    others = sum(any(each["switch"] in switches for each in port.neighbours or ()) for port in rail.ports)
    says = f"{stray}, {others} of {len(rail.ports)} ports of {stray.label} to {named(sorted(switches), _MOST_NAMED)}"
    step = "move the cable, or say what is meant (switch in rdma_fabric_verify_expected)"
    return Misplaced(stray.label, says, step, [str(stray.port)])


def _crossed(one: _Stray, other: _Stray) -> Misplaced:
    says = f"cables are crossed: {one}, which is of {other.label}, and {other}, which is of {one.label}"
    return Misplaced(one.label, says, "swap the two cables at one end", [str(one.port), str(other.port)])
