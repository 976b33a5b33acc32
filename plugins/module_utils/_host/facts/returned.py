# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert facts to the compact form that leaves the host; ``completed.py`` has the way back. Pure.

Every run returns the facts of every host, and a run directory stores them; most of their size is repeated for a dozen
ports and all GPUs. So unknown and usual values of devices are left out, and so are facts that only plans need, because
planning uses the complete facts.
"""

from __future__ import annotations

import hashlib
from typing import Any, Collection, Iterable, Mapping

from .netdev import PHYSICAL
from .shapes import Digest, Facts, Gpu, PcieLink

# A longer text leaves the host as a digest.
LONGEST_TEXT = 4096
# The distance of pairs that are left out.
FURTHEST = "SYS"
_MOST_FAILURES = 24
# Facts that only plans need.
_ONLY_FOR_PLANS = {
    "nics": ("class",),
    "sriov": ("autoprobe", "offset", "stride"),
    "netdevs": ("link_type", "name_origin", "operstate"),
    "rdma": ("hca_type", "system_image_guid"),
    "modules": ("out_of_tree", "refcount", "srcversion", "users"),
    "boot": ("managers", "python", "set_elsewhere", "unfit", "unit"),
}
# The device ID of VFs of ConnectX-6 Dx and everything newer.
USUAL_VF_DEVICE = "101e"
_USUAL_SRIOV: Mapping[str, Any] = {"vfs": [], "vf_device": USUAL_VF_DEVICE}
_USUAL_NETDEV: Mapping[str, Any] = {"kind": PHYSICAL, "lower": []}
ACTIVE, TRAINED = "ACTIVE", "LinkUp"


def as_returned(facts: Facts) -> dict[str, Any]:
    """Return facts in the form that leaves the host."""
    boot = facts["boot"]
    files = {path: shortened(text) for path, text in boot["files"].items()}
    return {
        **facts,
        "nics": [_nic(nic) for nic in facts["nics"]],
        "gpus": gpus_as_returned(facts["gpus"]),
        "netdevs": [_compact(netdev, _ONLY_FOR_PLANS["netdevs"], usual=_USUAL_NETDEV) for netdev in facts["netdevs"]],
        "rdma": [
            {**_compact(device, _ONLY_FOR_PLANS["rdma"]), "ports": [_port(port) for port in device["ports"]]}
            for device in facts["rdma"]
        ],
        "modules": {
            name: _compact(module, _ONLY_FOR_PLANS["modules"], usual={"builtin": False})
            for name, module in facts["modules"].items()
        },
        "distances": {
            nic: {gpu: way for gpu, way in ways.items() if way != FURTHEST} for nic, ways in facts["distances"].items()
        },
        "boot": {**_compact(boot, _ONLY_FOR_PLANS["boot"]), "files": files},
        "unreadable": facts["unreadable"][:_MOST_FAILURES],
    }


def gpus_as_returned(gpus: Iterable[Gpu]) -> list[dict[str, Any]]:
    """Return the facts of GPUs in the form that leaves the host."""
    return [_device(gpu) for gpu in gpus]


def shortened(text: str) -> str | Digest:
    """Return a text in the form that leaves the host: as a digest if it is longer than 4 KiB.

    Plans, undo and removal use the complete text; this keeps a task's result small.
    """
    data = text.encode("utf-8")
    return text if len(data) <= LONGEST_TEXT else {"sha256": hashlib.sha256(data).hexdigest()}


def _compact(entry: Mapping[str, Any], left_out: Collection[str] = (), usual: Mapping[str, Any] | None = None) -> Any:
    """Return an entry without None, the keys ``left_out``, and values that are ``usual``."""
    common = usual or {}
    return {
        key: value
        for key, value in entry.items()
        if value is not None and key not in left_out and not (key in common and value == common[key])
    }


def _nic(nic: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = _compact(_device(nic), _ONLY_FOR_PLANS["nics"])
    if "sriov" in found:
        found["sriov"] = _compact(found["sriov"], _ONLY_FOR_PLANS["sriov"], usual=_USUAL_SRIOV)
    if "iommu" in found:
        found["iommu"] = _compact(found["iommu"])
    return found


def _device(device: Mapping[str, Any]) -> dict[str, Any]:
    """Return a PCI device whose ``path`` ends above it, and whose link lacks maximum values equal to current ones."""
    address = device["address"]
    path = [place for place in device["path"] if place != address]
    return {**_compact(device), "link": _link(device["link"]), "path": path}


def _link(link: PcieLink) -> dict[str, Any]:
    found: dict[str, Any] = _compact(link, usual=most(link))
    # Writes 32.0 as 32.
    return {key: int(value) if value == int(value) else value for key, value in found.items()}


def most(link: Mapping[str, object]) -> dict[str, object]:
    """Return the maximum values of a link that equal its current ones."""
    return {"max_speed_gts": link["speed_gts"], "max_width": link["width"]}


def _port(port: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = _compact(port, usual={"physical": TRAINED} if port["state"] == ACTIVE else None)
    return found
