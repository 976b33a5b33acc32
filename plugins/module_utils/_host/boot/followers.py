# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""VLANs and their like that a running NetworkManager gives the MTU of what they stand on.

It does so as soon as that one has another MTU, unless the configuration that it has read knows one for them
(parent_mtu_maybe_changed of nm-device-vlan.c and nm-device-macvlan.c, nm_device_get_configured_mtu_wired_parent of
nm-device.c). So it has to read ours, and what it did before is taken back.
"""

from __future__ import annotations

from typing import Sequence

from ..concerns.links.mtu import differs, set_mtu
from ..engine.context import Context
from ..engine.operations import Found, Operation, Run
from ..facts.managers import network_manager
from ..machine.access import Host
from .persistence import persistence

_KINDS = ("vlan", "macvlan", "macvtap")
# The configuration alone: no connection is touched, and no name server (nmcli(1), "general reload").
RELOAD = Run(("nmcli", "general", "reload", "conf"))


def followers(context: Context, path: str) -> dict[str, int]:
    """Return the MTUs, by present name, that a file keeps and that a running NetworkManager sets otherwise."""
    running = context.actual.facts["boot"]["managers"].get("NetworkManager")
    if running is None or path != network_manager.OWN_FILE:
        return {}
    kept = ((entry, entry.interface.netdev) for entry in context.once(persistence) if entry.path == path)
    return {
        context.name_of(netdev): entry.mtu
        for entry, netdev in kept
        if netdev is not None
        and entry.mtu is not None
        and netdev["kind"] in _KINDS
        and running["managed"].get(netdev["name"])
    }


def told_to_network_manager(mtus: dict[str, int]) -> list[Operation]:
    """Return how NetworkManager learns the MTUs of its file, and how they hold on the running host."""

    def operations(host: Host) -> Sequence[Operation]:
        return [set_mtu(name, mtu) for name, mtu in mtus.items() if differs(host, name, mtu)]

    return [RELOAD, Found("give VLANs back the MTU that NetworkManager took", operations)] if mtus else []
