# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How near NICs and GPUs are to each other, from their places in the PCI tree.

The labels are those of ``nvidia-smi topo -m``: PIX (one PCIe switch between them), PXB (several, one root port), PHB
(one host bridge, through the CPU), NODE (host bridges of one NUMA node), SYS (across NUMA nodes or unknown); and C2C,
which it does not have: a NIC of the Grace processor that the GPU hangs on by NVLink-C2C. There every root port is a PCI
domain of its own, so the tree joins no NIC with a GPU: nvidia-smi tells NODE or, of a GB200, SYS for all of them
(sgl-project/sglang issue 11208), while NCCL takes GPUDirect RDMA over C2C (NVIDIA/nccl issue 1579, NCCL_NET_GDR_C2C).
"""

from __future__ import annotations

from typing import Collection, Iterable, Sequence, Union

from .devices import MELLANOX, is_on_c2c
from .shapes import Gpu, Nic, Rail

_RANKS = ("PIX", "PXB", "C2C", "PHB", "NODE", "SYS")
# How far the pairs of a rail may be, by the nearest pair of the machine: one host bridge where nothing says otherwise.
_FURTHEST = {"C2C": "C2C", "NODE": "NODE"}
_SWITCHED = 2

Device = Union[Nic, Gpu]


def distance(one: Device, other: Device) -> str:
    """Return the label of the way between two devices of the facts (ids, ``path`` and ``numa_node`` are used)."""
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
    """Count the switches between two devices that lie ``first`` and ``second`` steps below their last common bridge.

    The last step is the device itself, the one before it the common switch's downstream port; every further switch is
    an upstream and a downstream port.
    """
    return 1 + max(0, first - _SWITCHED) // 2 + max(0, second - _SWITCHED) // 2


def distances(nics: Sequence[Nic], gpus: Sequence[Gpu]) -> dict[str, dict[str, str]]:
    """Return the label of every pair of an RDMA NIC and a GPU; a physical function stands for its virtual ones."""
    if not gpus:
        return {}
    return {nic["address"]: {gpu["address"]: distance(nic, gpu) for gpu in gpus} for nic in fabric_of(nics)}


def rails(nics: Sequence[Nic], gpus: Sequence[Gpu], uplinks: Collection[str] = ()) -> list[Rail]:
    """Pair every GPU with its nearest RDMA NICs; the rail's number is the GPU's place in order of addresses.

    Each GPU gets a NIC of its own as long as there are enough, nearest pairs first; what is left over shares. A pair
    further apart than one host bridge, or joined by C2C alone, counts only on machines where no pair is nearer, and one
    across NUMA nodes never: a GPU that lost its NIC must not look served by a storage card. Of NICs that are equally
    near those at the addresses ``uplinks`` come last: on a GB200 every NIC of a processor is, those of the host's own
    network among them (NVIDIA/NVSentinel pull request 1221).
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
    """Return the NICs of the fabric: those with RDMA and NVIDIA's, a physical function for its virtual ones."""
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
