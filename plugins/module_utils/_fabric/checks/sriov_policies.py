# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SriovNetworkNodePolicy: what the operator's webhook refuses, and the device plugin's configuration made of policies.

Source: the SR-IOV network operator, its webhook and its controller of policies.
"""

from __future__ import annotations

import json
import re
from typing import Any, Iterable, Mapping, NamedTuple

from ..common.jsontext import Problem
from .sriov_networks import RESOURCE_PREFIX, check_resource_name

Spec = Mapping[str, Any]

VFIO = "vfio-pci"
_MELLANOX = "15b3"
_CRITERIA = ("vendor", "deviceID", "pfNames", "rootDevices")
_PORT = re.compile(r"^([^\s/:#]{1,127})(?:#(\d{1,4})-(\d{1,4}))?\Z", re.ASCII)
_LINKS = {"eth": "ether", "ib": "infiniband"}
_MODELS: Mapping[str, Mapping[str, str]] = {
    _MELLANOX: {
        "1013": "1014",
        "1015": "1016",
        "1017": "1018",
        "1019": "101a",
        "101b": "101c",
        **dict.fromkeys(("101d", "101f", "1021", "1023", "1025", "a2d6", "a2dc"), "101e"),
    },
    "8086": {
        **dict.fromkeys(("158a", "158b", "1572", "1589", "1581", "15ff", "0d58", "1583"), "154c"),
        **dict.fromkeys(("1592", "1593", "159b", "1599", "1591", "188a", "124d", "124c"), "1889"),
        **dict.fromkeys(("579c", "579d", "579e", "12d2", "12d3", "1249", "124a"), "1889"),
        "1563": "1565",
        "10c9": "10ca",
    },
    "14e4": {"16d7": "16dc", "1750": "1806"},
    "1077": {"1654": "1664"},
    # The operator's own table has five of them.
    "177d": {"b100": "b103", "b200": "b203", "b600": "b603", "b900": "b903", "ba00": "ba03"},
}
FUNCTION_IDS = {port: function for models in _MODELS.values() for port, function in models.items()}
"""Functions by their port's id, for the cards that the operator and the vendor's release support."""

_LEAST_PRIORITY = 99
_MOST_FUNCTIONS = 128


class Port(NamedTuple):
    """An item of ``pfNames``: an interface, and the functions meant, by their first and last number."""

    name: str
    functions: tuple[int, int] | None


def check_port(text: str) -> list[Problem]:
    """Judge an item of ``pfNames``."""
    match = _PORT.match(text)
    if match is None:
        return [Problem("", f"{text!r} is not an interface or range of its VFs", "ens1f0, or ens1f0#0-3")]
    if match[2] is not None and int(match[2]) > int(match[3]):
        return [Problem("", f"{text!r} ends before it begins", "the first VF, then the last")]
    return []


def port_of(text: str) -> Port:
    """Return what a valid item of ``pfNames`` means."""
    name, _mark, functions = text.partition("#")
    first, _dash, last = functions.partition("-")
    return Port(name, (int(first), int(last)) if functions else None)


def check(spec: Spec) -> list[Problem]:
    """Return what is wrong with a policy whose fields are right each on its own; paths are its fields."""
    problems = check_resource_name(spec.get("resourceName"))
    selector, count = spec.get("nicSelector") or {}, spec.get("numVfs") or 0
    if not any(selector.get(key) for key in _CRITERIA):
        hint = f"give one or more of {', '.join(_CRITERIA)}"
        problems.append(Problem("nicSelector", "selects nothing", hint))
    for index, text in enumerate(selector.get("pfNames") or []):
        functions = port_of(text).functions
        if functions is not None and functions[1] >= count:
            problem = f"{text} has VFs beyond numVfs {count}, which are numbered from 0"
            problems.append(Problem(f"nicSelector.pfNames[{index}]", problem, "shorten the range or raise numVfs"))
    vendor, device = selector.get("vendor"), selector.get("deviceID")
    if vendor and device in FUNCTION_IDS and device not in _MODELS.get(vendor, ()):
        problem = f"{device} is a card of vendor {_vendor_of(selector)}, not {vendor}: none is both"
        problems.append(Problem("nicSelector.deviceID", problem, "drop one of both"))
    if count and device and device not in FUNCTION_IDS:
        problem = f"{device} is not a card whose VFs are known"
        hint = "leave it out and select by vendor and pfNames"
        problems.append(Problem("nicSelector.deviceID", problem, hint))
    if spec.get("deviceType") == VFIO and spec.get("isRdma"):
        hint = "give deviceType: netdevice, or isRdma: false"
        problems.append(Problem("isRdma", "needs the driver of the card: deviceType is vfio-pci", hint))
    if link_of(spec) == "infiniband" and spec.get("eSwitchMode") == "switchdev":
        problems.append(Problem("eSwitchMode", "switchdev is for Ethernet ports only", "leave it out"))
    return problems + (_check_vdpa(spec) if spec.get("vdpaType") else [])


def _vendor_of(selector: Spec) -> str:
    """Return the vendor of the ports; empty where a policy does not tell."""
    of_model = next((vendor for vendor, models in _MODELS.items() if selector.get("deviceID") in models), "")
    return of_model or selector.get("vendor") or ""


def completed(spec: Spec) -> dict[str, Any]:
    """Return a policy as the operator's webhook stores it (``mutate.go``)."""
    of_link = {"isRdma": True} if link_of(spec) == "infiniband" and spec.get("deviceType") != VFIO else {}
    return {"priority": _LEAST_PRIORITY, **spec, **of_link}


def webhook_problems(spec: Spec) -> list[Problem]:
    """Return what the operator's webhook refuses of a policy that its daemon and hosts here would take."""
    if (spec.get("numVfs") or 0) <= _MOST_FUNCTIONS or _vendor_of(spec["nicSelector"]) not in ("", _MELLANOX):
        return []
    problem = f"is above {_MOST_FUNCTIONS}, the most that the operator's webhook takes for cards of vendor {_MELLANOX}"
    return [Problem("numVfs", problem, "lower it; name the vendor of other cards (nicSelector.vendor)")]


def foreign_vendor(spec: Spec) -> list[Problem]:
    """Return a remark where the operator supports no card of the vendor."""
    vendor = (spec.get("nicSelector") or {}).get("vendor")
    problem = (
        f"{vendor} has no card that the operator supports, so its webhook refuses it: hosts make VFs of any card here"
    )
    return [Problem("nicSelector.vendor", problem)] if vendor and vendor not in _MODELS else []


def _check_vdpa(spec: Spec) -> list[Problem]:
    """Return what keeps functions from being offered as vDPA devices: the webhook's rules, the plugin's, and ours."""
    problems = []
    if spec.get("eSwitchMode") != "switchdev":
        problems.append(Problem("vdpaType", "needs eSwitchMode: switchdev", "give it, or leave this out"))
    if spec.get("deviceType") == VFIO:
        problems.append(Problem("vdpaType", "needs the driver of the card: deviceType is vfio-pci", "leave that out"))
    if (spec.get("nicSelector") or {}).get("vendor") not in (None, "", _MELLANOX):
        problems.append(Problem("vdpaType", f"is for cards of vendor {_MELLANOX} only", "leave it out"))
    if spec.get("isRdma"):
        problems.append(Problem("vdpaType", "excludes isRdma: the device plugin refuses both", "drop one"))
    if not spec.get("externallyManaged"):
        hint = (
            "make VFs and, at each boot, devices on the hosts (rdma_fabric_interfaces: vfs, eswitch_mode; vdpa "
            "dev add name NAME mgmtdev pci/ADDRESS), and give externallyManaged: true: they are offered then"
        )
        problems.append(Problem("vdpaType", "asks for vDPA devices, which are not made on hosts", hint))
    return problems


def link_of(spec: Spec) -> str:
    """Return the link type in the device plugin's words; empty where the policy has none."""
    return _LINKS.get(str(spec.get("linkType", "")).lower(), "")


def in_order(policies: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return policies ``{"name", "spec"}`` in the order in which they are applied: of two, the later one counts."""
    return sorted(policies, key=lambda policy: (-(policy["spec"].get("priority") or 0), policy["name"]))


def may_meet(one: Spec, other: Spec) -> bool:
    """Return whether a node may be selected by both policies."""
    left, right = one.get("nodeSelector") or {}, other.get("nodeSelector") or {}
    return not any(key in right and right[key] != value for key, value in left.items())


def may_share(one: Spec, other: Spec) -> bool:
    """Return whether a function may be selected by both policies on one node."""
    left, right = one.get("nicSelector") or {}, other.get("nicSelector") or {}
    if any(left.get(key) and right.get(key) and left[key] != right[key] for key in ("vendor", "deviceID")):
        return False
    if left.get("rootDevices") and right.get("rootDevices"):
        return bool(set(left["rootDevices"]) & set(right["rootDevices"]))
    if left.get("pfNames") and right.get("pfNames"):
        ours, theirs = [[port_of(text) for text in each["pfNames"]] for each in (left, right)]
        return any(a.name == b.name and _overlap(a.functions, b.functions) for a in ours for b in theirs)
    return True


def shared_ports(one: Spec, other: Spec) -> list[tuple[str, int, str, bool]]:
    """Return (key, index, item, refused) of the ports of ``other`` with functions that ``one`` names by the same port.

    ``refused`` is what the operator's webhook does with an address that both name, and where both name a range or both
    the whole port, whatever the resources (``validateRootDevices``, ``validatePfNames``). A range of a port beside the
    whole of it, it takes.
    """
    ours, theirs = (each.get("nicSelector") or {} for each in (one, other))
    known = [port_of(text) for text in ours.get("pfNames") or []]
    found = [
        ("rootDevices", index, address, True)
        for index, address in enumerate(theirs.get("rootDevices") or [])
        if address in (ours.get("rootDevices") or [])
    ]
    for index, text in enumerate(theirs.get("pfNames") or []):
        port = port_of(text)
        shared = [each for each in known if each.name == port.name and _overlap(each.functions, port.functions)]
        if shared:
            alike = any((each.functions is None) == (port.functions is None) for each in shared)
            found.append(("pfNames", index, text, alike))
    return found


def common_ports(one: Spec, other: Spec) -> set[str]:
    """Return the names of ports that both policies name, with whatever functions."""
    names = [
        {port_of(text).name for text in (each.get("nicSelector") or {}).get("pfNames") or []} for each in (one, other)
    ]
    return names[0] & names[1]


def _overlap(one: tuple[int, int] | None, other: tuple[int, int] | None) -> bool:
    return one is None or other is None or (one[0] <= other[1] and other[0] <= one[1])


def by_nodes(policies: Iterable[Mapping[str, Any]]) -> list[tuple[dict[str, str], list[Mapping[str, Any]]]]:
    """Return (node selector, policies in their order) of each group of policies that select the same nodes."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for policy in in_order(policies):
        groups.setdefault(json.dumps(policy["spec"].get("nodeSelector") or {}, sort_keys=True), []).append(policy)
    return [(json.loads(text), groups[text]) for text in sorted(groups)]


def plugin_config(policies: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the device plugin's configuration for policies of one group in their order.

    Each name is one resource, each of its policies one set of selectors. The policy that counts comes first: a VF is of
    the first resource that takes it, and of the first set there.
    """
    resources: dict[str, dict[str, Any]] = {}
    for policy in reversed(list(policies)):
        spec = policy["spec"]
        topology = {"excludeTopology": True} if spec.get("excludeTopology") else {}
        known = {"resourceName": spec["resourceName"], "resourcePrefix": RESOURCE_PREFIX, **topology, "selectors": []}
        sets = resources.setdefault(spec["resourceName"], known)["selectors"]
        own = _selectors(spec)
        if own not in sets:
            sets.append(own)
    for resource in resources.values():
        if len(resource["selectors"]) == 1:
            (resource["selectors"],) = resource["selectors"]
    return {"resourceList": list(resources.values())}


def _one_item_a_port(names: Iterable[str]) -> list[str]:
    """Return items of ``pfNames`` with all ranges of a port in one.

    Of several items of a port the plugin reads the first alone (``getItem`` of its
    ``pkg/resources/deviceSelectors.go``, v3.11.0). The operator leaves them apart: it never offers the functions of the
    others.
    """
    ports: dict[str, list[str]] = {}
    for text in names:
        name, _mark, functions = text.partition("#")
        ports.setdefault(name, []).append(functions)
    return [name if "" in ranges else f"{name}#{','.join(ranges)}" for name, ranges in ports.items()]


def _selectors(spec: Spec) -> dict[str, Any]:
    """Return the selectors of a policy's functions; one without functions offers the ports themselves."""
    nic = spec.get("nicSelector") or {}
    found: dict[str, Any] = {key: spec[key] for key in ("isRdma", "needVhostNet", "vdpaType") if spec.get(key)}
    if nic.get("vendor"):
        found["vendors"] = [nic["vendor"]]
    if nic.get("deviceID"):
        found["devices"] = [FUNCTION_IDS[nic["deviceID"]] if spec.get("numVfs") else nic["deviceID"]]
    if nic.get("pfNames"):
        found["pfNames"] = _one_item_a_port(nic["pfNames"])
    # The link of a function that vfio-pci has can't be seen.
    if link_of(spec) and spec.get("deviceType") != VFIO:
        found["linkTypes"] = [link_of(spec)]
    if nic.get("rootDevices"):
        found["rootDevices"] = list(nic["rootDevices"])
    return found
