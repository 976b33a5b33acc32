# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans routes and policy rules of interfaces. Pure.

The kernel takes a route only over an interface that is up, and a gateway only that an address of the interface reaches
(fib_check_nh, net/ipv4/fib_semantics.c; ip6_route_check_nh, net/ipv6/route.c). A route that has to wait for either is
told, and kept for the boot all the same.
"""

from __future__ import annotations

from ...engine.context import ConcernPlan, Context
from ...engine.steps import NOW, Step, Wording, make_step
from ...facts.interfaces import Interface
from ...facts.shapes import Netdev
from ...spec.host import CONSENTS
from ...spec.routes import ROUTES, RULES, Route, Way, route_text, rule_text
from .ours import RULES_KEY, Changes, changes, is_our_route, others, told, told_rules, unwanted_rules
from .reach import catching_problems, gateway_problems, lacks_address, rules_of_uplinks

CONCERN = "routing"
_MASTERS = ("bond", "bridge")
_INTERRUPTS = "nothing, but traffic of these networks may take another way"


def plan(context: Context) -> ConcernPlan:
    """Return a step for each interface whose routes or rules differ, one for rules to remove, and what has to wait."""
    steps: list[Step] = []
    notices: list[str] = []
    for interface in context.interfaces:
        if interface.netdev is not None:
            found, said = _of(context, interface, interface.netdev)
            steps += found
            notices += said
    return [*steps, *_rules_step(context)], notices


def waiting(context: Context, interface: Interface) -> list[Route]:
    """Return the wanted routes that the kernel can't take yet: the interface is down, or has no address."""
    wanted: list[Route] = interface.wanted.get(ROUTES) or []
    if interface.netdev is None or not _will_be_up(context, interface, interface.netdev):
        return wanted
    return [route for route in wanted if lacks_address(context, interface, route)]


def _will_be_up(context: Context, interface: Interface, netdev: Netdev) -> bool:
    planned = context.planned(f"link:{interface.key}")
    return netdev["up"] if planned is None else bool(planned["to"] == "up")


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
    said = _told_to_wait(context, interface, netdev, held)
    if not found.any:
        return [], said
    undo = "bring the former routes and rules back"
    return [make_step(CONCERN, interface.key, **wording, interrupts=_INTERRUPTS, undo=undo, when=NOW)], said


def _told_to_wait(context: Context, interface: Interface, netdev: Netdev, held: list[Route]) -> list[str]:
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
            reason="rdma.fabric set them, and no interface asks for them any more",
            interrupts=_INTERRUPTS,
            undo="set them again",
            when=NOW,
            refusal=about and f"{about}: the uplink's traffic; {CONSENTS['uplink_change']}: true allows it",
        )
    ]


def _refusal(context: Context, interface: Interface, netdev: Netdev, lacking: Changes) -> str:
    """Return everything that keeps an interface's routes from being set, empty when nothing does."""
    if told(context, interface)["routes"] is None or told_rules(context) is None:
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
