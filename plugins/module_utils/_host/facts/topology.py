# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the distance between NICs and GPUs from their paths in the PCI tree, and their nearest NUMA nodes.

The labels are those of ``nvidia-smi topo -m``: PIX (one PCIe switch between them), PXB (several, one root port), PHB
(one host bridge, through the CPU), NODE (host bridges of one NUMA node), SYS (across NUMA nodes or unknown). C2C is our
own: a NIC of the Grace processor to which the GPU is connected by NVLink-C2C. There every root port is a PCI domain, so
no NIC shares a tree with a GPU: nvidia-smi reports NODE or, on a GB200, SYS for all of them (sgl-project/sglang issue
11208), while NCCL uses GPUDirect RDMA over C2C (NVIDIA/nccl issue 1579, NCCL_NET_GDR_C2C).

GPU memory has NUMA nodes of its own (GH200, GB200), and a device may be reported in one: firmware and hypervisors
describe such nodes with the device as their initiator (ACPI, generic initiator; QEMU, acpi-generic-initiator). Source
of the files: the kernel's Documentation/ABI/stable/sysfs-devices-node (has_cpu, distance).
"""

from __future__ import annotations

import re
from typing import Collection, Iterable, Sequence, Union

from ..machine.probe import Probe
from .devices import MELLANOX, is_on_c2c
from .shapes import Gpu, Nic, Rail

_RANKS = ("PIX", "PXB", "C2C", "PHB", "NODE", "SYS")
# The maximum distance in a rail, by the nearest pair of the machine; one host bridge by default.
_FURTHEST = {"C2C": "C2C", "NODE": "NODE"}
_SWITCHED = 2
Device = Union[Nic, Gpu]
NODES = "/sys/devices/system/node"
_LIMIT = 4096


def distance(one: Device, other: Device) -> str:
    """Return the distance label of two devices (their ids, ``path`` and ``numa_node`` are used)."""
    label = _in_the_tree(one, other)
    of_one_processor = label in ("PHB", "NODE")
    return "C2C" if of_one_processor and (_on_c2c(one) or _on_c2c(other)) else label


def _on_c2c(device: Device) -> bool:
    return is_on_c2c(device["vendor"], device["device"])


def _in_the_tree(one: Device, other: Device) -> str:
    first, second = one["path"], other["path"]
    common = 0
    while common < min(len(first), len(second)) and first[common] == second[common]:
        common += 1
    if common == 0 or not first[0].startswith("pci"):
        same_node = one["numa_node"] is not None and one["numa_node"] == other["numa_node"]
        return "NODE" if same_node else "SYS"
    if common == 1:
        return "PHB"
    return "PIX" if _switches(len(first) - common, len(second) - common) <= 1 else "PXB"


def _switches(first: int, second: int) -> int:
    """Return the number of switches between two devices ``first`` and ``second`` steps below their last common bridge.

    The last step is the device itself, the one before it the common switch's downstream port; every further switch is
    an upstream and a downstream port.
    """
    return 1 + max(0, first - _SWITCHED) // 2 + max(0, second - _SWITCHED) // 2


def distances(nics: Sequence[Nic], gpus: Sequence[Gpu]) -> dict[str, dict[str, str]]:
    """Return the distance label of every pair of RDMA NIC and GPU; a PF represents its virtual ones."""
    if not gpus:
        return {}
    return {nic["address"]: {gpu["address"]: distance(nic, gpu) for gpu in gpus} for nic in fabric_of(nics)}


def rails(nics: Sequence[Nic], gpus: Sequence[Gpu], uplinks: Collection[str] = ()) -> list[Rail]:
    """Return every GPU paired with its nearest RDMA NICs; the rail's number is the GPU's place in order of addresses.

    Each GPU gets a NIC of its own as long as there are enough, nearest pairs first; the remaining GPUs share NICs. A
    pair further apart than one host bridge, or connected by C2C alone, only counts on machines without a nearer pair,
    and one across NUMA nodes never: a GPU that lost its NIC must not appear to be served by a storage card. Among
    equally near NICs, those at the addresses ``uplinks`` come last: on a GB200 all NICs of a processor are equally
    near, including those of the host's own network (NVIDIA/NVSentinel pull request 1221).
    """
    fabric = fabric_of(nics)
    near = _near_pairs(fabric, gpus, uplinks)
    chosen = _one_each(near)
    served = {gpu for _rank, gpu, _nic in chosen}
    used = {nic for _rank, _gpu, nic in chosen}
    for pair in near:
        rank, gpu, nic = pair
        shares = gpu not in served
        second_plane = nic not in used and rank <= _RANKS.index("PXB")
        if shares or second_plane:
            chosen.append(pair)
            served.add(gpu)
            used.add(nic)
    return [
        {
            "rail": gpu,
            "nic": fabric[nic]["address"],
            "gpu": gpus[gpu]["address"],
            "distance": _RANKS[rank],
        }
        for rank, gpu, nic in sorted(chosen, key=lambda pair: (pair[1], pair[0], pair[2]))
    ]


def fabric_of(nics: Iterable[Nic]) -> list[Nic]:
    """Return the NICs of the fabric: those with RDMA and NVIDIA's, a PF for its virtual ones."""
    return [nic for nic in nics if nic["pf"] is None and (nic["rdma"] or nic["vendor"] == MELLANOX)]


def _near_pairs(nics: Sequence[Nic], gpus: Sequence[Gpu], uplinks: Collection[str]) -> list[tuple[int, int, int]]:
    """Return (rank, GPU index, NIC index) of the pairs that may become rails, nearest first."""
    pairs = sorted(
        (_RANKS.index(distance(nic, gpu)), nic["address"] in uplinks, gpu_index, nic_index)
        for gpu_index, gpu in enumerate(gpus)
        for nic_index, nic in enumerate(nics)
    )
    furthest = _RANKS.index(_FURTHEST.get(_RANKS[pairs[0][0]], "PHB")) if pairs else 0
    leaves_c2c = bool(pairs) and _RANKS[pairs[0][0]] != "C2C"
    return [
        (rank, gpu, nic)
        for rank, _is_uplink, gpu, nic in pairs
        if rank <= furthest and not (leaves_c2c and _RANKS[rank] == "C2C")
    ]


def _one_each(pairs: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    chosen: list[tuple[int, int, int]] = []
    for rank, gpu, nic in pairs:
        if all(gpu != other_gpu and nic != other_nic for _rank, other_gpu, other_nic in chosen):
            chosen.append((rank, gpu, nic))
    return chosen


def processor_nodes(probe: Probe) -> list[int]:
    """Return the NUMA nodes with processors from ``0-1`` or ``0,2`` (has_cpu), none if unknown."""
    listed = (probe.text(f"{NODES}/has_cpu", limit=_LIMIT) or "").split(",")
    ranges = [re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part.strip()) for part in listed]
    return [node for found in ranges if found for node in range(int(found[1]), int(found[2] or found[1]) + 1)]


def all_nodes(probe: Probe) -> list[int]:
    """Return every NUMA node, in the order of the kernel's distances."""
    names = (re.fullmatch(r"node(\d{1,6})", name) for name in probe.names(NODES))
    return sorted(int(name[1]) for name in names if name)


def place_by_processors(probe: Probe, devices: Iterable[Device], with_processors: Sequence[int]) -> None:
    """Set ``numa_node`` of devices in a node without processors to the nearest node with processors."""
    nearest: dict[int, int | None] = {}
    for device in devices:
        node = device["numa_node"]
        if node is None or not with_processors or node in with_processors:
            continue
        if node not in nearest:
            nearest[node] = _nearest(probe, node, with_processors)
        device["numa_node"] = nearest[node]


def _nearest(probe: Probe, node: int, candidates: Sequence[int]) -> int | None:
    """Return the candidate with the smallest distance from a node, None if the kernel does not report distances."""
    texts = (probe.text(f"{NODES}/node{node}/distance", limit=_LIMIT) or "").split()
    far = {other: int(text) for other, text in zip(all_nodes(probe), texts) if text.isdecimal()}
    known = [candidate for candidate in candidates if candidate in far]
    return min(known, key=lambda candidate: (far[candidate], candidate)) if known else None
