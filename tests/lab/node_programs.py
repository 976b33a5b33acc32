# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build what runs on a node of the lab: the kubelet, the CNI plugins, and the programs of the fabric's components.

Always built from the pinned modules: what a distribution has installed lacks parts or is of another release. A kubelet
may be up to three minor releases older than the API server (Kubernetes' version skew policy), never newer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Mapping

from .gobuild import ModuleFile, Recipe, Report
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

MULTUS_VERSION = "v4.2.3"
MULTUS_MODULE = "gopkg.in/k8snetworkplumbingwg/multus-cni.v4"
MULTUS = Recipe(
    "multus",
    MODULES / "multus",
    {
        **{name: f"{MULTUS_MODULE}/cmd/{name}" for name in ("multus", "thin_entrypoint", "install_multus")},
        "passthru": f"{MULTUS_MODULE}/cmd/passthru-cni",
    },
    f"{STRIP} -X {MULTUS_MODULE}/pkg/multus.version={MULTUS_VERSION} "
    f"-X {MULTUS_MODULE}/pkg/multus.releaseStatus=,released",
)

WHEREABOUTS_VERSION = "v0.8.0"
WHEREABOUTS_MODULE = "github.com/k8snetworkplumbingwg/whereabouts"
WHEREABOUTS = Recipe(
    "whereabouts",
    MODULES / "whereabouts",
    {"whereabouts": f"{WHEREABOUTS_MODULE}/cmd", "ip-control-loop": f"{WHEREABOUTS_MODULE}/cmd/controlloop"},
    f"{STRIP} -X {WHEREABOUTS_MODULE}/pkg/version.Version={WHEREABOUTS_VERSION} "
    f"-X {WHEREABOUTS_MODULE}/pkg/version.ReleaseStatus=released",
    (ModuleFile(WHEREABOUTS_MODULE, "script/install-cni.sh"),),
)

# Upstream sets no version; the module has no tag that Go accepts, hence its commit.
SRIOV_MODULE = "github.com/k8snetworkplumbingwg/sriov-network-device-plugin"
SRIOV_DEVICE_PLUGIN = Recipe(
    "sriov-network-device-plugin",
    MODULES / "sriov-network-device-plugin",
    {"sriovdp": f"{SRIOV_MODULE}/cmd/sriovdp"},
    STRIP,
    (ModuleFile(SRIOV_MODULE, "images/entrypoint.sh"),),
)

RDMA_VERSION = "v1.5.3"
RDMA_MODULE = "github.com/Mellanox/k8s-rdma-shared-dev-plugin"
RDMA_SHARED_DEVICE_PLUGIN = Recipe(
    "rdma-shared-device-plugin",
    MODULES / "rdma-shared-device-plugin",
    {"k8s-rdma-shared-dp": f"{RDMA_MODULE}/cmd/k8s-rdma-shared-dp"},
    f"{STRIP} -X main.version={RDMA_VERSION}",
)

NFD_VERSION = "v0.17.3"
NFD_MODULE = "sigs.k8s.io/node-feature-discovery"
NODE_FEATURE_DISCOVERY = Recipe(
    "node-feature-discovery",
    MODULES / "node-feature-discovery",
    {name: f"{NFD_MODULE}/cmd/{name}" for name in ("nfd-master", "nfd-worker", "nfd-gc")},
    # In a container the host's folders are mounted under names that start with /host-.
    f"{STRIP} -X {NFD_MODULE}/pkg/version.version={NFD_VERSION} -X {NFD_MODULE}/pkg/utils/hostpath.pathPrefix=/host-",
)

PAUSE = Recipe("pause", MODULES / "pause", {"pause": "."}, STRIP)

NODE_RECIPES = (
    KUBELET,
    CNI_PLUGINS,
    MULTUS,
    WHEREABOUTS,
    SRIOV_DEVICE_PLUGIN,
    RDMA_SHARED_DEVICE_PLUGIN,
    NODE_FEATURE_DISCOVERY,
    PAUSE,
)
# Tests hold what is rendered against these, without nodes.
NODE_RECIPES_OF_TESTS = (CNI_PLUGINS, WHEREABOUTS, SRIOV_DEVICE_PLUGIN, RDMA_SHARED_DEVICE_PLUGIN)


def gather_node_programs(environ: Mapping[str, str], report: Report) -> dict[str, Path]:
    """Build what the cache lacks; give the directory of each recipe by its name.

    Raises ``ProgramsUnavailable`` with the reason and the next step.
    """
    return {recipe.name: built(recipe, environ, report) for recipe in NODE_RECIPES}
