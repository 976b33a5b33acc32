# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nv-ipam before v0.1.0, which reads its pools from a ConfigMap.

Its controller notes each node's part of every pool in an annotation of the node; a pod on each node installs the CNI
program, which reads that annotation, and ends in host-local. Facts: ``manifests/state-nv-ipam-cni`` of the Network
Operator v23.5.0 and v23.7.0, ``cmd/ipam-node`` and ``pkg/cni/types`` of nvidia-k8s-ipam v0.0.2 and v0.0.3.
"""

from __future__ import annotations

from typing import Sequence

from ...checks.nv_ipam_config import config_of
from ...checks.versions import elects_leader
from ...common.jsontext import pretty
from ...common.objects import Object, cluster_rbac, config_map, field_env, host_volume, mount, rule
from ..rollout import Rollout, resources_of
from .nv_ipam import COMPONENT, CONTROLLER, NODE, SECTION, controller, daemon_set

_CONFIG_MAP = "nvidia-k8s-ipam-config"
_STATE = "/var/lib/cni/nv-ipam"
# The program looks for its configuration here whatever the runtime's own folder is.
_CONF = "/etc/cni/net.d"
_AMOUNTS = {"cpu": "100m", "memory": "50Mi"}


def nv_ipam_config(rollout: Rollout, pools: Sequence[Object]) -> list[Object]:
    """Return the objects of ``nvIpam`` with an old release; ``pools`` are the IPPools of a FabricSpec.

    Without pools there is no ConfigMap: the controller waits for one.
    """
    section = rollout.section(SECTION)
    if section is None:
        return []
    has_leader = elects_leader(rollout.version(COMPONENT, section))
    arguments = [f"--config-name={_CONFIG_MAP}", "--config-namespace=$(POD_NAMESPACE)"]
    if has_leader:
        arguments += ["--leader-elect=true", "--leader-elect-namespace=$(POD_NAMESPACE)"]
    found = [
        *cluster_rbac(NODE, rollout.namespace, COMPONENT, [rule([""], ["nodes"], ["get"])]),
        *cluster_rbac(CONTROLLER, rollout.namespace, COMPONENT, _controller_rules(has_leader)),
        controller(rollout, section, arguments, replicas=2 if has_leader else 1),
        _daemon(rollout, section),
    ]
    if pools:
        config = pretty(config_of({pool["name"]: pool["spec"] for pool in pools}))
        found.append(config_map(_CONFIG_MAP, rollout.namespace, COMPONENT, {"config": config}))
    return found


def _controller_rules(has_leader: bool) -> list[Object]:
    read = ["get", "list", "watch"]
    found = [
        rule([""], ["nodes"], ["get", "list", "patch", "update", "watch"]),
        rule([""], ["configmaps"], read),
    ]
    if has_leader:
        found.append(rule(["coordination.k8s.io"], ["leases"], [*read, "create", "update", "patch", "delete"]))
        found.append(rule([""], ["events"], ["create", "patch"]))
    return found


def _daemon(rollout: Rollout, section: Object) -> Object:
    container = {
        "name": NODE,
        "image": rollout.image(COMPONENT, section),
        "imagePullPolicy": "IfNotPresent",
        "command": ["/ipam-node"],
        "env": [field_env("NODE_NAME", "spec.nodeName")],
        "resources": resources_of(section, NODE, {"limits": _AMOUNTS, "requests": _AMOUNTS}),
        "securityContext": {"privileged": True},
        "volumeMounts": [
            mount("cnibin", "/host/opt/cni/bin"),
            mount("cni", "/host/etc/cni/net.d"),
            mount("hostlocalcnibin", f"/host{_STATE}/bin"),
            mount("hostlocalcnistate", f"/host{_STATE}/state/host-local"),
        ],
    }
    pod = rollout.pod(
        section,
        hostNetwork=True,
        serviceAccountName=NODE,
        terminationGracePeriodSeconds=10,
        containers=[container],
        volumes=[
            host_volume("cnibin", rollout.cni_bin_dir, "DirectoryOrCreate"),
            host_volume("cni", _CONF, "DirectoryOrCreate"),
            host_volume("hostlocalcnibin", f"{_STATE}/bin", "DirectoryOrCreate"),
            host_volume("hostlocalcnistate", f"{_STATE}/state/host-local", "DirectoryOrCreate"),
        ],
    )
    return daemon_set(rollout, pod)
