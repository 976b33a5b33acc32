# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes keep the pods of workloads off: by taints, labels of another form, architecture or system. Pure.

Kubernetes says nothing of the first two: a DaemonSet then wants no pod there, and counts as ready. Of the last it says
``exec format error``, or that there is no image for the platform, once pods are there.
"""

from __future__ import annotations

import json
import re
from types import MappingProxyType
from typing import Collection, Iterator, List, Mapping, Sequence, Tuple

from ansible_collections.rdma.fabric.plugins.module_utils._label_requirements import selects, tolerates, written
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from .objects import Json

# DaemonSets tolerate these by themselves (k8s.io/kubernetes, daemonset_util.go), and a cordon passes.
_OF_THE_SYSTEM = "node.kubernetes.io/"
# On nodes that come or go, whose pods are not to be there (kubernetes/autoscaler, utils/taints; karpenter, apis/v1;
# k8s.io/cloud-provider, api; Cilium's guide to its installation).
_PASSING = (
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/",
    "node.cilium.io/agent-not-ready",
    "node.cloudprovider.kubernetes.io/",
)
_EFFECTS = ("NoSchedule", "NoExecute")
_BY_VENDOR = re.compile(r"(feature\.node\.kubernetes\.io/pci-)([0-9a-f]{4}\.present)\Z", re.ASCII)

_Missed = Tuple[List[str], List[str]]
"""Nodes, and the workloads that miss them."""


def kept_off(
    objects: Sequence[Json],
    nodes: Sequence[Json],
    ours: Collection[str],
    platforms: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> list[str]:
    """Return why DaemonSets and Deployments among ``objects`` miss nodes, with the line to add.

    ``ours`` are names of nodes of the fabric; those that DaemonSets select by labels are as well. A Deployment misses
    nodes where no node at all takes it. ``platforms`` are architectures by image, of those that are known.
    """
    sets = [body for body in objects if body["kind"] == "DaemonSet"]
    chosen = [node for node in nodes if any(_selector(body) and selects(_pod(body), node) for body in sets)]
    fabric = {node["metadata"]["name"] for node in chosen}.union(ours)
    members = [node for node in nodes if node["metadata"]["name"] in fabric]
    found: dict[tuple[str, str], _Missed] = {}
    for body in sets:
        for node in members:
            if selects(_pod(body), node):
                _add_taints(found, body, node, "tolerations")
    for body in objects:
        if body["kind"] == "Deployment" and nodes and all(_untolerated(body, node) for node in nodes):
            for node in nodes:
                _add_taints(found, body, node, "deploymentTolerations")
    lines = [
        f"{named(where)} {'has' if len(where) == 1 else 'have'} the taint {taint}, which the pods of {named(whose)} do "
        f"not tolerate, so none runs there (next: {step})"
        for (taint, step), (where, whose) in found.items()
    ]
    others = [*_of_other_platforms(objects, nodes, platforms), *_with_windows(objects, nodes)]
    return [*lines, *_near_labels(sets, nodes), *others]


def _add_taints(found: dict[tuple[str, str], _Missed], body: Json, node: Json, field: str) -> None:
    for taint in _untolerated(body, node):
        step = f"{field}: [{{key: {json.dumps(taint['key'])}, operator: Exists, effect: {taint['effect']}}}]"
        step += " in the NicClusterPolicy"
        if str(taint["key"]).startswith(_PASSING):
            step = "wait until it is taken off, or leave out a node that is to go"
        _add(found.setdefault((written(taint), step), ([], [])), body, node)


def _add(found: _Missed, body: Json, node: Json) -> None:
    for names, name in zip(found, (node["metadata"]["name"], body["metadata"]["name"])):
        if name not in names:
            names.append(name)


def _untolerated(body: Json, node: Json) -> list[Json]:
    tolerations = _pod(body).get("tolerations") or []
    return [
        taint
        for taint in (node.get("spec") or {}).get("taints") or []
        if taint.get("effect") in _EFFECTS
        and not str(taint.get("key")).startswith(_OF_THE_SYSTEM)
        and not any(tolerates(each, taint) for each in tolerations)
    ]


def _of_other_platforms(
    objects: Sequence[Json], nodes: Sequence[Json], platforms: Mapping[str, Collection[str]]
) -> Iterator[str]:
    """Yield the nodes whose architecture an image lacks, of workloads that may run there."""
    found: dict[tuple[str, str], _Missed] = {}
    for body in objects if platforms else ():
        pod = _pod(body) if body["kind"] in ("DaemonSet", "Deployment") else {}
        images = {each["image"] for part in ("initContainers", "containers") for each in pod.get(part) or []}
        for image in sorted(images & platforms.keys()):
            for node in nodes:
                architecture = _architecture(node)
                if architecture not in ("", *platforms[image]) and selects(pod, node) and not _untolerated(body, node):
                    _add(found.setdefault((image, architecture), ([], [])), body, node)
    for (image, architecture), (where, whose) in found.items():
        told = f"{named(where)} {'is' if len(where) == 1 else 'are'} {architecture}, and the image {image}"
        yield (
            f"{told} of {named(whose)} is built for {named(sorted(platforms[image]))} (next: one for {architecture} in "
            "the policy or rdma_fabric_image_overrides, or kubernetes.io/arch in nodeAffinity of the NicClusterPolicy)"
        )


def _with_windows(objects: Sequence[Json], nodes: Sequence[Json]) -> Iterator[str]:
    """Yield the nodes with Windows to which pods of workloads would come; all images are for Linux."""
    windows = [node for node in nodes if (node["metadata"].get("labels") or {}).get("kubernetes.io/os") == "windows"]
    found: _Missed = ([], [])
    for body in objects if windows else ():
        for node in windows if body["kind"] in ("DaemonSet", "Deployment") else ():
            if selects(_pod(body), node) and not _untolerated(body, node):
                _add(found, body, node)
    where, whose = found
    if where:
        yield (
            f"{named(where)} {'has' if len(where) == 1 else 'have'} Windows, where the pods of {named(whose)} never "
            "start (next: kubernetes.io/os in nodeAffinity of the NicClusterPolicy, or a taint for these nodes)"
        )


def _architecture(node: Json) -> str:
    about = (node.get("status") or {}).get("nodeInfo") or {}
    return str((node["metadata"].get("labels") or {}).get("kubernetes.io/arch") or about.get("architecture") or "")


def _near_labels(sets: Sequence[Json], nodes: Sequence[Json]) -> Iterator[str]:
    """Yield the labels by vendor that no node has, where nodes have them by class and vendor, as NFD's default is."""
    if any(body["metadata"]["name"] == "nfd-worker" for body in sets):
        return
    known = {key for node in nodes for key in node["metadata"].get("labels") or {}}
    for key in sorted({key for body in sets for key in _selector(body)} - known):
        form = _BY_VENDOR.match(key)
        near = sorted(each for each in known if form and re.match(f"{re.escape(form[1])}[0-9a-f]{{4}}_{form[2]}", each))
        if near:
            yield (
                f"no node has the label {key}, which DaemonSets ask for, and nodes have {named(near)} (next: "
                "deviceLabelFields: [vendor] in the configuration of Node Feature Discovery, or rdma_fabric_nfd: true)"
            )


def _selector(body: Json) -> Json:
    found: Json = _pod(body).get("nodeSelector") or {}
    return found


def _pod(body: Json) -> Json:
    found: Json = body["spec"]["template"]["spec"]
    return found
