# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a reload of a driver takes away, and how it comes back. Pure. Private to this collection: it may change.

Interfaces are known by their PCI functions. An interface that stands on one (a VLAN) goes with it; a bond or a bridge
stays and loses its port. What the kernel and router advertisements make by themselves is not restored.
"""

from __future__ import annotations

import json
from typing import Any, Dict, Iterable, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.access import Host, HostError
from ansible_collections.rdma.fabric.plugins.module_utils._host.operations import (
    Operation,
    Run,
    SetAttribute,
    WaitFor,
)

Snapshot = Dict[str, Any]
Link = Mapping[str, Any]

FORMAT = 1
PCI = "/sys/bus/pci/devices"
PROBE = "/sys/bus/pci/drivers_probe"
NET = "/sys/class/net"
# Firmware needs up to half a minute for a card with many functions.
_APPEARS_WITHIN = 90.0
_SETTLE = ("udevadm", "settle", "--timeout=30")
_NO_ADDRESS = frozenset({"", "00:00:00:00:00:00"})
_FOREVER = 0xFFFFFFFF
# Routes that the kernel makes for an address, that routers announce, or that end by themselves.
_FLEETING = ("kernel", "ra", "redirect")
_ON_BY_DEFAULT = "REORDER_HDR"
_VLAN_FLAGS = (_ON_BY_DEFAULT, "GVRP", "MVRP", "LOOSE_BINDING", "BRIDGE_BINDING")
_LINK_STATES = ("auto", "enable", "disable")


def take_snapshot(
    driver: str,
    functions: Sequence[Mapping[str, Any]],
    *,
    ports: Mapping[str, Mapping[str, Any]],
    links: Mapping[str, Link],
    vlans: Iterable[Link],
    routes: Mapping[int, Iterable[Mapping[str, Any]]],
) -> Snapshot:
    """Return everything that has to come back, as JSON data.

    ``functions`` are NICs and ``ports`` interfaces of the facts, ``links`` the entries of ``ip -details address show``
    by name (with the settings of virtual functions), ``vlans`` the VLANs on these links, ``routes`` those through any
    of them by IP version.
    """
    owner = {name: nic["address"] for nic in functions for name in nic["netdevs"]}
    here = {name: (f"{{port:{owner[name]}}}" if name in owner else name) for name in owner}
    return {
        "format": FORMAT,
        "driver": driver,
        "functions": [
            {
                "pci": nic["address"],
                "vfs": int((nic.get("sriov") or {}).get("enabled") or 0),
                "autoprobe": (nic.get("sriov") or {}).get("autoprobe") is not False,
                "bound": [vf["address"] for vf in functions if vf["pf"] == nic["address"] and vf["driver"]],
                "managed": [
                    _managed(entry) for name in nic["netdevs"] for entry in links.get(name, {}).get("vfinfo_list") or []
                ],
            }
            for nic in functions
            if not nic["pf"]
        ],
        "links": [
            _link(owner[name], name, ports.get(name, {}), links.get(name, {}))
            for name in sorted(owner, key=lambda name: (owner[name], name))
        ],
        "vlans": [_vlan(link, owner, links) for link in vlans if link.get("link") in owner],
        "routes": [
            {"version": version, "words": _route(route, here)}
            for version in sorted(routes)
            for route in sorted(routes[version], key=_nearness)
            if _is_lasting(route)
        ],
    }


def empty_snapshot(driver: str) -> Snapshot:
    """Return the snapshot of a host on which the driver has nothing."""
    return {"format": FORMAT, "driver": driver, "functions": [], "links": [], "vlans": [], "routes": []}


def parse_snapshot(text: str) -> Snapshot | None:
    """Return a snapshot that was written to a file; None for what is none, so that a broken file blocks nothing."""
    try:
        snapshot = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(snapshot, dict) or snapshot.get("format") != FORMAT:
        return None
    return snapshot if {"driver", "functions", "links", "vlans", "routes"} <= set(snapshot) else None


def as_text(snapshot: Snapshot) -> str:
    """Return the snapshot as the text of its file."""
    return json.dumps(snapshot, sort_keys=True, separators=(",", ":")) + "\n"


def restore_operations(snapshot: Snapshot) -> list[Operation]:
    """Return the operations that bring the state back, in order, once the driver is loaded.

    Every one may be done again: they also run after an earlier attempt that was interrupted at any of them.
    """
    physical = {function["pci"] for function in snapshot["functions"]}
    present = {link["pci"] for link in snapshot["links"]}
    operations: list[Operation] = [*_appear(physical & present), Run(_SETTLE, 40.0)]
    # A port that comes up resets its virtual functions, which then take no orders for a while: it goes first.
    for function in snapshot["functions"]:
        for link in snapshot["links"]:
            if link["pci"] == function["pci"]:
                operations.extend(_restored_link(link))
        operations.extend(_virtual_functions(function))
    operations += _appear(present - physical)
    for link in snapshot["links"]:
        if link["pci"] not in physical:
            operations += _restored_link(link)
    for vlan in snapshot["vlans"]:
        operations.extend(_restored_vlan(vlan))
    for link in snapshot["links"]:
        operations.extend(_addresses(f"{{port:{link['pci']}}}", link["addresses"]))
    for vlan in snapshot["vlans"]:
        operations.extend(_addresses(vlan["name"], vlan["addresses"]))
    for route in snapshot["routes"]:
        operations.append(Run(("ip", f"-{route['version']}", "route", "replace", *route["words"])))
    return operations


def missing(snapshot: Snapshot, host: Host) -> str:
    """Return what of the snapshot is not there, in one clause; empty when all of it is."""
    problems = []
    for function in snapshot["functions"]:
        count = _count(host, f"{PCI}/{function['pci']}")
        if count != function["vfs"]:
            problems.append(f"{function['pci']} has {count} of {function['vfs']} virtual functions")
    for link in snapshot["links"]:
        names = _names(host, f"{PCI}/{link['pci']}/net")
        if not names:
            problems.append(f"{link['name']} ({link['pci']}) is not there")
        elif link["master"] and not any(_master(host, name) == link["master"] for name in names):
            problems.append(f"{link['name']} is no port of {link['master']}")
    problems += [
        f"{vlan['name']} is not there" for vlan in snapshot["vlans"] if not host.exists(f"{NET}/{vlan['name']}")
    ]
    return "; ".join(problems)


def _managed(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that ``ip link set PORT vf NUMBER`` takes, by its words."""
    listed = entry.get("vlan_list") or []
    vlan = listed[0] if listed and isinstance(listed[0], dict) else entry
    told = entry.get("rate")
    rate: Mapping[str, Any] = told if isinstance(told, dict) else {}
    words: dict[str, Any] = {}
    if str(entry.get("address") or entry.get("mac") or "") not in _NO_ADDRESS:
        words["mac"] = entry.get("address") or entry.get("mac")
    if vlan.get("vlan"):
        words["vlan"] = [vlan["vlan"], vlan.get("qos") or 0, vlan.get("protocol") or "802.1Q"]
    for key in ("spoofchk", "trust", "query_rss_en"):
        if isinstance(entry.get(key), bool):
            words[key] = entry[key]
    for key in ("max_tx", "min_tx"):
        if rate.get(key):
            words[f"{key}_rate"] = rate[key]
    if entry.get("link_state") in _LINK_STATES:
        words["state"] = entry["link_state"]
    for key in ("node_guid", "port_guid"):
        if entry.get(key):
            words[key] = entry[key]
    return {"vf": entry["vf"], **words}


def _link(address: str, name: str, port: Mapping[str, Any], link: Link) -> dict[str, Any]:
    flags = link.get("flags") or []
    permanent = link.get("permaddr")
    changed = permanent is not None and permanent != link.get("address") and not link.get("master")
    return {
        "pci": address,
        "name": name,
        "mtu": link.get("mtu") or port.get("mtu"),
        "up": "UP" in flags if link else bool(port.get("up")),
        "mac": link.get("address") if changed else None,
        "master": link.get("master") or port.get("master"),
        "addresses": _addresses_of(link),
    }


def _vlan(link: Link, owner: Mapping[str, str], links: Mapping[str, Link]) -> dict[str, Any]:
    data = (link.get("linkinfo") or {}).get("info_data") or {}
    port = links.get(str(link["link"]), {})
    has_own = link.get("address") != port.get("address") and not link.get("master")
    return {
        "name": link["ifname"],
        "parent": owner[str(link["link"])],
        "id": data.get("id"),
        "protocol": data.get("protocol") or "802.1Q",
        "settings": _vlan_settings(data),
        "mac": link.get("address") if has_own else None,
        "mtu": link.get("mtu"),
        "up": "UP" in (link.get("flags") or []),
        "master": link.get("master"),
        "addresses": _addresses_of(link),
    }


def _vlan_settings(data: Mapping[str, Any]) -> list[str]:
    """Return the words after ``ip link set dev NAME type vlan`` for what is not as it is by default (ip-link(8))."""
    flags = data.get("flags", [_ON_BY_DEFAULT])
    words = []
    for flag in _VLAN_FLAGS:
        if (flag in flags) is not (flag == _ON_BY_DEFAULT):
            words += [flag.lower(), "on" if flag in flags else "off"]
    for key, word in (("ingress_qos", "ingress-qos-map"), ("egress_qos", "egress-qos-map")):
        pairs = [f"{pair.get('from')}:{pair.get('to')}" for pair in data.get(key) or []]
        words += [word, *pairs] if pairs else []
    return words


def _addresses_of(link: Link) -> list[list[str]]:
    lasting = [entry for entry in link.get("addr_info") or [] if _is_lasting_address(entry)]
    return [_address(str(link.get("ifname")), entry) for entry in lasting]


def _is_lasting_address(entry: Mapping[str, Any]) -> bool:
    """Leave out what the kernel gives an interface by itself, and what stateless configuration gives it again."""
    if entry.get("family") not in {"inet", "inet6"} or not entry.get("local"):
        return False
    if entry["family"] == "inet":
        return True
    own = entry.get("scope") == "link" or entry.get("temporary") or entry.get("mngtmpaddr")
    return not own and entry.get("protocol") != "kernel_ra"


def _address(name: str, entry: Mapping[str, Any]) -> list[str]:
    """Return the words after ``ip address replace``, without the device."""
    peer = entry.get("address")
    words = [f"{entry['local']}/{entry.get('prefixlen', 32)}"]
    if peer:
        words = [str(entry["local"]), "peer", f"{peer}/{entry.get('prefixlen', 32)}"]
    if entry.get("broadcast"):
        words += ["broadcast", str(entry["broadcast"])]
    if entry.get("scope") and entry["scope"] != "global":
        words += ["scope", str(entry["scope"])]
    if entry.get("label") not in {None, name}:
        words += ["label", str(entry["label"])]
    if entry.get("metric"):
        words += ["metric", str(entry["metric"])]
    for key, word in (("valid_life_time", "valid_lft"), ("preferred_life_time", "preferred_lft")):
        seconds = entry.get(key)
        if isinstance(seconds, int) and seconds < _FOREVER:
            words += [word, str(seconds)]
    if entry.get("noprefixroute"):
        words.append("noprefixroute")
    return words


def _is_lasting(route: Mapping[str, Any]) -> bool:
    return route.get("protocol") not in _FLEETING and "expires" not in route and bool(route.get("dst"))


def _nearness(route: Mapping[str, Any]) -> int:
    """Routes without a gateway go first: a gateway must be reachable when a route through it is added."""
    return 1 if any(key in route for key in ("gateway", "via", "nexthops")) else 0


def _route(route: Mapping[str, Any], here: Mapping[str, str]) -> list[str]:
    """Return the words after ``ip route replace``."""
    kind = route.get("type")
    words = [str(kind)] if kind and kind != "unicast" else []
    words.append(str(route["dst"]))
    words += _way(route, here)
    for key, word in (
        ("protocol", "proto"),
        ("scope", "scope"),
        ("prefsrc", "src"),
        ("metric", "metric"),
        ("table", "table"),
        ("pref", "pref"),
    ):
        if route.get(key) is not None:
            words += [word, str(route[key])]
    for metric in route.get("metrics") or []:
        for key, value in metric.items():
            words += [str(key), str(value)]
    for hop in route.get("nexthops") or []:
        words += ["nexthop", *_way(hop, here), "weight", str(hop.get("weight", 1))]
    return words


def _way(route: Mapping[str, Any], here: Mapping[str, str]) -> list[str]:
    words = []
    via = route.get("via")
    if isinstance(via, dict):
        words += ["via", str(via.get("family")), str(via.get("host"))]
    elif route.get("gateway"):
        words += ["via", str(route["gateway"])]
    if route.get("dev"):
        words += ["dev", here.get(str(route["dev"]), str(route["dev"]))]
    if "onlink" in (route.get("flags") or []):
        words.append("onlink")
    return words


def _appear(addresses: Iterable[str]) -> list[Operation]:
    """Wait for the interfaces of all functions together: where many are missing, the time is waited for once."""
    wanted = sorted(addresses)

    def there(host: Host) -> bool:
        return all(host.list(f"{PCI}/{address}/net") for address in wanted)

    if not wanted:
        return []
    return [WaitFor(f"the interface{'s' if len(wanted) > 1 else ''} of {', '.join(wanted)}", there, _APPEARS_WITHIN)]


def _virtual_functions(function: Mapping[str, Any]) -> list[Operation]:
    address, count = function["pci"], function["vfs"]
    if not count:
        return []
    device = f"{PCI}/{address}"
    # Their addresses are set before their driver looks at them: it takes the address that it finds.
    operations: list[Operation] = [
        SetAttribute(f"{device}/sriov_drivers_autoprobe", "0"),
        SetAttribute(f"{device}/sriov_numvfs", str(count), 120.0),
    ]

    def there(host: Host) -> bool:
        return _count(host, device) == int(count)

    operations.append(WaitFor(f"the {count} virtual functions of {address}", there, _APPEARS_WITHIN))
    for entry in function["managed"]:
        # One setting a call: drivers refuse the ones that they do not have (EOPNOTSUPP, 2).
        for words in _managed_words(entry):
            argv = ("ip", "link", "set", "dev", f"{{port:{address}}}", "vf", str(entry["vf"]), *words)
            operations.append(Run(argv, accepted=(0, 2)))
    # Without autoprobe the kernel binds a virtual function to no driver, not even when asked for that one
    # (pci_device_can_probe, drivers/pci/pci-driver.c).
    operations.append(SetAttribute(f"{device}/sriov_drivers_autoprobe", "1"))
    operations += [SetAttribute(PROBE, bound, 60.0) for bound in function["bound"]]
    if not function["autoprobe"]:
        operations.append(SetAttribute(f"{device}/sriov_drivers_autoprobe", "0"))
    operations.append(Run(_SETTLE, 40.0))
    return operations


def _managed_words(entry: Mapping[str, Any]) -> Iterable[tuple[str, ...]]:
    for key, value in entry.items():
        if key == "vlan":
            yield ("vlan", str(value[0]), "qos", str(value[1]), "proto", str(value[2]))
        elif isinstance(value, bool):
            yield (key, "on" if value else "off")
        elif key != "vf":
            yield (key, str(value))


def _restored_link(link: Mapping[str, Any]) -> list[Operation]:
    port = f"{{port:{link['pci']}}}"
    operations: list[Operation] = []
    # A hardware address and a master are given to an interface that is down. So is a name by older kernels (EBUSY, 2):
    # one that a network manager's "up" gets ahead of is given by the concern that looks after names.
    if link["mac"] or link["master"]:
        operations.append(Run(("ip", "link", "set", "dev", port, "down")))
    operations.append(Run(("ip", "link", "set", "dev", port, "name", link["name"]), accepted=(0, 2)))
    if link["mac"]:
        # A virtual function whose physical one has set its address may not set it itself (2), and has it already.
        operations.append(Run(("ip", "link", "set", "dev", port, "address", link["mac"]), accepted=(0, 2)))
    # Before the master: a bridge takes the smallest MTU of its ports at once (br_mtu_auto_adjust, net/bridge/br_if.c).
    if link["mtu"]:
        operations.append(Run(("ip", "link", "set", "dev", port, "mtu", str(link["mtu"]))))
    if link["master"]:
        operations.append(Run(("ip", "link", "set", "dev", port, "master", link["master"])))
    if link["up"]:
        operations.append(Run(("ip", "link", "set", "dev", port, "up")))
    return operations


def _restored_vlan(vlan: Mapping[str, Any]) -> list[Operation]:
    name, parent = vlan["name"], f"{{port:{vlan['parent']}}}"
    kind = ("type", "vlan", "protocol", str(vlan["protocol"]), "id", str(vlan["id"]))
    # It may be there already: a network manager is quicker at times (EEXIST, 2); the next operation tells.
    operations: list[Operation] = [Run(("ip", "link", "add", "link", parent, "name", name, *kind), accepted=(0, 2))]
    if vlan["settings"]:
        operations.append(Run(("ip", "link", "set", "dev", name, "type", "vlan", *vlan["settings"])))
    if vlan["mac"]:
        operations.append(Run(("ip", "link", "set", "dev", name, "address", vlan["mac"])))
    if vlan["mtu"]:
        operations.append(Run(("ip", "link", "set", "dev", name, "mtu", str(vlan["mtu"]))))
    if vlan["master"]:
        operations.append(Run(("ip", "link", "set", "dev", name, "master", vlan["master"])))
    operations.append(Run(("ip", "link", "set", "dev", name, "up" if vlan["up"] else "down")))
    return operations


def _addresses(device: str, addresses: Iterable[Sequence[str]]) -> list[Operation]:
    return [Run(("ip", "address", "replace", *words, "dev", device)) for words in addresses]


def _count(host: Host, device: str) -> int:
    return sum(name.startswith("virtfn") for name in _names(host, device))


def _names(host: Host, path: str) -> list[str]:
    try:
        return host.list(path)
    except HostError:
        return []


def _master(host: Host, name: str) -> str | None:
    try:
        return host.link(f"{NET}/{name}/master").rsplit("/", 1)[-1]
    except HostError:
        return None
