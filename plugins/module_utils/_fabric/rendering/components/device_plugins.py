# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The RDMA shared and the SR-IOV network device plugin."""

from __future__ import annotations

from ansible_collections.rdma.fabric.plugins.module_utils._needs import SHARED, SRIOV

from ...checks.devplugin import check_rdma_shared, check_sriov, config_text
from ...common.distributions import KUBELET
from ...common.objects import Object, config_map, config_volume, digest, host_volume, mount, service_account
from ..rollout import CRITICAL, Rollout

RDMA_CONFIG_MAP = "rdma-devices"
SRIOV_CONFIG_MAP = "network-operator-sriovdp-config"
CONFIG_KEY = "config.json"

_DEVICE_INFO = "/var/run/k8s.cni.cncf.io/devinfo/dp"
_SOCKETS = [
    ("device-plugin", f"{KUBELET}/device-plugins"),
    ("plugins-registry", f"{KUBELET}/plugins_registry"),
]
_SRIOV_ACCOUNT = "network-operator-sriov-device-plugin"


def _rdma_shared(rollout: Rollout, section: Object) -> list[Object]:
    """Return the objects of ``rdmaSharedDevicePlugin``."""
    config = config_text(check_rdma_shared(section.get("config"))[0])
    name = rollout.named(RDMA_CONFIG_MAP)
    mounts, volumes = _common(rollout, name, "/k8s-rdma-shared-dev-plugin", section)
    container = rollout.container(
        "rdma-shared-dp",
        SHARED,
        section,
        command=["/bin/k8s-rdma-shared-dp"],
        args=["--use-cdi"] if section.get("useCdi") else [],
        securityContext={"privileged": True},
        volumeMounts=[*mounts, mount("devs", "/dev/")],
    )
    volumes.append(host_volume("devs", "/dev/"))
    daemon_set = rollout.workload(
        "DaemonSet",
        rollout.workload_name("rdma-shared-dp-ds"),
        SHARED,
        selector={"app": rollout.named("rdma-shared-dp")},
        pod=_pod(rollout, section, container, volumes),
        config_hash=digest(config),
    )
    return [config_map(name, rollout.namespace, SHARED, {CONFIG_KEY: config}), daemon_set]


def _sriov(rollout: Rollout, section: Object) -> list[Object]:
    """Return the objects of ``sriovDevicePlugin``."""
    config = config_text(check_sriov(section.get("config"))[0])
    name = rollout.named(SRIOV_CONFIG_MAP)
    mounts, volumes = _common(rollout, name, "/etc/pcidp", section)
    container = rollout.container(
        "kube-sriovdp",
        SRIOV,
        section,
        args=["--log-dir=sriovdp", "--log-level=10", *(["--use-cdi"] if section.get("useCdi") else [])],
        securityContext={"privileged": True},
        volumeMounts=[*mounts, mount("log", "/var/log"), mount("device-info", _DEVICE_INFO)],
    )
    volumes += [
        host_volume("log", "/var/log"),
        host_volume("device-info", _DEVICE_INFO, "DirectoryOrCreate"),
    ]
    workload_name = rollout.workload_name(_SRIOV_ACCOUNT)
    daemon_set = rollout.workload(
        "DaemonSet",
        workload_name,
        SRIOV,
        selector={"name": workload_name},
        labels={"app": "sriovdp", "tier": "node"},
        pod=_pod(rollout, section, container, volumes, serviceAccountName=_SRIOV_ACCOUNT),
        config_hash=digest(config),
    )
    return [
        service_account(_SRIOV_ACCOUNT, rollout.namespace, SRIOV),
        config_map(name, rollout.namespace, SRIOV, {CONFIG_KEY: config}),
        daemon_set,
    ]


DEVICE_PLUGINS = {"sriovDevicePlugin": _sriov, "rdmaSharedDevicePlugin": _rdma_shared}
"""The device plugins, by the section that asks for each."""


def _pod(rollout: Rollout, section: Object, container: Object, volumes: list[Object], **fields: str) -> Object:
    return rollout.pod(
        section,
        selective=True,
        after_driver=True,
        hostNetwork=True,
        # Both plugins speak to the kubelet alone.
        automountServiceAccountToken=False,
        priorityClassName=CRITICAL,
        containers=[container],
        volumes=volumes,
        **fields,
    )


def _common(rollout: Rollout, config: str, config_path: str, section: Object) -> tuple[list[Object], list[Object]]:
    """Return the mounts and volumes both plugins need: kubelet's sockets, the configuration, CDI where asked for.

    The registry is the kubelet's own, and both have its place in their code: where it is another they get none, and
    register in the other folder, which is the same for every kubelet (``DevicePluginPath`` of k8s.io/kubelet;
    ``detectPluginWatchMode`` of both). Reports: sriov-network-device-plugin#586, k8s-rdma-shared-dev-plugin#121.
    """
    sockets = _SOCKETS if rollout.kubelet_dir == KUBELET else _SOCKETS[:1]
    mounts = [mount(name, path) for name, path in sockets] + [mount("config", config_path)]
    volumes = [host_volume(name, path) for name, path in sockets]
    volumes.append(config_volume("config", config, CONFIG_KEY, CONFIG_KEY))
    if section.get("useCdi"):
        mounts += [mount("dynamic-cdi", "/var/run/cdi"), mount("host-config-volume", "/host/etc/pcidp/")]
        volumes += [
            host_volume("dynamic-cdi", "/var/run/cdi", "DirectoryOrCreate"),
            host_volume("host-config-volume", "/etc/pcidp", "DirectoryOrCreate"),
        ]
    return mounts, volumes
