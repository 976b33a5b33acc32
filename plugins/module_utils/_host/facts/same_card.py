# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell whether a PCI address still belongs to the same card: a new card in another slot may shift bus numbers.

A card is identified by its vendor and device ids, and by the serial number in its vital product data if it is known
both times. MAC addresses do not count: bonds and administrators change them, and a function for a VM has no interface.

A bridge has no serial number, and all switches of a machine may be of one model. It is identified by its place: the
host bridge's ACPI name (``firmware_node/path`` of its device, torvalds/linux, drivers/acpi/glue.c), and the device and
function numbers of the bridges above it and its own, which show how it is wired. Only bus numbers shift.
"""

from __future__ import annotations

import contextlib
import hashlib
import posixpath
import re
from typing import Collection, Iterable, Mapping, NamedTuple

from ..machine.access import Host, HostError
from ..machine.probe import PCI, first_pci_address, names_at
from ..spec.cards import Card, Cards

# PCI Local Bus Specification 3.0, appendix I: large resources have bit 7, then two bytes of length; small ones have
# their length in bits 0 to 2; VPD-R is the large resource 0x10, the end tag the small one 0xF.
_LARGE, _READ_ONLY, _END = 0x80, b"\x90", b"\x78"
_DIGITS = 16
# PCI-to-PCI bridges: PCI Code and ID Assignment Specification, base class 06, sub-class 04.
_BRIDGE = "0x0604"
_HOST_BRIDGE = re.compile(r"/pci[0-9a-f]{4,8}:[0-9a-f]{2}(?=/)")


class Moved(NamedTuple):
    """An address that belongs to another card now; ``now_at`` is where the former card is, empty if not found.

    ``is_sure``: the card was found at no other address. ``is_taken``: another card has the address. ``is_bridge``: it
    is a bridge, which was searched by its place.
    """

    address: str
    now_at: str
    is_sure: bool
    is_taken: bool
    is_bridge: bool = False


class Changes(NamedTuple):
    """Known cards that moved, and the addresses of cards that were replaced, or are gone from an empty slot.

    A replacement is a card of the same model, unknown until now, at the address of a missing one.
    """

    moved: list[Moved]
    replaced: list[str]
    gone: tuple[str, ...] = ()


def cards_of(host: Host, keys: Iterable[str], known: Cards) -> Cards:
    """Return the card of each address contained in a key: the known one, else the current one."""
    cards: Cards = {}
    for address in sorted(set(filter(None, map(first_pci_address, keys)))):
        card = known.get(address) or _card(host, address)
        if card:
            cards[address] = card
    return cards


def moved_cards(host: Host, known: Mapping[str, Card]) -> list[Moved]:
    """Return the addresses that belong to another card than the ``known`` one, or whose card has another address now.

    A missing card was removed, and its settings are no longer needed; its replacement gets them.
    """
    return changed_cards(host, known).moved


def changed_cards(host: Host, known: Mapping[str, Card]) -> Changes:
    """Return which ``known`` cards are no longer at their address, and which were replaced."""
    changes = Changes([], [])
    gone: list[str] = []
    for address, card in sorted(known.items()):
        now = _card(host, address)
        if now and _is_same(now, card):
            continue
        # The halves of a Socket Direct card have one serial number at two addresses.
        halves = [other for other, its in known.items() if its.get("serial") == card.get("serial")]
        addresses = _same_functions(host, address, card, halves)
        # Other ports of a replacement may already be known.
        others = [its.get("serial") for other, its in known.items() if other[:-2] != address[:-2]]
        is_new = now.get("model") == card.get("model") and bool(now.get("serial")) and now["serial"] not in others
        if is_new and not addresses:
            changes.replaced.append(address)
        elif addresses or now:
            is_sure, is_bridge = len(addresses) == 1, bool(card.get("place"))
            changes.moved.append(Moved(address, addresses[0] if addresses else "", is_sure, bool(now), is_bridge))
        else:
            gone.append(address)
    return changes._replace(gone=tuple(gone))


def place_of(host: Host, address: str, card: Card) -> str:
    """Return the current address of the card's function that had this address, empty if missing or ambiguous."""
    addresses = _same_functions(host, address, card, ())
    # The halves of a Socket Direct card have one serial number at two addresses.
    return address if address in addresses else addresses[0] if len(addresses) == 1 else ""


def serial_of(vpd: bytes) -> str:
    """Return a digest of the serial number in vital product data, empty if there is none."""
    serial = fields_of(vpd).get(b"SN")
    return "" if serial is None else hashlib.sha256(serial).hexdigest()[:_DIGITS]


def fields_of(vpd: bytes) -> dict[bytes, bytes]:
    """Return the fields of vital product data by keyword: ``SN``, the serial number, ``PN``, the part number."""
    while vpd[:1] not in (b"", _READ_ONLY, _END):
        vpd = vpd[3 + int.from_bytes(vpd[1:3], "little") if vpd[0] & _LARGE else 1 + (vpd[0] & 7) :]
    part = vpd[3 : 3 + int.from_bytes(vpd[1:3], "little")] if vpd[:1] == _READ_ONLY else b""
    fields: dict[bytes, bytes] = {}
    while len(part) >= 3:
        fields.setdefault(part[:2], part[3 : 3 + part[2]].strip(b" \0"))
        part = part[3 + part[2] :]
    return fields


def _card(host: Host, address: str) -> Card:
    """Return the card of a function, for a virtual one that of its PF; empty if it does not exist."""
    path = f"{PCI}/{address}"
    # Only VFs have this link.
    with contextlib.suppress(HostError):
        path = f"{PCI}/{posixpath.basename(host.link(f'{path}/physfn'))}"
    model = _model(host, path)
    if not model:
        return {}
    place = _place(host, path)
    return {"model": model, "serial": _serial(host, path), **({"place": place} if place else {})}


def _model(host: Host, path: str) -> str:
    try:
        return " ".join(host.read(f"{path}/{name}").strip() for name in ("vendor", "device"))
    except HostError:
        return ""


def _serial(host: Host, path: str) -> str:
    try:
        return serial_of(host.read_bytes(f"{path}/vpd"))
    except HostError:
        return ""


def _place(host: Host, device: str) -> str:
    r"""Return the place of a bridge (``\_SB_.PC01/01.0/00.0``), empty for any other device."""
    try:
        if not host.read(f"{device}/class").startswith(_BRIDGE):
            return ""
        path = host.realpath(device)
    except HostError:
        return ""
    root = _HOST_BRIDGE.search(path)
    if root is None:
        return ""
    name = posixpath.basename(root.group())
    with contextlib.suppress(HostError):
        name = host.read(f"{path[: root.end()]}/firmware_node/path").strip() or name
    return "/".join([name, *(part.rpartition(":")[2] for part in path[root.end() + 1 :].split("/"))])


def _is_same(now: Card, before: Card) -> bool:
    if now["model"] != before.get("model"):
        return False
    return all(now[key] == before[key] for key in ("serial", "place") if now.get(key) and before.get(key))


def _same_functions(host: Host, address: str, card: Card, without: Collection[str]) -> list[str]:
    """Return the possible addresses of the same function of the card, none without a serial number.

    Some vendors give all of their cards one serial number, so the model must match too. A bridge is searched by its
    place.
    """
    if card.get("place"):
        bridges = [f"{PCI}/{name}" for name in names_at(host, PCI)]
        here = [bridge for bridge in bridges if _place(host, bridge) == card["place"]]
        return [posixpath.basename(bridge) for bridge in here if _model(host, bridge) == card.get("model")]
    if not card.get("serial"):
        return []
    others = [name for name in names_at(host, PCI) if name not in without and name[-2:] == address[-2:]]
    places = [f"{PCI}/{name}" for name in sorted(others)]
    alike = [place for place in places if _model(host, place) == card.get("model")]
    return [posixpath.basename(place) for place in alike if _serial(host, place) == card["serial"]]
