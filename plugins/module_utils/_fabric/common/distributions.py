# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where distributions of Kubernetes have what pods of a fabric mount from their nodes: CNI folders and the kubelet's.

Only those are listed that differ from kubeadm, kubespray and RKE2. Sources: docs.k3s.io/networking/multus-ipams (the
folder of programs moved with the releases of October 2024), canonical.com/microk8s/docs/change-cidr,
k8snetworkplumbingwg/multus-cni#620 and #621 (GKE), docs.k0sproject.io/head/directories with k0sproject/k0s#7585 (all of
the kubelet's moves but device-plugins), and pkg/machinery/constants of siderolabs/talos (what its read-only root has
writable). All name the folders of an installation with its default data directory.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, NamedTuple

USUAL = {"cni_bin_dir": "/opt/cni/bin", "cni_conf_dir": "/etc/cni/net.d"}
"""The settings of the folders, with what they are where nothing else is given."""

_GKE = re.compile(r"v\d\S*-gke\.\d", re.ASCII)
_K3S = re.compile(r"v(\d+)\.(\d+)\.(\d+)\S*\+k3s", re.ASCII)
_K3S_DATA = "/var/lib/rancher/k3s"
# The first patch release of each minor one with the fixed folder; all newer minor releases have it.
_K3S_FIXED = {(1, 28): 15, (1, 29): 10, (1, 30): 6, (1, 31): 2}
_MICROK8S_LABEL = "microk8s.io/cluster"
_MICROK8S_DATA = "/var/snap/microk8s/current"


KUBELET = "/var/lib/kubelet"
"""The kubelet's own folder (``--root-dir``) where no setting says another."""


class Distribution(NamedTuple):
    """A distribution and the folders of its nodes, by the names of their settings.

    ``unusable`` matches the type and path of volumes that are of no use to pods there, ``why`` says so with what to do.
    """

    name: str
    folders: dict[str, str]
    unusable: re.Pattern[str] | None = None
    why: str = ""


_K0S = Distribution(
    "k0s",
    USUAL,
    re.compile(rf"\w* {KUBELET}/(?:plugins_registry|pod-resources)(?:/|$)", re.ASCII),
    "where its kubelet neither looks for plugins nor answers by default (next: rdma_fabric_kubelet_dir: "
    f"/var/lib/k0s/kubelet, unless k0s is started there with --kubelet-root-dir={KUBELET})",
)
_TALOS = Distribution(
    "Talos",
    USUAL,
    re.compile(
        r"\w+OrCreate /(?!(?:dev|etc/cni|etc/kubernetes|opt|proc|run|sys|tmp|usr/libexec/kubernetes|var)(?:/|$))",
        re.ASCII,
    ),
    "which nobody can create on its read-only file system (next: leave out what mounts it, such as useCdi of a device "
    "plugin, or keep it off these nodes with nodeAffinity)",
)


def distribution_of(node: Mapping[str, Any]) -> Distribution | None:
    """Return the distribution of a node with folders of its own, by what its kubelet tells and by its labels."""
    about = (node.get("status") or {}).get("nodeInfo") or {}
    version = str(about.get("kubeletVersion", ""))
    k3s = _K3S.match(version)
    if k3s is not None:
        major, minor, patch = (int(part) for part in k3s.groups())
        is_fixed = (major, minor) > max(_K3S_FIXED) or patch >= _K3S_FIXED.get((major, minor), patch + 1)
        programs = "data/cni" if is_fixed else "data/current/bin"
        folders = {"cni_bin_dir": f"{_K3S_DATA}/{programs}", "cni_conf_dir": f"{_K3S_DATA}/agent/etc/cni/net.d"}
        return Distribution("k3s", folders)
    if (node["metadata"].get("labels") or {}).get(_MICROK8S_LABEL) == "true":
        folders = {"cni_bin_dir": f"{_MICROK8S_DATA}/opt/cni/bin", "cni_conf_dir": f"{_MICROK8S_DATA}/args/cni-network"}
        return Distribution("MicroK8s", folders)
    if _GKE.match(version):
        return Distribution("GKE", {**USUAL, "cni_bin_dir": "/home/kubernetes/bin"})
    if "+k0s" in version:
        return _K0S
    return _TALOS if str(about.get("osImage", "")).startswith("Talos") else None
