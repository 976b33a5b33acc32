# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which parts of live objects tell somebody else how a fabric is. Pure."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping, Sequence

from ..objects.client_side import LAST_APPLIED
from ..objects.objects import Json
from .diagnosis import labels_of_pods

_OF_METADATA = ("name", "namespace", "labels", "creationTimestamp", "deletionTimestamp", "finalizers")
# machineID, systemUUID and bootID name one machine.
_OF_NODE_INFO = (
    "architecture",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "operatingSystem",
    "osImage",
)
_OF_EVENTS = (
    "type",
    "reason",
    "message",
    "count",
    "series",
    "firstTimestamp",
    "lastTimestamp",
    "eventTime",
    "involvedObject",
    "source",
    "reportingComponent",
)
# Groups of what this collection, the operators that it takes the place of, and their components define.
_GROUPS = (
    "cert-manager.io",
    "cni.cncf.io",
    "mellanox.com",
    "nfd.k8s-sigs.io",
    "nvidia.com",
    "sriovnetwork.openshift.io",
)
_OF_OURS = "rdma.fabric/"


def shown(body: Json) -> Json:
    """Return an object as it is, without what records who set its fields, and without a copy of itself."""
    metadata = {name: value for name, value in body["metadata"].items() if name != "managedFields"}
    annotations = {name: value for name, value in (metadata.get("annotations") or {}).items() if name != LAST_APPLIED}
    if "annotations" in metadata:
        metadata["annotations"] = annotations
    return {**body, "metadata": metadata}


def pods_among(pods: Iterable[Json], workloads: Iterable[Json]) -> list[Json]:
    """Return the pods that a workload of the same namespace selects."""
    selectors: dict[str, list[Mapping[str, str]]] = {}
    for body in workloads:
        labels = labels_of_pods(body)
        if labels:
            selectors.setdefault(str(body["metadata"].get("namespace", "")), []).append(labels)
    return [
        pod
        for pod in pods
        if any(
            labels.items() <= (pod["metadata"].get("labels") or {}).items()
            for labels in selectors.get(str(pod["metadata"].get("namespace", "")), ())
        )
    ]


def pod_row(pod: Json) -> Json:
    """Return where a pod runs and its status, with the last messages of its containers; nothing of its environment."""
    metadata = pod["metadata"]
    owners = [f"{owner.get('kind')} {owner.get('name')}" for owner in metadata.get("ownerReferences") or []]
    return {
        **_kept(metadata, _OF_METADATA),
        "owners": owners,
        "node": str((pod.get("spec") or {}).get("nodeName") or ""),
        "status": pod.get("status") or {},
    }


def node_row(node: Json) -> Json:
    """Return of a node what decides about pods and devices; of its annotations only those of this collection."""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    annotations = metadata.get("annotations") or {}
    return {
        **_kept(metadata, _OF_METADATA),
        "annotations": {name: value for name, value in annotations.items() if name.startswith(_OF_OURS)},
        "unschedulable": bool(spec.get("unschedulable")),
        "taints": spec.get("taints") or [],
        **{name: status.get(name) or {} for name in ("allocatable", "capacity")},
        "conditions": status.get("conditions") or [],
        "info": _kept(status.get("nodeInfo") or {}, _OF_NODE_INFO),
    }


def events_about(events: Iterable[Json], is_meant: Callable[[Mapping[str, Any]], bool]) -> list[Json]:
    """Return the events whose object is meant, the oldest first."""
    kept = [_kept(event, _OF_EVENTS) for event in events if is_meant(event.get("involvedObject") or {})]
    return sorted(kept, key=lambda event: (_time_of(event), str(event.get("reason")), str(event.get("message"))))


def definition_row(body: Json) -> Json | None:
    """Return which versions a definition of a custom resource has, None for one of somebody else's."""
    spec, status = body.get("spec") or {}, body.get("status") or {}
    group = str(spec.get("group", ""))
    if not any(group == known or group.endswith(f".{known}") for known in _GROUPS):
        return None
    return {
        "name": body["metadata"]["name"],
        "labels": body["metadata"].get("labels") or {},
        "versions": [_kept(version, ("name", "served", "storage")) for version in spec.get("versions") or []],
        "stored": status.get("storedVersions") or [],
        "conditions": status.get("conditions") or [],
    }


def _kept(fields: Mapping[str, Any], names: Sequence[str]) -> Json:
    return {name: fields[name] for name in names if fields.get(name) not in (None, "", [], {})}


def _time_of(event: Mapping[str, Any]) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp") or "")
