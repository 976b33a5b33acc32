# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The PCIe map of a host (NUMA nodes, host bridges, switches, devices) and hosts grouped by it. Pure."""

from __future__ import annotations

import json
from typing import Any, Iterable

from ansible_collections.rdma.fabric.plugins.module_utils._pcie_links import lacking

from .hosts import RDMA_VENDOR, device_model, natural_key, own_functions, port_state, short_address

_NO_RAIL = 1 << 30
# No machine nests more; a path that claims to is not followed further.
_MAX_SWITCHES = 16
_LINK_KEYS = ("speed_gts", "width", "max_speed_gts", "max_width")
# What a device shows that may change without the machine being built differently.
_STATE_KEYS = ("name", "netdev", "uplink", "driver", "link", "pcie", "virtual_functions")


def device_map(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the NUMA nodes of a host, each ``{"numa": int | None, "bridges": [node]}``.

    A node is ``{"type": "bridge" | "switch", "address", "children"}`` or a device (``type`` is ``gpu`` or ``nic``).
    Devices of one rail are neighbours where the tree allows it.
    """
    rails_of: dict[str, list[dict[str, Any]]] = {}
    for rail in facts["rails"]:
        for address in {rail["nic"], rail["gpu"]} - {None}:
            rails_of.setdefault(address, []).append(rail)
    roots: dict[tuple[int, str], dict[str, Any]] = {}
    for device in _devices(facts, rails_of):
        numa = device.pop("numa_node")
        path = device.pop("path")
        bridge = path[0] if path else "unknown"
        key = (-1 if numa is None or numa < 0 else numa, bridge)
        node = roots.setdefault(key, {"type": "bridge", "address": bridge, "children": []})
        for switch in switches_between(path):
            node = _child_switch(node, switch)
        node["children"].append(device)
    tree = []
    for number in sorted({numa for numa, bridge in roots}, key=lambda numa: (numa < 0, numa)):
        bridges = [_sorted_node(root) for (numa, bridge), root in roots.items() if numa == number]
        tree.append({"numa": None if number < 0 else number, "bridges": sorted(bridges, key=_place)})
    return tree


def switches_between(path: list[str]) -> list[str]:
    """Return the addresses of the PCIe switches on a sysfs path, from the host bridge down.

    The path is ``[host bridge, root port, (upstream port, downstream port)*, device]``: every pair of bridges below the
    root port is one switch, named after its upstream port. A bridge left over is a plain bridge and stands for itself.
    """
    return path[2:-1][::2][:_MAX_SWITCHES]


def topology_classes(hosts: list[tuple[str, list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """Group hosts by their device map: equal maps become one class, the biggest class of each build first.

    Hosts that carry no RDMA come last.
    A class whose machines are built like those of an earlier class, but in another state (a link is down, a name
    differs), says which class it is ``like`` and lists the ``differences``.
    """
    grouped: dict[str, tuple[list[dict[str, Any]], list[str]]] = {}
    for name, tree in hosts:
        grouped.setdefault(_canonical(tree), (tree, []))[1].append(name)
    builds: dict[str, list[tuple[list[dict[str, Any]], list[str]]]] = {}
    for tree, names in grouped.values():
        names.sort(key=natural_key)
        builds.setdefault(_canonical(_built(tree)), []).append((tree, names))
    ordered = []
    for members in builds.values():
        members.sort(key=lambda member: (-len(member[1]), _faults(member[0]), natural_key(member[1][0])))
        count = sum(len(names) for tree, names in members)
        ordered.append(((not carries_rdma(members[0][0]), -count, natural_key(members[0][1][0])), members))
    ordered.sort(key=lambda entry: entry[0])
    classes: list[dict[str, Any]] = []
    for _key, members in ordered:
        model = f"class-{len(classes) + 1}"
        for index, (tree, names) in enumerate(members):
            classes.append(
                {
                    "id": f"class-{len(classes) + 1}",
                    "hosts": names,
                    "like": model if index else None,
                    "differences": _differences(members[0][0], tree) if index else [],
                    "numa": tree,
                }
            )
    return classes


def built_alike(classes: Iterable[dict[str, Any]]) -> list[list[str]]:
    """Return the hosts of classes, those of one build together; hosts that carry no RDMA are left out."""
    builds: dict[str, list[str]] = {}
    for entry in classes:
        if carries_rdma(entry["numa"]):
            builds.setdefault(entry["like"] or entry["id"], []).extend(entry["hosts"])
    return list(builds.values())


def leaves(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the devices below ``nodes`` (bridges, switches or devices) in the order of the drawing."""
    found: list[dict[str, Any]] = []
    for node in nodes:
        found += leaves(node["children"]) if "children" in node else [node]
    return found


def tree_devices(tree: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return every device of a device map."""
    return [device for numa in tree for device in leaves(numa["bridges"])]


def carries_rdma(tree: list[dict[str, Any]]) -> bool:
    """Return whether a device map holds a GPU or a NIC of NVIDIA."""
    return any(device["type"] == "gpu" or device["vendor"] == RDMA_VENDOR for device in tree_devices(tree))


def _devices(facts: dict[str, Any], rails_of: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    virtual: dict[str, int] = {}
    for nic in facts["nics"]:
        if nic["function"] == "vf" and nic["pf"]:
            virtual[nic["pf"]] = virtual.get(nic["pf"], 0) + 1
    gpus = [{**_common(gpu, "gpu", rails_of), "driver": gpu["driver"]} for gpu in facts["gpus"]]
    nics = [
        {
            **_common(nic, "nic", rails_of),
            "vendor": nic["vendor"],
            "uplink": any(uplink["pci"] == nic["address"] for uplink in facts["uplinks"]),
            "function": nic["function"],
            "name": nic["rdma"][0] if nic["rdma"] else None,
            "netdev": nic["netdevs"][0] if nic["netdevs"] else None,
            "driver": nic["driver"],
            **_port(port_state(facts, nic["address"])),
            "distance": next((rail["distance"] for rail in rails_of.get(nic["address"], [])), None),
            "virtual_functions": virtual.get(nic["address"], 0),
        }
        for nic in own_functions(facts)
    ]
    return gpus + nics


def _port(state: dict[str, Any]) -> dict[str, Any]:
    """Return the link layer, which is how the port is built for its fabric, apart from the state of the link."""
    return {"layer": state["layer"], "link": {key: state[key] for key in ("state", "rate_gbps", "physical")}}


def _common(device: dict[str, Any], kind: str, rails_of: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    return {
        "type": kind,
        "address": device["address"],
        "model": device_model(device),
        "rails": sorted({rail["rail"] for rail in rails_of.get(device["address"], [])}),
        "pcie": _pcie(device["link"], kind),
        "numa_node": device["numa_node"],
        "path": device["path"],
    }


def _pcie(link: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return a PCIe link; an idle GPU slows its own down by itself, so its speed of now is not told."""
    found = {key: link[key] for key in _LINK_KEYS}
    lacks = lacking(link)
    if kind == "gpu":
        return {**found, "speed_gts": None, "degraded": "width" in lacks}
    return {**found, "degraded": bool(lacks)}


def _child_switch(node: dict[str, Any], address: str) -> dict[str, Any]:
    children: list[dict[str, Any]] = node["children"]
    for child in children:
        if child["type"] == "switch" and child["address"] == address:
            return child
    children.append({"type": "switch", "address": address, "children": []})
    return children[-1]


def _sorted_node(node: dict[str, Any]) -> dict[str, Any]:
    if "children" in node:
        node = {**node, "children": sorted((_sorted_node(child) for child in node["children"]), key=_place)}
    return node


def _place(node: dict[str, Any]) -> tuple[Any, ...]:
    devices = leaves([node])
    rails = [rail for device in devices for rail in device["rails"]]
    holds_gpu = any(device["type"] == "gpu" for device in devices)
    return (min(rails, default=_NO_RAIL), not holds_gpu, node["address"])


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _built(tree: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return how the machine is built: the map without what may change at run time."""

    def bare(node: dict[str, Any]) -> dict[str, Any]:
        kept = {key: value for key, value in node.items() if key not in _STATE_KEYS}
        if "children" in kept:
            kept["children"] = [bare(child) for child in kept["children"]]
        return kept

    return [{"numa": numa["numa"], "bridges": [bare(bridge) for bridge in numa["bridges"]]} for numa in tree]


def _faults(tree: list[dict[str, Any]]) -> int:
    devices = tree_devices(tree)
    lame = [device for device in devices if device["type"] == "nic" and device["link"]["state"] != "up"]
    slow = [device for device in devices if device["pcie"]["degraded"]]
    return len(lame) + len(slow)


def _differences(model: list[dict[str, Any]], tree: list[dict[str, Any]]) -> list[str]:
    lines = []
    for expected, found in zip(tree_devices(model), tree_devices(tree)):
        where = short_address(found["address"])
        for key in _STATE_KEYS:
            if expected.get(key) != found.get(key):
                lines.append(f"{where}: {_spoken(key, found)} instead of {_spoken(key, expected)}")
    return lines


def _spoken(key: str, device: dict[str, Any]) -> str:
    value = device.get(key)
    if key == "link" and value:
        return "link " + " ".join(str(part) for part in (value["state"], value["physical"]) if part)
    if key == "pcie" and value:
        return "PCIe " + (f"x{value['width'] or '?'}" if device["type"] == "gpu" else pcie_text(value))
    if key == "uplink":
        return "the uplink" if value else "no uplink"
    if key == "virtual_functions":
        return f"{value} VFs"
    return f"{key} {value or 'none'}"


def pcie_text(link: dict[str, Any]) -> str:
    """Return ``32 GT/s x16`` as far as it is known."""
    speed = "? GT/s" if link["speed_gts"] is None else f"{link['speed_gts']:g} GT/s"
    return f"{speed} x{'?' if link['width'] is None else link['width']}"
