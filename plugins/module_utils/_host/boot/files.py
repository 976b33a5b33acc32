# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of the boot unit, of managers of interfaces and of the guard. Pure."""

from __future__ import annotations

from typing import Sequence

from ..concerns.pcie.registers import lasting
from ..engine.context import Context
from ..engine.steps import BOOT, is_executable
from ..facts.managers import ifupdown, netplan, network_manager, networkd
from ..facts.managers.owner import WICKED
from ..machine.host_files import NETPLAN_FILE, UNIT_FILE, WISHES_FILE
from ..machine.program import program_path
from ..spec.host import CONSENTS
from ..spec.persisted import MAKER, Wish, device_of, wishes_text
from . import persisted
from .kept_routes import KeptRoutes, kept_routes
from .losses import held_back
from .persistence import Persistence, persistence
from .unit import unit_text


def texts_of_managers(found: Sequence[Persistence], routed: Sequence[KeptRoutes] = ()) -> dict[str, str]:
    """Return the text of every file of ours that managers read, by path."""
    paths = sorted({entry.path for entry in found if entry.path} | {entry.path for entry in routed if entry.path})
    texts = {
        path: _text(path, [e for e in found if e.path == path], [e for e in routed if e.path == path]) for path in paths
    }
    return {path: text for path, text in texts.items() if text is not None}


def _text(path: str, entries: list[Persistence], routed: list[KeptRoutes]) -> str | None:
    mtus = {entry.name: entry.mtu for entry in entries if entry.mtu is not None}
    if path == NETPLAN_FILE:
        return _netplan_text(entries, routed)
    if path == network_manager.OWN_FILE:
        netdevs = {entry.name: entry.interface.netdev for entry in entries}
        types = {name: netdev["link_type"] for name, netdev in netdevs.items() if netdev is not None}
        return network_manager.file_text(
            {name: network_manager.DeviceMtu(types.get(name, ""), mtu) for name, mtu in mtus.items()}
        )
    if path == ifupdown.OWN_FILE:
        return ifupdown.file_text(mtus, {entry.name: (entry.routes, entry.rules) for entry in routed})
    owner = entries[0].owner if entries else routed[0].owner
    mtu, state = (entries[0].mtu, entries[0].state) if entries else (None, None)
    routes, rules = (routed[0].routes, routed[0].rules) if routed else ((), ())
    file = owner.network if owner is not None else None
    return None if file is None else networkd.drop_in_text(file, mtu, state, routes, rules)


def _netplan_text(entries: list[Persistence], routed: list[KeptRoutes]) -> str:
    additions: dict[str, netplan.Addition] = {}
    for entry in entries:
        if entry.owner is not None and entry.owner.definition is not None:
            additions[entry.owner.definition] = netplan.Addition(entry.mtu, entry.state)
    for keeping in routed:
        if keeping.owner is not None and keeping.owner.definition is not None:
            known = additions.get(keeping.owner.definition, netplan.Addition())
            additions[keeping.owner.definition] = known._replace(routes=keeping.routes, rules=keeping.rules)
    return netplan.file_text(additions)


def boot_files(context: Context) -> dict[str, str]:
    """Return the text of every file by path; the program is not among them, its name tells its content."""
    return {**_of_the_guard(context), **manager_files(context), **unit_files(context)}


def guards_next_boot(context: Context) -> bool:
    """Return whether the boot unit is needed for a change of the uplink that acts at the next boot.

    It is staged already, or an earlier step of this plan does that.
    """
    guard = context.actual.facts["boot"]["guard"]
    return (guard is not None and guard["state"] == "staged") or any(
        step["when"] == BOOT and step["consent"] == CONSENTS["uplink_change"] and is_executable(step)
        for step in context.earlier
    )


def unit_of(context: Context, found: Sequence[Wish] = ()) -> str:
    """Return the boot unit of this host, for the wishes ``found``."""
    managers = context.actual.facts["boot"]["managers"]
    return unit_text(context.python, program_path(), found, with_wicked=WICKED in managers)


def _of_the_guard(context: Context) -> dict[str, str]:
    return {UNIT_FILE: unit_of(context)} if guards_next_boot(context) else {}


def manager_files(context: Context) -> dict[str, str]:
    """Return the files that managers of interfaces read."""
    if context.removing:
        return {}
    return persisted.manager_files(context, texts_of_managers(context.once(persistence), context.once(kept_routes)))


def staying(context: Context) -> list[str]:
    """Return the files that a removal leaves: what goes only with a consent, and what guards the next boot."""
    return list({**_of_the_guard(context), **unit_files(context)})


def unit_files(context: Context) -> dict[str, str]:
    """Return the boot unit and its wishes, none when nothing is left to it.

    The wishes have the cards that their file has already: others are read only when it is written.
    """
    found = held_back(context, persisted.wishes(context))
    pcie = lasting(context)
    if not found and not pcie:
        return {}
    selected = {device_of(wish) for wish in found if MAKER not in wish}
    cards = {address: card for address, card in context.once(persisted.known_cards).items() if address in selected}
    return {WISHES_FILE: wishes_text(found, pcie, cards), UNIT_FILE: unit_of(context, found)}
