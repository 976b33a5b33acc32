# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compares wanted routes and rules with what is there, and tells ours from others'. Pure.

Ours have a protocol of their own, as every routing daemon's have (rtm_protocol, include/uapi/linux/rtnetlink.h).
systemd-networkd gives its own protocol to all rules, and netplan knows none: what they bring at boot is ours when a
file of ours asks them to.
"""

from __future__ import annotations

from typing import Iterable, NamedTuple, Optional, Sequence, Tuple

from ...engine.context import Context
from ...facts.host_state import Interface
from ...facts.kernel import renames_live
from ...facts.managers.routes import PROTOCOL, kept_in
from ...facts.shapes import InterfaceRouting, ReadRoute, ReadRule
from ...spec.routes import ROUTES, RULES, Route, Rule, Way, route_key, route_text, rule_key, rule_text

# The key of the step about rules that no interface has any more.
RULES_KEY = "rules"
# RTPROT_KERNEL: made for an address. RTPROT_STATIC: what the host's administrator configured.
_KERNEL, _STATIC = 2, 4
# What a route is and by which gateway; what a rule is.
_WayKey = Tuple[Tuple[int, int, str, int], Optional[str]]
_RuleKey = Tuple[int, int, str, str, int]


class Changes(NamedTuple):
    """What is to be done about an interface's routes and rules; ``former`` are routes that others take the place of."""

    add: list[Route]
    replace: list[Route]
    former: list[ReadRoute]
    remove: list[ReadRoute]
    add_rules: list[Rule]

    @property
    def any(self) -> bool:
        """Return whether there is anything to do."""
        return bool(self.add or self.replace or self.remove or self.add_rules)


def told(context: Context, interface: Interface) -> InterfaceRouting:
    """Return what the facts tell of an interface: ``routes`` and ``addresses``, None where unknown."""
    found = context.actual.facts["routing"].get("interfaces", {})
    return found.get(interface.key, {"routes": None, "addresses": None})


def told_rules(context: Context) -> Sequence[ReadRule] | None:
    """Return the rules of the host, None where they can't be read."""
    return context.actual.facts["routing"].get("rules")


def uplink_addresses(context: Context) -> Sequence[str]:
    """Return the addresses of the interfaces that must not be cut, as ``192.168.77.11/24``."""
    return context.actual.facts["routing"].get("uplinks") or ()


def changes(context: Context, interface: Interface, waiting: Iterable[Route] = ()) -> Changes:
    """Return what an interface lacks and what it has too much; routes that have to wait are left out."""
    wanted: list[Route] = interface.wanted.get(ROUTES) or []
    there = told(context, interface)["routes"] or []
    if loses_link(context, interface):
        # The kernel makes its own again, for the addresses that stay.
        there = [route for route in there if route["protocol"] == _KERNEL]
    now = {route_key(route): route for route in there}
    asked, held = {route_key(route) for route in wanted}, {route_key(route) for route in waiting}
    ready = [route for route in wanted if route_key(route) not in held]
    other = [route for route in ready if route_key(route) in now and now[route_key(route)]["via"] != route["via"]]
    rules = {rule_key(rule) for rule in told_rules(context) or ()}
    kept, _of_rules = context.once(kept_keys)
    return Changes(
        add=[route for route in ready if route_key(route) not in now],
        replace=other,
        former=[now[route_key(route)] for route in other],
        remove=[route for key, route in now.items() if key not in asked and _is_ours(route, _way(route) in kept)],
        add_rules=[rule for rule in interface.wanted.get(RULES) or [] if rule_key(rule) not in rules],
    )


def others(context: Context, interface: Interface) -> dict[str, Route | Rule]:
    """Return the wanted routes and rules that are there without us, by how they are told: a removal leaves them."""
    routes, rules = context.once(kept_keys)
    there = {
        _way(route) for route in told(context, interface)["routes"] or [] if not _is_ours(route, _way(route) in routes)
    }
    rules_there = {rule_key(rule) for rule in told_rules(context) or () if not _is_ours(rule, rule_key(rule) in rules)}
    found: dict[str, Route | Rule] = {}
    for route in interface.wanted.get(ROUTES) or ():
        if _way(route) in there:
            found[f"route {route_text(route)}"] = route
    for rule in interface.wanted.get(RULES) or ():
        if rule_key(rule) in rules_there:
            found[f"rule {rule_text(rule)}"] = rule
    return found


def loses_link(context: Context, interface: Interface) -> bool:
    """Return whether the plan takes an interface down and up before its routes are set: old kernels rename that way."""
    netdev = interface.netdev
    renamed = netdev is not None and context.name_of(netdev) != netdev["name"]
    return renamed and not renames_live(context.actual.facts["system"]["kernel"])


def unwanted_rules(context: Context) -> list[ReadRule]:
    """Return the rules of ours that no entry asks for, those included of which the interface is not found."""
    entries = context.desired["interfaces"]
    wanted = {rule_key(rule) for entry in entries for rule in entry.get(RULES) or ()}
    kept = context.once(kept_keys)[1]
    if context.removing and all(entry.get(RULES) is None for entry in entries):
        # No run has set one: those that our file names were there before.
        kept = set()
    return [
        rule
        for rule in told_rules(context) or ()
        if rule_key(rule) not in wanted and _is_ours(rule, rule_key(rule) in kept)
    ]


def is_our_route(context: Context, route: ReadRoute) -> bool:
    """Return whether a route is there because of us."""
    return _is_ours(route, _way(route) in context.once(kept_keys)[0])


def _is_ours(entry: ReadRoute | ReadRule, is_kept: bool) -> bool:
    return entry["protocol"] == PROTOCOL or (entry["protocol"] == _STATIC and is_kept)


def _way(route: Way) -> _WayKey:
    return route_key(route), route["via"]


def kept_keys(context: Context) -> tuple[set[_WayKey], set[_RuleKey]]:
    """Return the routes and rules that files of ours ask for."""
    routes, rules = kept_in(context.boot_files)
    return {_way(route) for route in routes}, {rule_key(rule) for rule in rules}
