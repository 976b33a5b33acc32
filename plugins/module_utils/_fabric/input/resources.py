# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From documents and variables to resources: one object each, of a kind we know."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Iterator, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import (
    UNKNOWN_FIELD,
    described,
    mismatch,
    nearest,
    shown,
)

from ..checks import nv_ipam
from ..common.findings import Document, Findings, Place
from ..common.jsontext import Problem
from ..common.names import Check, dns_label, dns_subdomain, node_policy_name
from ..common.objects import is_cluster_scoped, texts_of
from ..common.schema import Model
from .helm_values import CHART
from .models import API_VERSION, MODELS
from .models_kubernetes import METADATA
from .models_sriov import API_VERSION as SRIOV_API
from .models_sriov import SRIOV_MODELS, SRIOV_NETWORK_MODELS

ATTACHMENT_API = "k8s.cni.cncf.io/v1"
ATTACHMENT_KIND = "NetworkAttachmentDefinition"

_RECORD = "remove it: its controller writes it, and would write it again"
WHO_DRAINS = (
    "remove it; rdma.fabric.upgrade drains nodes in turn, and rdma_fabric_max_unavailable says how many are out of "
    "service at once"
)
REFUSED_KINDS = {
    "NicDevice": ("is the NIC configuration operator's own record of a card", _RECORD),
    "NodeMaintenance": ("is an order to the maintenance operator, which is not deployed here", WHO_DRAINS),
}
"""Kinds of the operators around the fabric that mean nothing here: why, and the next step of their user."""

_NODE_STATE = "SriovNetworkNodeState"

MAINTENANCE_CONFIG = "MaintenanceOperatorConfig"
_CARDS_API = "configuration.net.nvidia.com/v1alpha1"
CONTROLLER_KINDS = {
    "NicConfigurationTemplate": (_CARDS_API, "nicConfigurationOperator"),
    "NicFirmwareSource": (_CARDS_API, "nicConfigurationOperator"),
    "NicFirmwareTemplate": (_CARDS_API, "nicConfigurationOperator"),
    "NicInterfaceNameTemplate": (_CARDS_API, "nicConfigurationOperator"),
    "SpectrumXRailPoolConfig": ("spectrumx.nvidia.com/v1alpha2", "spectrumXOperator"),
    MAINTENANCE_CONFIG: ("maintenance.nvidia.com/v1alpha1", "nicConfigurationOperator"),
}
"""Kinds that a controller in the cluster reads, so they are applied as given: their API, and the section of a
NicClusterPolicy that deploys the controller, or one that waits for it."""

API_VERSIONS = {
    **dict.fromkeys(MODELS, API_VERSION),
    **dict.fromkeys(nv_ipam.POOL_KINDS, nv_ipam.API_VERSION),
    **dict.fromkeys(SRIOV_MODELS, SRIOV_API),
    ATTACHMENT_KIND: ATTACHMENT_API,
    **{kind: api_version for kind, (api_version, _section) in CONTROLLER_KINDS.items()},
}
"""The API of each kind that is read here, or by an operator."""

_OPERATOR_GROUPS = (
    "mellanox.com",
    "sriovnetwork.openshift.io",
    "nv-ipam.nvidia.com",
    "configuration.net.nvidia.com",
    "maintenance.nvidia.com",
    "spectrumx.nvidia.com",
)
_NAME_RULES: dict[str, Check] = {
    "Namespace": dns_label,
    "Service": dns_label,
    "NicNodePolicy": node_policy_name,
}
_LIST = "List"
# Only their names may hold colons.
_WITH_COLONS = re.compile(r"rbac\.authorization\.k8s\.io/|\w+\.openshift\.io/")
_SEGMENT = re.compile(r"[\w.:@-]{1,253}", re.ASCII)
_UNREAD_METADATA = ("finalizers", "generateName", "ownerReferences")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_METADATA = Model("metadata", METADATA)


@dataclass(frozen=True)
class Resource:
    """One object of the input. ``content`` is the whole object as given, ``place`` where it stands.

    ``namespace`` is empty when none was given. ``spec_place`` is where its ``spec`` stands: a variable holds the spec
    alone, a document the whole object.
    """

    kind: str
    name: str
    namespace: str
    content: Mapping[str, Any]
    place: Place
    spec_place: Place

    @property
    def is_pool(self) -> bool:
        """Whether it is a pool of nv-ipam; other programs have kinds of these names too."""
        return self.kind in nv_ipam.POOL_KINDS and self.content.get("apiVersion") == nv_ipam.API_VERSION

    @property
    def is_node_state(self) -> bool:
        """Whether it is the SR-IOV operator's own record of a node, which is compared with the plan of its host."""
        return self.kind == _NODE_STATE and self.content.get("apiVersion") == SRIOV_API

    @property
    def spec(self) -> Any:
        """The ``spec`` as given."""
        return self.content.get("spec")

    @property
    def source(self) -> str:
        """Where the object was given, for people: ``file:line`` or the variable."""
        line = self.place.document.line(self.place.path)
        return self.place.document.source if line is None else f"{self.place.document.source}:{line}"

    def metadata(self, field: str) -> dict[str, str]:
        """Return the labels or annotations that are text, as given."""
        return texts_of(self.content.get("metadata"), field)


def read_document(document: Document, findings: Findings) -> Iterator[Resource]:
    """Yield the resources of one document; a ``List`` yields its items."""
    yield from _read_object(document.content, Place(findings, document))


def read_variable(kind: str, name: str, spec: Any, place: Place) -> Iterator[Resource]:
    """Yield the resource that a variable describes by its ``spec`` alone."""
    place.violations(_NAME_RULES.get(kind, dns_subdomain)(name))
    content = {"apiVersion": API_VERSIONS[kind], "kind": kind, "metadata": {"name": name}, "spec": spec}
    yield Resource(kind, name, "", content, place, place)


def _read_object(content: Any, place: Place) -> Iterator[Resource]:
    if not isinstance(content, Mapping):
        place.violation(mismatch(content, "a Kubernetes object"), "give apiVersion, kind, metadata and spec")
        return
    api_version, kind = content.get("apiVersion"), content.get("kind")
    if api_version is None and kind is None and set(content) & set(CHART.root.fields or ()):
        hint = "give values of the operator's chart in rdma_fabric_helm_values_files"
        place.violation("has no apiVersion and no kind: these are values of a chart", hint)
        return
    for field, value in (("apiVersion", api_version), ("kind", kind)):
        if not isinstance(value, str) or not value:
            place.violation(f"has no {field}" if value is None else f"has {described(value)} as {field}")
    if not isinstance(api_version, str) or not isinstance(kind, str) or not api_version or not kind:
        return
    if kind == _LIST or (kind.endswith(_LIST) and isinstance(content.get("items"), list)):
        yield from _read_list(content, place)
    elif _is_known(api_version, kind, place):
        yield from _named_object(content, kind, place)


def _read_list(content: Mapping[str, Any], place: Place) -> Iterator[Resource]:
    """Yield the resources of a list; the items of a ``PodList`` and its like need not say that they are Pods."""
    items = content.get("items")
    if not isinstance(items, list):
        hint = "give the objects below items, or each as a document of its own"
        place.at("items").violation("is missing" if items is None else mismatch(items, "a list"), hint)
        return
    if not items:
        place.at("items").notice("holds no object", "nothing is made of an empty list")
    of_kind = str(content["kind"])[: -len(_LIST)]
    implied = {"apiVersion": content["apiVersion"], "kind": of_kind} if of_kind else {}
    for index, item in enumerate(items):
        whole = {**implied, **item} if isinstance(item, Mapping) else item
        yield from _read_object(whole, place.at("items", index))


def _is_known(api_version: str, kind: str, place: Place) -> bool:
    """Return whether the kind may be read; note why not."""
    group = api_version.rpartition("/")[0]
    problem = unservable(api_version, kind)
    if problem is not None:
        place.at("apiVersion").violations([problem])
        return False
    if kind in REFUSED_KINDS and group in _OPERATOR_GROUPS:
        place.violation(*REFUSED_KINDS[kind])
        return False
    if kind in nv_ipam.POOL_KINDS and group not in _OPERATOR_GROUPS:
        return True  # other programs, such as Calico, call a kind of theirs so
    expected = API_VERSIONS.get(kind, api_version)
    if api_version != expected:
        place.at("apiVersion").violation(f"is {shown(api_version)}", f"a {kind} is of {expected}")
        return False
    if group in _OPERATOR_GROUPS and kind not in (*MODELS, *CONTROLLER_KINDS, _NODE_STATE):
        hint = nearest(kind, [*MODELS, *CONTROLLER_KINDS, *REFUSED_KINDS]) or f"known: {', '.join(MODELS)}"
        place.at("kind").violation(f"is {shown(kind)}, which is not a kind of {group}", hint)
        return False
    return True


def _named_object(content: Mapping[str, Any], kind: str, place: Place) -> Iterator[Resource]:
    for key in content:
        if not isinstance(key, str):
            place.violation(f"has the key {described(key)}, which is not text", "quote it")
    is_read = content.get("apiVersion") == API_VERSIONS.get(kind)
    if is_read:
        known = ("apiVersion", "kind", "metadata", "spec", "status")
        for key in content:
            if isinstance(key, str) and key not in known:
                model = MODELS.get(kind)
                elsewhere = model.paths_of(key) if model else ()
                hint = f"it belongs at spec.{elsewhere[0]}; look at the indentation" if elsewhere else ""
                place.at(key).violation(f"{UNKNOWN_FIELD} in {kind}", nearest(key, known) or hint)
    metadata = _METADATA.read(content.get("metadata"), place.at("metadata"))
    if is_read and kind not in CONTROLLER_KINDS:
        _remark_metadata(kind, metadata, place.at("metadata"))
    name, namespace = metadata.get("name", ""), metadata.get("namespace", "")
    if name:
        other = _path_segment if _WITH_COLONS.match(str(content.get("apiVersion"))) else dns_subdomain
        place.at("metadata", "name").violations(_NAME_RULES.get(kind, other)(name))
    if namespace and is_cluster_scoped(str(content.get("apiVersion")), kind):
        place.at("metadata", "namespace").notice("has no effect here", f"a {kind} is in no namespace")
        namespace = ""
    if namespace:
        place.at("metadata", "namespace").violations(dns_label(namespace))
    yield Resource(kind, name, namespace, content, place, place.at("spec"))


def _remark_metadata(kind: str, metadata: Mapping[str, Any], place: Place) -> None:
    """Say what is lost of what is read: a custom resource is not stored, an attachment or a pool is made anew."""
    unread = _UNREAD_METADATA
    made_anew = kind == ATTACHMENT_KIND or kind in nv_ipam.POOL_KINDS
    if not made_anew:
        has_namespace = kind == "NicClusterPolicy" or kind in SRIOV_NETWORK_MODELS
        unread = (*unread, "labels", "annotations", *(() if has_namespace else ("namespace",)))
    for name in unread:
        value = metadata.get(name)
        if value and (name != "annotations" or set(value) - {_LAST_APPLIED}):
            hint = "no object here is another one's part" if made_anew else "what is made of it has its own"
            place.at(name).notice("has no effect here", hint)


def _path_segment(name: str) -> list[Problem]:
    """Judge the name of a role or binding, or of OpenShift's users and groups: any segment of a path."""
    if ":" not in name:
        return dns_subdomain(name)
    hint = "letters, digits and -_.:@ in at most 253 characters"
    return [] if _SEGMENT.fullmatch(name) else [Problem("", "is not a valid Kubernetes name", hint)]


# What has apiVersion and kind and is nothing that an API server stores: files of programs.
#
# Sources: the configuration APIs of kustomize, kubeadm, kubelet, kube-proxy, kind, skaffold and oc-mirror.
_TAKE_OUT = "take it out"
_PROGRAMS: Mapping[str, tuple[str, str]] = {
    "kustomize.config.k8s.io": ("kustomize", "give what it makes: kubectl kustomize FOLDER > fabric.yaml"),
    "kubeadm.k8s.io": ("kubeadm", _TAKE_OUT),
    "kubelet.config.k8s.io": ("kubelet", _TAKE_OUT),
    "kubeproxy.config.k8s.io": ("kube-proxy", _TAKE_OUT),
    "kind.x-k8s.io": ("kind", _TAKE_OUT),
    "skaffold": ("skaffold", _TAKE_OUT),
    "mirror.openshift.io": ("oc-mirror", _TAKE_OUT),
}
"""Who reads the files of a group, and the next step."""


def unservable(api_version: str, kind: str) -> Problem | None:
    """Return why no API server stores an object of this API and kind, None where one may."""
    group = api_version.rpartition("/")[0]
    if (api_version, kind) == ("v1", "Config"):
        return Problem(
            "", "is a kubeconfig, no object of a cluster", "take it out, and set rdma_fabric_kubeconfig to its path"
        )
    program, step = _PROGRAMS.get(group, ("", ""))
    return Problem("", f"is a file of {program}, no object of a cluster", step) if program else None
