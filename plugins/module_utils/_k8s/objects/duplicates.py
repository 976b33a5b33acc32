# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose DaemonSets do on nodes what a push deploys, too? Pure.

Clusters often have Node Feature Discovery from the GPU Operator's chart (NVIDIA/gpu-operator#87), or Multus from RKE2,
k3s or Kubespray. Two of them label the same nodes, write the same files, or want the same port.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable, Mapping

from .objects import MANAGED_BY, MANAGER, SET_LABEL, Key, key_of
from .operators import base_name, containers_of

_COMPONENT = "app.kubernetes.io/component"
_FILES = "both would put the same files on nodes and keep a record of addresses each"
_ADDRESSES = "end the pods that have addresses of the other one and then remove it"
_RESOURCES = "of a resource that both serve, a node has the devices of the one that registers last"
# It labels no node, and comes in the image of what does.
_OF_TOPOLOGY = "nfd-topology-updater"


@dataclass(frozen=True)
class _Program:
    """What a component is called, what its image has in the last part of its name, and what two of them come to.

    ``step`` leaves it out, ``step_of_kinds`` its definitions where others ask for them, too, ``removal`` the other one.
    """

    name: str
    image: str
    clash: str
    step: str
    step_of_kinds: str = ""
    removal: str = "remove the other one"


_PROGRAMS = {
    "nfd": _Program(
        "Node Feature Discovery",
        "node-feature-discovery",
        "both would label the same nodes",
        "set rdma_fabric_nfd: false",
    ),
    "multus": _Program(
        "Multus",
        "multus-cni",
        "both would write the CNI configuration of nodes",
        "leave secondaryNetwork.multus out",
        "leave all networks out",
    ),
    "whereabouts": _Program(
        "whereabouts", "whereabouts", _FILES, "leave secondaryNetwork.ipamPlugin out", removal=_ADDRESSES
    ),
    "nv-ipam": _Program("nv-ipam", "nvidia-k8s-ipam", _FILES, "leave nvIpam out", removal=_ADDRESSES),
    "rdma-shared-device-plugin": _Program(
        "RDMA shared device plugin",
        "k8s-rdma-shared-dev-plugin",
        _RESOURCES,
        "give resources names that it does not have, or leave rdmaSharedDevicePlugin out",
    ),
    "sriov-device-plugin": _Program(
        "SR-IOV device plugin",
        "sriov-network-device-plugin",
        _RESOURCES,
        "give resources names that it does not have, or leave sriovDevicePlugin out",
    ),
}
"""The components that a cluster may have from elsewhere, by the name that is their label here.

Distributions put a word of theirs around the name of an image: ``hardened-multus-cni``, ``ose-node-feature-discovery``.
"""


def leaving_out(definition: Mapping[str, Any]) -> str:
    """Return how a desired definition is left out of a run."""
    component = str(_labels(definition).get(_COMPONENT, ""))
    program = _PROGRAMS.get(component)
    return program.step_of_kinds or program.step if program else f"leave {component or 'what needs it'} out here"


def names_of_duplicates(objects: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of what is among the objects of a push and may be in the cluster from elsewhere."""
    return sorted(_PROGRAMS[component].name for component in _pushed(objects))


def duplicates(objects: Iterable[Mapping[str, Any]], live: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a notice for each live DaemonSet of somebody else that does what the objects of a push would do.

    One that the push would take over or be refused is left to the comparison. One of another name is not, also where
    it is an operator's: stopped or not, it goes on until its custom resource is deleted.
    """
    wanted = list(objects)
    pushed, keys = _pushed(wanted), {key_of(body).identity for body in wanted}
    found = []
    for body in live:
        key = key_of(body)
        if key.identity in keys or _is_ours(body):
            continue
        for program in (_PROGRAMS[component] for component in pushed):
            image = _image_of(body, program)
            if image:
                says = f"{key} ({image}) is another {program.name}, and {program.clash}"
                found.append(f"{says} (next: {program.step}, or {program.removal})")
    return sorted(found)


def cilium_beside(objects: Iterable[Mapping[str, Any]], live: Iterable[Mapping[str, Any]]) -> Key | None:
    """Return the ConfigMap of a Cilium beside whose agents the objects of a push put Multus on nodes."""
    if "multus" not in _pushed(objects):
        return None
    of_cilium = (key_of(body) for body in live if _labels(body).get("k8s-app") == "cilium")
    return next((Key("v1", "ConfigMap", key.namespace, "cilium-config") for key in of_cilium), None)


def renamed_by_cilium(config: Key, data: Mapping[str, Any]) -> list[str]:
    """Return a notice where Cilium keeps the CNI configurations of others from nodes, as its chart sets it up.

    Its agents rename them to ``*.cilium_bak`` (cilium/cilium, daemon/cmd/cni), that of Multus among them.
    """
    if str(data.get("cni-exclusive")) != "true":
        return []
    return [
        f"{config} has cni-exclusive: Cilium renames the CNI configuration of Multus on nodes to *.cilium_bak, and "
        "pods get no network but the cluster's (next: set cni.exclusive: false in the values of Cilium's chart, "
        "restart its DaemonSet, and then the pods of Multus)"
    ]


def _pushed(objects: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the components that have a DaemonSet of this collection's among the objects."""
    labels = [_labels(body) for body in objects if body.get("kind") == "DaemonSet"]
    found = {str(each.get(_COMPONENT)) for each in labels if each.get(MANAGED_BY) == MANAGER}
    return [component for component in _PROGRAMS if component in found]


def _image_of(body: Mapping[str, Any], program: _Program) -> str:
    """Return the image by which a DaemonSet is the program, an empty string where it has none."""
    for container in containers_of(body):
        image = str(container.get("image", ""))
        if program.image in base_name(image) and _OF_TOPOLOGY not in str(container.get("command")):
            return image
    return ""


def _is_ours(body: Mapping[str, Any]) -> bool:
    """Tell whether a live object is of any set of this collection."""
    labels = _labels(body)
    return SET_LABEL in labels or labels.get(MANAGED_BY) == MANAGER


def _labels(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return body["metadata"].get("labels") or {}
