# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stays kept for interfaces that the host does not show now. Pure.

A driver that reloads, a card in reset or a pod with the interface takes it away for a while. The plan refuses what is
asked of it; what the host keeps for its next boot must not go with it.
"""

from __future__ import annotations

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.interfaces import Interface
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.managers import (
    ifupdown,
    netplan,
    network_manager,
    networkd,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.paths import WISHES_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.persisted import Wish, device_of, only, wished_in

_OF_MANAGERS = frozenset({ifupdown.OWN_FILE, netplan.OWN_FILE, network_manager.OWN_FILE})


def former_wishes(context: Context, *, matched: bool) -> dict[str, Wish]:
    """Return what the boot unit has for devices without an interface now, by what it selects them with.

    ``matched``: of those that an entry means, else of those that an entry without device may mean. One that selects by
    ``mac`` or ``current_name`` may mean each of them.
    """
    known = {interface.key for interface in context.interfaces}
    addresses = [entry.get("pci") for entry in context.entries_without_device]
    found: dict[str, Wish] = {}
    for wish in wished_in(context.boot_files.get(WISHES_FILE)) or []:
        device = device_of(wish)
        nic = context.actual.nics.get(device)
        netdev = context.actual.netdevs.get(device) if nic is None else context.actual.port_of(nic)
        meant = device in known if matched else device not in known and (device in addresses or None in addresses)
        if "pcie" not in wish and netdev is None and meant:
            found[device] = wish
    return found


def of_interface(context: Context, interface: Interface) -> Wish:
    """Return the MTU and state that the boot unit gives an interface which its device does not show now."""
    if interface.netdev is not None:
        return {}
    former = former_wishes(context, matched=True).get(interface.key, {})
    asked = [key for key in ("mtu", "state") if interface.wanted.get(key) is not None]
    return only(former, asked)


def manager_files(context: Context) -> dict[str, str]:
    """Return the files of ours that managers of interfaces read, as they are, while an interface is away.

    They go by the names of interfaces, so it is not known which of them are about that one.
    """
    entries = [*context.entries_without_device, *(one.wanted for one in context.interfaces if one.netdev is None)]
    if not any(entry.get(key) for entry in entries for key in ("mtu", "state", "routes", "routing-policy")):
        return {}
    return {path: text for path, text in context.boot_files.items() if path in _OF_MANAGERS or _is_drop_in(path)}


def _is_drop_in(path: str) -> bool:
    return path.endswith(f".network.d/{networkd.DROP_IN}")
