# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse the routes and policy rules of an interface, in netplan's notation.

A default route must be in a table of its own: that of the main table is the uplink's. For the same reason, a rule must
have a selector. The result is valid as input again.
"""

from __future__ import annotations

import ipaddress
from typing import Final, Iterator, Mapping, Sequence, TypedDict

from ansible_collections.rdma.fabric.plugins.module_utils._violations import mismatch, shown

from ..machine.probe import Address, Network, address_of, network_of
from .place import Place, known_keys, list_of, mapping_in, switch_of, whole_number, within

ROUTES: Final = "routes"
RULES: Final = "routing-policy"
ROUTE_KEYS = ("to", "via", "table", "metric", "on-link")
RULE_KEYS = ("from", "to", "table", "priority")
DEFAULT = "default"
# include/uapi/linux/rtnetlink.h, RT_TABLE_*
MAIN = 254
_KERNELS_OWN = {0: "unspec", 253: "default", MAIN: "main", 255: "local"}
_LAST_TABLE = 2**31 - 1
# The kernel's metric for IPv6 routes without one (IP6_RT_PRIO_USER, include/net/ip6_fib.h).
IPV6_METRIC = 1024
_LAST_METRIC = 2**32 - 1
# Rules apply in the order of their priority; that of the main table is 32766. Ours come late, so that those of others
# (CNI plugins, VPNs) apply first, as if ours did not exist.
PRIORITY = 30000
_LAST_PRIORITY = 32765
# Networks wider than these contain most of the world: no fabric is that wide, and they would include the uplink's
# traffic.
_WIDEST = {4: 8, 6: 7}
_EXAMPLES = {4: "10.2.0.0/16", 6: "fd00:2::/64"}

_OnLink = TypedDict("_OnLink", {"on-link": bool})


class Way(TypedDict):
    """A route in a file of ours: its network in CIDR form, its gateway, and the rest of its key."""

    to: str
    via: str | None
    table: int
    metric: int


class Route(Way, _OnLink):  # pylint: disable=inherit-non-class  # it takes no TypedDict made by a call for one
    """A route."""


# Networks are in CIDR form.
Rule = TypedDict("Rule", {"from": "str | None", "to": "str | None", "table": int, "priority": int})
RoutingPolicy = TypedDict("RoutingPolicy", {"routing-policy": "list[Rule] | None"})


def routes(place: Place, value: object) -> list[Route] | None:
    """Return the routes in order, None if not set; an empty list means that there must be none."""
    found = [_route(here, item) for here, item in _members(place, value, "routes", ROUTE_KEYS)]
    return None if value is None else sorted((route for route in found if route is not None), key=route_key)


def rules(place: Place, value: object) -> list[Rule] | None:
    """Return the rules in order, None if not set; an empty list means that there must be none."""
    found = [_rule(here, item) for here, item in _members(place, value, "rules", RULE_KEYS)]
    return None if value is None else sorted((rule for rule in found if rule is not None), key=rule_key)


def version_of(text: str) -> int:
    """Return 4 or 6 for an address or a network."""
    return 6 if ":" in text else 4


def route_key(route: Way) -> tuple[int, int, str, int]:
    """Return the kernel's key of a route: family, table, network and metric."""
    return version_of(route["to"]), route["table"], route["to"], route["metric"]


def rule_key(rule: Rule) -> tuple[int, int, str, str, int]:
    """Return the key of a rule: all of it."""
    source, target = rule["from"] or "", rule["to"] or ""
    return version_of(source or target), rule["priority"], source, target, rule["table"]


def route_text(route: Way) -> str:
    """Return a route as text: ``10.2.0.0/16 via 10.1.0.1 table 101``, without the kernel's defaults."""
    words = [route["to"]]
    words += ["via", route["via"]] if route["via"] else ["on the link"]
    words += ["table", str(route["table"])] if route["table"] != MAIN else []
    usual = IPV6_METRIC if version_of(route["to"]) == 6 else 0
    words += ["metric", str(route["metric"])] if route["metric"] != usual else []
    return " ".join(words)


def rule_text(rule: Rule) -> str:
    """Return a rule as text: ``from 10.1.0.0/24 table 101 priority 30000``."""
    networks = [f"{key} {network}" for key, network in (("from", rule["from"]), ("to", rule["to"])) if network]
    return " ".join([*networks, f"table {rule['table']} priority {rule['priority']}"])


def check_state(place: Place, wanted: list[Route] | None, state: str | None) -> None:
    """Note routes of an interface that is to be down."""
    if state == "down" and wanted:
        place.violation("are given for an interface with state down, where the kernel accepts none", "set state: up")


def no_shared_routes(
    places: list[Place], wanted_routes: Sequence[list[Route] | None], wanted_rules: Sequence[list[Rule] | None]
) -> None:
    """Note routes and rules that are given twice, and rules whose order is undefined.

    Both lists are in the order of the ``places`` of their entries.
    """
    known: dict[object, str] = {}
    before: list[tuple[Rule, str]] = []
    for place, its_routes, its_rules in zip(places, wanted_routes, wanted_rules):
        for route in its_routes or ():
            text, first = route_text(route), known.get(route_key(route))
            if first is not None:
                hint = "the kernel has one route for each to, table and metric"
                place.at(ROUTES).violation(f"{text} is given by {first} already", hint)
            known.setdefault(route_key(route), place.path)
        for rule in its_rules or ():
            for other, first in before:
                if rule_key(rule) == rule_key(other):
                    place.at(RULES).violation(f"{rule_text(rule)} is given by {first} already", "leave one out")
                elif _compete(rule, other):
                    place.at(RULES).violation(
                        f"{rule_text(rule)} and {rule_text(other)} of {first} match the same traffic, and which one "
                        "applies first is undefined",
                        "give the narrower one a lower priority",
                    )
            before.append((rule, place.path))


def _compete(one: Rule, other: Rule) -> bool:
    """Return whether two rules of one priority match the same traffic, but look up different tables."""
    if one["priority"] != other["priority"] or one["table"] == other["table"] or rule_key(one)[0] != rule_key(other)[0]:
        return False
    pairs = [(one["from"], other["from"]), (one["to"], other["to"])]
    return all(not (a and b) or _overlap(a, b) for a, b in pairs)


def _overlap(one: str, other: str) -> bool:
    first, second = ipaddress.ip_network(one), ipaddress.ip_network(other)
    return first.version == second.version and first.overlaps(second)


def _members(
    place: Place, value: object, what: str, keys: tuple[str, ...]
) -> Iterator[tuple[Place, Mapping[object, object]]]:
    for index, item in enumerate(list_of(place, value, what)):
        here = place.at(index)
        members = mapping_in(here, item, ", ".join(keys))
        if members is not None:
            known_keys(here, members, keys)
            yield here, members


def _route(place: Place, item: Mapping[object, object]) -> Route | None:
    via = _gateway(place.at("via"), item.get("via"))
    to = _to(place.at("to"), item.get("to"), via)
    table = _table(place.at("table"), MAIN if item.get("table") is None else item["table"], (0, 253, 255))
    metric = _number(place.at("metric"), item.get("metric"), 0, 0, _LAST_METRIC)
    on_link = switch_of(place.at("on-link"), item.get("on-link"))
    if item.get("via") is None and on_link:
        place.at("on-link").violation("applies to a gateway, and none is given", "leave it out, or give via")
    if to is not None and via is not None and via.version != to.version:
        place.at("via").violation(f"{via} is not an IPv{to.version} address, as {to} needs", "give both of one family")
    if to is not None and table == MAIN:
        _check_width(place.at("to"), to, "give it a table of its own, and a rule of routing-policy that leads there")
    if to is None or table is None or metric is None or (via is None and item.get("via") is not None):
        return None
    return {
        "to": str(to),
        "via": None if via is None else str(via),
        "table": table,
        "metric": (metric or IPV6_METRIC) if to.version == 6 else metric,
        "on-link": bool(on_link),
    }


def _rule(place: Place, item: Mapping[object, object]) -> Rule | None:
    given = {key: _network(place.at(key), item[key]) for key in ("from", "to") if item.get(key) is not None}
    if not given:
        place.violation("has neither from nor to, so it would match all traffic, including the uplink's", "give one")
    for key, network in given.items():
        if network is not None:
            _check_width(place.at(key), network, "name the networks of this interface")
    source, target = given.get("from"), given.get("to")
    if source is not None and target is not None and source.version != target.version:
        place.at("to").violation(f"{target} is of another family than from ({source})", "make a rule for each family")
    if item.get("table") is None:
        place.violation("has no table to look up", "give table")
        table = None
    else:
        table = _table(place.at("table"), item["table"], tuple(_KERNELS_OWN))
    priority = _number(place.at("priority"), item.get("priority"), PRIORITY, 1, _LAST_PRIORITY)
    if table is None or priority is None or not given or None in given.values():
        return None
    texts = {key: str(network) for key, network in given.items()}
    return {"from": texts.get("from"), "to": texts.get("to"), "table": table, "priority": priority}


def _to(place: Place, value: object, via: Address | None) -> Network | None:
    if value is None:
        place.violation("is missing", f"give a network such as {_EXAMPLES[4]}, or {DEFAULT}")
        return None
    if value != DEFAULT:
        return _network(place, value)
    if via is None:
        place.violation(f"{DEFAULT} has no address family without via", "write 0.0.0.0/0 or ::/0")
        return None
    return ipaddress.ip_network("0.0.0.0/0" if via.version == 4 else "::/0")


def _network(place: Place, value: object) -> Network | None:
    example = f"{_EXAMPLES[4]} or {_EXAMPLES[6]}"
    if not isinstance(value, str):
        place.violation(mismatch(value, f"a network such as {example}"), "quote it")
        return None
    # Newer Pythons accept an interface name after an address, the kernel does not.
    network = None if "%" in value else network_of(value)
    if network is None:
        place.violation(f"{shown(value)} is not a network such as {example}")
        return None
    address = ipaddress.ip_address(value.partition("/")[0])
    if address != network.network_address:
        single = f"{address}/{address.max_prefixlen}"
        place.violation(f"{shown(value)} has bits behind its prefix", f"did you mean {network}, or {single} alone?")
        return None
    if network.is_multicast or network.is_loopback:
        place.violation(f"{network} is {'multicast' if network.is_multicast else 'of the loopback interface'}")
        return None
    return network


def _gateway(place: Place, value: object) -> Address | None:
    if value is None:
        return None
    if not isinstance(value, str):
        place.violation(mismatch(value, "the address of a gateway"), "quote it")
        return None
    address = None if "%" in value else address_of(value)
    if address is None:
        place.violation(f"{shown(value)} is not an address such as 10.1.0.1 or fd00:1::1")
    elif address.is_unspecified or address.is_multicast or address.is_loopback:
        place.violation(f"{address} can't be the address of a gateway")
        return None
    return address


def _check_width(place: Place, network: Network, hint: str) -> None:
    if network.prefixlen < _WIDEST[network.version]:
        what = f"{network} holds all addresses" if network.prefixlen == 0 else f"{network} is wide"
        place.violation(f"{what}: it would divert the uplink's traffic", hint)


def _table(place: Place, value: object, refused: tuple[int, ...]) -> int | None:
    def problem(number: int) -> str:
        if number in refused:
            return f"is the kernel's own table {_KERNELS_OWN[number]}; next: take another number, such as 101"
        return "" if 0 < number <= _LAST_TABLE else f"is not between 1 and {_LAST_TABLE}"

    return whole_number(place, value, problem)


def _number(place: Place, value: object, usual: int, least: int, most: int) -> int | None:
    otherwise = f"is not between {least} and {most}"
    return usual if value is None else whole_number(place, value, within(least, most, otherwise, otherwise))
