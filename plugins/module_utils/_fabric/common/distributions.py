# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where distributions of Kubernetes have CNI programs and configurations on their nodes.

Only those are listed that differ from the usual folders, which kubeadm, kubespray and RKE2 have. Sources:
docs.k3s.io/networking/multus-ipams (the folder of programs moved with the releases of October 2024) and
canonical.com/microk8s/docs/change-cidr. Both name the folders of an installation with its default data directory.
"""

from __future__ import annotations

import re
from typing import Mapping, NamedTuple

USUAL = {"cni_bin_dir": "/opt/cni/bin", "cni_conf_dir": "/etc/cni/net.d"}
"""The settings of the folders, with what they are where nothing else is given."""

_K3S = re.compile(r"v(\d+)\.(\d+)\.(\d+)\S*\+k3s", re.ASCII)
_K3S_DATA = "/var/lib/rancher/k3s"
# The first patch release of each minor one with the fixed folder; all newer minor releases have it.
_K3S_FIXED = {(1, 28): 15, (1, 29): 10, (1, 30): 6, (1, 31): 2}
_MICROK8S_LABEL = "microk8s.io/cluster"
_MICROK8S_DATA = "/var/snap/microk8s/current"


class Distribution(NamedTuple):
    """A distribution and the folders of its nodes, by the names of their settings."""

    name: str
    folders: dict[str, str]


def distribution_of(version: str, labels: Mapping[str, str]) -> Distribution | None:
    """Return the distribution of a node with folders of its own, by its kubelet's version and its labels."""
    k3s = _K3S.match(version)
    if k3s is not None:
        major, minor, patch = (int(part) for part in k3s.groups())
        is_fixed = (major, minor) > max(_K3S_FIXED) or patch >= _K3S_FIXED.get((major, minor), patch + 1)
        programs = "data/cni" if is_fixed else "data/current/bin"
        folders = {"cni_bin_dir": f"{_K3S_DATA}/{programs}", "cni_conf_dir": f"{_K3S_DATA}/agent/etc/cni/net.d"}
        return Distribution("k3s", folders)
    if labels.get(_MICROK8S_LABEL) == "true":
        folders = {"cni_bin_dir": f"{_MICROK8S_DATA}/opt/cni/bin", "cni_conf_dir": f"{_MICROK8S_DATA}/args/cni-network"}
        return Distribution("MicroK8s", folders)
    return None
