# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells which functions of the host are of one card. Pure.

All functions behind one PCI slot are, and so are those with one system image GUID: a card of two PCI slots (Socket
Direct) or of several hosts has one (mlx5 joins devices to such a group by it: torvalds/linux,
drivers/net/ethernet/mellanox/mlx5/core/main.c, mlx5_devcom_register_device). The second half of a Socket Direct card
has neither network interface nor RDMA device (lib/sd.c, mlx5_sd_get_adev), so nothing tells whose half it is: it is
taken for a half of every card of its kind.
"""

from __future__ import annotations

from .firmware import card_of
from .host_state import HostState
from .shapes import Nic

_NO_GUID = "0000:0000:0000:0000"


def functions_of_card(actual: HostState, address: str) -> list[Nic]:
    """Return every function, virtual ones included, of the card that has the function at ``address``."""
    return _members(actual, address, with_bare_halves=True)


def functions_of_flash(actual: HostState, address: str) -> list[str]:
    """Return the physical functions that are known to share the flash of the one at ``address``, in their order.

    A bare half shares none but its own: to burn one flash twice does less harm than to miss one.
    """
    found = _members(actual, address, with_bare_halves=False)
    return sorted(nic["address"] for nic in found if nic["function"] == "pf") or [address]


def flash_of(actual: HostState, address: str) -> str:
    """Return what the flash of a card is called by: its first physical function."""
    return functions_of_flash(actual, address)[0]


def may_share_firmware(actual: HostState, address: str, other: str) -> bool:
    """Say whether the physical functions at two addresses are, or may be, of one card, whose settings are then theirs.

    A bare half may be of any card of its kind.
    """
    bare = next((at for at in (address, other) if at in actual.nics and is_bare_half(actual.nics[at])), "")
    members = _members(actual, bare or address, with_bare_halves=bool(bare))
    return {card_of(address), card_of(other)} <= {card_of(_physical(nic)) for nic in members}


def _members(actual: HostState, address: str, *, with_bare_halves: bool) -> list[Nic]:
    nics = list(actual.nics.values())
    slots: set[str] = {card_of(address)}
    guids: set[str] = set()
    kinds: set[str] = set()
    members: list[Nic] = []
    grown = True
    while grown:
        found = [nic for nic in nics if _is_member(actual, nic, slots, guids, kinds)]
        grown = len(found) > len(members)
        members = found
        for nic in members:
            slots.add(card_of(_physical(nic)))
            guids |= guids_of(actual, nic)
            if with_bare_halves and is_bare_half(nic):
                kinds.add(_kind(nic))
    return members


def guids_of(actual: HostState, nic: Nic) -> set[str]:
    """Return the system image GUIDs that RDMA devices of a function tell."""
    devices = [device for device in actual.facts["rdma"] if device["pci"] == nic["address"]]
    found = {device["system_image_guid"] or "" for device in devices}
    return found - {"", _NO_GUID}


def is_bare_half(nic: Nic) -> bool:
    """Say whether a physical function has neither an interface nor an RDMA device, which would tell its card."""
    return nic["function"] == "pf" and not nic["netdevs"] and not nic["rdma"]


def _is_member(actual: HostState, nic: Nic, slots: set[str], guids: set[str], kinds: set[str]) -> bool:
    if card_of(_physical(nic)) in slots or guids_of(actual, nic) & guids:
        return True
    return nic["function"] == "pf" and _kind(nic) in kinds


def _physical(nic: Nic) -> str:
    return nic["pf"] or nic["address"]


def _kind(nic: Nic) -> str:
    return f"{nic['vendor']}:{nic['device']}:{nic['subsystem']}"
