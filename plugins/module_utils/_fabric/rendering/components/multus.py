# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Multus as a thin plugin, with a kubeconfig that follows its token.

Multus' entrypoint writes its pod's token into a kubeconfig on the node. It looks for a new token only when it runs with
``--cleanup-config-on-exit``, without ``--skip-config-watch`` and with a generated configuration (read in
cmd/thin_entrypoint, 4.0.0 to 4.3.0). With a configuration of the user's own a second, small container does that part.
"""

from __future__ import annotations

from ...checks.versions import MULTUS_THIN_ENTRYPOINT
from ...common.images import older_than
from ...common.objects import (
    Object,
    cluster_rbac,
    config_map,
    config_volume,
    digest,
    host_volume,
    mount,
    rule,
)
from ..rollout import CRITICAL, Rollout

COMPONENT = "multus"
CONFIG_MAP = "multus-cni-config"
CONFIG_FILE = "00-multus.conf"
DAEMON_SET = "kube-multus-ds"
CONF_VOLUME = "cninetwork"

_BIN = "/host/opt/cni/bin"
_CONF = "/host/etc/cni/net.d"
_OWN = "/multus-conf"
_REFRESH = "/refresh"
_PRIVILEGED = {"privileged": True, "runAsUser": 0}
_SMALL = {"cpu": "100m", "memory": "50Mi"}


def multus(rollout: Rollout, section: Object) -> list[Object]:
    """Return the objects of ``secondaryNetwork.multus``."""
    config = section.get("config") or ""
    found = cluster_rbac(COMPONENT, rollout.namespace, COMPONENT, _rules())
    if config:
        labels = {"app": COMPONENT, "tier": "node"}
        found.append(config_map(CONFIG_MAP, rollout.namespace, COMPONENT, {"cni-conf.json": config}, labels=labels))
    found.append(_daemon_set(rollout, section, config))
    return found


def _rules() -> list[Object]:
    return [
        rule(["k8s.cni.cncf.io"], ["network-attachment-definitions"], ["get"]),
        rule([""], ["pods"], ["get"]),
        rule([""], ["pods/status"], ["get", "patch", "update"]),
        rule(["", "events.k8s.io"], ["events"], ["create", "patch", "update"]),
        rule(["resource.k8s.io"], ["resourceclaims", "resourceclaims/status", "resourceslices"], ["get", "list"]),
    ]


def _daemon_set(rollout: Rollout, section: Object, config: str) -> Object:
    image = rollout.image(COMPONENT, section)
    shell = older_than(rollout.version(COMPONENT, section), MULTUS_THIN_ENTRYPOINT)
    containers = [_main(rollout, section, config, shell=shell)]
    volumes = [host_volume(CONF_VOLUME, rollout.cni_conf_dir), host_volume("cnibin", rollout.cni_bin_dir)]
    if config:
        volumes.append(config_volume(CONFIG_MAP, CONFIG_MAP, "cni-conf.json", CONFIG_FILE))
    if config and not shell:
        containers.append(_refresher(image))
        volumes.append({"name": "refresh", "emptyDir": {"sizeLimit": "1Mi"}})
        volumes.append(host_volume("multus-d", f"{rollout.cni_conf_dir}/multus.d", "DirectoryOrCreate"))
    pod = rollout.pod(
        section,
        hostNetwork=True,
        priorityClassName=CRITICAL,
        serviceAccountName=COMPONENT,
        terminationGracePeriodSeconds=10,
        initContainers=[] if shell else [_installer(image)],
        containers=containers,
        volumes=volumes,
    )
    return rollout.workload(
        "DaemonSet",
        DAEMON_SET,
        COMPONENT,
        selector={"name": COMPONENT},
        labels={"app": COMPONENT, "tier": "node"},
        pod=pod,
        config_hash=digest(config) if config else "",
        updateStrategy={"type": "RollingUpdate"},
    )


def _main(rollout: Rollout, section: Object, config: str, *, shell: bool) -> Object:
    chosen = f"{_OWN}/{CONFIG_FILE}" if config else "auto"
    args = [
        f"--multus-conf-file={chosen}",
        f"--multus-autoconfig-dir={_CONF}",
        f"--cni-conf-dir={_CONF}",
        f"--cni-bin-dir={_BIN}",
        f"--multus-kubeconfig-file-host={rollout.cni_conf_dir}/multus.d/multus.kubeconfig",
        "--cleanup-config-on-exit=true",
    ]
    mounts = [mount(CONF_VOLUME, _CONF), mount("cnibin", _BIN)]
    if config:
        mounts.append(mount(CONFIG_MAP, _OWN))
    return rollout.container(
        "kube-multus",
        COMPONENT,
        section,
        {"limits": _SMALL, "requests": _SMALL},
        command=["/entrypoint.sh" if shell else "/thin_entrypoint"],
        args=[*args, "--cni-version=0.3.1"] if shell else args,
        securityContext=_PRIVILEGED,
        terminationMessagePolicy="FallbackToLogsOnError",
        volumeMounts=mounts,
    )


def _installer(image: str) -> Object:
    return {
        "name": "install-multus-binary",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/install_multus"],
        "args": ["--type", "thin"],
        "resources": {"requests": {"cpu": "10m", "memory": "15Mi"}},
        "securityContext": _PRIVILEGED,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [mount("cnibin", _BIN, propagation="Bidirectional")],
    }


def _refresher(image: str) -> Object:
    """Return the container that keeps the kubeconfig fresh beside a configuration of the user's own.

    It runs the same entrypoint in its generating mode over a scratch folder, in which only ``multus.d`` is the node's:
    the configuration it generates stays in the scratch folder, the kubeconfig it renews is the real one.
    """
    return {
        "name": "refresh-kubeconfig",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/thin_entrypoint"],
        "args": [
            "--multus-conf-file=auto",
            f"--multus-autoconfig-dir={_CONF}",
            f"--cni-conf-dir={_REFRESH}",
            f"--cni-bin-dir={_REFRESH}",
            "--skip-multus-binary-copy=true",
            "--cleanup-config-on-exit=true",
        ],
        "resources": {"limits": {"cpu": "20m", "memory": "50Mi"}, "requests": {"cpu": "10m", "memory": "15Mi"}},
        "securityContext": _PRIVILEGED,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            mount(CONF_VOLUME, _CONF, read_only=True),
            mount("refresh", _REFRESH),
            mount("multus-d", f"{_REFRESH}/multus.d"),
        ],
    }
