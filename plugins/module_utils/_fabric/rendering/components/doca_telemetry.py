# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The DOCA telemetry service: counters of NICs and of the pods that use them, for Prometheus on port 9189 of each node.

Facts: ``manifests/state-doca-telemetry-service`` of the Network Operator. The default configuration is that of its
development branch after v26.4.1, which took out ``prometheus-fset-indexes``: it made the service take too much memory.
"""

from __future__ import annotations

from typing import Any, Mapping

from ...checks.doca_telemetry import CONFIG_MAP, KEY, config_map_of
from ...common.distributions import KUBELET
from ...common.objects import Object, config_map, digest, field_env, host_volume, mount, service_account
from ..rollout import Rollout

COMPONENT = "doca-telemetry"
SECTION = "docaTelemetryService"

_NAME = "doca-telemetry-service"
_POD_RESOURCES = "pod-resources"
_DEVICE_INFO = "/var/run/k8s.cni.cncf.io/devinfo/cni"
_START = "rm -rf /config/* && DTS_CONFIG_DIR=host /usr/bin/telemetry-init.sh && /usr/bin/telemetry-run.sh"
_SETTINGS = (
    ("port", "0"),
    ("sync-time-limit", "10000"),
    ("counter-buffer-size", "0"),
    ("event-buffer-size", "0"),
    ("verbose", "6"),
    ("update", "1000"),
    ("runtime-configuration-folder", "/config/clx_last_runtime_conf"),
    ("idle-time-limit", "0"),
    ("enable-explicitly", "true"),
    ("enable-provider", "sysfs"),
    ("enable-provider", "pod_resources"),
    ("enable-provider", "ethtool"),
    ("enable-provider", "ifconfig"),
    ("prometheus", "http://0.0.0.0:9189"),
    ("prometheus-ignore-tags", "FI_metrics"),
)
_DEFAULT = "".join(f"{name}={value}\n" for name, value in _SETTINGS)


def doca_telemetry(rollout: Rollout, config_maps: Mapping[str, Mapping[str, Any]]) -> list[Object]:
    """Return the objects of ``docaTelemetryService``; a ConfigMap of the user's own replaces the default one.

    ``config_maps`` are the data of those that are given, by name: where it is among them, a change makes new pods.
    """
    section = rollout.section(SECTION)
    if section is None:
        return []
    own = config_map_of(section)
    configs = [] if own else [config_map(CONFIG_MAP, rollout.namespace, COMPONENT, {KEY: _DEFAULT})]
    text = (config_maps.get(own) or {}).get(KEY) if own else _DEFAULT
    account = service_account(_NAME, rollout.namespace, COMPONENT)
    return [account, *configs, _daemon_set(rollout, section, own, digest(text) if isinstance(text, str) else "")]


def _daemon_set(rollout: Rollout, section: Object, own: str, config_hash: str) -> Object:
    container = rollout.container(
        _NAME,
        COMPONENT,
        section,
        command=["/bin/bash", "-c", _START],
        env=[
            field_env("MY_POD_UID", "metadata.uid"),
            {"name": "PROMETHEUS_XCSET_JOIN_FIELDS", "value": "hca"},
            {"name": "PROMETHEUS_XCSET_MANDATORY_TYPES", "value": "counters,pod_resources_event"},
        ],
        securityContext={"privileged": True},
        volumeMounts=[
            mount("doca-telemetry-service-configmap", "/configmap"),
            mount("pod-device-resources", f"{KUBELET}/{_POD_RESOURCES}"),
            mount("cni", _DEVICE_INFO),
        ],
    )
    pod = rollout.pod(
        section,
        selective=True,
        after_driver=True,
        hostNetwork=True,
        # The account has no rights; which pods use devices is asked of the kubelet.
        automountServiceAccountToken=False,
        serviceAccountName=_NAME,
        containers=[container],
        volumes=[
            {"name": "doca-telemetry-service-configmap", "configMap": {"name": own or CONFIG_MAP}},
            host_volume("pod-device-resources", f"{rollout.kubelet_dir}/{_POD_RESOURCES}"),
            host_volume("cni", f"{_DEVICE_INFO}/"),
        ],
    )
    return rollout.workload(
        "DaemonSet",
        _NAME,
        COMPONENT,
        selector={"app.kubernetes.io/name": COMPONENT},
        pod=pod,
        config_hash=config_hash,
        updateStrategy={"type": "RollingUpdate"},
    )
