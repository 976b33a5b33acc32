# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells how peer memory stands on a host, and who manages it. Pure."""

from __future__ import annotations

from typing import Mapping

from ...facts.devices import NVIDIA, has_gpudirect
from ...facts.driver_shapes import Symbols
from ...facts.host_state import HostState, pci_id
from ...facts.shapes import Gpu
from ...spec.peer_memory import AUTO, DMA_BUF, MODULE_OF
from .decide import Situation, decide

_UNTOLD: Symbols = {"peer_memory": None, "dma_buf": None}
# The GPU Operator labels a node so where it runs the GPU driver in a container; "pre-installed" means the host's own.
_OPERATOR_LABEL = "nvidia.com/gpu.deploy.driver"


def nvidia_gpus(actual: HostState) -> list[Gpu]:
    """Return the GPUs that peer memory is about."""
    return [gpu for gpu in actual.facts["gpus"] if pci_id(gpu["vendor"]) == NVIDIA]


def reachable_gpus(actual: HostState) -> list[Gpu]:
    """Return the GPUs whose memory NICs can be given access to."""
    return [gpu for gpu in nvidia_gpus(actual) if has_gpudirect(pci_id(gpu["device"]))]


def situation_of(actual: HostState, stack_replaced: bool = False) -> Situation:
    """Return what the choice of a mechanism depends on, from the facts of a host."""
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
    """Return what shows that the GPU Operator's driver container owns the GPU driver; empty when nothing does."""
    state = actual.facts.get("peer_memory")
    found = list(state["operator"]) if state is not None else []
    if labels.get(_OPERATOR_LABEL) == "true":
        found.append(f"the label {_OPERATOR_LABEL}=true")
    return found


def summarize(actual: HostState) -> dict[str, object]:
    """Return the state in a few values: what is active, what ``auto`` would choose and why, who owns it."""
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
