# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the routes and policy rules of interfaces whose spec has some.

``ip`` prints them as JSON, with ``-N`` (since iproute2 5.0) with numbers instead of the names that a host may give
tables and protocols. Routes are read per interface: a node of a large cluster has thousands.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence, TypeVar

from ..machine.probe import Probe, address_of, network_of, objects, parsed
from ..spec.host import HostSpec
from ..spec.routes import DEFAULT, IPV6_METRIC, MAIN, ROUTES, RULES, route_key, rule_key
from .host_state import Interface
from .managers.routes import keeps_any
from .shapes import Boot, InterfaceRouting, ReadRoute, ReadRule, Routing, Uplink

VERSIONS = (4, 6)
NUMERIC = ("ip", "-N", "-json")
_EVERYTHING = {4: "0.0.0.0/0", 6: "::/0"}
_BITS = {4: 32, 6: 128}
# The attributes of routes and rules that a spec can express.
OF_A_ROUTE = {"dst", "gateway", "dev", "table", "protocol", "scope", "metric", "flags", "pref", "prefsrc"}
OF_A_RULE = {"priority", "src", "srclen", "dst", "dstlen", "table", "protocol"}
_ALL = "all"
# The protocol that ``ip`` sets on a route without one (RTPROT_BOOT), and does not print.
_BOOT = 3

T = TypeVar("T")


def routes_command(version: int, name: str) -> tuple[str, ...]:
    """Return the command that prints the routes of one family through an interface, from all tables."""
    return (*NUMERIC, f"-{version}", "route", "show", "table", "all", "dev", name)


def rules_command(version: int) -> tuple[str, ...]:
    """Return the command that prints the rules of one family."""
    return (*NUMERIC, f"-{version}", "rule", "show")


def addresses_command(name: str) -> tuple[str, ...]:
    """Return the command that prints the addresses of an interface."""
    return ("ip", "-json", "address", "show", "dev", name)


def commands(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Return all commands that may be needed on a host with these interfaces."""
    of_interfaces = [
        command
        for name in names
        for command in (*(routes_command(version, name) for version in VERSIONS), addresses_command(name))
    ]
    return [*of_interfaces, *map(rules_command, VERSIONS)]


def read_routing(
    probe: Probe, desired: HostSpec, interfaces: Sequence[Interface], boot: Boot, uplinks: Iterable[Uplink]
) -> Routing:
    """Return routes and rules; empty if ``desired`` has none and no file of ours keeps any.

    ``{"interfaces": {key of the interface: {"routes", "addresses"}}, "rules", "uplinks": addresses of the uplinks}``:
    routes and rules have the form of ``spec.routes``, with their ``protocol``; addresses look like ``10.1.0.2/24``.
    What can't be read is None. Routes and rules that a spec can't express (several gateways, marks, other types) are
    left out.
    """
    wanted = desired["interfaces"]
    is_set = any(entry[ROUTES] is not None or entry[RULES] is not None for entry in wanted)
    if not wanted or not (is_set or keeps_any(boot["files"])):
        return {}
    found: dict[str, InterfaceRouting] = {}
    for interface in interfaces:
        if interface.netdev is not None:
            name = interface.netdev["name"]
            routes = [parse_routes(probe.json(*routes_command(version, name)), version) for version in VERSIONS]
            found[interface.key] = {"routes": _joined(routes), "addresses": _addresses(probe, name)}
    rules = [parse_rules(probe.json(*rules_command(version)), version) for version in VERSIONS]
    names = {*(uplink["netdev"] for uplink in uplinks), *desired["protected_interfaces"]}
    of_uplinks = [address for name in sorted(names) for address in _addresses(probe, name) or ()]
    return {"interfaces": found, "rules": _joined(rules), "uplinks": of_uplinks}


def parse_routes(text: str | None, version: int) -> list[ReadRoute] | None:
    """Parse the output of ``routes_command``; None if it is not a list."""
    entries = _entries(text)
    if entries is None:
        return None
    routes = [_route(entry, version) for entry in entries if set(entry) <= OF_A_ROUTE]
    return sorted((route for route in routes if route is not None), key=route_key)


def parse_rules(text: str | None, version: int) -> list[ReadRule] | None:
    """Parse the output of ``rules_command``; None if it is not a list."""
    entries = _entries(text)
    if entries is None:
        return None
    rules = [_rule(entry, version) for entry in entries if set(entry) <= OF_A_RULE]
    return sorted((rule for rule in rules if rule is not None), key=rule_key)


def parse_addresses(text: str | None) -> list[str] | None:
    """Parse the output of ``addresses_command``; None if it is not a list."""
    entries = _entries(text)
    if entries is None:
        return None
    found = []
    for link in entries:
        for entry in link.get("addr_info") or ():
            network = _network(entry.get("local"), entry.get("prefixlen")) if isinstance(entry, dict) else None
            if network is not None:
                found.append(f"{entry['local']}/{entry['prefixlen']}")
    return sorted(found)


def _route(entry: Mapping[str, Any], version: int) -> ReadRoute | None:
    to = _EVERYTHING[version] if entry.get("dst") == DEFAULT else _network(entry.get("dst"), None)
    usual = (("table", MAIN), ("metric", IPV6_METRIC if version == 6 else 0), ("protocol", _BOOT))
    table, metric, protocol = (_number(entry.get(key, value)) for key, value in usual)
    if to is None or table is None or metric is None or protocol is None:
        return None
    flags, gateway = entry.get("flags"), address_of(entry.get("gateway"))
    return {
        "to": to,
        "via": None if gateway is None else str(gateway),
        "table": table,
        "metric": metric,
        "on-link": isinstance(flags, list) and "onlink" in flags,
        "protocol": protocol,
    }


def _rule(entry: Mapping[str, Any], version: int) -> ReadRule | None:
    networks = [_selector(entry, "src", version), _selector(entry, "dst", version)]
    # A rule without a table looks up none.
    table, priority, protocol = (_number(entry.get(key, 0)) for key in ("table", "priority", "protocol"))
    if None in networks or not any(networks) or not table or priority is None or protocol is None:
        return None
    source, target = (network or None for network in networks)
    return {"from": source, "to": target, "table": table, "priority": priority, "protocol": protocol}


def _selector(entry: Mapping[str, Any], key: str, version: int) -> str | None:
    """Return a network, an empty text if the rule matches all addresses, None if unknown."""
    value = entry.get(key, _ALL)
    return "" if value == _ALL else _network(value, entry.get(f"{key}len", _BITS[version]))


def _network(address: object, prefix: object) -> str | None:
    """Return a network in CIDR form from an address and its prefix."""
    network = network_of(address if prefix is None else f"{address}/{prefix}")
    return None if network is None else str(network)


def _number(value: object) -> int | None:
    """Return a number that ``ip`` prints as a number or as text."""
    if isinstance(value, str) and value.isdigit() and len(value) <= 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _entries(text: str | None) -> list[dict[str, Any]] | None:
    # Old versions print nothing instead of an empty list.
    document = parsed(text.strip() or "[]") if text is not None else None
    return objects(document) if isinstance(document, list) else None


def _addresses(probe: Probe, name: str) -> list[str] | None:
    return parse_addresses(probe.json(*addresses_command(name)))


def _joined(lists: Sequence[list[T] | None]) -> list[T] | None:
    """Return the lists of both families as one, None if neither can be read; a kernel may only support one family."""
    return None if all(found is None for found in lists) else [entry for found in lists for entry in found or ()]
