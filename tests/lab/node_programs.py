# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build what runs on a node of the lab: the kubelet and the CNI plugins.

Always built from the pinned modules: what a distribution has installed lacks parts or is of another release. A kubelet
may be up to three minor releases older than the API server (Kubernetes' version skew policy), never newer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Mapping

from .gobuild import Recipe, Report
from .programs import KUBERNETES_VERSION, MODULES, STRIP, built, kubernetes_ldflags

CNI_VERSION = "v1.9.1"
CNI_MODULE = "github.com/containernetworking/plugins"
CNI_KINDS: Mapping[str, tuple[str, ...]] = {
    "ipam": ("dhcp", "host-local", "static"),
    "main": ("bridge", "dummy", "host-device", "ipvlan", "loopback", "macvlan", "ptp", "tap", "vlan"),
    "meta": ("bandwidth", "firewall", "portmap", "sbr", "tuning", "vrf"),
}

KUBELET = Recipe(
    "kubelet",
    MODULES / "kubelet",
    {"kubelet": "k8s.io/kubernetes/cmd/kubelet"},
    kubernetes_ldflags(KUBERNETES_VERSION),
)
CNI_PLUGINS = Recipe(
    "cni-plugins",
    MODULES / "cni-plugins",
    {name: f"{CNI_MODULE}/plugins/{kind}/{name}" for kind, names in CNI_KINDS.items() for name in names},
    f"{STRIP} -X {CNI_MODULE}/pkg/utils/buildversion.BuildVersion={CNI_VERSION}",
)
NODE_RECIPES = (KUBELET, CNI_PLUGINS)


def gather_node_programs(environ: Mapping[str, str], report: Report) -> dict[str, Path]:
    """Build what the cache lacks; give the directory of each recipe by its name.

    Raises ``ProgramsUnavailable`` with the reason and the next step.
    """
    return {recipe.name: built(recipe, environ, report) for recipe in NODE_RECIPES}
