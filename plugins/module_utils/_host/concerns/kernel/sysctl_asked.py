# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which settings are asked for, by name or as several interfaces in one subnet need them, and what they are. Pure.

Without those any of the interfaces answers ARP for the addresses of all, and the kernel drops packets that come in by
another one than the route back leaves by (Documentation/networking/ip-sysctl.rst: arp_ignore, arp_announce, rp_filter).
"""

from __future__ import annotations

import ipaddress
from typing import Mapping, Sequence

from ...engine.context import Context
from ...facts.shapes import Netdev
from ...facts.subnets import shared_networks
from ...spec import sysctls


def asked(context: Context) -> dict[str, str]:
    """Return the values that rdma_fabric_sysctls, or a removal, asks for by the names of the settings.

    A removal may know one setting twice: earlier versions kept its value by the name of the interface, so where both
    are known the value by the name is the older one.
    """
    given = context.desired["sysctls"]
    found = {name: value for name, value in given.items() if _port_of(context, name) is None}
    for key, value in given.items():
        port = _port_of(context, key)
        if port is not None:
            found.setdefault(sysctls.for_interface(key, context.name_of(port)), value)
    return found


def _port_of(context: Context, key: str) -> Netdev | None:
    """Return the interface whose PCI address a key has in place of a name; None for every other key."""
    nic = context.actual.nics.get(sysctls.interface_of(key) or "")
    return context.actual.port_of(nic) if nic is not None else None


def value_of(context: Context, name: str) -> str | None:
    """Return the value of a setting as the facts have it, None when it is unknown."""
    value = context.actual.facts["settings"].get("sysctl", {}).get(name)
    return None if value is None else " ".join(value.split())


def shared_subnets(addresses: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return the interfaces that share an IPv4 network with another one, by network; ``addresses`` are CIDRs."""
    places = ((_network(cidr), name) for name, cidrs in addresses.items() for cidr in cidrs)
    return list(shared_networks((network, name) for network, name in places if network is not None).values())


def _network(cidr: str) -> ipaddress.IPv4Network | None:
    try:
        network = ipaddress.ip_network(cidr, strict=False)
    except ValueError:
        return None
    return network if isinstance(network, ipaddress.IPv4Network) else None


def multirail_settings(context: Context) -> tuple[dict[str, str], list[str]]:
    """Return the settings for the wanted interfaces that share a subnet, by canonical name, and what is to be said."""
    if not context.desired["multirail_sysctls"]:
        return {}, [] if context.removing else _unguarded(context)
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
        sysctls.canonical(f"net/ipv4/conf/{name}/{key}"): value
        for name in together
        for key, value in sysctls.MULTIRAIL.items()
    }
    return settings, []


def _unguarded(context: Context) -> list[str]:
    """Name wanted interfaces in one subnet that nothing keeps from answering for each other."""
    rails = {i.netdev["name"]: context.name_of(i.netdev) for i in context.interfaces if i.netdev is not None}
    found = []
    for network, names in context.actual.facts["settings"].get("shared_subnets", {}).items():
        ours = [rails[name] for name in names if name in rails]
        if len(ours) > 1:
            found.append(
                f"{', '.join(ours)} are in one subnet ({network}), and with arp_ignore 0 each answers ARP for the "
                "addresses of all, so traffic may come in by another one than it is for; next: "
                "rdma_fabric_multirail_sysctls: true, or a subnet for each"
            )
    return found
