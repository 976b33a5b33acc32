# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans how GPUs give NICs access to their memory. Private: it may change.

Mechanisms, by what the host runs (NVIDIA GPU driver README, chapter GPUDirect RDMA): DMA-BUF with the open GPU
kernel modules from R515 on kernel 5.12 or newer needs no module of its own; nvidia-peermem comes with the GPU driver
from R470 and needs an RDMA stack with peer-memory symbols; nv_peer_mem is its predecessor for older drivers.
"""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._host.actual import Actual, pci_id
from ansible_collections.rdma.fabric.plugins.module_utils._host.context import ConcernPlan, Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.devices import NVIDIA
from ansible_collections.rdma.fabric.plugins.module_utils._host.host_requests import requests_for
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import (
    NOT_EXECUTED_YET,
    NOTHING,
    make_step,
    refused_step,
)

KEY = "gpudirect"
DMA_BUF = "DMA-BUF"
PEERMEM = "nvidia-peermem"
LEGACY = "nv_peer_mem"
_DMA_BUF_KERNEL = (5, 12)
_DMA_BUF_GPU_DRIVER = 515
_PEERMEM_GPU_DRIVER = 470
_PEER_SYMBOL_STACKS = ("mlnx-ofed", "doca-ofed")


def plan(context: Context) -> ConcernPlan:
    """Return a step when a policy asks for peer memory and a module would have to be loaded for it."""
    requests = requests_for(context, "peer_memory")
    gpus = [gpu for gpu in context.actual.facts["gpus"] if pci_id(gpu["vendor"]) == NVIDIA]
    if not requests or not gpus or not context.actual.nvidia_nics():
        return [], []
    if context.actual.stack.get("peer_memory"):
        return [], []
    source = requests[0]["source"]
    mechanism, obstacle = choose_mechanism(context)
    if mechanism == DMA_BUF and not obstacle:
        return [], [f"{source}: peer memory needs no module here: the open GPU driver shares memory by {DMA_BUF}"]
    wording: dict[str, Any] = {
        "target": f"{len(gpus)} GPUs",
        "action": f"give the NICs access to GPU memory by {mechanism}",
        "before": None,
        "after": mechanism,
        "reason": f"{source} asks for peer memory (nvPeerDriver), and no mechanism is active",
    }
    if obstacle:
        return [refused_step("peer_memory", KEY, **wording, detail=obstacle)], []
    step = make_step(
        "peer_memory",
        KEY,
        **wording,
        interrupts=NOTHING,
        undo=f"modprobe -r {mechanism}",
        status=NOT_EXECUTED_YET,
        detail="loaded after the RDMA stack and the GPU driver",
    )
    return [step], []


def choose_mechanism(context: Context) -> tuple[str, str]:
    """Return the mechanism that fits the host, and what stands in its way (empty when nothing does)."""
    stack = context.actual.stack
    driver = _leading_number(stack.get("gpu_driver"))
    if driver is None:
        return PEERMEM, "the NVIDIA GPU driver is not loaded; install it first, the module is a part of it"
    is_open = stack.get("gpu_driver_flavour") == "open"
    if is_open and driver >= _DMA_BUF_GPU_DRIVER and _kernel_shares_dma_buf(context.actual):
        return DMA_BUF, ""
    mechanism = PEERMEM if driver >= _PEERMEM_GPU_DRIVER else LEGACY
    replaced = any(step["id"].startswith("driver:") and step["status"] == NOT_EXECUTED_YET for step in context.earlier)
    if stack["flavour"] in _PEER_SYMBOL_STACKS or replaced:
        return mechanism, ""
    return mechanism, (
        f"{mechanism} needs an RDMA stack with peer-memory symbols, which inbox drivers lack: ask for an ofedDriver "
        f"or use the open GPU kernel modules, which share memory by {DMA_BUF}"
    )


def _kernel_shares_dma_buf(actual: Actual) -> bool:
    match = re.match(r"(\d{1,4})\.(\d{1,4})", str(actual.facts["system"].get("kernel") or ""))
    return match is not None and (int(match[1]), int(match[2])) >= _DMA_BUF_KERNEL


def _leading_number(version: Any) -> int | None:
    match = re.match(r"\d{1,6}", str(version or ""))
    return int(match[0]) if match else None
