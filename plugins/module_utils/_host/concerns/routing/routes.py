# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Routes and policy rules of interfaces.

The kernel takes a route only over an interface that is up, and a gateway only that an address of the interface reaches
(fib_check_nh, net/ipv4/fib_semantics.c; ip6_route_check_nh, net/ipv6/route.c). A notice names a route that has to wait
for either, and the next boot sets it anyway. Missing routes are added, not replaced, so that the kernel refuses to
replace those of others.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Iterable, Sequence

from ...engine.context import ConcernPlan, Context, Handler
from ...engine.failures import INTERFACE_GONE
from ...engine.operations import Operation, Run, Work
from ...engine.ports import fill
from ...engine.steps import NOW, Step, Value, Wording, key_of, make_step
from ...facts.host_state import Interface
from ...facts.managers.routes import PROTOCOL, route_words, rule_words
from ...facts.routing import VERSIONS, parse_routes, parse_rules, routes_command, rules_command
from ...facts.shapes import Netdev, ReadRule
from ...machine.access import Host
from ...spec.host import CONSENTS, HostSpec, wanted_interface
from ...spec.routes import ROUTES, RULES, Route, Rule, Way, route_key, route_text, rule_key, rule_text
from .reach import (
    RULES_KEY,
    Changes,
    catching_problems,
    changes,
    gateway_problems,
    is_our_route,
    lacks_address,
    others,
    routing_of,
    rules_of_host,
    rules_of_uplinks,
    unwanted_rules,
)

CONCERN = "routing"
_MASTERS = ("bond", "bridge")
_INTERRUPTS = "nothing, but traffic of these networks may take another way"
_SECONDS = 30.0
# ip(8) ends with 2 if the kernel refuses, such as to remove a route that was never set.
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
        "Cannot find device": INTERFACE_GONE,
        "EAFNOSUPPORT": _WITHOUT,
        "EOPNOTSUPP": _WITHOUT,
    }
)


def plan(context: Context) -> ConcernPlan:
    """Return a step for each interface whose routes or rules differ, one for rules to remove, and notices of waits."""
    steps: list[Step] = []
    notices: list[str] = []
    for interface in context.interfaces:
        if interface.netdev is not None:
            found, said = _of(context, interface, interface.netdev)
            steps += found
            notices += said
    return [*steps, *_rules_step(context)], notices


def waiting(context: Context, interface: Interface) -> list[Route]:
    """Return the spec's routes that can't be set yet, because the interface is down or has no address."""
    wanted: list[Route] = interface.wanted.get(ROUTES) or []
    if interface.netdev is None or not _will_be_up(context, interface, interface.netdev):
        return wanted
    return [route for route in wanted if lacks_address(context, interface, route)]


def _will_be_up(context: Context, interface: Interface, netdev: Netdev) -> bool:
    planned = context.planned(f"link:{interface.key}")
    return netdev["up"] if planned is None else planned["to"] == "up"


def _of(context: Context, interface: Interface, netdev: Netdev) -> ConcernPlan:
    lacking = changes(context, interface)
    if not lacking.any or (context.removing and interface.wanted.get(ROUTES) is None):
        return [], []
    held = [route for route in waiting(context, interface) if route in (*lacking.add, *lacking.replace)]
    found = changes(context, interface, held)
    refusal = _refusal(context, interface, netdev, lacking)
    wanted = {key: interface.wanted.get(key) or [] for key in (ROUTES, RULES)}
    wording: Wording = {
        "target": context.target_of(interface),
        "action": _action(lacking if refusal else found),
        "before": others(context, interface),
        "after": wanted,
        "reason": "rdma_fabric_interfaces asks for other routes",
    }
    if refusal:
        return [make_step(CONCERN, interface.key, **wording, refusal=refusal)], []
    notices = _notices_of_waits(context, interface, netdev, held)
    if not found.any:
        return [], notices
    undo = "restore the former routes and rules"
    return [make_step(CONCERN, interface.key, **wording, interrupts=_INTERRUPTS, undo=undo, when=NOW)], notices


def _notices_of_waits(context: Context, interface: Interface, netdev: Netdev, held: list[Route]) -> list[str]:
    if not held:
        return []
    routes = ", ".join(map(route_text, held))
    if _will_be_up(context, interface, netdev):
        why, advice = "has no address yet from which the gateway is reached", "give it one"
    else:
        why, advice = "is down", "ask for state: up"
    return [f"{context.target_of(interface)} {why}, so the kernel takes no {routes} now; {advice}, and run again"]


def _action(found: Changes) -> str:
    parts = [f"set route {route_text(route)}" for route in found.add]
    parts += [
        f"set route {route_text(route)} (now {_gateway(former)})" for route, former in zip(found.replace, found.former)
    ]
    parts += [f"set rule {rule_text(rule)}" for rule in found.add_rules]
    parts += [f"remove route {route_text(route)}" for route in found.remove]
    return ", ".join(parts)


def _gateway(route: Way) -> str:
    return f"via {route['via']}" if route["via"] else "on the link"


def _rules_step(context: Context) -> list[Step]:
    unwanted = unwanted_rules(context)
    if not unwanted:
        return []
    about = (
        "" if context.consents_to("uplink_change") else ", ".join(map(rule_text, rules_of_uplinks(context, unwanted)))
    )
    return [
        make_step(
            CONCERN,
            RULES_KEY,
            target="rules",
            action=", ".join(f"remove rule {rule_text(rule)}" for rule in unwanted),
            before=[rule_text(rule) for rule in unwanted],
            after=[],
            reason="rdma.fabric set them, and no interface asks for them any longer",
            interrupts=_INTERRUPTS,
            undo="set them again",
            when=NOW,
            refusal=about and f"{about}: the uplink's traffic; {CONSENTS['uplink_change']}: true allows it",
        )
    ]


def _refusal(context: Context, interface: Interface, netdev: Netdev, lacking: Changes) -> str:
    """Return why an interface's routes can't be set, with all reasons; empty if they can."""
    if routing_of(context, interface)["routes"] is None or rules_of_host(context) is None:
        return (
            "its routes and rules can't be read; next: install iproute2 5.0 or newer; a recording has to be made "
            "again where it lacks them"
        )
    master = context.actual.netdevs.get(netdev["master"] or "")
    if master is not None and master["kind"] in _MASTERS and (lacking.add or lacking.replace or lacking.add_rules):
        return (
            f"it belongs to the {master['kind']} {master['name']}, by which its traffic leaves; next: give routes and "
            f"routing-policy in an entry with current_name: {master['name']}"
        )
    problems = [*gateway_problems(context, interface), *catching_problems(context, interface)]
    problems += [
        f"there is a route {route_text(former)} (protocol {former['protocol']}) that rdma.fabric did not set; next: "
        "remove it where it is configured, or give this one another metric or table"
        for former in lacking.former
        if not is_our_route(context, former)
    ]
    return "; ".join(problems) or context.uplink_refusal(interface.nic, netdev)


def work(context: Context, step: Step) -> Work:
    """Return how the routes and rules of an interface are set, or how unwanted rules are removed."""
    key = key_of(step)
    if key == RULES_KEY:
        return _removal_of_rules(unwanted_rules(context))
    interface = context.interface_of(key)
    name = context.port_name(interface)
    found = changes(context, interface, waiting(context, interface))
    # Routes without a gateway come first, as others may reach their gateway by them.
    add = sorted(found.add, key=lambda route: bool(route["via"]))
    do = [_route("add", route, name) for route in add]
    do += [_route("replace", route, name) for route in found.replace]
    do += [_rule("add", rule) for rule in found.add_rules]
    # The kernel has removed the routes of a link that an earlier step takes down.
    down = interface.netdev is not None and not _will_be_up(context, interface, interface.netdev)
    accepted = _OR_NOT_THERE if down else (0,)
    do += [_route("del", route, name, accepted, protocol=route["protocol"]) for route in found.remove]
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
    """Add the original routes and rules of an interface to the spec; rules without an interface are just removed."""
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


HANDLER = Handler(work, ERRORS, restore, parts=True)
