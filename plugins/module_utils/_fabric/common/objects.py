# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes objects as plain dicts: builders, and the canonical form they have when the API server returns them.

An object that is written as the server stores it can be compared with the live one field by field, so a run that
changes nothing sends no write.
"""

from __future__ import annotations

import hashlib
from typing import Any, Dict, Iterator, Mapping

from .pods import is_of_kubernetes, pods_of
from .quantities import canonical_quantity

Object = Dict[str, Any]

MANAGED_BY = "rdma-fabric"
CONFIG_HASH = "rdma.fabric/config-hash"
_IN_NO_NAMESPACE = {
    "": ("Namespace", "Node", "PersistentVolume"),
    "admissionregistration.k8s.io": (
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    ),
    "apiextensions.k8s.io": ("CustomResourceDefinition",),
    "apiregistration.k8s.io": ("APIService",),
    "networking.k8s.io": ("IngressClass",),
    "nfd.k8s-sigs.io": ("NodeFeatureRule",),
    "node.k8s.io": ("RuntimeClass",),
    "rbac.authorization.k8s.io": ("ClusterRole", "ClusterRoleBinding"),
    "resource.k8s.io": ("DeviceClass", "ResourceSlice"),
    "scheduling.k8s.io": ("PriorityClass",),
    "storage.k8s.io": ("CSIDriver", "StorageClass"),
}


def is_cluster_scoped(api_version: str, kind: str) -> bool:
    """Tell whether objects of a kind are in no namespace, as far as the kind is known here."""
    return kind in _IN_NO_NAMESPACE.get(api_version.rpartition("/")[0], ())


def component_labels(component: str) -> dict[str, str]:
    """Return the labels that every object of this collection carries."""
    return {
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/managed-by": MANAGED_BY,
        "app.kubernetes.io/part-of": MANAGED_BY,
    }


def build(
    api_version: str,
    kind: str,
    name: str,
    component: str,
    *,
    namespace: str = "",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **body: Any,
) -> Object:
    """Return one object in canonical form: ``body`` holds its other top-level fields (spec, data, rules, ...)."""
    metadata = {
        "name": name,
        "namespace": namespace or None,
        "labels": {**component_labels(component), **(labels or {})},
        "annotations": annotations or {},
    }
    found: Object = canonical({"apiVersion": api_version, "kind": kind, "metadata": metadata, **body})
    return found


def config_map(name: str, namespace: str, component: str, data: dict[str, str], **extra: Any) -> Object:
    """Return a ConfigMap."""
    return build("v1", "ConfigMap", name, component, namespace=namespace, data=data, **extra)


def service_account(name: str, namespace: str, component: str) -> Object:
    """Return a ServiceAccount."""
    return build("v1", "ServiceAccount", name, component, namespace=namespace)


def rule(groups: list[str], resources: list[str], verbs: list[str], names: list[str] | None = None) -> Object:
    """Return one RBAC rule; ``names`` restricts it to objects of these names."""
    return {"apiGroups": groups, "resources": resources, "verbs": verbs, "resourceNames": names or []}


def cluster_rbac(account: str, namespace: str, component: str, rules: list[Object], role: str = "") -> list[Object]:
    """Return the ServiceAccount, the ClusterRole and the ClusterRoleBinding of one program."""
    role = role or account
    return [
        service_account(account, namespace, component),
        build("rbac.authorization.k8s.io/v1", "ClusterRole", role, component, rules=rules),
        build(
            "rbac.authorization.k8s.io/v1",
            "ClusterRoleBinding",
            account,
            component,
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            subjects=[{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        ),
    ]


def namespaced_rbac(account: str, namespace: str, component: str, rules: list[Object]) -> list[Object]:
    """Return the ServiceAccount, the Role and the RoleBinding of one program."""
    return [
        service_account(account, namespace, component),
        build("rbac.authorization.k8s.io/v1", "Role", account, component, namespace=namespace, rules=rules),
        build(
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            account,
            component,
            namespace=namespace,
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account},
            subjects=[{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        ),
    ]


def workload(
    kind: str,
    name: str,
    *,
    namespace: str,
    component: str,
    selector: dict[str, str],
    pod: Object,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    config_hash: str = "",
    **spec: Any,
) -> Object:
    """Return a DaemonSet or Deployment. ``pod`` is the pod's spec; its template carries ``selector`` and ``labels``.

    ``annotations`` are those of the template.
    ``config_hash`` lands in the template, so that pods are replaced when what they read only at start has changed.
    """
    # The labels of this collection are not among them: pods of an operator, which has none, would be made anew.
    pod_labels = {**(labels or {}), **selector}
    noted = {**(annotations or {}), **({CONFIG_HASH: config_hash} if config_hash else {})}
    template = {"metadata": {"labels": pod_labels, "annotations": noted}, "spec": pod}
    return build(
        "apps/v1",
        kind,
        name,
        component,
        namespace=namespace,
        labels=labels,
        spec={"selector": {"matchLabels": selector}, "template": template, **spec},
    )


def host_volume(name: str, path: str, kind: str = "") -> Object:
    """Return a volume of a path of the host; ``kind`` is the hostPath type (``DirectoryOrCreate``), empty for none."""
    return {"name": name, "hostPath": {"path": path, "type": kind} if kind else {"path": path}}


def config_volume(name: str, config: str, key: str, path: str) -> Object:
    """Return a volume that shows one key of a ConfigMap as the file ``path``."""
    return {"name": name, "configMap": {"name": config, "items": [{"key": key, "path": path}]}}


def mount(name: str, path: str, read_only: bool = False, propagation: str = "") -> Object:
    """Return a volume mount."""
    found: Object = {"name": name, "mountPath": path}
    if read_only:
        found["readOnly"] = True
    if propagation:
        found["mountPropagation"] = propagation
    return found


def field_env(name: str, field: str) -> Object:
    """Return an environment variable that shows a field of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": field}}}


def canonical_env(given: Object) -> Object:
    """Return a user's environment variable as the server stores it."""
    variable: Object = canonical(given)
    _complete_source(variable)
    if variable.get("value") == "":
        del variable["value"]
    return variable


def digest(*texts: str) -> str:
    """Return a short digest over configuration texts, for :data:`CONFIG_HASH`."""
    joined = "\0".join(texts)
    return hashlib.sha256(joined.encode()).hexdigest()[:32]


def canonical(value: Any) -> Any:
    """Return ``value`` without nulls, empty maps and empty lists, at any depth; list items are kept."""
    if isinstance(value, dict):
        kept: Object = {}
        for key, item in value.items():
            if isinstance(item, (dict, list)):
                inner = canonical(item)
                if inner:
                    kept[key] = inner
            elif item is not None:
                kept[key] = item
        return kept
    if isinstance(value, list):
        return [canonical(item) for item in value]
    return value


_SET_BY_SERVER = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)


def canonical_given(given: Object, component: str) -> Object:
    """Return a user's object as it is pushed: what it means is unchanged, only its spelling is the server's.

    Status, server-set metadata and the namespace of what is in none go, quantities, ``fieldRef`` and ports get the form
    the server stores, and our labels are added where the user set none of that name.
    """
    copy: Object = {key: item for key, item in without_nulls(given).items() if key != "status"}
    metadata = {key: item for key, item in copy.get("metadata", {}).items() if key not in _SET_BY_SERVER}
    if is_cluster_scoped(str(copy.get("apiVersion")), str(copy.get("kind"))):
        metadata.pop("namespace", None)
    metadata["labels"] = {**component_labels(component), **(metadata.get("labels") or {})}
    copy["metadata"] = metadata
    pod = pod_of(copy)
    if pod is not None:
        _canonical_pod(pod)
    return copy


def without_nulls(value: Any) -> Any:
    """Return a deep copy of ``value`` without null fields (empty maps such as ``emptyDir: {}`` mean something)."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def pod_of(found: Object) -> Object | None:
    """Return the pod spec inside an object of a kind of Kubernetes that runs pods, or None."""
    return next(iter(pods_of(found)), None) if is_of_kubernetes(found) else None


def containers_of(pod: Object) -> list[Object]:
    """Return every container of a pod spec, init containers first."""
    return [
        each for group in ("initContainers", "containers", "ephemeralContainers") for each in _dicts(pod.get(group))
    ]


def _canonical_pod(pod: Object) -> None:
    for container in containers_of(pod):
        resources = container.get("resources")
        for amounts in _dicts(list(resources.values()) if isinstance(resources, dict) else []):
            for name, amount in amounts.items():
                amounts[name] = _quantity_or_given(amount)
        for port in _dicts(container.get("ports")):
            port.setdefault("protocol", "TCP")
        for variable in _dicts(container.get("env")):
            _complete_source(variable)


def _complete_source(variable: Object) -> None:
    """Write out the server's defaults of where an environment variable comes from."""
    given = variable.get("valueFrom")
    source: Object = given if isinstance(given, dict) else {}
    if isinstance(source.get("fieldRef"), dict):
        source["fieldRef"].setdefault("apiVersion", "v1")
    if isinstance(source.get("fileKeyRef"), dict):
        source["fileKeyRef"].setdefault("optional", False)
    if isinstance(source.get("resourceFieldRef"), dict):
        source["resourceFieldRef"]["divisor"] = _quantity_or_given(source["resourceFieldRef"].get("divisor", "0"))


def _dicts(items: Any) -> list[Object]:
    """Return the mappings of a list; what has another shape than a pod's is left for the API server to name."""
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _quantity_or_given(amount: Any) -> Any:
    # A value that is no quantity is left for the API server to name: it knows the field's own rule.
    try:
        return canonical_quantity(amount)
    except ValueError:
        return amount


def pod_of_workload(body: Mapping[str, Any]) -> Object:
    """Return the pod spec inside a rendered workload."""
    found: Object = body["spec"]["template"]["spec"]
    return found


def mapping_of(value: Any) -> Mapping[Any, Any]:
    """Return a value that was given if it is a mapping; what else it is was told, or is for the API server to tell."""
    return value if isinstance(value, Mapping) else {}


def texts_of(owner: Any, field: str) -> dict[str, str]:
    """Return what is text in a mapping of text to text that was given, such as labels."""
    found = mapping_of(mapping_of(owner).get(field))
    return {key: value for key, value in found.items() if isinstance(key, str) and isinstance(value, str)}


def items_of(owner: Any, field: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield each mapping in a list of what was given, with its index."""
    value = mapping_of(owner).get(field)
    for index, item in enumerate(value if isinstance(value, list) else []):
        if isinstance(item, Mapping):
            yield index, item
