# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges which gateways an interface reaches, and what would take the uplink's traffic. Pure."""

from __future__ import annotations

import ipaddress
from typing import Iterable, Union

from ...engine.context import Context
from ...facts.host_state import Interface
from ...machine.probe import Network
from ...spec.routes import MAIN, ROUTES, RULES, Route, Rule, route_text, rule_text, version_of
from .ours import loses_link, told, uplink_addresses

_Owned = Union[ipaddress.IPv4Interface, ipaddress.IPv6Interface]


def lacks_address(context: Context, interface: Interface, route: Route) -> bool:
    """Return whether a route's gateway waits for the interface's first address of its family."""
    return (
        _needs_address(route)
        and not _reachable(context, interface, route)
        and not _addresses(context, interface, route)
    )


def gateway_problems(context: Context, interface: Interface) -> list[str]:
    """Return what is wrong with gateways that no address of the interface reaches."""
    problems = []
    for route in interface.wanted.get(ROUTES) or ():
        known = _addresses(context, interface, route)
        if known and _needs_address(route) and not _reachable(context, interface, route):
            problems.append(
                f"{route['via']} is in no network of the interface ({', '.join(map(str, known))}); next: correct via "
                f"of {route['to']}, or set on-link: true where the gateway is on the link all the same"
            )
    return problems


def catching_problems(context: Context, interface: Interface) -> list[str]:
    """Return which routes and rules would take traffic of the uplink to another interface."""
    if context.actual.uplink_reason(interface.nic, interface.netdev) is not None:
        # Changes of the uplink itself have a consent and a guard.
        return []
    uplinks = _uplinks(context)
    problems = _of_the_controller(context, interface, uplinks)
    for address in uplinks:
        for rule in interface.wanted.get(RULES) or ():
            if _is_about(rule, address):
                problems.append(f"rule {rule_text(rule)} is about traffic of the uplink ({address}); {_NARROWER}")
        for route in interface.wanted.get(ROUTES) or ():
            to = ipaddress.ip_network(route["to"])
            if route["table"] == MAIN and to.version == address.version and _is_within(to, address.network):
                problems.append(f"route {route_text(route)} is for the network of the uplink ({address}); {_NARROWER}")
    return problems


def rules_of_uplinks(context: Context, rules: Iterable[Rule]) -> list[Rule]:
    """Return the rules that are about traffic of the uplink."""
    return [rule for rule in rules if any(_is_about(rule, address) for address in _uplinks(context))]


def _uplinks(context: Context) -> list[_Owned]:
    found: list[_Owned] = [ipaddress.ip_interface(text) for text in uplink_addresses(context)]
    return [uplink for uplink in found if not uplink.is_link_local]


def _of_the_controller(context: Context, interface: Interface, uplinks: list[_Owned]) -> list[str]:
    """Return which routes and rules would lead away what answers the controller that this run came from."""
    text = context.desired.get("controller")
    if not text:
        return []
    controller = ipaddress.ip_address(text)
    nearest = max((uplink.network.prefixlen for uplink in uplinks if controller in uplink.network), default=-1)
    problems = []
    for route in interface.wanted.get(ROUTES) or ():
        to = ipaddress.ip_network(route["to"])
        if route["table"] == MAIN and controller in to and to.prefixlen > nearest:
            problems.append(
                f"route {route_text(route)} is for Ansible's controller as well ({controller}), which the uplink "
                "reaches; next: give it a table of its own, and a rule from the addresses of this interface"
            )
    for rule in interface.wanted.get(RULES) or ():
        if rule["from"] is None and rule["to"] and controller in ipaddress.ip_network(rule["to"]):
            problems.append(f"rule {rule_text(rule)} is about Ansible's controller as well ({controller}); {_NARROWER}")
    return problems


_NARROWER = "next: name only networks of the fabric"


def _is_about(rule: Rule, uplink: _Owned) -> bool:
    source, target = (ipaddress.ip_network(text) if text else None for text in (rule["from"], rule["to"]))
    if source is not None:
        return uplink.ip in source
    return target is not None and target.version == uplink.version and target.overlaps(uplink.network)


def _is_within(inner: Network, outer: Network) -> bool:
    return inner.prefixlen >= outer.prefixlen and inner.network_address in outer


def _needs_address(route: Route) -> bool:
    """Return whether a route has a gateway that must be reached from an address; a link-local one always is."""
    via = route["via"]
    return bool(via and not route["on-link"] and not _is_link_local(ipaddress.ip_address(via)))


def _reachable(context: Context, interface: Interface, route: Route) -> bool:
    """Return whether the gateway is in a network of the interface, or in one that has a route without a gateway."""
    via = ipaddress.ip_address(route["via"] or "")
    tables = (route["table"], MAIN)
    on_the_link = [other for other in _routes(context, interface) if not other["via"] and other["table"] in tables]
    networks = [ipaddress.ip_network(other["to"]) for other in on_the_link]
    networks += [address.network for address in _addresses(context, interface, route)]
    return any(via in network for network in networks)


def _routes(context: Context, interface: Interface) -> list[Route]:
    there = () if loses_link(context, interface) else told(context, interface)["routes"] or ()
    return [*(interface.wanted.get(ROUTES) or ()), *there]


def _addresses(context: Context, interface: Interface, route: Route) -> list[_Owned]:
    """Return the interface's addresses of the route's family; those of the link alone don't count."""
    version = version_of(route["to"])
    if version == 6 and loses_link(context, interface):
        return []
    found = [ipaddress.ip_interface(text) for text in told(context, interface)["addresses"] or ()]
    return [address for address in found if address.version == version and not _is_link_local(address)]


def _is_link_local(address: _Owned | ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return address.version == 6 and address.is_link_local
