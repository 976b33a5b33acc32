# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of the GPU Operator in the input, which are applied as given: what they wait for of the NIC's side.

Sources: the API of NVIDIA/gpu-operator (``GPUDirectRDMASpec`` of ``ClusterPolicy`` and ``NVIDIADriver``); its driver's
pods wait without limit for the Network Operator's driver container where ``useHostMofed`` is not true
(NVIDIA/k8s-driver-manager).
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from ..common.findings import Place
from .resources import Resource

_RDMA = {
    ("nvidia.com/v1", "ClusterPolicy"): ("spec", "driver", "rdma"),
    ("nvidia.com/v1alpha1", "NVIDIADriver"): ("spec", "rdma"),
}


def remark(objects: Iterable[Resource], *, alone: bool) -> None:
    """Name GPU drivers that wait for the container of a NIC driver that nothing of the input deploys.

    ``alone`` says that no resource of a Network Operator is given: a ``ClusterPolicy`` may stand for the other one.
    """
    for each in objects:
        if alone and each.kind == "ClusterPolicy":
            hint = "NicClusterPolicy (mellanox.com/v1alpha1) is the Network Operator's"
            each.place.at("kind").notice("is the policy of the GPU Operator, which is applied as it is", hint)
        path = _RDMA.get((str(each.content.get("apiVersion")), each.kind), ())
        rdma = _at(each.content, path) if path else None
        if isinstance(rdma, Mapping) and rdma.get("enabled") is True and rdma.get("useHostMofed") is not True:
            _say(each.place.at(*path, "enabled"))


def _say(place: Place) -> None:
    problem = (
        "has the GPU driver wait for the Network Operator's driver container, which the input does not deploy: nodes "
        "with NVIDIA's NICs get no GPU driver"
    )
    place.notice(problem, "set useHostMofed: true beside it, unless that container comes from elsewhere")


def _at(value: Any, path: Iterable[str]) -> Any:
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
