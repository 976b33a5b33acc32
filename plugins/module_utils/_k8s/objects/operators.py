# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the operators that this collection replaces leave on their objects, and how it is taken off. Pure.

Mellanox/network-operator, pkg/state/state_skel.go: each object of the NVIDIA Network Operator has an owner reference to
its custom resource, with which it goes, a label with its state, by which the operator finds what it wants no more, and
an annotation with the digest of what it was made from, without which the operator writes it again. The objects of the
SR-IOV Network Operator (k8snetworkplumbingwg/sriov-network-operator, controllers) have the owner reference. Its network
attachments name their custom resource in an annotation, by which it deletes them with that resource; beside it, in the
same namespace, they have an owner reference that is not the controller's.
"""

from __future__ import annotations

import json
from typing import Any, Collection, Iterable, Mapping

from .field_owners import taking_over
from .objects import Json
from .projection import is_ours

STATE_LABEL = "nvidia.network-operator.state"
REVISION = "nvidia.network-operator.revision"
NETWORK = "sriovnetwork.openshift.io/owner-ref"
_MARKS = {"labels": (STATE_LABEL,), "annotations": (REVISION, NETWORK)}
NETWORK_OPERATOR, SRIOV_OPERATOR = "network-operator", "sriov-network-operator"
KINDS_OF_OPERATORS = {"mellanox.com/v1alpha1": NETWORK_OPERATOR, "sriovnetwork.openshift.io/v1": SRIOV_OPERATOR}
"""The last part of the name of the operators' images, whatever the registry, by the one version of their kinds."""
RESOURCES_OF_OPERATORS = {
    "mellanox.com/v1alpha1": (
        "hostdevicenetworks",
        "ipoibnetworks",
        "macvlannetworks",
        "nicclusterpolicies",
        "nicnodepolicies",
    ),
    "sriovnetwork.openshift.io/v1": (
        "ovsnetworks",
        "sriovibnetworks",
        "sriovnetworknodepolicies",
        "sriovnetworknodestates",
        "sriovnetworkpoolconfigs",
        "sriovnetworks",
        "sriovoperatorconfigs",
    ),
}
"""The names of these kinds, as the server has them."""
_GROUPS = {version.partition("/")[0]: operator for version, operator in KINDS_OF_OPERATORS.items()}
_RELEASE_MARK = "meta.helm.sh/release-"


def is_of_operator(live: Mapping[str, Any]) -> bool:
    """Tell whether an operator that this collection replaces manages a live object, or did."""
    return bool(_managers(live))


def is_custom_resource(reference: Any) -> bool:
    """Tell whether an owner reference is to an operator's custom resource, with which the object is deleted."""
    return isinstance(reference, Mapping) and _group(reference) in _GROUPS


def without_operator(live: Mapping[str, Any]) -> Json:
    """Return a live object without what an operator put on it beside what it is for."""
    metadata = dict(live["metadata"])
    metadata["ownerReferences"] = _other_references(metadata)
    for name, marks in _MARKS.items():
        metadata[name] = {key: value for key, value in (metadata.get(name) or {}).items() if key not in marks}
    return {**live, "metadata": metadata}


def adopting(live: Mapping[str, Any], labels: Mapping[str, str]) -> Json:
    """Return the JSON merge patch that makes exactly this version of an operator's object ours, as it is.

    Labels are added and the operator's marks are taken off. What the server has recorded as set by the operator becomes
    a part of our own record.
    """
    metadata = live["metadata"]
    change: Json = {
        "resourceVersion": metadata.get("resourceVersion"),
        "labels": {**labels, STATE_LABEL: None},
        "annotations": dict.fromkeys(_MARKS["annotations"]),
        "managedFields": _records(metadata),
    }
    if _references(metadata):
        change["ownerReferences"] = _other_references(metadata)
    return {"metadata": change}


def running(deployments: Iterable[Mapping[str, Any]], managed: Iterable[Mapping[str, Any]] | None = None) -> list[str]:
    """Return those of the Deployments, as ``namespace/name``, that are an operator and want pods.

    ``managed``: live objects; an operator that manages none of them is left out. The image of the SR-IOV operator has
    another name in OpenShift, where its program is the container's command.
    """
    asked = set(_GROUPS.values()) if managed is None else {name for live in managed for name in _managers(live)}
    names = [body["metadata"] for body in deployments if programs_of(body) & asked]
    return sorted(f"{each.get('namespace')}/{each.get('name')}" for each in names)


def programs_of(deployment: Mapping[str, Any]) -> set[str]:
    """Return the last parts of the names of a Deployment's images, and its programs; none where it wants no pods."""
    # The API server fills in 1 where it is left out.
    if _at(deployment, "spec", "replicas") == 0:
        return set()
    commands = [str(word) for each in containers_of(deployment) for word in (each.get("command") or [])[:1]]
    return _images(deployment).union(commands)


def of_other_release(deployments: Iterable[Mapping[str, Any]], release: str, namespace: str) -> list[str]:
    """Return each Deployment that is a Network Operator, and not that of one release of Helm, with what it is of."""
    found = []
    for body in deployments:
        images = _images(body)
        marks = _at(body, "metadata", "annotations") or {}
        of = marks.get(f"{_RELEASE_MARK}name", ""), marks.get(f"{_RELEASE_MARK}namespace", "")
        if NETWORK_OPERATOR in images and of != (release, namespace):
            name = f"{body['metadata'].get('namespace')}/{body['metadata'].get('name')}"
            found.append(f"{name} (Helm's release {of[0]} in {of[1]})" if of[0] else f"{name} (of no release of Helm)")
    return sorted(found)


def containers_of(workload: Mapping[str, Any]) -> list[Json]:
    """Return the containers of a workload's pods, those that run before them left out."""
    return _at(workload, "spec", "template", "spec", "containers") or []


def first_containers_of(workload: Mapping[str, Any]) -> list[Json]:
    """Return the containers that run before those of a workload's pods."""
    return _at(workload, "spec", "template", "spec", "initContainers") or []


def base_name(image: str) -> str:
    """Return the last part of an image's name, without tag and digest."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def _images(workload: Mapping[str, Any]) -> set[str]:
    return {base_name(str(container.get("image", ""))) for container in containers_of(workload)}


def _managers(live: Mapping[str, Any]) -> set[str]:
    """Return the operators that manage a live object, by their images."""
    metadata = live["metadata"]
    found = {_GROUPS[_group(entry)] for entry in _references(metadata)}
    if STATE_LABEL in (metadata.get("labels") or {}):
        found.add(NETWORK_OPERATOR)
    if NETWORK in (metadata.get("annotations") or {}):
        found.add(SRIOV_OPERATOR)
    return found


def _group(reference: Mapping[str, Any]) -> str:
    return str(reference.get("apiVersion", "")).partition("/")[0]


def _references(metadata: Mapping[str, Any]) -> list[Any]:
    """Return the owner references to an operator's custom resources."""
    return [entry for entry in metadata.get("ownerReferences") or [] if is_custom_resource(entry)]


def _other_references(metadata: Mapping[str, Any]) -> list[Any]:
    ours = _references(metadata)
    return [entry for entry in metadata.get("ownerReferences") or [] if entry not in ours]


def _records(metadata: Mapping[str, Any]) -> list[Any]:
    """Return ``managedFields`` with the records of whoever put the marks there as a part of our own."""
    uids = {str(entry.get("uid")) for entry in _references(metadata)}

    def is_theirs(record: Any) -> bool:
        return _brought_marks(record, uids)

    return taking_over(metadata.get("managedFields") or [], is_theirs, lambda fields: _without_marks(fields, uids))


def _brought_marks(record: Any, uids: Collection[str]) -> bool:
    """Tell whether an entry of ``managedFields`` is of whom the marks are from."""
    if not isinstance(record, Mapping) or record.get("subresource") or is_ours(record):
        return False
    metadata = _at(record, "fieldsV1", "f:metadata")
    owners = _at(metadata, "f:ownerReferences") or {}
    marks = ("f:labels", STATE_LABEL), ("f:annotations", NETWORK)
    is_marked = any(f"f:{mark}" in (_at(metadata, part) or {}) for part, mark in marks)
    return is_marked or any(_uid(key) in uids for key in owners)


def _without_marks(fields: Any, uids: Collection[str]) -> Any:
    """Return a record of fields without the marks."""
    metadata = _at(fields, "f:metadata")
    if not isinstance(metadata, Mapping):
        return fields
    kept = {**metadata}
    for name, marks in _MARKS.items():
        if f"f:{name}" in kept:
            kept[f"f:{name}"] = {key: below for key, below in kept[f"f:{name}"].items() if key[2:] not in marks}
    if "f:ownerReferences" in kept:
        references = kept["f:ownerReferences"]
        kept["f:ownerReferences"] = {key: below for key, below in references.items() if _uid(key) not in uids}
    # What holds nothing but itself (``.``) is not there any more.
    return {**fields, "f:metadata": {key: below for key, below in kept.items() if key == "." or set(below) - {"."}}}


def _uid(key: str) -> str:
    """Return the uid of an owner reference as ``fieldsV1`` names it: ``k:{"uid":"..."}``; empty for anything else."""
    try:
        named = json.loads(key.partition(":")[2])
    except ValueError:
        return ""
    return str(named.get("uid", "")) if isinstance(named, Mapping) else ""


def _at(body: Any, *path: str) -> Any:
    """Return what is there, None where anything on the way is missing or no mapping."""
    for name in path:
        body = body.get(name) if isinstance(body, Mapping) else None
    return body
