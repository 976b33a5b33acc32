# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which settings are asked for, by name or as interfaces in one subnet need them, and which cut the uplink. Pure.

Without those any of the interfaces answers ARP for the addresses of all, and the kernel drops packets that come in by
another one than the route back leaves by (Documentation/networking/ip-sysctl.rst: arp_ignore, arp_announce, rp_filter).

For the route that forwarding takes away: net/ipv6/addrconf.c (addrconf_fixup_forwarding) and net/ipv6/route.c
(rt6_purge_dflt_routers): whichever interface begins to forward, the kernel forgets the default routers of all that
don't accept advertisements while forwarding. What an interface accepts of advertisements is its own setting alone
(ipv6_accept_ra, addrconf_prefix_rcv).
"""

from __future__ import annotations

import ipaddress
from types import MappingProxyType
from typing import Callable, Iterator, Mapping, NamedTuple, Sequence

from ...engine.context import Context
from ...facts.shapes import Netdev
from ...facts.uplink import ADVERTISED, IPV4, IPV6, shared_networks
from ...machine.probe import network_of
from ...spec import sysctls
from ...spec.host import CONSENTS

_ALL, _DEFAULT = "all", "default"
_IPV6 = "net/ipv6/conf/"
# Accepts advertisements even while it forwards.
_ALWAYS = "2"
_ACCEPT_RA = f"{_IPV6}accept_ra"
# Those for ``all`` change no interface: whatever accepts advertisements asks the interface's own.
_OWN_ONLY = (_ACCEPT_RA, f"{_IPV6}accept_ra_defrtr", f"{_IPV6}accept_ra_pinfo", f"{_IPV6}autoconf")


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
    places = ((network_of(cidr), name) for name, cidrs in addresses.items() for cidr in cidrs)
    of_ipv4 = ((network, name) for network, name in places if isinstance(network, ipaddress.IPv4Network))
    return list(shared_networks(of_ipv4).values())


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


class _Cut(NamedTuple):
    """What a setting takes from an uplink that has ``need``; ``harms`` judges the wanted value by the present one."""

    need: str
    takes: str
    harms: Callable[[str, str | None], bool]


def _becomes(value: str) -> Callable[[str, str | None], bool]:
    return lambda wanted, now: sysctls.same_value(wanted, value)


def _is_on(wanted: str, now: str | None = None) -> bool:
    return not sysctls.same_value(wanted, "0")


def _accepts_less(wanted: str, now: str | None) -> bool:
    return sysctls.same_value(wanted, "0") or (now == _ALWAYS and not sysctls.same_value(wanted, _ALWAYS))


_ROUTE = "its default route, which router advertisements tell"
_ADDRESSES = "its addresses, which router advertisements tell"
_CUTS = MappingProxyType(
    {
        "net/ipv4/conf/arp_ignore": _Cut(IPV4, "its answers to ARP", _becomes("8")),
        f"{_IPV6}disable_ipv6": _Cut(IPV6, "IPv6 with all of its addresses", _is_on),
        _ACCEPT_RA: _Cut(ADVERTISED, _ROUTE, _accepts_less),
        f"{_IPV6}accept_ra_defrtr": _Cut(ADVERTISED, _ROUTE, _becomes("0")),
        f"{_IPV6}accept_ra_pinfo": _Cut(ADVERTISED, _ADDRESSES, _becomes("0")),
        f"{_IPV6}autoconf": _Cut(ADVERTISED, _ADDRESSES, _becomes("0")),
        f"{_IPV6}addr_gen_mode": _Cut(ADVERTISED, _ADDRESSES, _becomes("1")),
        f"{_IPV6}forwarding": _Cut(ADVERTISED, f"{_ROUTE}, unless its accept_ra is {_ALWAYS} before", _is_on),
    }
)


def cut_by(context: Context, name: str, wanted: str, now: str | None) -> str:
    """Return what a setting would take from the uplink, in words; empty where it takes nothing.

    ``now`` is its present value, None when unknown. What is so already takes nothing.
    """
    found = _split(name)
    cut = _CUTS.get(found[0]) if found else None
    if found is None or cut is None or (now is not None and sysctls.same_value(now, wanted)):
        return ""
    if not cut.harms(wanted, now):
        return ""
    harmed = [uplink for uplink in _uplinks_with(context, cut.need) if _is_harmed(context, name, wanted, uplink)]
    return "; ".join(
        f"it takes {cut.takes} from {uplink}, which carries the uplink ({context.actual.uplink_of(uplink) or ''})"
        for uplink in harmed
    )


def refusal(context: Context, name: str, wanted: str, now: str | None) -> str:
    """Return why a setting is refused for the node's sake; empty when it may be set."""
    cut = "" if context.consents_to("uplink_change") else cut_by(context, name, wanted, now)
    return f"{cut}; {CONSENTS['uplink_change']}: true allows the change" if cut else ""


def _split(name: str) -> tuple[str, str] | None:
    """Return a setting of interfaces without the interface, and the interface or ``all`` or ``default``."""
    parts = sysctls.path_below(name).split("/")
    if len(parts) != 5 or parts[0] != "net" or parts[2] != "conf":
        return None
    return "/".join([*parts[:3], parts[4]]), parts[3]


def _uplinks_with(context: Context, need: str) -> Iterator[str]:
    for uplink in context.actual.facts["uplinks"]:
        if need in uplink["needs"]:
            yield uplink["netdev"]


def _is_harmed(context: Context, name: str, wanted: str, uplink: str) -> bool:
    accept_ra = sysctls.accept_ra_of(name, uplink)
    if accept_ra is not None:
        return value_of(context, accept_ra) != _ALWAYS
    key, interface = _split(name) or ("", "")
    if key in _OWN_ONLY and interface == _ALL:
        return False
    if key == _ACCEPT_RA and _is_on(wanted) and not _forwards(context, uplink):
        return False
    # An uplink gets its name at the next boot, where the setting waits for it.
    later = (each.wanted.get("name") for each in context.interfaces if each.netdev and each.netdev["name"] == uplink)
    return interface in (_ALL, _DEFAULT, uplink, *later)


def _forwards(context: Context, uplink: str) -> bool:
    """Return whether an uplink forwards IPv6 once the plan is done, or the plan has another interface forward.

    Either takes the route from an uplink that accepts advertisements only while it does not forward. What is unknown
    counts as forwarding.
    """
    wishes = {name: value for name, value in asked(context).items() if sysctls.accept_ra_of(name, uplink) is not None}
    if any(map(_is_on, wishes.values())):
        return True
    # What is written to "all" reaches every interface, but where it is 0 already nothing is written.
    of_all = sysctls.forwarding_of(_ALL)
    if of_all in wishes and _is_on(value_of(context, of_all) or ""):
        return False
    netdev = context.actual.netdevs.get(uplink)
    if netdev is not None and sysctls.forwarding_of(context.name_of(netdev)) in wishes:
        return False
    return _is_on(value_of(context, sysctls.forwarding_of(uplink)) or "")
