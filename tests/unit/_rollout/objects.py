# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods and nodes as the API server would return them, to decide about."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
HOLDER = {"resources": {"limits": {"rdma/rdma_shared_device_a": "1"}}}
REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}
DAEMON_SET = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "plugin", "uid": "ds", "controller": True}


def pod(
    name: str = "a", *, owner: Json | None = None, managed: bool = True, holds: bool = True, phase: str = "Running"
) -> Json:
    """Return a pod that holds an RDMA device, of a ReplicaSet, of another ``owner``, or not ``managed`` by any."""
    container: Json = {"name": "c", **(HOLDER if holds else {})}
    metadata: Json = {"namespace": "ns", "name": name, "uid": f"uid-{name}"}
    if managed:
        metadata["ownerReferences"] = [owner or REPLICA_SET]
    return {"metadata": metadata, "spec": {"containers": [container]}, "status": {"phase": phase}}


def node(*, unschedulable: bool = False, annotation: str | None = None) -> Json:
    """Return a node."""
    metadata: Json = {"name": "n", "uid": "n", "resourceVersion": "7", "annotations": {"other": "kept"}}
    if annotation is not None:
        metadata["annotations"]["rdma.fabric/cordon"] = annotation
    return {"metadata": metadata, "spec": {"unschedulable": True} if unschedulable else {}}
