# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides how GPUs give NICs access to their memory, and reports the present state and who manages it. Pure.

The rules, with their sources:
- DMA-BUF needs the open GPU kernel modules from R515, a GPU of Turing or newer and an RDMA stack that registers DMA-BUF
  regions (NVIDIA GPU driver README, chapter GPUDirect RDMA; drivers/infiniband/core/umem_dmabuf.c).
- nvidia-peermem comes with the GPU driver from R470 and needs an RDMA stack that takes peer-memory clients, by ib_core,
  by ib_uverbs, or by another of its modules (facts/driver/stack.py has the sources). Built without that symbol its
  initialisation always ends with EINVAL and the kernel log stays empty (nvidia-peermem.c).
- No mechanism reaches the memory of a GB10 (facts/devices.py has the source).
- nv_peer_mem is its predecessor for older GPU drivers, built on its own (Mellanox/nv_peer_memory).
"""

from __future__ import annotations

import re
from typing import Mapping, NamedTuple, Sequence

from ...facts.devices import NVIDIA, gpu_name, has_gpudirect
from ...facts.driver_shapes import OnDisk, Symbols
from ...facts.host_state import HostState, pci_id
from ...facts.shapes import Gpu
from ...spec.peer_memory import AUTO, DMA_BUF, LEGACY, MODULE_OF, NONE, PEERMEM

DMA_BUF_KERNEL = (5, 12)
DMA_BUF_GPU_DRIVER = 515
PEERMEM_GPU_DRIVER = 470
# Modules of a stack that took peer-memory clients in one of its releases.
_EXPORTERS = ("ib_core", "ib_uverbs")
_VENDOR_STACKS = ("mlnx-ofed", "doca-ofed")
# The first two digits of an NVIDIA GPU's device id identify the generation (the public PCI id list).
_GENERATIONS = {
    "Pascal": ("13", "15", "1b", "1c"),
    "Volta": ("1d",),
    "Turing": ("1e", "1f", "21"),
    "Ampere": ("20", "22", "24", "25"),
    "Hopper": ("23",),
    "Ada": ("26", "27", "28"),
    "Blackwell": ("29", "2b", "2c", "2d", "2e", "2f", "31"),
}
_GENERATION_OF = {digits: name for name, all_digits in _GENERATIONS.items() for digits in all_digits}
_BEFORE_OPEN_MODULES = ("Pascal", "Volta")
_UNTOLD: Symbols = {"peer_memory": None, "dma_buf": None}
# The GPU Operator's label of a node whose GPU driver runs in a container; "pre-installed" means the host's own.
_OPERATOR_LABEL = "nvidia.com/gpu.deploy.driver"


class Situation(NamedTuple):
    """The facts that the choice depends on.

    ``running`` and ``on_disk`` are the symbols from ``read_peer_memory``, ``modules`` those on the disk.
    ``stack_replaced`` says that a stack with peer-memory symbols will run before peer memory is set up. ``exporter`` is
    the module that takes peer-memory clients, None if unknown.
    """

    gpu_devices: Sequence[str]
    gpu_driver: str | None
    gpu_flavour: str | None
    kernel: str
    stack: str
    running: Symbols
    on_disk: Symbols
    modules: Mapping[str, OnDisk] | None
    stack_replaced: bool = False
    exporter: str | None = None


class Decision(NamedTuple):
    """The mechanism, the reason for it, and what prevents it (empty if nothing does)."""

    mechanism: str
    cause: str
    obstacle: str = ""


def decide(wanted: str, situation: Situation) -> Decision:
    """Return the mechanism for ``wanted``: ``auto``, ``none`` or the name of one."""
    if wanted == NONE:
        return Decision(NONE, "none is wanted")
    driver = leading_number(situation.gpu_driver)
    if driver is None:
        obstacle = "the NVIDIA GPU driver is not loaded; install it first, nvidia-peermem is a part of it"
        return Decision(PEERMEM if wanted == AUTO else wanted, "", obstacle)
    if situation.gpu_devices and not any(map(has_gpudirect, situation.gpu_devices)):
        return Decision(PEERMEM if wanted == AUTO else wanted, "", without_gpudirect(situation.gpu_devices))
    missing = _missing_for_dma_buf(situation, driver)
    if wanted == DMA_BUF:
        return Decision(DMA_BUF, "DMA-BUF is requested", "; ".join(missing))
    if wanted == AUTO and not missing:
        return Decision(
            DMA_BUF, f"the open GPU driver {situation.gpu_driver} shares memory by DMA-BUF without a module"
        )
    mechanism = wanted if wanted != AUTO else PEERMEM if driver >= PEERMEM_GPU_DRIVER else LEGACY
    cause = f"{mechanism} is requested" if wanted != AUTO else f"no DMA-BUF: {'; '.join(missing)}"
    return Decision(mechanism, cause, _module_obstacle(mechanism, situation, driver))


def without_gpudirect(devices: Sequence[str]) -> str:
    """Return the notice about GPUs whose memory no NIC reaches, by their PCI device ids."""
    names = " and ".join(sorted({gpu_name(device) or device for device in devices}))
    return (
        f"{names} has no GPUDirect RDMA, neither by nvidia-peermem nor by DMA-BUF: its programs send from host memory "
        "(cudaHostAlloc), as NCCL does by itself"
    )


def generation(device: str) -> str | None:
    """Return the generation of a GPU by its PCI device id (four hex digits), None if unknown."""
    return _GENERATION_OF.get(device.lower()[:2])


def leading_number(version: str | None) -> int | None:
    """Return the branch of a GPU driver's version: 570 of ``570.86.15``."""
    match = re.match(r"\d{1,6}", version or "")
    return int(match[0]) if match else None


def _missing_for_dma_buf(situation: Situation, driver: int) -> list[str]:
    missing = []
    if situation.gpu_flavour != "open":
        missing.append("the GPU driver's kernel modules are the proprietary ones")
    if driver < DMA_BUF_GPU_DRIVER:
        missing.append(f"GPU driver {situation.gpu_driver} is older than R{DMA_BUF_GPU_DRIVER}")
    old = sorted({name for name in map(generation, situation.gpu_devices) if name in _BEFORE_OPEN_MODULES})
    if old:
        missing.append(f"{' and '.join(old)} GPUs have no DMA-BUF")
    if not _registers_dma_buf(situation):
        missing.append(f"the RDMA stack of kernel {situation.kernel} registers no DMA-BUF regions")
    return missing


def _registers_dma_buf(situation: Situation) -> bool:
    """Return whether the RDMA stack registers DMA-BUF regions: by the symbol, or by the kernel's version if unknown.

    ib_uverbs, which has the symbol, may not be loaded yet; then the modules on the disk count.
    """
    if situation.running["dma_buf"]:
        return True
    on_disk = situation.on_disk["dma_buf"]
    if on_disk is not None:
        return on_disk
    match = re.match(r"(\d{1,4})\.(\d{1,4})", situation.kernel)
    return match is not None and (int(match[1]), int(match[2])) >= DMA_BUF_KERNEL


def _module_obstacle(mechanism: str, situation: Situation, driver: int) -> str:
    if mechanism == PEERMEM and driver < PEERMEM_GPU_DRIVER:
        return f"GPU driver {situation.gpu_driver} has no {PEERMEM}: it comes with R{PEERMEM_GPU_DRIVER} and newer"
    return _symbol_obstacle(mechanism, situation) or _file_obstacle(mechanism, situation)


def _symbol_obstacle(mechanism: str, situation: Situation) -> str:
    running, on_disk = situation.running["peer_memory"], situation.on_disk["peer_memory"]
    if running or situation.stack_replaced:
        return ""
    if on_disk and running is False:
        return (
            f"the running RDMA stack takes no peer-memory clients, the one on the disk does: {mechanism} can be loaded "
            "after the driver was reloaded or the host rebooted"
        )
    if running is None and (on_disk or situation.stack in _VENDOR_STACKS):
        return ""
    return (
        f"{mechanism} needs an RDMA stack with peer-memory symbols, which inbox drivers lack: ask for an ofedDriver or "
        "use the open GPU kernel modules, which share memory by DMA-BUF"
    )


def _file_obstacle(mechanism: str, situation: Situation) -> str:
    """Return what is wrong with the module's file: missing, or built without the symbols of the stack."""
    if situation.modules is None:
        return ""
    module = situation.modules.get(MODULE_OF[mechanism])
    if module is None:
        return f"the module {mechanism} is not on the disk for kernel {situation.kernel}: install or build it first"
    exporters = {*_EXPORTERS, situation.exporter}
    if exporters & set(module["depends"]):
        return ""
    of_stack = situation.exporter or " or ".join(_EXPORTERS)
    return (
        f"{module['path']} was built without peer-memory symbols (it does not depend on {of_stack}): loading it always "
        "ends with 'Invalid argument' and an empty kernel log; rebuild it after the RDMA stack was installed (dkms "
        "remove and install of the GPU driver), or use DMA-BUF"
    )


def nvidia_gpus(actual: HostState) -> list[Gpu]:
    """Return the GPUs of NVIDIA."""
    return [gpu for gpu in actual.facts["gpus"] if pci_id(gpu["vendor"]) == NVIDIA]


def reachable_gpus(actual: HostState) -> list[Gpu]:
    """Return the GPUs whose memory NICs can reach."""
    return [gpu for gpu in nvidia_gpus(actual) if has_gpudirect(pci_id(gpu["device"]))]


def situation_of(actual: HostState, stack_replaced: bool = False) -> Situation:
    """Return the facts of a host that the choice of a mechanism depends on."""
    state, stack = actual.facts.get("peer_memory"), actual.stack
    return Situation(
        gpu_devices=[pci_id(gpu["device"]) for gpu in nvidia_gpus(actual)],
        gpu_driver=stack["gpu_driver"],
        gpu_flavour=stack["gpu_driver_flavour"],
        kernel=actual.facts["system"]["kernel"],
        stack=stack["flavour"],
        running=state["symbols"]["running"] if state is not None else _UNTOLD,
        on_disk=state["symbols"]["on_disk"] if state is not None else _UNTOLD,
        modules=state["modules"] if state is not None else None,
        stack_replaced=stack_replaced,
        exporter=state["exporter"] if state is not None else None,
    )


def loaded_mechanisms(actual: HostState) -> list[str]:
    """Return the mechanisms whose kernel module is loaded."""
    return [name for name, module in MODULE_OF.items() if actual.is_loaded(module)]


def operator_evidence(actual: HostState, labels: Mapping[str, str]) -> list[str]:
    """Return evidence that the GPU Operator's driver container owns the GPU driver, empty if there is none."""
    state = actual.facts.get("peer_memory")
    found = list(state["operator"]) if state is not None else []
    if labels.get(_OPERATOR_LABEL) == "true":
        found.append(f"the label {_OPERATOR_LABEL}=true")
    return found


def summarize(actual: HostState) -> dict[str, object]:
    """Return a summary: the active mechanism, the choice of ``auto`` and its reason, and the owner."""
    decision = decide(AUTO, situation_of(actual))
    loaded = loaded_mechanisms(actual)
    state = actual.facts["peer_memory"]
    shares = decision.mechanism == DMA_BUF and not decision.obstacle
    return {
        "active": loaded or ([DMA_BUF] if shares and nvidia_gpus(actual) else []),
        "choice": {"mechanism": decision.mechanism, "cause": decision.cause, "obstacle": decision.obstacle or None},
        "owner": "gpu operator" if operator_evidence(actual, {}) else "host",
        "registered_clients": state["clients"],
        "loaded_at_boot": sorted(name for name, module in MODULE_OF.items() if state["loaded_at_boot"].get(module)),
        "conflict": all(module in (state["modules"] or {}) for module in MODULE_OF.values()),
    }
