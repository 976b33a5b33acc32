# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts as they leave the host, and as readers of them have them. Pure.

Every run of every host returns them, and a run directory keeps them: what is said of each of a dozen ports and again of
each GPU is most of it. So what a device does not tell, and what is the usual, is not there; nor is what plans alone are
made with, as those are made of the whole facts.
"""

from __future__ import annotations

import hashlib
from typing import Any, Collection, Iterable, Mapping

from .netdev import PHYSICAL
from .shapes import Digest, Facts, Gpu, PcieLink

# A longer text leaves the host as its digest only.
LONGEST_TEXT = 4096
# The way of a pair that is not told.
FURTHEST = "SYS"
# What plans alone are made with.
_OF_PLANS = {
    "nics": ("class",),
    "sriov": ("autoprobe", "vf_device", "offset", "stride"),
    "netdevs": ("link_type", "name_origin", "operstate"),
    "rdma": ("hca_type", "system_image_guid"),
    "modules": ("out_of_tree", "refcount", "srcversion", "users"),
    "boot": ("managers", "python", "unit", "vf_counts"),
}
# What is none of a device of whom it is not told.
_NONE = {
    "nics": ("subsystem", "family", "pf", "driver", "numa_node", "sriov", "link_layer", "iommu"),
    "gpus": ("name", "driver", "numa_node"),
    "netdevs": ("mac", "mtu", "carrier", "speed_mbps", "pci", "port_name", "switch_id", "master"),
    "rdma": ("pci", "sub_function", "netdev", "node_guid", "firmware", "psid"),
    "ports": ("state", "physical", "rate_gbps", "link_layer", "lid", "sm_lid", "rocev2_gid_index"),
    "link": ("speed_gts", "width"),
    "sriov": ("total", "enabled", "settings"),
}
_USUAL_NETDEV: Mapping[str, Any] = {"kind": PHYSICAL, "lower": []}
_ACTIVE, _TRAINED = "ACTIVE", "LinkUp"


def as_returned(facts: Facts) -> dict[str, Any]:
    """Return facts as they leave the host."""
    boot = facts["boot"]
    files = {path: shortened(text) for path, text in boot["files"].items()}
    return {
        **facts,
        "nics": [_nic(nic) for nic in facts["nics"]],
        "gpus": gpus_as_returned(facts["gpus"]),
        "netdevs": [_told(netdev, _OF_PLANS["netdevs"], usual=_USUAL_NETDEV) for netdev in facts["netdevs"]],
        "rdma": [
            {**_told(device, _OF_PLANS["rdma"]), "ports": [_port(port) for port in device["ports"]]}
            for device in facts["rdma"]
        ],
        "modules": {
            name: _told(module, _OF_PLANS["modules"], usual={"builtin": False})
            for name, module in facts["modules"].items()
        },
        "distances": {
            nic: {gpu: way for gpu, way in ways.items() if way != FURTHEST} for nic, ways in facts["distances"].items()
        },
        "boot": {**_told(boot, _OF_PLANS["boot"]), "files": files},
    }


def gpus_as_returned(gpus: Iterable[Gpu]) -> list[dict[str, Any]]:
    """Return GPUs as they leave the host."""
    return [_placed(gpu) for gpu in gpus]


def shortened(text: str) -> str | Digest:
    """Return a text that leaves the host: one of more than 4 KiB as its digest.

    What plans, undoes and removes works with the whole text; a task's result stays small.
    """
    data = text.encode("utf-8")
    return text if len(data) <= LONGEST_TEXT else {"sha256": hashlib.sha256(data).hexdigest()}


def completed(facts: Any) -> Any:
    """Return facts that left a host with all that is none or usual of their devices; whole ones stay whole.

    What else is wrong with them stays, for who checks them to find.
    """
    if not isinstance(facts, dict):
        return facts
    found = dict(facts)
    for part in ("nics", "gpus", "netdevs", "rdma"):
        if isinstance(found.get(part), list):
            found[part] = [_completed(entry, part) for entry in found[part]]
    return found


def _told(entry: Mapping[str, Any], left_out: Collection[str] = (), usual: Mapping[str, Any] | None = None) -> Any:
    """Return what is told of an entry, without what is none or as ``usual``."""
    common = usual or {}
    return {
        key: value
        for key, value in entry.items()
        if value is not None and key not in left_out and not (key in common and value == common[key])
    }


def _nic(nic: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = _told(_placed(nic), _OF_PLANS["nics"])
    if "sriov" in found:
        found["sriov"] = _told(found["sriov"], _OF_PLANS["sriov"], usual={"vfs": []})
    if "iommu" in found:
        found["iommu"] = _told(found["iommu"])
    return found


def _placed(device: Mapping[str, Any]) -> dict[str, Any]:
    """Return a device of PCI: ``path`` is what is above it, and of its link the most is told where that is more."""
    address = device["address"]
    path = [place for place in device["path"] if place != address]
    return {**_told(device), "link": _link(device["link"]), "path": path}


def _link(link: PcieLink) -> dict[str, Any]:
    found: dict[str, Any] = _told(link, usual=_most(link))
    # 32.0 as 32.
    return {key: int(value) if value == int(value) else value for key, value in found.items()}


def _most(link: Mapping[str, object]) -> dict[str, object]:
    """Return the most that a link can where it is what it has."""
    return {"max_speed_gts": link["speed_gts"], "max_width": link["width"]}


def _port(port: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = _told(port, usual={"physical": _TRAINED} if port["state"] == _ACTIVE else None)
    return found


def _completed(entry: Any, kind: str) -> Any:
    if not isinstance(entry, dict):
        return entry
    found = {**dict.fromkeys(_NONE[kind]), **entry}
    if kind in ("nics", "gpus"):
        _complete_place(found)
    if kind == "nics":
        found["sriov"] = _completed(found["sriov"], "sriov")
    if kind == "sriov":
        found.setdefault("vfs", [])
    if kind == "netdevs":
        found.setdefault("kind", PHYSICAL)
        found.setdefault("lower", [])
    if kind == "rdma" and isinstance(found.get("ports"), list):
        found["ports"] = [_completed(port, "ports") for port in found["ports"]]
    if kind == "ports" and "physical" not in entry and found["state"] == _ACTIVE:
        found["physical"] = _TRAINED
    return found


def _complete_place(device: dict[str, Any]) -> None:
    """Add the device itself to its path, and to its link the most that it can where that is what it has."""
    address, path, link = device.get("address"), device.get("path"), _completed(device.get("link"), "link")
    if isinstance(path, list) and path[-1:] != [address]:
        device["path"] = [*path, address]
    if isinstance(link, dict):
        device["link"] = {**_most(link), **link}
