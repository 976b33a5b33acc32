# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads which driver virtual functions shall have."""

from __future__ import annotations

from .place import Place, choice_of

NETDEVICE = "netdevice"
VFIO = "vfio-pci"
VF_DRIVERS = (NETDEVICE, VFIO)


def vf_driver(place: Place, value: object) -> str | None:
    """Return the wanted driver in the words of SriovNetworkNodePolicy (deviceType), None when none is given."""
    return choice_of(place, value, VF_DRIVERS)


def check_driver(place: Place, driver: str | None, mtu: int | None) -> None:
    """Note an MTU of functions that have no interface of this host, and so can't have one."""
    if driver == VFIO and mtu is not None:
        place.violation("has no effect with vf_driver vfio-pci: such functions have no interface here", "leave it out")
