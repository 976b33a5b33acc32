# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets routes and policy rules.

What is missing is added, not replaced: the kernel then refuses to take the place of somebody else's.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Iterable, Sequence

from ...engine.context import Context
from ...engine.operations import Operation, Run, Work
from ...engine.ports import fill
from ...engine.steps import Step, Value, key_of
from ...facts.managers.routes import PROTOCOL, route_words, rule_words
from ...facts.routing import VERSIONS, parse_routes, parse_rules, routes_command, rules_command
from ...facts.shapes import ReadRule
from ...machine.access import Host
from ...spec.former import wanted_interface
from ...spec.host import HostSpec
from ...spec.routes import ROUTES, RULES, Route, Rule, route_key, route_text, rule_key, rule_text
from .ours import RULES_KEY, changes, unwanted_rules
from .plan import waiting

_SECONDS = 30.0
# ip(8) ends with 2 when the kernel refuses: when a route is taken back that was never set.
_OR_NOT_THERE = (0, 2)
_UNREACHABLE = (
    "no address of the interface reaches the gateway, or the interface is down; next: look at ip address show, correct "
    "via or set on-link: true, and run again"
)
_TAKEN = (
    "there is such a route by another interface, or such a rule, which rdma.fabric did not set; next: look at ip route "
    "show table all and ip rule show, remove it where it is configured or give another metric, table or priority"
)
_WITHOUT = "the kernel runs without IPv6, or without policy rules; next: leave those out of routes and routing-policy"
_DOWN = "the interface is down; next: ask for state: up, and run again"
ERRORS = MappingProxyType(
    {
        "Nexthop has invalid gateway": _UNREACHABLE,
        "No route to host": _UNREACHABLE,
        "Network is unreachable": _UNREACHABLE,
        "Gateway can not be a local address": "via is an address of this host; next: name the gateway's, and run again",
        "File exists": _TAKEN,
        "Device for nexthop is not up": _DOWN,
        "Nexthop device is not up": _DOWN,
        "Network is down": _DOWN,
        "IPv6 is disabled": "IPv6 is switched off for the interface; next: enable it, or ask for no routes of IPv6",
        "Cannot find device": (
            "the interface is gone or has another name now; next: run again, the plan is made from what is there"
        ),
        "EAFNOSUPPORT": _WITHOUT,
        "EOPNOTSUPP": _WITHOUT,
    }
)


def work(context: Context, step: Step) -> Work:
    """Return how the routes and rules of one interface are set, or how rules that nobody asks for are removed."""
    key = key_of(step)
    if key == RULES_KEY:
        return _removal_of_rules(unwanted_rules(context))
    interface = context.interface_of(key)
    name = context.port_name(interface)
    found = changes(context, interface, waiting(context, interface))
    # A gateway may be reached by a route without one.
    add = sorted(found.add, key=lambda route: bool(route["via"]))
    do = [_route("add", route, name) for route in add]
    do += [_route("replace", route, name) for route in found.replace]
    do += [_rule("add", rule) for rule in found.add_rules]
    do += [_route("del", route, name, protocol=route["protocol"]) for route in found.remove]
    undo = [_route("replace", route, name, protocol=route["protocol"]) for route in found.remove]
    undo += [_rule("del", rule, _OR_NOT_THERE) for rule in found.add_rules]
    undo += [_route("replace", route, name, protocol=route["protocol"]) for route in found.former]
    undo += [_route("del", route, name, _OR_NOT_THERE) for route in reversed(add)]

    def verify(host: Host) -> str:
        there = [(route_key(route), route["via"]) for route in _routes_of(host, fill(name, host))]
        rules = [rule_key(rule) for rule in _rules_of(host)]
        wrong = [
            f"there is no route {route_text(route)}"
            for route in (*found.add, *found.replace)
            if (route_key(route), route["via"]) not in there
        ]
        wrong += [f"there is no rule {rule_text(rule)}" for rule in found.add_rules if rule_key(rule) not in rules]
        left = [route for route in found.remove if (route_key(route), route["via"]) in there]
        return "; ".join([*wrong, *(f"route {route_text(route)} is still there" for route in left)])

    return Work(do, undo, verify)


def restore(desired: HostSpec, key: str, original: Value) -> None:
    """Ask for the routes and rules that were there without us; for rules without an interface nothing is asked."""
    if key != RULES_KEY and isinstance(original, dict):
        routes = [entry for text, entry in original.items() if text.startswith("route ")]
        rules = [entry for text, entry in original.items() if text.startswith("rule ")]
        wanted_interface(desired, key).update({ROUTES: routes, RULES: rules})


def _removal_of_rules(unwanted: Sequence[ReadRule]) -> Work:
    def verify(host: Host) -> str:
        there = [rule_key(rule) for rule in _rules_of(host)]
        return "; ".join(f"rule {rule_text(rule)} is still there" for rule in unwanted if rule_key(rule) in there)

    undo = [_rule("add", rule, _OR_NOT_THERE, rule["protocol"]) for rule in unwanted]
    return Work([_rule("del", rule, protocol=rule["protocol"]) for rule in unwanted], undo, verify)


def _route(verb: str, route: Route, name: str, accepted: tuple[int, ...] = (0,), protocol: int = PROTOCOL) -> Operation:
    return Run(("ip", *route_words(verb, route, name, protocol)), _SECONDS, accepted)


def _rule(verb: str, rule: Rule, accepted: tuple[int, ...] = (0,), protocol: int = PROTOCOL) -> Operation:
    return Run(("ip", *rule_words(verb, rule, protocol)), _SECONDS, accepted)


def _routes_of(host: Host, name: str) -> Iterable[Route]:
    for version in VERSIONS:
        yield from parse_routes(_printed(host, routes_command(version, name)), version) or ()


def _rules_of(host: Host) -> Iterable[Rule]:
    for version in VERSIONS:
        yield from parse_rules(_printed(host, rules_command(version)), version) or ()


def _printed(host: Host, command: tuple[str, ...]) -> str:
    return host.run(command, _SECONDS).stdout
