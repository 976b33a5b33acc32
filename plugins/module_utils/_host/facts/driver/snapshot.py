# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record what a driver reload removes, and restore it. Pure.

Interfaces are identified by their PCI functions. An interface on top of one (a VLAN) is removed with it; a bond or a
bridge stays and loses its port. What the kernel and router advertisements configure automatically is not restored.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence, cast

from ...machine.host_files import BrokenState
from ..driver_shapes import Managed, Snapshot, SnapshotLink, SnapshotVlan
from ..host_state import binds_functions, seen_functions
from ..own_files import DRIVER_JOURNAL
from ..shapes import Nic, ReadNetdev

# The members that ip(8) prints for an interface, a route, an address or a VF.
Shown = Mapping[str, Any]

_NO_ADDRESS = frozenset({"", "00:00:00:00:00:00"})
_NO_GUID = "00:00:00:00:00:00:00:00"
_FOREVER = 0xFFFFFFFF
# Routes that the kernel makes for an address, that routers announce, or that expire.
_FLEETING = ("kernel", "ra", "redirect")
_ON_BY_DEFAULT = "REORDER_HDR"
_VLAN_FLAGS = (_ON_BY_DEFAULT, "GVRP", "MVRP", "LOOSE_BINDING", "BRIDGE_BINDING")
_LINK_STATES = ("auto", "enable", "disable")


def take_snapshot(
    driver: str,
    functions: Sequence[Nic],
    *,
    ports: Mapping[str, ReadNetdev],
    links: Mapping[str, Shown],
    vlans: Iterable[Shown],
    routes: Mapping[int, Iterable[Shown]],
) -> Snapshot:
    """Return everything to restore, as JSON data.

    ``functions`` are NICs and ``ports`` interfaces of the facts, ``links`` the entries of ``ip -details address show``
    by name (with the settings of VFs), ``vlans`` the VLANs on these links, ``routes`` those through any
    of them by IP version.
    """
    owner = {name: nic["address"] for nic in functions for name in nic["netdevs"]}
    here = {name: (f"{{port:{owner[name]}}}" if name in owner else name) for name in owner}
    return {
        "driver": driver,
        "functions": [
            {
                "pci": nic["address"],
                "vfs": seen_functions(nic),
                "autoprobe": binds_functions(nic),
                "bound": [vf["address"] for vf in functions if vf["pf"] == nic["address"] and vf["driver"]],
                "managed": [
                    _managed(entry) for name in nic["netdevs"] for entry in links.get(name, {}).get("vfinfo_list") or []
                ],
            }
            for nic in functions
            if not nic["pf"]
        ],
        "links": [
            _link(owner[name], name, ports.get(name), links.get(name, {}))
            for name in sorted(owner, key=lambda name: (owner[name], name))
        ],
        "vlans": [_vlan(link, owner, links) for link in vlans if link.get("link") in owner],
        "routes": [
            {"version": version, "words": _route(route, here)}
            for version in sorted(routes)
            for route in sorted(routes[version], key=_nearness)
            if (route.get("protocol") not in _FLEETING and "expires" not in route and bool(route.get("dst")))
        ],
    }


def empty_snapshot(driver: str) -> Snapshot:
    """Return the snapshot of a host on which the driver has nothing."""
    return {"driver": driver, "functions": [], "links": [], "vlans": [], "routes": []}


def parse_snapshot(text: str) -> Snapshot | None:
    """Return a snapshot from the text of its file; None if it is invalid, in which case no run starts."""
    try:
        snapshot = DRIVER_JOURNAL.parse(text)
    except BrokenState:
        return None
    if not {"driver", "functions", "links", "vlans", "routes"} <= set(snapshot):
        return None
    return cast(Snapshot, snapshot)


def as_text(snapshot: Snapshot) -> str:
    """Return the snapshot as the text of its file."""
    return DRIVER_JOURNAL.text(snapshot)


def _managed(entry: Shown) -> Managed:
    """Return the settings that ``ip link set PORT vf NUMBER`` takes, by option."""
    listed = entry.get("vlan_list") or []
    vlan = listed[0] if listed and isinstance(listed[0], dict) else entry
    value = entry.get("rate")
    rate: Shown = value if isinstance(value, dict) else {}
    words: Managed = {}
    address = str(entry.get("address") or entry.get("mac") or "")
    if address not in _NO_ADDRESS:
        words["mac"] = address
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
        # ip(8) prints these keys with a blank and takes the options with an underscore (iproute2, ip/ipaddress.c,
        # print_vfinfo, and ip/iplink.c).
        value = entry.get(key.replace("_", " "))
        if value and value != _NO_GUID:
            words[key] = value
    return {"vf": entry["vf"], **words}


def _link(address: str, name: str, port: ReadNetdev | None, link: Shown) -> SnapshotLink:
    flags = link.get("flags") or []
    permanent = link.get("permaddr")
    changed = permanent is not None and permanent != link.get("address") and not link.get("master")
    return {
        "pci": address,
        "name": name,
        "mtu": link.get("mtu") or (port["mtu"] if port is not None else None),
        "up": "UP" in flags if link else port is not None and port["up"],
        "mac": link.get("address") if changed else None,
        "master": link.get("master") or (port["master"] if port is not None else None),
        "addresses": _addresses_of(link),
    }


def _vlan(link: Shown, owner: Mapping[str, str], links: Mapping[str, Shown]) -> SnapshotVlan:
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


def _vlan_settings(data: Shown) -> list[str]:
    """Return the arguments after ``ip link set dev NAME type vlan`` for non-default settings (ip-link(8))."""
    flags = data.get("flags", [_ON_BY_DEFAULT])
    words = []
    for flag in _VLAN_FLAGS:
        if (flag in flags) is not (flag == _ON_BY_DEFAULT):
            words += [flag.lower(), "on" if flag in flags else "off"]
    for key, word in (("ingress_qos", "ingress-qos-map"), ("egress_qos", "egress-qos-map")):
        pairs = [f"{pair.get('from')}:{pair.get('to')}" for pair in data.get(key) or []]
        words += [word, *pairs] if pairs else []
    return words


def _addresses_of(link: Shown) -> list[list[str]]:
    lasting = [entry for entry in link.get("addr_info") or [] if _is_lasting_address(entry)]
    return [_address(str(link.get("ifname")), entry) for entry in lasting]


def _is_lasting_address(entry: Shown) -> bool:
    """Return whether an address must be restored: not one of the kernel's or of stateless configuration."""
    if entry.get("family") not in {"inet", "inet6"} or not entry.get("local"):
        return False
    if entry["family"] == "inet":
        return True
    own = entry.get("scope") == "link" or entry.get("temporary") or entry.get("mngtmpaddr")
    return not own and entry.get("protocol") != "kernel_ra"


def _address(name: str, entry: Shown) -> list[str]:
    """Return the arguments after ``ip address replace``, without the device."""
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


def _nearness(route: Shown) -> int:
    """Return 0 for a route without a gateway, else 1: a gateway must be reachable when its route is added."""
    return 1 if any(key in route for key in ("gateway", "via", "nexthops")) else 0


def _route(route: Shown, here: Mapping[str, str]) -> list[str]:
    """Return the arguments after ``ip route replace``."""
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


def _way(route: Shown, here: Mapping[str, str]) -> list[str]:
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
