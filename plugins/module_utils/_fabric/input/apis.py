# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has apiVersion and kind and is nothing that an API server stores: files of programs, and APIs that are gone.

Sources: the deprecation guide of Kubernetes for the APIs and the release that removed each; the configuration APIs of
kustomize, kubeadm, kubelet, kube-proxy, kind, skaffold and oc-mirror.
"""

from __future__ import annotations

from typing import Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import shown

from ..common.jsontext import Problem

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

_HOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_RBAC = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_GONE: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "admissionregistration.k8s.io/v1beta1": (_HOOKS, "admissionregistration.k8s.io/v1", "1.22"),
    "apiextensions.k8s.io/v1beta1": (("CustomResourceDefinition",), "apiextensions.k8s.io/v1", "1.22"),
    "apiregistration.k8s.io/v1beta1": (("APIService",), "apiregistration.k8s.io/v1", "1.22"),
    "apps/v1beta1": (("Deployment", "StatefulSet"), "apps/v1", "1.16"),
    "apps/v1beta2": (("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"), "apps/v1", "1.16"),
    "autoscaling/v2beta1": (("HorizontalPodAutoscaler",), "autoscaling/v2", "1.25"),
    "autoscaling/v2beta2": (("HorizontalPodAutoscaler",), "autoscaling/v2", "1.26"),
    "batch/v1beta1": (("CronJob",), "batch/v1", "1.25"),
    "coordination.k8s.io/v1beta1": (("Lease",), "coordination.k8s.io/v1", "1.22"),
    "discovery.k8s.io/v1beta1": (("EndpointSlice",), "discovery.k8s.io/v1", "1.25"),
    "extensions/v1beta1": (("DaemonSet", "Deployment", "ReplicaSet"), "apps/v1", "1.16"),
    "networking.k8s.io/v1beta1": (("Ingress", "IngressClass"), "networking.k8s.io/v1", "1.22"),
    "node.k8s.io/v1beta1": (("RuntimeClass",), "node.k8s.io/v1", "1.25"),
    "policy/v1beta1": (("PodDisruptionBudget",), "policy/v1", "1.25"),
    "rbac.authorization.k8s.io/v1beta1": (_RBAC, "rbac.authorization.k8s.io/v1", "1.22"),
    "scheduling.k8s.io/v1beta1": (("PriorityClass",), "scheduling.k8s.io/v1", "1.22"),
    "storage.k8s.io/v1beta1": (("CSIDriver", "StorageClass"), "storage.k8s.io/v1", "1.22"),
}
"""Kinds that Kubernetes has in another API now: the API, and the release that removed the old one."""


def unservable(api_version: str, kind: str) -> Problem | None:
    """Return why no API server stores an object of this API and kind, None where one may."""
    group = api_version.rpartition("/")[0]
    if (api_version, kind) == ("v1", "Config"):
        return Problem(
            "", "is a kubeconfig, no object of a cluster", "take it out, and set rdma_fabric_kubeconfig to its path"
        )
    program, step = _PROGRAMS.get(group, ("", ""))
    if program:
        return Problem("", f"is a file of {program}, no object of a cluster", step)
    if kind == "PodSecurityPolicy":
        hint = "take it out; the label pod-security.kubernetes.io/enforce of a Namespace takes its place"
        return Problem("", "is an API that Kubernetes 1.25 removed", hint)
    kinds, successor, release = _GONE.get(api_version, ((), "", ""))
    if kind not in kinds:
        return None
    hint = f"write it for {successor}, which has other fields in places"
    return Problem("", f"is {shown(api_version)}, which Kubernetes {release} removed for a {kind}", hint)
