# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node feature discovery: it labels the nodes that have a NIC or GPU.

Written for releases 0.17, whose probes earlier ones lack, to 0.19. A cluster that already runs NFD, for
example from the GPU operator, must keep one only: ``nfd.enabled: false`` leaves it out here.
"""

from __future__ import annotations

from typing import Any, Mapping

from ...checks.versions import is_nfd_of_0_18
from ...common.features import NIC_PCI
from ...common.images import effective_version, image_reference
from ...common.jsontext import pretty
from ...common.objects import (
    Object,
    build,
    cluster_rbac,
    config_map,
    digest,
    field_env,
    host_volume,
    mount,
    namespaced_rbac,
    rule,
)
from ..rollout import GPU_TOLERATION, Rollout, merge_node_affinity, merge_tolerations

COMPONENT = "nfd"

_GROUP = "nfd.k8s-sigs.io"
_CONFIG_DIR = "/etc/kubernetes/node-feature-discovery"
_LOCKED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
}
_CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_HOST_PATHS = (
    ("host-boot", "/boot", "/host-boot"),
    ("host-os-release", "/etc/os-release", "/host-etc/os-release"),
    ("host-sys", "/sys", "/host-sys"),
    ("host-proc-swaps", "/proc/swaps", "/host-proc/swaps"),
    ("host-usr-lib", "/usr/lib", "/host-usr/lib"),
    ("host-lib", "/lib", "/host-lib"),
    ("features-d", f"{_CONFIG_DIR}/features.d/", f"{_CONFIG_DIR}/features.d/"),
)
# Label domains that NFD may write besides its own, and the PCI classes it reports: NICs (Ethernet, InfiniBand) and
# GPUs (VGA, 3D), one label per vendor.
_MASTER_CONFIG = {"extraLabelNs": ["nvidia.com"]}
_PCI = {"deviceClassWhitelist": ["0200", "0207", "0300", "0302"], "deviceLabelFields": ["vendor"]}
_WORKER_CONFIG = {"sources": {"pci": _PCI}}
# A node that starts everything at once answers late: with one second for an answer and forty to start, as upstream's
# worker has, kubelet ends programs that are still starting, over and over, and adds to the load.
_PROBES: Mapping[str, Object] = {
    "startupProbe": {"failureThreshold": 60, "periodSeconds": 5},
    "livenessProbe": {"failureThreshold": 6, "periodSeconds": 20},
    "readinessProbe": {"failureThreshold": 10},
}
# How health is asked, and the name and number of the port with metrics.
_OVER_GRPC: tuple[Object, str, int] = ({"grpc": {"port": 8082}}, "metrics", 8081)
_OVER_HTTP: tuple[Object, str, int] = ({"httpGet": {"path": "/healthz", "port": "http"}}, "http", 8080)


def node_feature_discovery(rollout: Rollout) -> list[Object]:
    """Return the objects of NFD with the rule that labels nodes with a NIC of vendor 15b3."""
    # A policy's ``global`` is about the vendor's own images: a tag of those names no release of NFD.
    image = image_reference(COMPONENT, {}, {}, rollout.settings)
    return [
        *cluster_rbac("nfd-master", rollout.namespace, COMPONENT, _master_rules()),
        *namespaced_rbac("nfd-worker", rollout.namespace, COMPONENT, _worker_rules()),
        *cluster_rbac("nfd-gc", rollout.namespace, COMPONENT, _gc_rules()),
        _config(rollout, "master"),
        _config(rollout, "worker"),
        nic_rule(),
        _master(rollout, image),
        _worker(rollout, image),
        _gc(rollout, image),
    ]


def nic_rule() -> Object:
    """Return the rule that labels a node ``pci-15b3.present`` when it has an Ethernet or InfiniBand NIC of 15b3."""
    match = {
        "feature": "pci.device",
        "matchExpressions": {
            "class": {"op": "In", "value": ["0200", "0207"]},
            "vendor": {"op": "In", "value": ["15b3"]},
        },
    }
    rules = [{"labels": {NIC_PCI: "true"}, "matchFeatures": [match], "name": "Nvidia NICs PCI"}]
    return build(f"{_GROUP}/v1alpha1", "NodeFeatureRule", "nvidia-nics-rules", COMPONENT, spec={"rules": rules})


def _config_text(program: str) -> str:
    # NFD reads YAML, of which JSON is a part: one encoder serves every configuration.
    return pretty(_MASTER_CONFIG if program == "master" else _WORKER_CONFIG)


def _config(rollout: Rollout, program: str) -> Object:
    data = {f"nfd-{program}.conf": _config_text(program)}
    return config_map(f"nfd-{program}-conf", rollout.namespace, COMPONENT, data)


def _master(rollout: Rollout, image: str) -> Object:
    container = _container(
        rollout, "nfd-master", image, {"cpu": "100m", "memory": "128Mi"}, {"cpu": "300m", "memory": "4Gi"}
    )
    container.update(
        **_probes(rollout),
        volumeMounts=[mount("nfd-master-conf", _CONFIG_DIR, read_only=True)],
    )
    return _deployment(rollout, "nfd-master", container, _config_text("master"), enableServiceLinks=False)


def _gc(rollout: Rollout, image: str) -> Object:
    container = _container(rollout, "nfd-gc", image, {"cpu": "10m", "memory": "128Mi"}, {"cpu": "20m", "memory": "1Gi"})
    return _deployment(rollout, "nfd-gc", container, "", dnsPolicy="ClusterFirstWithHostNet")


def _deployment(rollout: Rollout, name: str, container: Object, config: str, **fields: Any) -> Object:
    prefer = [
        {"preference": {"matchExpressions": [{"key": key, "operator": "In", "values": [""]}]}, "weight": 1}
        for key in _CONTROL_PLANE
    ]
    own = {"preferredDuringSchedulingIgnoredDuringExecution": prefer}
    tolerated = [{"effect": "NoSchedule", "key": key, "operator": "Equal"} for key in _CONTROL_PLANE]
    pod = {
        **_pod(rollout, name, container),
        "affinity": {"nodeAffinity": merge_node_affinity(own, rollout.spec.get("deploymentNodeAffinity") or {})},
        "tolerations": merge_tolerations(rollout.spec.get("deploymentTolerations") or [], tolerated),
        **fields,
    }
    if config:
        pod["volumes"] = [{"name": f"{name}-conf", "configMap": {"name": f"{name}-conf"}}]
    return _workload("Deployment", rollout, name, pod, config, replicas=1)


def _worker(rollout: Rollout, image: str) -> Object:
    container = _container(
        rollout, "nfd-worker", image, {"cpu": "5m", "memory": "64Mi"}, {"cpu": "200m", "memory": "512Mi"}
    )
    container.update(
        **_probes(rollout),
        volumeMounts=[
            *(mount(name, inside, read_only=True) for name, _outside, inside in _HOST_PATHS),
            mount("nfd-worker-conf", _CONFIG_DIR, read_only=True),
        ],
    )
    volumes = [
        host_volume(name, outside, "DirectoryOrCreate" if name == "features-d" else "")
        for name, outside, _inside in _HOST_PATHS
    ]
    everywhere = [{"effect": "NoSchedule", "key": key, "operator": "Exists"} for key in _CONTROL_PLANE]
    pod = {
        **_pod(rollout, "nfd-worker", container),
        "dnsPolicy": "ClusterFirstWithHostNet",
        "tolerations": merge_tolerations(rollout.spec.get("tolerations") or [], everywhere, [GPU_TOLERATION]),
        "volumes": [*volumes, {"name": "nfd-worker-conf", "configMap": {"name": "nfd-worker-conf"}}],
    }
    return _workload("DaemonSet", rollout, "nfd-worker", pod, _config_text("worker"))


def _workload(kind: str, rollout: Rollout, name: str, pod: Object, config: str, **spec: Any) -> Object:
    found = digest(config) if config else ""
    return rollout.workload(kind, name, COMPONENT, selector={"app": name}, pod=pod, config_hash=found, **spec)


def _pod(rollout: Rollout, account: str, container: Object) -> Object:
    secrets = rollout.pod({})["imagePullSecrets"]
    return {"containers": [container], "imagePullSecrets": secrets, "serviceAccountName": account}


def is_of_0_18(rollout: Rollout) -> bool:
    """Return whether the release that is deployed is 0.18 or newer."""
    return is_nfd_of_0_18(effective_version(COMPONENT, {}, {}, rollout.settings))


def _endpoint(rollout: Rollout) -> tuple[Object, str, int]:
    return _OVER_HTTP if is_of_0_18(rollout) else _OVER_GRPC


def _probes(rollout: Rollout) -> Object:
    asked = _endpoint(rollout)[0]
    return {name: {**asked, "timeoutSeconds": 5, **limits} for name, limits in _PROBES.items()}


def _container(rollout: Rollout, name: str, image: str, requests: dict[str, str], limits: dict[str, str]) -> Object:
    _asked, port, number = _endpoint(rollout)
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": [name],
        "env": [
            field_env("NODE_NAME", "spec.nodeName"),
            field_env("POD_NAME", "metadata.name"),
            field_env("POD_UID", "metadata.uid"),
        ],
        "ports": [{"name": port, "containerPort": number, "protocol": "TCP"}],
        "resources": {"limits": limits, "requests": requests},
        "securityContext": _LOCKED,
    }


def _master_rules() -> list[Object]:
    return [
        rule([""], ["namespaces"], ["list", "watch"]),
        rule([""], ["nodes", "nodes/status"], ["get", "list", "patch", "update"]),
        rule([_GROUP], ["nodefeatures", "nodefeaturerules", "nodefeaturegroups"], ["get", "list", "watch"]),
        rule([_GROUP], ["nodefeaturegroups/status"], ["patch", "update"]),
        rule(["coordination.k8s.io"], ["leases"], ["create"]),
        rule(["coordination.k8s.io"], ["leases"], ["get", "update"], ["nfd-master.nfd.kubernetes.io"]),
    ]


def _worker_rules() -> list[Object]:
    return [
        rule([_GROUP], ["nodefeatures"], ["create", "delete", "get", "update"]),
        rule([""], ["pods"], ["get"]),
    ]


def _gc_rules() -> list[Object]:
    return [
        rule([""], ["nodes"], ["list", "watch"]),
        rule([_GROUP], ["nodefeatures"], ["delete", "list"]),
        rule(["topology.node.k8s.io"], ["noderesourcetopologies"], ["delete", "list"]),
    ]
