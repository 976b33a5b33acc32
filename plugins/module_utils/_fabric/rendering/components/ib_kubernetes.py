# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ib-kubernetes: gives each function of a pod on InfiniBand a GUID, and has UFM put it into its partition.

Facts: ``manifests/state-ib-kubernetes`` of the Network Operator, whose pod and rights are those of the leader election
since v26.4.0; older programs do not use them.
"""

from __future__ import annotations

from ...checks.ib_kubernetes import END, SECRET, SECRET_KEYS, START
from ...common.images import older_than
from ...common.objects import Object, cluster_rbac, field_env, rule
from ..rollout import CONTROL_PLANE_TOLERATIONS, GPU_TOLERATION, Rollout, merge_tolerations

COMPONENT = "ib-kubernetes"

_OPTIONAL_KEYS = ("UFM_HTTP_SCHEMA", "UFM_PORT", "UFM_CERTIFICATE")
_SECONDS = 5
# From this release on the program lies in another folder of its image.
_MOVED = (1, 1, 0)


def ib_kubernetes(rollout: Rollout, section: Object) -> list[Object]:
    """Return the objects of ``ibKubernetes``."""
    return [*cluster_rbac(COMPONENT, rollout.namespace, COMPONENT, _rules()), _deployment(rollout, section)]


def _rules() -> list[Object]:
    read = ["get", "list", "watch"]
    return [
        rule([""], ["pods"], [*read, "patch"]),
        rule(["k8s.cni.cncf.io"], ["network-attachment-definitions"], read),
        rule(["coordination.k8s.io"], ["leases"], [*read, "create", "update", "patch"]),
        rule([""], ["events"], ["create"]),
    ]


def _deployment(rollout: Rollout, section: Object) -> Object:
    program = "/usr/bin/ib-kubernetes" if older_than(rollout.version(COMPONENT, section), _MOVED) else "/ib-kubernetes"
    container = rollout.container(
        COMPONENT,
        COMPONENT,
        section,
        {"requests": {"cpu": "100m", "memory": "300Mi"}},
        command=[program],
        env=[
            field_env("K8S_NODE", "spec.nodeName"),
            field_env("POD_NAMESPACE", "metadata.namespace"),
            field_env("POD_UID", "metadata.uid"),
            {"name": "DAEMON_SM_PLUGIN", "value": "ufm"},
            {"name": "DAEMON_PERIODIC_UPDATE", "value": str(section.get("periodicUpdateSeconds") or _SECONDS)},
            {"name": "GUID_POOL_RANGE_START", "value": section[START]},
            {"name": "GUID_POOL_RANGE_END", "value": section[END]},
            *(_secret_env(key, section[SECRET]) for key in SECRET_KEYS),
            *(_secret_env(key, section[SECRET], optional=True) for key in _OPTIONAL_KEYS),
        ],
    )
    pod = {
        "affinity": {"nodeAffinity": rollout.near_the_control_plane()},
        "containers": [container],
        "hostNetwork": True,
        "imagePullSecrets": rollout.pod(section)["imagePullSecrets"],
        "priorityClassName": "system-cluster-critical",
        "serviceAccountName": COMPONENT,
        "tolerations": merge_tolerations(
            CONTROL_PLANE_TOLERATIONS,
            [GPU_TOLERATION],
            rollout.spec.get("deploymentTolerations") or [],
        ),
    }
    return rollout.workload(
        "Deployment",
        COMPONENT,
        COMPONENT,
        selector={"name": COMPONENT},
        labels={"component": "network", "kubernetes.io/os": "linux", "name": COMPONENT, "type": "infra"},
        pod=pod,
        progressDeadlineSeconds=600,
        replicas=1,
        strategy={"type": "Recreate"},
    )


def _secret_env(key: str, secret: str, *, optional: bool = False) -> Object:
    reference: Object = {"key": key, "name": secret}
    if optional:
        reference["optional"] = True
    return {"name": key, "valueFrom": {"secretKeyRef": reference}}
