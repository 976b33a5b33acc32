# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings that several interfaces in one subnet need. Pure.

Without them any of the interfaces answers ARP for the addresses of all, and the kernel drops packets that come in by
another one than the route back leaves by (Documentation/networking/ip-sysctl.rst: arp_ignore, arp_announce, rp_filter).
"""

from __future__ import annotations

import ipaddress
from typing import Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.sysctl_names import MULTIRAIL, canonical

_POINT_TO_POINT = 30


def shared_subnets(addresses: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return the interfaces that share an IPv4 network with another one, by network; ``addresses`` are CIDRs."""
    members: dict[ipaddress.IPv4Network, set[str]] = {}
    for name, cidrs in addresses.items():
        for cidr in cidrs:
            network = _network(cidr)
            if network is not None:
                members.setdefault(network, set()).add(name)
    return [sorted(found) for _network, found in sorted(members.items()) if len(found) > 1]


def _network(cidr: str) -> ipaddress.IPv4Network | None:
    try:
        network = ipaddress.ip_network(cidr, strict=False)
    except ValueError:
        return None
    if not isinstance(network, ipaddress.IPv4Network) or network.is_link_local or network.prefixlen > _POINT_TO_POINT:
        return None
    return network


def multirail_settings(context: Context) -> tuple[dict[str, str], list[str]]:
    """Return the settings for the wanted interfaces that share a subnet, by canonical name, and what is to be said."""
    if not context.desired["multirail_sysctls"]:
        return {}, []
    addresses = context.actual.facts["settings"].get("addresses")
    if addresses is None:
        return {}, ["rdma_fabric_multirail_sysctls: the addresses of this host can't be read, so nothing is set for it"]
    rails = {i.netdev["name"]: context.name_of(i.netdev) for i in context.interfaces if i.netdev is not None}
    shared = shared_subnets({name: cidrs for name, cidrs in addresses.items() if name in rails})
    if not shared:
        return {}, [
            "rdma_fabric_multirail_sysctls: no two of rdma_fabric_interfaces share a subnet, so nothing is set for it"
        ]
    together = sorted({rails[name] for members in shared for name in members})
    settings = {
        canonical(f"net/ipv4/conf/{name}/{key}"): value for name in together for key, value in MULTIRAIL.items()
    }
    return settings, []
