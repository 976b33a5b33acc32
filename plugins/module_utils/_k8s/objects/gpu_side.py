# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodes with GPUs lack of the GPU side, which is somebody else's, and how their GPUs are divided. Pure.

Sources: resources and labels of NVIDIA/k8s-device-plugin (docs/gpu-feature-discovery, MIG strategies, time slicing) and
of the GPU Operator (``mig.config.state`` of its MIG manager, ``gpu.workload.config``); kubelets from 1.30 on tell the
handlers of their container runtime (``status.runtimeHandlers``, KEP 3857) where containerd 2.0 or CRI-O does.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping, NamedTuple

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

_PRESENT = re.compile(r"feature\.node\.kubernetes\.io/pci-(03[0-9a-f]{2}_)?10de\.present|nvidia\.com/gpu\.present")
# Whole GPUs, those that are shared under a name of their own, and instances of divided ones.
_RESOURCE = re.compile(r"nvidia\.com/(gpu(\.shared)?|mig-([0-9]+c\.)?[0-9]+g\..+)")
_IN_PARTS = "nvidia.com/mig-"
_DOMAIN = "nvidia.com/"
# GPUs of such nodes are for virtual machines, and offered under names of their models.
_FOR_MACHINES = ("vm-passthrough", "vm-vgpu")
_INVALID = "MIG-INVALID"
_NOT_OURS = "nothing of the GPU side is changed here"


class GpuNode(NamedTuple):
    """A node with GPUs: ``offers`` are what pods may take of it, by resource; ``handlers`` None where nobody tells."""

    name: str
    labels: Mapping[str, str]
    offers: dict[str, int]
    handlers: frozenset[str] | None


def gpu_node_of(node: Mapping[str, Any]) -> GpuNode | None:
    """Return what a node tells of its GPUs; None for one without, or whose GPUs are for virtual machines."""
    labels, status = node["metadata"].get("labels") or {}, node.get("status") or {}
    amounts = {name: str(amount) for name, amount in (status.get("allocatable") or {}).items()}
    offers = {name: int(amount) for name, amount in amounts.items() if _RESOURCE.fullmatch(name) and amount.isdigit()}
    present = any(value == "true" and _PRESENT.fullmatch(name) for name, value in labels.items())
    if not (present or offers) or labels.get(f"{_DOMAIN}gpu.workload.config") in _FOR_MACHINES:
        return None
    told = status.get("runtimeHandlers") or None
    handlers = None if told is None else frozenset(str(each.get("name") or "") for each in told)
    return GpuNode(str(node["metadata"]["name"]), labels, offers, handlers)


def say_gpu_side(nodes: Iterable[GpuNode]) -> list[str]:
    """Return a notice for each piece that nodes with GPUs lack, with these nodes, and what MIG makes of GPUs."""
    found = sorted(nodes)
    return [*_say_missing(found), *_say_unfinished(found), *_say_divided(found)]


def _say_missing(nodes: list[GpuNode]) -> list[str]:
    silent = [node.name for node in nodes if not node.offers]
    none_left = [node.name for node in nodes if node.offers and not any(node.offers.values())]
    without = [
        node.name for node in nodes if node.handlers is not None and not any("nvidia" in name for name in node.handlers)
    ]
    notices = []
    if silent:
        notices.append(
            f"no device plugin offers the GPUs of the nodes {named(silent)}: pods that ask for {_DOMAIN}gpu are not "
            f"placed there (next: deploy the GPU Operator or NVIDIA's device plugin, unless pods claim GPUs of the DRA "
            f"driver; {_NOT_OURS})"
        )
    if none_left:
        notices.append(
            f"the device plugin of the nodes {named(none_left)} offers no healthy GPU (next: look at its log and "
            f"nvidia-smi on the node; {_NOT_OURS})"
        )
    if without:
        notices.append(
            f"the container runtime of the nodes {named(without)} has no handler of the NVIDIA container toolkit: "
            "containers get GPUs through CDI alone (next: nvidia-ctk runtime configure, unless the device plugin has "
            f"the strategy cdi-cri; {_NOT_OURS})"
        )
    return notices


def _say_unfinished(nodes: list[GpuNode]) -> list[str]:
    groups: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        state = node.labels.get(f"{_DOMAIN}mig.config.state", "success")
        if state != "success":
            groups.setdefault((node.labels.get(f"{_DOMAIN}mig.config", ""), state), []).append(node.name)
    return [
        f"the MIG manager has not divided the GPUs of the nodes {named(names)} as {config or 'they were'}: {state} "
        f"(next: look at its log, or wait; {_NOT_OURS})"
        for (config, state), names in sorted(groups.items())
    ]


def _say_divided(nodes: list[GpuNode]) -> list[str]:
    groups: dict[str, list[str]] = {}
    broken = [node.name for node in nodes if node.labels.get(f"{_DOMAIN}gpu.product", "").endswith(_INVALID)]
    for node in nodes:
        parts = _parts_of(node)
        if parts:
            groups.setdefault(parts, []).append(node.name)
    notices = []
    if broken:
        notices.append(
            f"GPUs of the nodes {named(broken)} have instances of several sizes, or some GPUs have none, which the MIG "
            f"strategy single does not offer (next: divide all alike, or take the strategy mixed; {_NOT_OURS})"
        )
    for parts, names in sorted(groups.items()):
        notices.append(
            f"MIG divides GPUs of the nodes {named(names)} ({parts}): GPUDirect RDMA works within an instance, NCCL "
            "supports none"
        )
    return notices


def _parts_of(node: GpuNode) -> str:
    """Return the instances of divided GPUs as pods ask for them, an empty string for GPUs that are whole."""
    amounts = [f"{name} {amount}" for name, amount in sorted(node.offers.items()) if amount]
    mixed = [text for text in amounts if text.startswith(_IN_PARTS)]
    product = node.labels.get(f"{_DOMAIN}gpu.product", "")
    if mixed or "-MIG-" not in product or product.endswith(_INVALID):
        return ", ".join(mixed)
    return ", ".join([product, *amounts])
