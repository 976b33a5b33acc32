# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads which NICs share an IPv4 subnet and answer ARP for each other's addresses."""

from __future__ import annotations

import ipaddress
from typing import Collection, Iterable

from ..machine.probe import Probe
from .uplink import Route

_CONF = "/proc/sys/net/ipv4/conf"
_POINT_TO_POINT = 30


Network = ipaddress.IPv4Network


def shared_networks(places: Iterable[tuple[Network, str]]) -> dict[Network, list[str]]:
    """Return the interfaces that share a network with another one, by network; those between two ends are left out."""
    members: dict[Network, set[str]] = {}
    for network, name in places:
        if not network.is_link_local and network.prefixlen <= _POINT_TO_POINT:
            members.setdefault(network, set()).add(name)
    return {network: sorted(found) for network, found in sorted(members.items()) if len(found) > 1}


def read_shared_subnets(probe: Probe, routes: Iterable[Route], names: Collection[str]) -> dict[str, list[str]]:
    """Return those of the interfaces that share a network, by network, where one of them answers for the others.

    Networks are those of direct routes. The kernel answers ARP for any of its addresses on every interface unless the
    larger one of ``conf/all/arp_ignore`` and the interface's own is above 0 (Documentation/networking/ip-sysctl.rst).
    """
    shared = shared_networks(
        (route.network, route.netdev) for route in routes if route.direct and route.netdev in names
    )
    of_all = probe.number(f"{_CONF}/all/arp_ignore") if shared else None
    return {
        str(network): found
        for network, found in shared.items()
        if of_all == 0 and any(probe.number(f"{_CONF}/{name}/arp_ignore") == 0 for name in found)
    }
