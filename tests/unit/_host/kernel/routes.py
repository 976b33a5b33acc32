# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for routes, policy rules and addresses as ip(8) shows and sets them. Only tests use it.

Observed on Linux 6.18 with iproute2 6.1 in a network namespace, messages included: a route needs an interface that is
up and a gateway in one of its networks, or in one that a route of the same or of the main table has on the link. Routes
go when their interface goes down, those of IPv4 also with its last address. Rules stay. A rule may be there once for
each protocol.
"""

from __future__ import annotations

import ipaddress
import json
from typing import TYPE_CHECKING, Any, Dict, Iterable, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult
from ansible_collections.rdma.fabric.tests.unit._host.kernel.reactions import DONE, failed

if TYPE_CHECKING:
    from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

NET = "/sys/class/net"
RULES = "/proc/net/rules-of-the-kernel"
OBJECTS = ("route", "rule", "address")
MAIN = 254
_EVERYTHING = {4: "0.0.0.0/0", 6: "::/0"}
_METRIC = {4: 0, 6: 1024}
_KERNELS_RULES = {4: ((0, 255), (32766, 254), (32767, 253)), 6: ((0, 255), (32766, 254))}

Entry = Dict[str, Any]


def give_address(kernel: Kernel, name: str, *addresses: str) -> None:
    """Give an interface addresses, such as ``10.1.0.2/24``."""
    state = _state(kernel, name)
    state["addresses"] = sorted({*state["addresses"], *addresses})
    _keep(kernel, name, state)


def take_address(kernel: Kernel, name: str, address: str) -> None:
    """Take an address away, and with the last one of IPv4 all routes of that family."""
    state = _state(kernel, name)
    state["addresses"].remove(address)
    if not any(":" not in other for other in state["addresses"]):
        state["routes"] = [route for route in state["routes"] if ":" in route["to"]]
    _keep(kernel, name, state)


def went_down(kernel: Kernel, name: str) -> None:
    """Forget what the kernel forgets about an interface that is taken down."""
    if kernel.exists(_path(kernel, name)):
        state = _state(kernel, name)
        addresses = [address for address in state["addresses"] if ":" not in address]
        _keep(kernel, name, {"addresses": addresses, "routes": []})


def routes(kernel: Kernel, name: str) -> list[Entry]:
    """The routes that somebody set by an interface."""
    found: list[Entry] = _state(kernel, name)["routes"]
    return found


def rules(kernel: Kernel) -> list[Entry]:
    """The rules that somebody set."""
    found: list[Entry] = json.loads(kernel.read(RULES)) if kernel.exists(RULES) else []
    return found


def ip(kernel: Kernel, options: Sequence[str], words: Sequence[str]) -> CommandResult:
    """Do what ``ip OPTIONS OBJECT VERB ...`` does; ``words`` begin with the object."""
    version = 6 if "-6" in options else 4
    kind, verb, rest = words[0], words[1], list(words[2:])
    if kind == "address":
        return _show_addresses(kernel, rest)
    if kind == "rule":
        if verb == "show":
            return _printed(_shown_rules(kernel, version))
        return _set_rule(kernel, verb, rest)
    if verb == "show":
        return _show_routes(kernel, version, rest)
    if verb == "get":
        # No test has a server that a route of these leads to.
        return failed(2, "RTNETLINK answers: Network is unreachable")
    return _set_route(kernel, version, verb, rest)


def _show_addresses(kernel: Kernel, rest: list[str]) -> CommandResult:
    names = kernel.list(NET) if not rest else [name for name in rest[1:] if kernel.exists(f"{NET}/{name}")]
    if not names:
        return failed(1, f'Device "{rest[-1]}" does not exist.')
    return _printed(
        [{"ifname": name, "addr_info": list(map(_shown_address, _addresses(kernel, name)))} for name in names]
    )


def _addresses(kernel: Kernel, name: str) -> list[Any]:
    return [ipaddress.ip_interface(address) for address in _state(kernel, name)["addresses"]]


def _shown_address(address: Any) -> Entry:
    return {
        "family": "inet6" if address.version == 6 else "inet",
        "local": str(address.ip),
        "prefixlen": address.network.prefixlen,
    }


def _show_routes(kernel: Kernel, version: int, rest: list[str]) -> CommandResult:
    name = rest[-1]
    if name == "default":
        # Those of /proc/net/route, which has been read.
        return _printed([])
    if not kernel.exists(f"{NET}/{name}"):
        return failed(1, f'Cannot find device "{name}"')
    found = [*_connected(kernel, name), *routes(kernel, name)] if _is_up(kernel, name) else []
    return _printed([_shown_route(route) for route in found if _version(route["to"]) == version])


def _shown_route(route: Entry) -> Entry:
    network = ipaddress.ip_network(route["to"])
    to = "default" if network.prefixlen == 0 else _short(route["to"])
    shown: Entry = {"dst": to}
    shown.update({"gateway": route["via"]} if route["via"] else {})
    shown.update({"table": str(route["table"])} if route["table"] != MAIN else {})
    shown["protocol"] = str(route["protocol"])
    shown.update({"scope": "253"} if not route["via"] and network.version == 4 else {})
    shown.update({"metric": route["metric"]} if route["metric"] else {})
    shown["flags"] = ["onlink"] if route["onlink"] else []
    return {**shown, "pref": "medium"} if network.version == 6 else shown


def _shown_rules(kernel: Kernel, version: int) -> list[Entry]:
    own = [{"priority": priority, "src": "all", "table": str(table)} for priority, table in _KERNELS_RULES[version]]
    found = []
    for rule in rules(kernel):
        if _version(rule["from"] or rule["to"]) == version:
            shown: Entry = {"priority": rule["priority"], "src": "all"}
            for key, word in (("from", "src"), ("to", "dst")):
                if rule[key]:
                    address, _slash, length = _short(rule[key]).partition("/")
                    shown.update({word: address}, **({f"{word}len": int(length)} if length else {}))
            found.append({**shown, "table": str(rule["table"]), "protocol": str(rule["protocol"])})
    return sorted([*own, *found], key=lambda rule: int(rule["priority"]))


def _set_route(kernel: Kernel, version: int, verb: str, rest: list[str]) -> CommandResult:
    route, name = _parsed_route(version, rest)
    if not kernel.exists(f"{NET}/{name}"):
        return failed(1, f'Cannot find device "{name}"')
    if verb == "del":
        state = _state(kernel, name)
        left = [other for other in state["routes"] if _without_flags(other) != _without_flags(route)]
        if len(left) == len(state["routes"]):
            return failed(2, "RTNETLINK answers: No such process")
        _keep(kernel, name, {**state, "routes": left})
        return DONE
    complaint = _complaint(kernel, name, route)
    if complaint:
        return failed(2, complaint)
    holders = [
        (other, there)
        for other in kernel.list(NET)
        for there in [*_connected(kernel, other), *routes(kernel, other)]
        if _key(there) == _key(route)
    ]
    if holders and verb == "add":
        return failed(2, "RTNETLINK answers: File exists")
    for other, there in holders:
        state = _state(kernel, other)
        _keep(kernel, other, {**state, "routes": [known for known in state["routes"] if known != there]})
    state = _state(kernel, name)
    _keep(kernel, name, {**state, "routes": [*state["routes"], route]})
    return DONE


def _complaint(kernel: Kernel, name: str, route: Entry) -> str:
    """What the kernel says of a route that it does not take."""
    version = _version(route["to"])
    if not _is_up(kernel, name):
        if route["via"] and not route["onlink"]:
            return "Error: Nexthop has invalid gateway." if version == 4 else "RTNETLINK answers: No route to host"
        return "Error: Device for nexthop is not up." if version == 4 else "Error: Nexthop device is not up."
    if not route["via"] or route["onlink"]:
        return ""
    via = ipaddress.ip_address(route["via"])
    near = [*_connected(kernel, name), *routes(kernel, name)]
    on_the_link = [r["to"] for r in near if not r["via"] and r["table"] in (route["table"], MAIN)]
    if via.is_link_local or any(via in ipaddress.ip_network(to) for to in on_the_link):
        return ""
    return "Error: Nexthop has invalid gateway." if version == 4 else "RTNETLINK answers: No route to host"


def _parsed_route(version: int, rest: list[str]) -> tuple[Entry, str]:
    words = [word for word in rest[1:] if word != "onlink"]
    given = dict(zip(words[::2], words[1::2]))
    route = {
        "to": str(ipaddress.ip_network(_EVERYTHING[version] if rest[0] == "default" else rest[0])),
        "via": given.get("via"),
        "table": int(given.get("table", MAIN)),
        "metric": int(given.get("metric", 0)) or _METRIC[version],
        "protocol": int(given.get("proto", 3)),
        "onlink": "onlink" in rest,
    }
    return route, given["dev"]


def _set_rule(kernel: Kernel, verb: str, rest: list[str]) -> CommandResult:
    given = dict(zip(rest[::2], rest[1::2]))
    rule = {
        "from": given.get("from"),
        "to": given.get("to"),
        "table": int(given["table"]),
        "priority": int(given["priority"]),
        "protocol": int(given["protocol"]),
    }
    known = rules(kernel)
    if verb == "add":
        if rule in known:
            return failed(2, "RTNETLINK answers: File exists")
        kernel.tree.add_file(RULES, _text([*known, rule]))
        return DONE
    if rule not in known:
        return failed(2, "RTNETLINK answers: No such file or directory")
    kernel.tree.add_file(RULES, _text([other for other in known if other != rule]))
    return DONE


def _connected(kernel: Kernel, name: str) -> list[Entry]:
    """The routes that the kernel makes for the addresses of an interface that is up."""
    if not _is_up(kernel, name):
        return []
    networks = sorted({str(ipaddress.ip_interface(a).network) for a in _state(kernel, name)["addresses"]})
    return [
        {
            "to": network,
            "via": None,
            "table": MAIN,
            "metric": 256 if ":" in network else 0,
            "protocol": 2,
            "onlink": False,
        }
        for network in networks
    ]


def _is_up(kernel: Kernel, name: str) -> bool:
    return bool(int(kernel.read(f"{NET}/{name}/flags").strip(), 16) & 1)


def _version(text: str) -> int:
    return 6 if ":" in text else 4


def _short(network: str) -> str:
    """A network as ip prints it: one address has no prefix."""
    return network.partition("/")[0] if ipaddress.ip_network(network).num_addresses == 1 else network


def _key(route: Entry) -> tuple[Any, ...]:
    return route["to"], route["table"], route["metric"]


def _without_flags(route: Entry) -> Entry:
    return {key: value for key, value in route.items() if key != "onlink"}


def _printed(entries: list[Entry]) -> CommandResult:
    return CommandResult(0, json.dumps(entries, separators=(",", ":")) + "\n", "")


def _text(entries: Iterable[Entry]) -> str:
    return json.dumps(sorted(entries, key=str))


def _path(kernel: Kernel, name: str) -> str:
    # Where the device is, so that a new name takes nothing away.
    place = f"{NET}/{name}/device" if kernel.exists(f"{NET}/{name}/device") else f"{NET}/{name}"
    port = f"{NET}/{name}/dev_port"
    return f"{kernel.realpath(place)}/routing-of-{kernel.read(port).strip() if kernel.exists(port) else 0}"


def _state(kernel: Kernel, name: str) -> Entry:
    path = _path(kernel, name)
    state: Entry = json.loads(kernel.read(path)) if kernel.exists(path) else {"addresses": [], "routes": []}
    return state


def _keep(kernel: Kernel, name: str, state: Entry) -> None:
    kernel.tree.add_file(_path(kernel, name), json.dumps({**state, "routes": sorted(state["routes"], key=str)}))
