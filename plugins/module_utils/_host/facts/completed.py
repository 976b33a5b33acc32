# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Complete facts that have left a host in their compact form. Pure; no host needs it."""

from __future__ import annotations

from typing import Any

from .netdev import PHYSICAL
from .returned import ACTIVE, TRAINED, most

# The keys of a device that are None when left out.
_NONE = {
    "nics": ("subsystem", "family", "pf", "driver", "numa_node", "sriov", "link_layer", "iommu"),
    "gpus": ("name", "driver", "numa_node"),
    "netdevs": ("mac", "mtu", "carrier", "speed_mbps", "pci", "port_name", "switch_id", "master"),
    "rdma": ("pci", "sub_function", "netdev", "node_guid", "firmware", "psid"),
    "ports": ("state", "physical", "rate_gbps", "link_layer", "lid", "sm_lid", "rocev2_gid_index"),
    "link": ("speed_gts", "width"),
    "sriov": ("total", "enabled", "settings"),
}


def completed(facts: Any) -> Any:
    """Return facts from a host with the left-out values of devices added; complete facts stay unchanged.

    Other errors stay, for the caller's checks.
    """
    if not isinstance(facts, dict):
        return facts
    found = dict(facts)
    for part in ("nics", "gpus", "netdevs", "rdma"):
        if isinstance(found.get(part), list):
            found[part] = [_completed(entry, part) for entry in found[part]]
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
    if kind == "ports" and "physical" not in entry and found["state"] == ACTIVE:
        found["physical"] = TRAINED
    return found


def _complete_place(device: dict[str, Any]) -> None:
    """Add the device itself to its path, and missing maximum values to its link."""
    address, path, link = device.get("address"), device.get("path"), _completed(device.get("link"), "link")
    if isinstance(path, list) and path[-1:] != [address]:
        device["path"] = [*path, address]
    if isinstance(link, dict):
        device["link"] = {**most(link), **link}
