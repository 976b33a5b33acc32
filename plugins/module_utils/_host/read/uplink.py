# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the uplink: the interfaces that must not be cut. Private to this collection: it may change.

Sources: the routing tables (Documentation: proc(5) and net/ipv6/route.c) name the interface of the default route; the
address Ansible connects to and those that the kubelet tells are looked up among the host's own addresses.
"""

from __future__ import annotations

import ipaddress
import json
from typing import Any, Iterable, NamedTuple, Union

from ansible_collections.rdma.fabric.plugins.module_utils._host.read.netdev import (
    Netdev,
    carriers_of,
    switched_carriers_of,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.read.node_address import read_node_addresses
from ansible_collections.rdma.fabric.plugins.module_utils._host.read.probe import Probe, natural, parse_int, printable

ROUTE = "/proc/net/route"
IPV6_ROUTE = "/proc/net/ipv6_route"
IPV6_ADDRESSES = "/proc/net/if_inet6"
IP_ADDRESSES = ("ip", "-json", "address", "show")
# No gateway, or the mask of a default route.
_NONE = "00000000"
_RTF_UP = 0x1
_RTF_REJECT = 0x200

Address = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]


class Route(NamedTuple):
    """One usable IPv4 route: its network and the interface it leaves by."""

    network: ipaddress.IPv4Network
    netdev: str
    direct: bool


def default_route_netdevs(probe: Probe) -> list[str]:
    """Return the interfaces that carry a default route of either family, by their raw names."""
    names = [route.netdev for route in parse_routes(probe.content(ROUTE) or "") if route.network.prefixlen == 0]
    names += parse_ipv6_default(probe.content(IPV6_ROUTE) or "")
    return sorted(set(names), key=natural)


def parse_routes(text: str) -> list[Route]:
    """Parse /proc/net/route; addresses are hexadecimal in the byte order of the machine (little endian here).

    Only default routes and those of networks on the link are returned: a large cluster has thousands of others.
    """
    routes = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 8 or _NONE not in (fields[2], fields[7]):
            continue
        numbers = [parse_int(fields[column], 16) for column in (1, 7, 2, 3)]
        destination, mask, gateway, flags = (-1 if number is None else number for number in numbers)
        network = _network(destination, mask)
        if network is not None and flags & _RTF_UP and not flags & _RTF_REJECT:
            routes.append(Route(network, fields[0], gateway == 0))
    return routes


def _network(destination: int, mask: int) -> ipaddress.IPv4Network | None:
    try:
        address, netmask = (ipaddress.IPv4Address(number.to_bytes(4, "little")) for number in (destination, mask))
        return ipaddress.IPv4Network(f"{address}/{netmask}", strict=False)
    except (OverflowError, ValueError):
        return None


def parse_ipv6_default(text: str) -> list[str]:
    """Parse /proc/net/ipv6_route and return the interfaces of default routes; ``lo`` carries only the reject route."""
    names = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 10 or fields[0].strip("0") or fields[1] != "00" or fields[9] == "lo":
            continue
        flags = parse_int(fields[8], 16) or 0
        if flags & _RTF_UP and not flags & _RTF_REJECT:
            names.append(fields[9])
    return names


def read_uplinks(
    probe: Probe, defaults: Iterable[str], netdevs: list[Netdev], connection_address: str | None
) -> list[dict[str, Any]]:
    """Return the interfaces to protect with every reason; for a bond, bridge or VLAN its hardware is named too."""
    reasons: dict[str, list[str]] = {}
    for name in defaults:
        _protect(probe, reasons, name, "default route")
    for address, reason in _addresses(probe, connection_address):
        for name in _netdevs_of(probe, address):
            _protect(probe, reasons, name, reason)
    pci = {netdev.raw_name: netdev.pci_parent for netdev in netdevs}
    return [
        {"netdev": printable(name), "pci": pci.get(name), "reasons": reasons[name]}
        for name in sorted(reasons, key=natural)
    ]


def _protect(probe: Probe, reasons: dict[str, list[str]], name: str, reason: str) -> None:
    through = f"{reason} through {printable(name)}"
    found = {
        **dict.fromkeys(switched_carriers_of(probe, name), f"{through} (Open vSwitch)"),
        **dict.fromkeys(carriers_of(probe, name), through),
        name: reason,
    }
    for member, text in found.items():
        known = reasons.setdefault(member, [])
        if text not in known:
            known.append(text)


def _addresses(probe: Probe, connection_address: str | None) -> list[tuple[Address, str]]:
    wanted = [(connection_address, "Ansible connection")] if connection_address else []
    wanted += [(text, "kubelet node address") for text in read_node_addresses(probe)]
    result = []
    for text, reason in wanted:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            continue
        if not address.is_loopback and not address.is_unspecified:
            result.append((address, reason))
    return result


def _netdevs_of(probe: Probe, address: Address) -> list[str]:
    """Return the interface that has the address; where that stays unknown, every one whose network holds it."""
    if isinstance(address, ipaddress.IPv6Address):
        return _ipv6_owner(probe.content(IPV6_ADDRESSES) or "", address)
    routes = parse_routes(probe.content(ROUTE) or "")
    names = sorted(
        {route.netdev for route in routes if route.direct and address in route.network and _is_subnet(route)}
    )
    if len(names) == 1:
        return names
    result = probe.command(*IP_ADDRESSES)
    owner = parse_ip_addresses(result.stdout).get(str(address)) if result is not None else None
    return [owner] if owner else names


def _is_subnet(route: Route) -> bool:
    return route.network.prefixlen > 0


def _ipv6_owner(text: str, address: ipaddress.IPv6Address) -> list[str]:
    wanted = f"{int(address):032x}"
    return [fields[5] for fields in map(str.split, text.splitlines()) if len(fields) >= 6 and fields[0] == wanted]


def parse_ip_addresses(text: str) -> dict[str, str]:
    """Parse ``ip -json address show`` and return the interface of every address."""
    try:
        links = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    owners: dict[str, str] = {}
    for link in links if isinstance(links, list) else []:
        name, entries = (link.get("ifname"), link.get("addr_info")) if isinstance(link, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(entries, list):
            continue
        locals_ = (entry.get("local") for entry in entries if isinstance(entry, dict))
        owners.update((address, name) for address in locals_ if isinstance(address, str))
    return owners
