# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is given to an operator: custom resources and what goes with them, as they are, in waves.

Its own objects are those of its chart. What a policy refers to comes before it; networks and pools come behind, as the
operator brings the definitions of pools only with the policy that asks for nv-ipam.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput

from ..checks import nad
from ..common.objects import Object, build, canonical_given
from .namespaces import admitting, unadmitted

COMPONENT = "operator"
_PREPARING = ("ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim")
_POLICIES = ("NicClusterPolicy", "NicNodePolicy", "SriovOperatorConfig", "MaintenanceOperatorConfig")
_CLUSTER_SCOPED_GROUP = "mellanox.com"
_OF_OPERATORS = (
    "sriovnetwork.openshift.io",
    "nv-ipam.nvidia.com",
    "configuration.net.nvidia.com",
    "maintenance.nvidia.com",
    "spectrumx.nvidia.com",
)
"""Groups whose operators look into their own namespace, where objects without one are meant for."""


def operator_waves(spec: Object, order: Iterable[str]) -> dict[str, list[Object]]:
    """Return by the name of its wave what a FabricSpec with a chart gives to the operator; ``order`` has all names."""
    namespace = str(spec["chart"]["namespace"])
    given = [_placed(canonical_given(each, COMPONENT), namespace) for each in spec.get("resources") or []]
    waves: dict[str, list[Object]] = {name: [] for name in order}
    for each in [*given, *map(nad.given_attachment, spec.get("attachments") or [])]:
        waves[_wave_of(each)].append(each)
    known = {each["metadata"]["name"] for each in waves["namespaces"]}
    if namespace not in known:
        waves["namespaces"].append(build("v1", "Namespace", namespace, "namespace"))
    waves["namespaces"] = [admitting(each, namespace) for each in waves["namespaces"]]
    violations = unadmitted(namespace, waves["namespaces"])
    if violations:
        raise InvalidInput(violations)
    return waves


def chart_waves(objects: Iterable[Object], order: Iterable[str]) -> dict[str, list[Object]]:
    """Return what a chart makes by the name of its wave, definitions first."""
    waves: dict[str, list[Object]] = {name: [] for name in order}
    for each in objects:
        kind = each["kind"]
        name = {"Namespace": "namespaces", "CustomResourceDefinition": "crds"}.get(kind, "workloads")
        waves["configs" if kind in _PREPARING else name].append(each)
    return waves


def group_of(body: Mapping[str, Any]) -> str:
    """Return the API group of an object."""
    return str(body.get("apiVersion", "")).rpartition("/")[0]


def _wave_of(body: Object) -> str:
    kind, group = body["kind"], group_of(body)
    if kind in ("Namespace", "CustomResourceDefinition"):
        return "namespaces" if kind == "Namespace" else "crds"
    if group in (_CLUSTER_SCOPED_GROUP, *_OF_OPERATORS):
        return "workloads" if kind in _POLICIES else "networks"
    if kind == nad.KIND:
        return "networks"
    return "configs" if kind in _PREPARING else "objects"


def _placed(body: Object, namespace: str) -> Object:
    if group_of(body) in _OF_OPERATORS:
        body["metadata"].setdefault("namespace", namespace)
    return body
