# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On which nodes the driver's container is ready, for the label that device plugins wait for. Pure.

Source: ``controllers/mofed_wait_labels.go`` and ``nicclusterpolicy_controller.go`` of the Network Operator.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._label_requirements import selects

from ..checks.driver_container import DRIVER
from ..common.features import NIC_LABEL
from .components.driver_container import POD_LABEL

Body = Mapping[str, Any]

READY, WAIT = "false", "true"


def drivers_of(objects: Sequence[Body]) -> list[Body]:
    """Return the DaemonSets of the driver among rendered objects."""
    return [
        each
        for each in objects
        if each["kind"] == "DaemonSet" and POD_LABEL in (each["spec"]["template"]["metadata"].get("labels") or {})
    ]


def waits(drivers: Sequence[Body], nodes: Sequence[Body], pods: Sequence[Body]) -> dict[str, str]:
    """Return the value of the label that each node is to have; nodes of which nothing is known are left out.

    ``pods`` are those of the driver. A node waits while the container of its driver is not ready. One that has no pod
    yet, and is to have one, keeps what it has. A node with a NIC that no DaemonSet is for has no driver to wait for.
    """
    ready: dict[str, bool] = {}
    for pod in pods:
        name = (pod.get("spec") or {}).get("nodeName")
        if name:
            ready[name] = ready.get(name, True) and _is_ready(pod)
    found = {}
    for node in nodes:
        name = str(node["metadata"]["name"])
        if name in ready:
            found[name] = READY if ready[name] else WAIT
        elif _has_nic(node) and not any(selects(each["spec"]["template"]["spec"], node) for each in drivers):
            found[name] = READY
    return found


def _has_nic(node: Body) -> bool:
    return bool((node["metadata"].get("labels") or {}).get(NIC_LABEL) == "true")


def _is_ready(pod: Body) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return any(each.get("name") == DRIVER and each.get("ready") for each in statuses)
