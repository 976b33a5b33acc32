# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compares routes and rules, distinguishes ours from others, and checks which gateways an interface reaches. Pure.

Ours have a protocol of their own, like those of every routing daemon (rtm_protocol, include/uapi/linux/rtnetlink.h).
systemd-networkd gives all rules its own protocol, and netplan supports none. So the routes and rules that these set at
boot are ours if they are in a file of ours.
"""

from __future__ import annotations

import ipaddress
from typing import Iterable, NamedTuple, Optional, Sequence, Tuple, Union

from ...engine.context import Context
from ...facts.host_state import Interface
from ...facts.kernel import renames_live
from ...facts.managers.routes import PROTOCOL, kept_in
from ...facts.shapes import InterfaceRouting, ReadRoute, ReadRule
from ...machine.probe import Network
from ...spec.routes import MAIN, ROUTES, RULES, Route, Rule, Way, route_key, route_text, rule_key, rule_text, version_of

# The key of the step about rules that belong to no interface any longer.
RULES_KEY = "rules"
# RTPROT_KERNEL: created for an address. RTPROT_STATIC: configured by the administrator.
_KERNEL, _STATIC = 2, 4
_NARROWER = "next: name only networks of the fabric"
# The identity of a route, with its gateway, and of a rule.
_WayKey = Tuple[Tuple[int, int, str, int], Optional[str]]
_RuleKey = Tuple[int, int, str, str, int]
_Owned = Union[ipaddress.IPv4Interface, ipaddress.IPv6Interface]


class Changes(NamedTuple):
    """The changes of an interface's routes and rules; ``former`` are the routes that ``replace`` replaces."""

    add: list[Route]
    replace: list[Route]
    former: list[ReadRoute]
    remove: list[ReadRoute]
    add_rules: list[Rule]

    @property
    def any(self) -> bool:
        """Return whether there is anything to do."""
        return bool(self.add or self.replace or self.remove or self.add_rules)


def routing_of(context: Context, interface: Interface) -> InterfaceRouting:
    """Return the routes and addresses of an interface, None if unknown."""
    found = context.actual.facts["routing"].get("interfaces", {})
    return found.get(interface.key, {"routes": None, "addresses": None})


def rules_of_host(context: Context) -> Sequence[ReadRule] | None:
    """Return the rules of the host, None if unknown."""
    return context.actual.facts["routing"].get("rules")


def changes(context: Context, interface: Interface, waiting: Iterable[Route] = ()) -> Changes:
    """Return the changes that bring an interface to the spec, without those of ``waiting`` routes."""
    wanted: list[Route] = interface.wanted.get(ROUTES) or []
    there = routing_of(context, interface)["routes"] or []
    if loses_link(context, interface):
        # The kernel recreates its own, for the addresses that stay.
        there = [route for route in there if route["protocol"] == _KERNEL]
    now = {route_key(route): route for route in there}
    asked, held = {route_key(route) for route in wanted}, {route_key(route) for route in waiting}
    ready = [route for route in wanted if route_key(route) not in held]
    other = [route for route in ready if route_key(route) in now and now[route_key(route)]["via"] != route["via"]]
    rules = {rule_key(rule) for rule in rules_of_host(context) or ()}
    kept, _of_rules = context.once(kept_keys)
    return Changes(
        add=[route for route in ready if route_key(route) not in now],
        replace=other,
        former=[now[route_key(route)] for route in other],
        remove=[route for key, route in now.items() if key not in asked and _is_ours(route, _way(route) in kept)],
        add_rules=[rule for rule in interface.wanted.get(RULES) or [] if rule_key(rule) not in rules],
    )


def others(context: Context, interface: Interface) -> dict[str, Route | Rule]:
    """Return the spec's routes and rules that exist but are not ours, by their text: a removal leaves them."""
    routes, rules = context.once(kept_keys)
    there = {
        _way(route)
        for route in routing_of(context, interface)["routes"] or []
        if not _is_ours(route, _way(route) in routes)
    }
    rules_there = {
        rule_key(rule) for rule in rules_of_host(context) or () if not _is_ours(rule, rule_key(rule) in rules)
    }
    found: dict[str, Route | Rule] = {}
    for route in interface.wanted.get(ROUTES) or ():
        if _way(route) in there:
            found[f"route {route_text(route)}"] = route
    for rule in interface.wanted.get(RULES) or ():
        if rule_key(rule) in rules_there:
            found[f"rule {rule_text(rule)}"] = rule
    return found


def loses_link(context: Context, interface: Interface) -> bool:
    """Return whether the plan takes an interface down before its routes are set, as a rename does on old kernels."""
    netdev = interface.netdev
    renamed = netdev is not None and context.name_of(netdev) != netdev["name"]
    return renamed and not renames_live(context.actual.facts["system"]["kernel"])


def unwanted_rules(context: Context) -> list[ReadRule]:
    """Return our rules that are in no entry of the spec, found on the host or not."""
    entries = context.desired["interfaces"]
    wanted = {rule_key(rule) for entry in entries for rule in entry.get(RULES) or ()}
    kept = context.once(kept_keys)[1]
    if context.removing and all(entry.get(RULES) is None for entry in entries):
        # No run has set a rule, so those in our file existed before.
        kept = set()
    return [
        rule
        for rule in rules_of_host(context) or ()
        if rule_key(rule) not in wanted and _is_ours(rule, rule_key(rule) in kept)
    ]


def is_our_route(context: Context, route: ReadRoute) -> bool:
    """Return whether a route is ours."""
    return _is_ours(route, _way(route) in context.once(kept_keys)[0])


def kept_keys(context: Context) -> tuple[set[_WayKey], set[_RuleKey]]:
    """Return the identities of the routes and rules in files of ours."""
    routes, rules = kept_in(context.boot_files)
    return {_way(route) for route in routes}, {rule_key(rule) for rule in rules}


def lacks_address(context: Context, interface: Interface, route: Route) -> bool:
    """Return whether a route can't be set before the interface has its first address of the gateway's family."""
    return (
        _needs_address(route)
        and not _reachable(context, interface, route)
        and not _addresses(context, interface, route)
    )


def gateway_problems(context: Context, interface: Interface) -> list[str]:
    """Return a problem for each gateway that no address of the interface reaches."""
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
    """Return a problem for each route and rule that would divert traffic of the uplink to another interface."""
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
    """Return the rules that match traffic of the uplink."""
    return [rule for rule in rules if any(_is_about(rule, address) for address in _uplinks(context))]


def _is_ours(entry: ReadRoute | ReadRule, is_kept: bool) -> bool:
    return entry["protocol"] == PROTOCOL or (entry["protocol"] == _STATIC and is_kept)


def _way(route: Way) -> _WayKey:
    return route_key(route), route["via"]


def _uplinks(context: Context) -> list[_Owned]:
    uplinks = context.actual.facts["routing"].get("uplinks") or ()
    found: list[_Owned] = [ipaddress.ip_interface(text) for text in uplinks]
    return [uplink for uplink in found if not uplink.is_link_local]


def _of_the_controller(context: Context, interface: Interface, uplinks: list[_Owned]) -> list[str]:
    """Return a problem for each route and rule that would divert replies to the controller of this run."""
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


def _is_about(rule: Rule, uplink: _Owned) -> bool:
    source, target = (ipaddress.ip_network(text) if text else None for text in (rule["from"], rule["to"]))
    if source is not None:
        return uplink.ip in source
    return target is not None and target.version == uplink.version and target.overlaps(uplink.network)


def _is_within(inner: Network, outer: Network) -> bool:
    return inner.prefixlen >= outer.prefixlen and inner.network_address in outer


def _needs_address(route: Route) -> bool:
    """Return whether an address must reach the route's gateway; a link-local gateway is always reached."""
    via = route["via"]
    return bool(via and not route["on-link"] and not _is_link_local(ipaddress.ip_address(via)))


def _reachable(context: Context, interface: Interface, route: Route) -> bool:
    """Return whether the gateway is in a network of the interface or of a route without a gateway."""
    via = ipaddress.ip_address(route["via"] or "")
    tables = (route["table"], MAIN)
    on_the_link = [other for other in _routes(context, interface) if not other["via"] and other["table"] in tables]
    networks = [ipaddress.ip_network(other["to"]) for other in on_the_link]
    networks += [address.network for address in _addresses(context, interface, route)]
    return any(via in network for network in networks)


def _routes(context: Context, interface: Interface) -> list[Route]:
    there = () if loses_link(context, interface) else routing_of(context, interface)["routes"] or ()
    return [*(interface.wanted.get(ROUTES) or ()), *there]


def _addresses(context: Context, interface: Interface, route: Route) -> list[_Owned]:
    """Return the interface's addresses of the route's family, without link-local ones."""
    version = version_of(route["to"])
    if version == 6 and loses_link(context, interface):
        return []
    found = [ipaddress.ip_interface(text) for text in routing_of(context, interface)["addresses"] or ()]
    return [address for address in found if address.version == version and not _is_link_local(address)]


def _is_link_local(address: _Owned | ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return address.version == 6 and address.is_link_local
