# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings together what the entries of one card ask of its firmware, and compares values. Pure."""

from __future__ import annotations

from typing import Mapping, NamedTuple

from ...engine.context import Context
from ...facts.firmware import card_of
from ...facts.interfaces import Interface
from ...facts.shapes import FirmwareCard
from ...spec.firmware import meanings

CURRENT, NEXT = 1, 2


class Card(NamedTuple):
    """A card whose firmware is asked for: the device to name, its entries, what they want, what they contradict in."""

    device: str
    interfaces: tuple[Interface, ...]
    wanted: Mapping[str, str]
    contradictions: tuple[str, ...]
    read: FirmwareCard

    def value(self, name: str, column: int) -> str | None:
        """Return the value of a parameter as the tool shows it, None for one that the card does not have."""
        values = self.read["parameters"].get(name)
        return None if values is None else values[column]


def cards_of(context: Context) -> list[Card]:
    """Return the cards that entries of the desired state ask firmware values of; ports of one card are one."""
    cards = context.actual.facts["firmware"]["cards"]
    by_card: dict[str, list[Interface]] = {}
    for interface in context.interfaces:
        if interface.nic is not None and interface.wanted["firmware"]:
            by_card.setdefault(card_of(interface.key), []).append(interface)
    found = []
    for card, interfaces in sorted(by_card.items()):
        read = cards[card] if card in cards else _unread(interfaces[0].key)
        wanted: dict[str, str] = {}
        contradictions = []
        for interface in interfaces:
            for name, value in (interface.wanted["firmware"] or {}).items():
                if name in wanted and not same(wanted[name], value):
                    contradictions.append(f"{name} is {wanted[name]} and {value}")
                wanted[name] = value
        found.append(Card(read["device"], tuple(interfaces), wanted, tuple(contradictions), read))
    return found


def _unread(device: str) -> FirmwareCard:
    problem = "it is no physical function of an NVIDIA card"
    return {"device": device, "problem": problem, "parameters": {}, "near": {}, "restricted": None}


def same(shown: str, wanted: str) -> bool:
    """Say whether a value as a tool shows it (``ETH(2)``) is the wanted one (``eth``, ``2``, ``ETH(2)``)."""
    return bool(meanings(shown) & meanings(wanted))
