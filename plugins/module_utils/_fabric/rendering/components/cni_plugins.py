# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that only have to lie in the node's CNI folder: the CNI project's plugins, ipoib-cni, those of functions.

Their images copy the programs to ``/host/opt/cni/bin`` when they start. Older ones write over programs that a pod is
just being set up with: one that runs can't be written to, and what is half written does not start. That of ovs-cni has
programs and a shell alone (``cmd/Dockerfile``), and the SR-IOV operator's daemon gives it a command
(``bindata/manifests/daemon/daemonset.yaml``). These images get one that puts each program in its place at once.
"""

from __future__ import annotations

from typing import Iterable

from ...checks.sriov_networks import OPEN_VSWITCH
from ...checks.versions import copies_in_place
from ...common.images import material, split_reference
from ...common.objects import Object, host_volume, mount
from ..rollout import Rollout

_SMALL = {"cpu": "100m", "memory": "50Mi"}
# No copier asks the API server. Those that the Network Operator has too keep its pods, which have a token: adopted,
# they would be made anew for that alone.
_WITHOUT_TOKEN = {"automountServiceAccountToken": False}
_FOLDER = "/host/opt/cni/bin"
# A shell that waits for a process in the background ends as soon as it is told to. Not every sleep knows infinity.
_COPY = f"""set -e
for program in %s; do
  new="{_FOLDER}/.${{program##*/}}.new"
  cp "$program" "$new"
  mv -f "$new" "{_FOLDER}/${{program##*/}}"
done
trap 'exit 0' TERM INT
sleep 2147483647 &
wait $!
"""
_PROGRAMS = {
    "cni-plugins": "/usr/src/cni/bin/*",
    "ipoib-cni": "/usr/bin/ipoib",
    "ovs-cni": " ".join(f"/{program}" for program in OPEN_VSWITCH),
}
"""Where the images have their programs that are copied by a command of ours."""


def cni_plugins(rollout: Rollout, section: Object) -> list[Object]:
    """Return the objects of ``secondaryNetwork.cniPlugins``."""
    return [_copier(rollout, section, "cni-plugins", "cni-plugins-ds")]


def ipoib_cni(rollout: Rollout, section: Object) -> list[Object]:
    """Return the objects of ``secondaryNetwork.ipoib``."""
    return [_copier(rollout, section, "ipoib-cni", "kube-ipoib-cni-ds")]


def network_cnis(rollout: Rollout, components: Iterable[str]) -> list[Object]:
    """Return what brings programs that networks name, as the SR-IOV operator's daemon does."""
    return [_copier(rollout, {}, component, f"{component}-ds", **_WITHOUT_TOKEN) for component in components]


def _copier(rollout: Rollout, section: Object, component: str, name: str, **fields: bool) -> Object:
    container = rollout.container(
        component,
        component,
        section,
        {"limits": _SMALL, "requests": _SMALL},
        securityContext={"privileged": True},
        volumeMounts=[mount("cnibin", _FOLDER)],
    )
    if component == "ovs-cni" or _copies_in_place(rollout, section, component):
        container["command"] = ["/bin/sh", "-c", _COPY % _PROGRAMS[component]]
    pod = rollout.pod(
        section,
        hostNetwork=True,
        containers=[container],
        volumes=[host_volume("cnibin", rollout.cni_bin_dir)],
        **fields,
    )
    return rollout.workload(
        "DaemonSet",
        name,
        component,
        selector={"name": component},
        labels={"app": component, "tier": "node"},
        pod=pod,
    )


def _copies_in_place(rollout: Rollout, section: Object, component: str) -> bool:
    """Return whether an image writes over the node's programs; of one that has another name, nothing is known."""
    name = split_reference(rollout.image(component, section))["image"]
    known = material(component, rollout.settings).image
    return name == known and copies_in_place(component, rollout.version(component, section))
