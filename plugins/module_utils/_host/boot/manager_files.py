# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of our files that managers of interfaces read. Pure."""

from __future__ import annotations

from typing import Sequence

from ..facts.managers import ifupdown, netplan, network_manager, networkd
from .kept_routes import KeptRoutes
from .persistence import Persistence


def files(found: Sequence[Persistence], routed: Sequence[KeptRoutes] = ()) -> dict[str, str]:
    """Return the text of every file of ours that managers read, by path."""
    paths = sorted({entry.path for entry in found if entry.path} | {entry.path for entry in routed if entry.path})
    texts = {
        path: _text(path, [e for e in found if e.path == path], [e for e in routed if e.path == path]) for path in paths
    }
    return {path: text for path, text in texts.items() if text is not None}


def mode_of(path: str) -> int:
    """Return the permissions of a manager's file: netplan warns about files that others may read."""
    return 0o600 if path == netplan.OWN_FILE else 0o644


def _text(path: str, entries: list[Persistence], routed: list[KeptRoutes]) -> str | None:
    mtus = {entry.name: entry.mtu for entry in entries if entry.mtu is not None}
    if path == netplan.OWN_FILE:
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
