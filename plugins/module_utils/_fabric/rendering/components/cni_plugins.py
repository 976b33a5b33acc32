# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that only have to lie in the node's CNI folder: the CNI project's plugins and ipoib-cni.

Their images copy the programs to ``/host/opt/cni/bin`` when they start. Private to this collection: it may change.
"""

from __future__ import annotations

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.basis.objects import (
    Object,
    host_volume,
    mount,
    workload,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.rollout import Rollout, resources_of

_SMALL = {"cpu": "100m", "memory": "50Mi"}


def cni_plugins(rollout: Rollout) -> list[Object]:
    """Return the objects of ``secondaryNetwork.cniPlugins``."""
    return _copier(rollout, "secondaryNetwork.cniPlugins", "cni-plugins", "cni-plugins-ds")


def ipoib_cni(rollout: Rollout) -> list[Object]:
    """Return the objects of ``secondaryNetwork.ipoib``."""
    return _copier(rollout, "secondaryNetwork.ipoib", "ipoib-cni", "kube-ipoib-cni-ds")


def _copier(rollout: Rollout, section_name: str, component: str, name: str) -> list[Object]:
    section = rollout.section(section_name)
    if section is None:
        return []
    container = {
        "name": component,
        "image": rollout.image(component, section),
        "imagePullPolicy": "IfNotPresent",
        "resources": resources_of(section, component, {"limits": _SMALL, "requests": _SMALL}),
        "securityContext": {"privileged": True},
        "volumeMounts": [mount("cnibin", "/host/opt/cni/bin")],
    }
    pod = rollout.pod(
        section,
        hostNetwork=True,
        containers=[container],
        volumes=[host_volume("cnibin", rollout.cni_bin_dir)],
    )
    return [
        workload(
            "DaemonSet",
            name,
            namespace=rollout.namespace,
            component=component,
            selector={"name": component},
            labels={"app": component, "tier": "node"},
            pod=pod,
        )
    ]
