# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NIC configuration operator: a controller and a daemon that set, update and reset cards on nodes.

What they do to a card is said by objects of the kinds that come with them. Facts:
``manifests/state-nic-configuration-operator`` of the Network Operator 26.4.1 and 26.7.0-rc.2, with the table of the
firmware that goes with each release of the driver, the same in both. Since 26.7 the daemon watches the cluster's
ConfigMaps for profiles of Spectrum-X (``cmd/nic-configuration-daemon``), and does not start without that right.
"""

from __future__ import annotations

from ...checks import crds_controllers
from ...checks.nic_configuration import DEFAULT_SIZE, LOG_LEVEL, STORAGE, claim_of, makes_claim
from ...checks.versions import R26_7, Release, controller_release
from ...common.objects import (
    Object,
    build,
    canonical_env,
    cluster_rbac,
    config_map,
    field_env,
    host_volume,
    mount,
    rule,
)
from ...common.quantities import canonical_quantity
from ..rollout import (
    CONTROL_PLANE_TOLERATIONS,
    CRITICAL,
    GPU_TOLERATION,
    Rollout,
    merge_tolerations,
    probe,
    resources_of,
)

COMPONENT = "nic-configuration-operator"
DAEMON = "nic-configuration-daemon"

_GROUP = "configuration.net.nvidia.com"
_TABLE = f"{COMPONENT}-supported-nic-firmware"
_FIRMWARE_CACHE = "firmware-cache"
_FIRMWARE_FOLDER = "/nic-firmware"
_EVERY_VERB = ["create", "delete", "get", "list", "patch", "update", "watch"]
_OF_STATUS = ["get", "patch", "update"]
_CONTAINER = "kubectl.kubernetes.io/default-container"
_BLUEFIELD_2 = "MT42822_BlueField-2_integrated_ConnectX-6_Dx"
_BLUEFIELD_3 = "MT43244_BlueField-3_integrated_ConnectX-7_Dx"
_CARDS = {
    "ConnectX-4_Lx": "1013",
    "ConnectX-5": "1017",
    "ConnectX-5_Ex": "1019",
    "ConnectX-6": "101b",
    "ConnectX-6_Dx": "101d",
    "ConnectX-6_Lx": "101f",
    "ConnectX-7": "1021",
    "ConnectX-8": "1023",
    "ConnectX-9": "1025",
    _BLUEFIELD_2: "a2d6",
    _BLUEFIELD_3: "a2dc",
}
# Of each driver: its version, and the firmware that belongs to it.
_DRIVERS = {
    "25.07": ("25.07-0.9.7", {_BLUEFIELD_2: "24.46.1006", _BLUEFIELD_3: "32.46.1006"}),
    "25.10": (
        "25.10-1.2.2",
        {
            "ConnectX-4_Lx": "14.32.1908",
            "ConnectX-5": "16.35.8002",
            "ConnectX-5_Ex": "16.35.8002",
            "ConnectX-6": "20.43.8002",
            "ConnectX-6_Dx": "22.47.1026",
            "ConnectX-6_Lx": "26.47.1026",
            "ConnectX-7": "28.47.1026",
            "ConnectX-8": "40.47.1026",
            _BLUEFIELD_2: "24.47.1026",
            _BLUEFIELD_3: "32.47.1026",
        },
    ),
    "26.01": (
        "26.01-1.0.0",
        {
            "ConnectX-6_Dx": "22.48.1000",
            "ConnectX-6_Lx": "26.48.1000",
            "ConnectX-7": "28.48.1000",
            "ConnectX-8": "40.48.1000",
            "ConnectX-9": "82.48.1000",
            _BLUEFIELD_2: "24.48.1000",
            _BLUEFIELD_3: "32.48.1000",
        },
    ),
    "26.04": (
        "26.04-0.8.6",
        {
            "ConnectX-6_Dx": "22.49.1014",
            "ConnectX-6_Lx": "26.49.1014",
            "ConnectX-7": "28.49.1014",
            "ConnectX-8": "40.49.1014",
            "ConnectX-9": "82.49.1014",
            _BLUEFIELD_2: "24.49.1014",
            _BLUEFIELD_3: "32.49.1014",
        },
    ),
}
_SUPPORTED = {
    f"Nvidia_mlx5_{card}-{release}": f"{_CARDS[card]} {version} {firmware}"
    for release, (version, cards) in _DRIVERS.items()
    for card, firmware in cards.items()
}


def nic_configuration(rollout: Rollout, section: Object) -> list[Object]:
    """Return the objects of ``nicConfigurationOperator``."""
    parts = ((COMPONENT, "operator"), (DAEMON, "configurationDaemon"))
    # Both share the kinds and the account, so the newer of them counts.
    versions = [rollout.version(each, section.get(part) or {}) for each, part in parts]
    release = max(controller_release(version, rollout.settings) for version in versions)
    return [
        *crds_controllers.nic_configuration(release),
        *cluster_rbac(COMPONENT, rollout.namespace, COMPONENT, _rules(release)),
        config_map(_TABLE, rollout.namespace, COMPONENT, _SUPPORTED),
        *_claim(rollout, section),
        _deployment(rollout, section),
        _daemon_set(rollout, section),
    ]


def _rules(release: Release) -> list[Object]:
    configured = ("nicconfigurationtemplates", "nicdevices", "nicfirmwaresources", "nicfirmwaretemplates")
    names = "nicinterfacenametemplates"
    return [
        rule([""], ["configmaps"], ["get", "list", "watch"] if release >= R26_7 else ["get"]),
        rule([""], ["nodes"], ["get", "list", "patch", "update", "watch"]),
        rule([""], ["pods"], ["list"]),
        rule([""], ["pods/eviction"], _EVERY_VERB),
        rule([_GROUP], [*configured, names], _EVERY_VERB),
        rule([_GROUP], [f"{each}/finalizers" for each in configured], ["update"]),
        rule([_GROUP], [f"{each}/status" for each in (*configured, names)], _OF_STATUS),
        rule(["maintenance.nvidia.com"], ["nodemaintenances"], _EVERY_VERB),
        rule(["apps"], ["daemonsets"], _EVERY_VERB),
    ]


def _claim(rollout: Rollout, section: Object) -> list[Object]:
    if not makes_claim(section):
        return []
    storage = section[STORAGE]
    spec: Object = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": canonical_quantity(storage.get("availableStorageSize") or DEFAULT_SIZE)}},
        "storageClassName": storage.get("storageClassName") or None,
    }
    name = claim_of(section)
    return [build("v1", "PersistentVolumeClaim", name, COMPONENT, namespace=rollout.namespace, spec=spec)]


def _deployment(rollout: Rollout, section: Object) -> Object:
    operator = section.get("operator") or {}
    cache = [mount(_FIRMWARE_CACHE, _FIRMWARE_FOLDER)] if claim_of(section) else []
    amounts = {"limits": {"cpu": "1", "memory": "5Gi"}, "requests": {"cpu": "100m", "memory": "256Mi"}}
    container = rollout.container(
        "manager",
        COMPONENT,
        operator,
        command=["/manager"],
        env=_variables(section),
        livenessProbe=probe("/healthz", 15, 20),
        readinessProbe=probe("/readyz", 5, 10),
        resources=resources_of(operator, COMPONENT, amounts),
        securityContext={"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        volumeMounts=cache,
    )
    pod = {
        "affinity": {"nodeAffinity": rollout.near_the_control_plane()},
        "containers": [container],
        "imagePullSecrets": rollout.pod(operator)["imagePullSecrets"],
        "priorityClassName": "system-cluster-critical",
        "securityContext": {"fsGroup": 65532, "runAsNonRoot": True},
        "serviceAccountName": COMPONENT,
        "terminationGracePeriodSeconds": 10,
        "tolerations": merge_tolerations(
            CONTROL_PLANE_TOLERATIONS, [GPU_TOLERATION], rollout.spec.get("deploymentTolerations") or []
        ),
        "volumes": _cache(section),
    }
    return rollout.workload(
        "Deployment",
        COMPONENT,
        COMPONENT,
        selector={"app.kubernetes.io/component": COMPONENT},
        annotations={_CONTAINER: "manager"},
        pod=pod,
        replicas=1,
    )


def _daemon_set(rollout: Rollout, section: Object) -> Object:
    daemon = section.get("configurationDaemon") or {}
    cache = [mount(_FIRMWARE_CACHE, _FIRMWARE_FOLDER, read_only=True)] if claim_of(section) else []
    container = rollout.container(
        DAEMON,
        DAEMON,
        daemon,
        {"limits": {"memory": "5Gi"}, "requests": {"cpu": "100m", "memory": "512Mi"}},
        env=[
            field_env("NODE_NAME", "spec.nodeName"),
            field_env("NAMESPACE", "metadata.namespace"),
            *_variables(section),
        ],
        securityContext={"privileged": True},
        volumeMounts=[
            mount("sys", "/sys"),
            mount("proc", "/proc"),
            mount("host", "/host"),
            mount("dev", "/dev"),
            *cache,
        ],
    )
    pod = rollout.pod(
        daemon,
        selective=True,
        after_driver=True,
        hostNetwork=True,
        hostPID=True,
        priorityClassName=CRITICAL,
        serviceAccountName=COMPONENT,
        terminationGracePeriodSeconds=10,
        containers=[container],
        volumes=[
            host_volume("sys", "/sys"),
            host_volume("proc", "/proc"),
            host_volume("host", "/"),
            host_volume("dev", "/dev"),
            *_cache(section),
        ],
    )
    return rollout.workload(
        "DaemonSet",
        DAEMON,
        COMPONENT,
        selector={"app.kubernetes.io/name": DAEMON},
        labels={"nvidia.com/nic-configuration-daemon": ""},
        annotations={_CONTAINER: DAEMON},
        pod=pod,
        updateStrategy={"type": "RollingUpdate"},
    )


def _variables(section: Object) -> list[Object]:
    level = {"name": LOG_LEVEL, "value": section.get("logLevel") or "info"}
    return [level, *(canonical_env(variable) for variable in section.get("env") or [])]


def _cache(section: Object) -> list[Object]:
    claim = claim_of(section)
    return [{"name": _FIRMWARE_CACHE, "persistentVolumeClaim": {"claimName": claim}}] if claim else []
