# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write routes and rules in the notation of each network manager, and read them back from our files. Pure.

systemd.network(5): [Route] and [RoutingPolicyRule]; netplan: ``routes`` and ``routing-policy``, each as a JSON mapping,
which is valid YAML; interfaces(5): commands of ip(8) that ifup runs once an address is set.
"""

from __future__ import annotations

import json
from typing import Any, Iterable, Mapping

from ...spec.routes import ROUTES, RULES, Route, Rule, Way, version_of
from . import ini

# Not used in /etc/iproute2/rt_protos of iproute2, nor by FRR, Calico (80), OVN (84) and Cilium.
PROTOCOL = 173
_ROUTE_WORDS = {"Destination": "to", "Gateway": "via", "Table": "table", "Metric": "metric"}
_RULE_WORDS = {"From": "from", "To": "to", "Table": "table", "Priority": "priority"}
_NUMBERS = ("table", "metric", "priority")
_SECTIONS = {"Route": _ROUTE_WORDS, "RoutingPolicyRule": _RULE_WORDS}
_NETPLAN_ENTRY = "        - {"


def networkd_lines(routes: Iterable[Route], rules: Iterable[Rule]) -> list[str]:
    """Return the sections of a ``.network`` file."""
    lines = []
    for route in routes:
        lines += ["[Route]", *_assignments(route, _ROUTE_WORDS)]
        lines += ["GatewayOnLink=yes"] if route["on-link"] else []
        lines += ["Scope=link"] if _is_on_the_link(route) else []
        lines.append(f"Protocol={PROTOCOL}")
    for rule in rules:
        lines += ["[RoutingPolicyRule]", *_assignments(rule, _RULE_WORDS)]
    return lines


def netplan_lines(routes: Iterable[Route], rules: Iterable[Rule]) -> list[str]:
    """Return the lines of one definition, indented as its members."""
    lines = []
    for title, entries in ((ROUTES, routes), (RULES, rules)):
        members = [f"{_NETPLAN_ENTRY[:-1]}{json.dumps(_netplan_entry(entry))}" for entry in entries]
        lines += [f"      {title}:", *members] if members else []
    return lines


def ifupdown_lines(name: str, routes: Iterable[Route], rules: Iterable[Rule]) -> list[str]:
    """Return the options of a stanza; a failing one must not keep the interface down."""
    commands = [route_words("replace", route, name) for route in routes] + [rule_words("add", rule) for rule in rules]
    return [f"    up ip {' '.join(words)} || true" for words in commands]


def route_words(verb: str, route: Route, name: str, protocol: int = PROTOCOL) -> tuple[str, ...]:
    """Return the arguments of ip(8) for a route through the interface ``name``."""
    words = [f"-{version_of(route['to'])}", "route", verb, route["to"]]
    words += ["via", route["via"]] if route["via"] else []
    words += ["dev", name, "table", str(route["table"]), "metric", str(route["metric"]), "proto", str(protocol)]
    return (*words, "onlink") if route["on-link"] else tuple(words)


def rule_words(verb: str, rule: Rule, protocol: int = PROTOCOL) -> tuple[str, ...]:
    """Return the arguments of ip(8) for a rule."""
    networks = (("from", rule["from"]), ("to", rule["to"]))
    words = [f"-{version_of(rule['from'] or rule['to'] or '')}", "rule", verb]
    words += [word for key, network in networks if network for word in (key, network)]
    words += ["table", str(rule["table"]), "priority", str(rule["priority"])]
    return (*words, "protocol", str(protocol))


def kept_in(files: Mapping[str, str]) -> tuple[list[Way], list[Rule]]:
    """Return the routes and rules in our files (text by path) for systemd-networkd and netplan.

    Those for ifupdown have our protocol in the kernel.
    """
    entries: list[dict[str, Any]] = []
    for path, text in files.items():
        if path.startswith(("/etc/systemd/network/", "/etc/netplan/")):
            entries += _netplan_entries(text) if path.endswith(".yaml") else _networkd_entries(text)
    return [found for found in map(_kept_route, entries) if found], [
        found for found in map(_kept_rule, entries) if found
    ]


def _kept_route(entry: Mapping[str, Any]) -> Way | None:
    to, via, table, metric = (entry.get(key) for key in ("to", "via", "table", "metric"))
    if not isinstance(to, str) or not isinstance(table, int) or not isinstance(metric, int):
        return None
    return {"to": to, "via": via, "table": table, "metric": metric}


def _kept_rule(entry: Mapping[str, Any]) -> Rule | None:
    source, to, table, priority = (entry.get(key) for key in ("from", "to", "table", "priority"))
    if not (source or to) or not isinstance(table, int) or not isinstance(priority, int):
        return None
    return {"from": source, "to": to, "table": table, "priority": priority}


def keeps_any(files: Mapping[str, str]) -> bool:
    """Return whether our files contain routes or rules."""
    return any(kept_in(files)) or any(f"proto {PROTOCOL}" in text for text in files.values())


def _assignments(entry: Mapping[str, object], words: Mapping[str, str]) -> list[str]:
    return [f"{word}={entry[key]}" for word, key in words.items() if entry[key] is not None]


def _netplan_entry(entry: Mapping[str, object]) -> dict[str, object]:
    found = {key: value for key, value in entry.items() if value is not None and value is not False}
    return {**found, "scope": "link"} if _is_on_the_link(entry) else found


def _is_on_the_link(entry: Mapping[str, object]) -> bool:
    """Return whether this is a route without a gateway; the kernel only has scopes for IPv4."""
    return "via" in entry and entry["via"] is None and version_of(str(entry["to"])) == 4


def _netplan_entries(text: str) -> list[dict[str, Any]]:
    found = []
    for line in text.splitlines():
        if line.startswith(_NETPLAN_ENTRY):
            try:
                found.append(json.loads(line[len(_NETPLAN_ENTRY) - 1 :]))
            except ValueError:
                # Somebody has edited the file, so the line is theirs.
                continue
    return [entry for entry in found if isinstance(entry, dict)]


def _networkd_entries(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for section, lines in ini.sections(text):
        words = _SECTIONS.get(section)
        if words is not None:
            entry = {words[line.key]: line.value for line in lines if line.key in words}
            found.append({k: int(v) if k in _NUMBERS and v.isdigit() else v for k, v in entry.items()})
    return found
