# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stays kept for interfaces that the host does not show now. Pure.

A driver that reloads, a card in reset or a pod with the interface takes it away for a while. The plan refuses what is
asked of it; what the host keeps for its next boot must not go with it.
"""

from __future__ import annotations

import json
from typing import Mapping, Pattern

from ..engine.context import Context
from ..facts.interfaces import Interface
from ..facts.managers import ifupdown, netplan, network_manager, networkd
from ..facts.managers.owner import owner_of
from ..machine.paths import WISHES_FILE
from ..spec.cards import Cards
from ..spec.persisted import MAKER, Wish, cards_in, device_of, only, wished_in
from .persistence import boot_name

# The files that hold more than one interface, and how the part of one begins.
_SECTIONS = {
    ifupdown.OWN_FILE: ifupdown.OWN_SECTION,
    netplan.OWN_FILE: netplan.OWN_SECTION,
    network_manager.OWN_FILE: network_manager.OWN_SECTION,
}


def known_cards(context: Context) -> Cards:
    """Return the cards that the boot unit's wishes are for, without those that another one was found in the place of.

    The boot unit found them at this start. What is asked of such an address now is asked of the card that is there.
    """
    known = cards_in(context.boot_files.get(WISHES_FILE))
    result = context.actual.facts["boot"]["result"]
    others = result["other_cards"] if result is not None and result["this_boot"] else {}
    return {address: card for address, card in known.items() if others.get(address) != card}


def wishes_of_present_cards(context: Context) -> list[Wish]:
    """Return the boot unit's wishes for interfaces, without those whose address means another card now."""
    text = context.boot_files.get(WISHES_FILE)
    found = [wish for wish in wished_in(text) or [] if "pcie" not in wish]
    others = {*cards_in(text)}.difference(context.once(known_cards))
    return [wish for wish in found if device_of(wish) not in others and wish.get(MAKER) not in others]


def former_wishes(context: Context, *, matched: bool) -> dict[str, Wish]:
    """Return what the boot unit has for devices without an interface now, by what it selects them with.

    ``matched``: of those that an entry means, else of those that an entry without device may mean. One that selects by
    ``mac`` or ``current_name`` may mean each of them.
    """
    known = {interface.key for interface in context.interfaces}
    addresses = [entry.get("pci") for entry in context.entries_without_device]
    found: dict[str, Wish] = {}
    for wish in context.once(wishes_of_present_cards):
        device = device_of(wish)
        nic = context.actual.nics.get(device)
        netdev = context.actual.netdevs.get(device) if nic is None else context.actual.port_of(nic)
        meant = device in known if matched else device not in known and (device in addresses or None in addresses)
        if netdev is None and meant:
            found[device] = wish
    return found


def of_interface(context: Context, interface: Interface) -> Wish:
    """Return the MTU and state that the boot unit gives an interface which its device does not show now."""
    if interface.netdev is not None:
        return {}
    former = former_wishes(context, matched=True).get(interface.key, {})
    asked = [key for key in ("mtu", "state") if interface.wanted.get(key) is not None]
    return only(former, asked)


def manager_files(context: Context, wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the files of ours that managers of interfaces read: those ``wanted``, and what is kept while one is away.

    They go by the names of interfaces, so it is not known which of them are about that one: a file that nothing is
    wanted of stays as it is, others keep what they have of interfaces that the host does not show now.
    """
    entries = [*context.entries_without_device, *(one.wanted for one in context.interfaces if one.netdev is None)]
    if not any(entry.get(key) for entry in entries for key in ("mtu", "state", "routes", "routing-policy")):
        return dict(wanted)
    found = {path: text for path, text in context.boot_files.items() if path in _SECTIONS or _is_drop_in(path)}
    merged = {
        path: _merged(context, path, found[path], wanted[path]) for path in _SECTIONS if path in {*found} & {*wanted}
    }
    return {**found, **wanted, **merged}


def _merged(context: Context, path: str, former: str, wanted: str) -> str:
    """Return the wanted text of a file with the sections that it has had of interfaces which are not there."""
    head, sections = _split(_SECTIONS[path], wanted)
    _head, before = _split(_SECTIONS[path], former)
    present = _definitions(context) if path == netplan.OWN_FILE else _names(context)
    sections.update({name: text for name, text in before.items() if name not in present and name not in sections})
    return head + "".join(sections[name] for name in sorted(sections))


def _split(start: Pattern[str], text: str) -> tuple[str, dict[str, str]]:
    """Return what stands before the first section, and each section by what its first line names."""
    head = ""
    sections: dict[str, str] = {}
    name: str | None = None
    for line in text.splitlines(keepends=True):
        match = start.fullmatch(line.rstrip("\n"))
        name = match.group(1) if match else name
        if name is None:
            head += line
        else:
            sections[name] = sections.get(name, "") + line
    return head, sections


def _names(context: Context) -> set[str]:
    """Return the names that the host's interfaces have now, and those that they have after the next boot."""
    return {*context.actual.netdevs, *_names_at_boot(context).values()}


def _names_at_boot(context: Context) -> dict[str, str]:
    found = {name: name for name in context.actual.netdevs}
    there = [(one, one.netdev) for one in context.interfaces if one.netdev is not None]
    return {**found, **{netdev["name"]: boot_name(context, one, netdev) for one, netdev in there}}


def _definitions(context: Context) -> set[str]:
    """Return netplan's ids for the host's interfaces, as JSON writes them."""
    named = _names_at_boot(context)
    owners = [owner_of(context.actual, netdev, named[name]) for name, netdev in context.actual.netdevs.items()]
    ids = [owner.definition for owner in owners if owner is not None and owner.definition is not None]
    return {json.dumps(definition)[1:-1] for definition in ids}


def _is_drop_in(path: str) -> bool:
    return path.endswith(f".network.d/{networkd.DROP_IN}")
