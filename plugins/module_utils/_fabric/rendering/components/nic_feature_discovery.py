# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA NIC Feature Discovery: tells NFD which release of the NIC driver a node runs.

On each node it writes what it finds into the folder from which NFD's worker takes features of others; NFD makes the
label ``nvidia.com/mofed.version`` of it. Facts: ``manifests/state-nic-feature-discovery`` of the Network Operator, the
same since v24.1.0.
"""

from __future__ import annotations

from ...common.objects import Object, host_volume, mount
from ..rollout import Rollout

COMPONENT = "nic-feature-discovery"

_FEATURES = "/etc/kubernetes/node-feature-discovery/features.d"
_RESOURCES = {"limits": {"cpu": "300m", "memory": "150Mi"}, "requests": {"cpu": "100m", "memory": "50Mi"}}


def nic_feature_discovery(rollout: Rollout, section: Object) -> list[Object]:
    """Return the objects of ``nicFeatureDiscovery``."""
    container = rollout.container(
        COMPONENT,
        COMPONENT,
        section,
        _RESOURCES,
        command=["/nic-feature-discovery"],
        args=["--v=0", "--logging-format=json"],
        securityContext={"privileged": True},
        volumeMounts=[mount("features-dir", _FEATURES)],
    )
    pod = rollout.pod(
        section,
        terminationGracePeriodSeconds=10,
        containers=[container],
        volumes=[host_volume("features-dir", _FEATURES, "DirectoryOrCreate")],
    )
    daemon_set = rollout.workload(
        "DaemonSet",
        f"{COMPONENT}-ds",
        COMPONENT,
        selector={"name": COMPONENT},
        labels={"app": COMPONENT, "name": COMPONENT, "tier": "node"},
        pod=pod,
        updateStrategy={"type": "RollingUpdate"},
    )
    return [daemon_set]
