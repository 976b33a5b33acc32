# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that only have to lie in the node's CNI folder: the CNI project's plugins, ipoib-cni, those of functions.

Their images copy the programs to ``/host/opt/cni/bin`` when they start. That of ovs-cni has programs and a shell alone
(``cmd/Dockerfile``): what it has to run is what the SR-IOV operator's daemon gives it
(``bindata/manifests/daemon/daemonset.yaml``), but for a program that a pod is just being set up with.
"""

from __future__ import annotations

from typing import Iterable

from ...checks.sriov_networks import OPEN_VSWITCH
from ...common.objects import Object, host_volume, mount, workload
from ..rollout import Rollout, resources_of

_SMALL = {"cpu": "100m", "memory": "50Mi"}
# No copier asks the API server. Those that the Network Operator has too keep its pods, which have a token: adopted,
# they would be made anew for that alone.
_WITHOUT_TOKEN = {"automountServiceAccountToken": False}
_FOLDER = "/host/opt/cni/bin"
# A program that runs cannot be written to, so the new one takes its place. A shell that waits for a process in the
# background ends as soon as it is told to.
_COPY = f"""set -e
for program in {" ".join(OPEN_VSWITCH)}; do
  cp "/$program" "{_FOLDER}/.$program.new"
  mv -f "{_FOLDER}/.$program.new" "{_FOLDER}/$program"
done
trap 'exit 0' TERM INT
sleep infinity &
wait $!
"""
_COMMANDS = {"ovs-cni": ["/bin/sh", "-c", _COPY]}
"""What the images run that do not copy their programs by themselves."""


def cni_plugins(rollout: Rollout) -> list[Object]:
    """Return the objects of ``secondaryNetwork.cniPlugins``."""
    section = rollout.section("secondaryNetwork.cniPlugins")
    return [] if section is None else [_copier(rollout, section, "cni-plugins", "cni-plugins-ds")]


def ipoib_cni(rollout: Rollout) -> list[Object]:
    """Return the objects of ``secondaryNetwork.ipoib``."""
    section = rollout.section("secondaryNetwork.ipoib")
    return [] if section is None else [_copier(rollout, section, "ipoib-cni", "kube-ipoib-cni-ds")]


def network_cnis(rollout: Rollout, components: Iterable[str]) -> list[Object]:
    """Return what brings programs that networks name, as the SR-IOV operator's daemon does."""
    return [_copier(rollout, {}, component, f"{component}-ds", **_WITHOUT_TOKEN) for component in components]


def _copier(rollout: Rollout, section: Object, component: str, name: str, **fields: bool) -> Object:
    container = {
        "name": component,
        "image": rollout.image(component, section),
        "imagePullPolicy": "IfNotPresent",
        "resources": resources_of(section, component, {"limits": _SMALL, "requests": _SMALL}),
        "securityContext": {"privileged": True},
        "volumeMounts": [mount("cnibin", _FOLDER)],
    }
    if component in _COMMANDS:
        container["command"] = _COMMANDS[component]
    pod = rollout.pod(
        section,
        hostNetwork=True,
        containers=[container],
        volumes=[host_volume("cnibin", rollout.cni_bin_dir)],
        **fields,
    )
    return workload(
        "DaemonSet",
        name,
        namespace=rollout.namespace,
        component=component,
        selector={"name": component},
        labels={"app": component, "tier": "node"},
        pod=pod,
    )
