# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPU memory at the ends of a bandwidth test: how perftest gets at it, and how far the GPU is from the NIC. Pure.

perftest registers GPU memory through a module of the kernel (nvidia-peermem, formerly nv_peer_mem) or, with
``--use_cuda_dmabuf``, as a DMA-BUF of the GPU's driver (linux-rdma/perftest, src/cuda_memory.c and
src/perftest_resources.c). A pod has one GPU of a device plugin, so it is CUDA's device 0. Which one it is, perftest
prints, as PCIe bus and device.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from ..bandwidth import DISTANCES
from ..problem import Problem, problem_of

_FIRST = "--use_cuda=0"
_AS_DMABUF = "--use_cuda_dmabuf"
_UNLISTED = "SYS"


class GpuWay(NamedTuple):
    """A GPU beside a NIC: the label of their distance (one of DISTANCES), the PCIe link of the GPU if it is known."""

    distance: str
    pcie: dict[str, Any] | None


Ways = Mapping[str, GpuWay]
"""The GPUs of a host by PCI address, and by PCIe bus and device (``1b:00``) where no two domains have one there."""


def memory_options(cuda: Sequence[str], peer: Sequence[str]) -> tuple[tuple[str, ...], Problem | None]:
    """Return the options of perftest for GPU memory, by what a probe observed (``cuda``, ``peer``), or why
    there are none.
    """
    if "no_driver" in cuda:
        cause = (
            "the container runtime gave the pod no GPU: it does so only in a RuntimeClass, or the node has no driver"
        )
        step = "name the RuntimeClass of pods with a GPU (rdma_fabric_verify_runtime_class; kubectl get runtimeclass)"
        return (), problem_of("libcuda of the GPU's driver is not in the pod", cause, step)
    if "memory" not in cuda:
        cause = "those of the distributions are built without CUDA"
        step = "use an image whose perftest was built with CUDA (rdma_fabric_verify_image)"
        return (), problem_of("perftest of the image knows no GPU memory", cause, step)
    if peer:
        return (_FIRST,), None
    if "dmabuf" in cuda:
        return (_FIRST, _AS_DMABUF), None
    cause = "nvidia-peermem is not loaded on the node, and perftest of the image was built without DMA-BUF"
    step = "load nvidia-peermem (rdma_fabric_peer_memory), or use a perftest with --use_cuda_dmabuf"
    return (), problem_of("GPU memory can't be registered", cause, step)


def ways_of(facts: Mapping[str, Any] | None, nic: str | None) -> dict[str, GpuWay]:
    """Return the GPUs that the facts of a host have, beside one of its NICs (a PCI address)."""
    labels = ((facts or {}).get("distances") or {}).get(nic or "")
    if labels is None:
        return {}
    found: dict[str, GpuWay] = {}
    shared = set()
    for gpu in (facts or {}).get("gpus") or []:
        address = str(gpu["address"])
        place = _place(address)
        if place in found:
            shared.add(place)
        # The facts leave out the farthest.
        found[place] = found[address] = GpuWay(labels.get(address, _UNLISTED), gpu.get("link"))
    return {place: way for place, way in found.items() if place not in shared}


def ways_in_pod(ways: Ways, addresses: Iterable[str]) -> dict[str, GpuWay]:
    """Return the ways of a host as one of its pods needs them: the GPUs at ``addresses`` are the pod's.

    The GPUs of Grace Blackwell hosts have one bus and device, each in a PCI domain of its own.
    """
    return {**ways, **{_place(address): ways[address] for address in addresses if address in ways}}


def _place(address: str) -> str:
    return address.partition(":")[2].partition(".")[0]


def farthest(ways: Iterable[GpuWay | None]) -> str | None:
    """Return the longest distance of several; None when one is not known."""
    labels = [way.distance if way else None for way in ways]
    known = [label for label in labels if label is not None]
    return max(known, key=DISTANCES.index) if known and len(known) == len(labels) else None
