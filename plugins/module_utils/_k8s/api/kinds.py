# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which resource serves a kind, and under which path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Iterable, Mapping
from urllib.parse import quote

from ..objects.objects import Key

CRD_GROUP = "apiextensions.k8s.io"
CRD_KIND = "CustomResourceDefinition"

_NAMESPACED = {
    "": "ConfigMap Endpoints Event LimitRange PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota"
    " Secret Service ServiceAccount",
    "apps": "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
    "autoscaling": "HorizontalPodAutoscaler",
    "batch": "CronJob Job",
    "coordination.k8s.io": "Lease",
    "discovery.k8s.io": "EndpointSlice",
    "events.k8s.io": "Event",
    "networking.k8s.io": "Ingress NetworkPolicy",
    "policy": "PodDisruptionBudget",
    "rbac.authorization.k8s.io": "Role RoleBinding",
}
_CLUSTER_SCOPED = {
    "": "Namespace Node PersistentVolume",
    "admissionregistration.k8s.io": "MutatingWebhookConfiguration ValidatingAdmissionPolicy"
    " ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration",
    "apiextensions.k8s.io": "CustomResourceDefinition",
    "apiregistration.k8s.io": "APIService",
    "networking.k8s.io": "IngressClass",
    "node.k8s.io": "RuntimeClass",
    "rbac.authorization.k8s.io": "ClusterRole ClusterRoleBinding",
    "scheduling.k8s.io": "PriorityClass",
    "storage.k8s.io": "CSIDriver StorageClass",
}


@dataclass(frozen=True)
class Resource:
    """How one kind is reached: its plural name in paths, and whether its objects live in namespaces."""

    plural: str
    namespaced: bool


PODS, EVENTS = Resource("pods", True), Resource("events", True)


def plural_of(kind: str) -> str:
    """Return the resource name of a built-in kind: lower case, English plural."""
    lower = kind.lower()
    if lower == "endpoints":
        return lower
    if lower.endswith("s"):
        return lower + "es"
    if lower.endswith("y"):
        return lower[:-1] + "ies"
    return lower + "s"


def _built_in() -> dict[tuple[str, str], Resource]:
    table: dict[tuple[str, str], Resource] = {}
    for groups, namespaced in ((_NAMESPACED, True), (_CLUSTER_SCOPED, False)):
        for group, kinds in groups.items():
            for kind in kinds.split():
                table[(group, kind)] = Resource(plural_of(kind), namespaced)
    return table


class Kinds:
    """The resources of all kinds of one run: built in, taught by the batch's own CRDs, or asked for once per group.

    ``fetch`` gets the path of a group version and returns its APIResourceList, or None when the server has none.
    """

    def __init__(self, fetch: Callable[[str], Mapping[str, Any] | None]) -> None:
        self._fetch = fetch
        self._known = _built_in()
        self._asked: set[str] = set()

    def learn(self, bodies: Iterable[Mapping[str, Any]]) -> None:
        """Take the kinds that the CustomResourceDefinitions among ``bodies`` define."""
        for body in bodies:
            taught = taught_kind(body)
            if taught:
                group, kind, resource = taught
                self._known[(group, kind)] = resource

    def find(self, key: Key) -> Resource | None:
        """Return the resource of the key's kind, or None when neither the batch nor the server knows it."""
        known = self._known.get((key.group, key.kind))
        if known is None and key.api_version not in self._asked:
            self._asked.add(key.api_version)
            self._remember(key, self._fetch(group_path(key.api_version)) or {})
            known = self._known.get((key.group, key.kind))
        return known

    def _remember(self, key: Key, resource_list: Mapping[str, Any]) -> None:
        for entry in resource_list.get("resources") or []:
            if "/" not in entry["name"]:
                self._known.setdefault((key.group, entry["kind"]), Resource(entry["name"], bool(entry["namespaced"])))


def taught_kind(body: Mapping[str, Any]) -> tuple[str, str, Resource] | None:
    """Return (group, kind, resource) that a CustomResourceDefinition defines, None for any other object."""
    if body.get("kind") != CRD_KIND or not str(body.get("apiVersion", "")).startswith(CRD_GROUP + "/"):
        return None
    spec = body.get("spec")
    names = spec.get("names") if isinstance(spec, Mapping) else None
    if not isinstance(spec, Mapping) or not isinstance(names, Mapping):
        return None
    group, kind, plural = spec.get("group"), names.get("kind"), names.get("plural")
    if not (isinstance(group, str) and isinstance(kind, str) and isinstance(plural, str)):
        return None
    return group, kind, Resource(plural, spec.get("scope") == "Namespaced")


def group_path(api_version: str) -> str:
    """Return the path under which a group version is served."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def collection_path(api_version: str, resource: Resource, namespace: str) -> str:
    """Return the path of all objects of a kind, in one namespace when ``namespace`` is not empty."""
    scope = f"/namespaces/{_segment(namespace)}" if namespace and resource.namespaced else ""
    return f"{group_path(api_version)}{scope}/{resource.plural}"


def object_path(key: Key, resource: Resource) -> str:
    """Return the path of one object."""
    return f"{collection_path(key.api_version, resource, key.namespace)}/{_segment(key.name)}"


def _segment(name: str) -> str:
    """Return a name as one segment of a path, whatever an answer or an inventory holds as one."""
    return quote(name, safe=":", errors="surrogatepass") if name.strip(".") else name.replace(".", "%2E")
