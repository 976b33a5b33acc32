# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads which NUMA nodes have processors, and which of them a node of memory alone belongs to.

Memory of GPUs makes nodes of its own (GH200, GB200), and a device may be told to lie in one: firmware and hypervisors
describe such nodes with the device as their initiator (ACPI, generic initiator; QEMU, acpi-generic-initiator). Source
of the files: the kernel's Documentation/ABI/stable/sysfs-devices-node (has_cpu, distance).
"""

from __future__ import annotations

import re
from typing import Iterable, Sequence

from ..machine.probe import Probe
from .topology import Device

NODES = "/sys/devices/system/node"
_LIMIT = 4096


def processor_nodes(probe: Probe) -> list[int]:
    """Return the NUMA nodes with processors, none where nothing tells: ``0-1`` or ``0,2`` (has_cpu)."""
    listed = (probe.text(f"{NODES}/has_cpu", limit=_LIMIT) or "").split(",")
    ranges = [re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part.strip()) for part in listed]
    return [node for found in ranges if found for node in range(int(found[1]), int(found[2] or found[1]) + 1)]


def all_nodes(probe: Probe) -> list[int]:
    """Return every NUMA node, in the order in which the kernel tells distances to them."""
    names = (re.fullmatch(r"node(\d{1,6})", name) for name in probe.names(NODES))
    return sorted(int(name[1]) for name in names if name)


def place_by_processors(probe: Probe, devices: Iterable[Device], with_processors: Sequence[int]) -> None:
    """Set ``numa_node`` of devices in a node of memory alone to the nearest node with processors."""
    nearest: dict[int, int | None] = {}
    for device in devices:
        node = device["numa_node"]
        if node is None or not with_processors or node in with_processors:
            continue
        if node not in nearest:
            nearest[node] = _nearest(probe, node, with_processors)
        device["numa_node"] = nearest[node]


def _nearest(probe: Probe, node: int, candidates: Sequence[int]) -> int | None:
    """Return the candidate that a node has the least distance to, None where the kernel does not tell."""
    told = (probe.text(f"{NODES}/node{node}/distance", limit=_LIMIT) or "").split()
    far = {other: int(text) for other, text in zip(all_nodes(probe), told) if text.isdecimal()}
    known = [candidate for candidate in candidates if candidate in far]
    return min(known, key=lambda candidate: (far[candidate], candidate)) if known else None
