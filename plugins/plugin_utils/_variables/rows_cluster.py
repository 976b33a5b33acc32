# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of the cluster: resources as users write them, settings beside them, and the push."""

from __future__ import annotations

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.images import RELEASES

from .variable import Variable

_PREFLIGHT = ("preflight",)
_PUSH = ("cluster",)
_PLAYBOOKS = ("playbook join", "playbook rollback", "playbook site", "playbook upgrade")
_SUPPORT = "playbook support"
_TEARDOWN = "playbook teardown"
_HANDOVERS = ("playbook adopt", "playbook release")
_CLIENTS = (
    "cluster",
    "host/drain",
    "host/look",
    "host/give_back",
    "host/join",
    "host/upgrade",
    "drift",
    "nccl",
    "status",
    "verify",
    *_PLAYBOOKS,
    _SUPPORT,
    _TEARDOWN,
    *_HANDOVERS,
)


def _resource(short: str, meaning: str) -> Variable:
    return Variable(short, "dict", (meaning,), _PREFLIGHT, default={})


INPUTS = (
    Variable(
        "manifests",
        "list",
        (
            "Files on the controller that hold custom resources as written for the NVIDIA Network Operator, network "
            "attachments, or any other Kubernetes object that goes with them.",
            "A file may hold several documents, and be encrypted by C(ansible-vault). Every object is used unchanged.",
        ),
        _PREFLIGHT,
        default=[],
        elements="path",
    ),
    Variable(
        "helm_values",
        "dict",
        ("Values of the Helm chart of the NVIDIA Network Operator, of any release.",),
        _PREFLIGHT,
        default={},
    ),
    Variable(
        "helm_values_files", "list", ("Helm values files on the controller.",), _PREFLIGHT, default=[], elements="path"
    ),
    Variable(
        "helm_set",
        "list",
        ("Values as given to C(helm --set), such as C(nfd.enabled=true). They take precedence over the others.",),
        _PREFLIGHT,
        default=[],
        elements="str",
    ),
)
RESOURCE_ROWS = (
    Variable("nic_cluster_policy", "dict", ("The C(spec) of a NicClusterPolicy, in upstream's format.",), _PREFLIGHT),
    _resource("nic_node_policies", "The C(spec) of each NicNodePolicy, by its name."),
    _resource("macvlan_networks", "The C(spec) of each MacvlanNetwork, by its name."),
    _resource("host_device_networks", "The C(spec) of each HostDeviceNetwork, by its name."),
    _resource("ipoib_networks", "The C(spec) of each IPoIBNetwork, by its name."),
    _resource("sriov_networks", "The C(spec) of each SriovNetwork of the SR-IOV Network Operator, by its name."),
    _resource("sriov_ib_networks", "The C(spec) of each SriovIBNetwork of the SR-IOV Network Operator, by its name."),
    _resource("ovs_networks", "The C(spec) of each OVSNetwork of the SR-IOV Network Operator, by its name."),
    _resource(
        "sriov_node_policies",
        "The C(spec) of each SriovNetworkNodePolicy of the SR-IOV Network Operator, by its name.",
    ),
    _resource(
        "sriov_pool_configs",
        "The C(spec) of each SriovNetworkPoolConfig of the SR-IOV Network Operator, by its name.",
    ),
    _resource("ip_pools", "The C(spec) of each IPPool of nv-ipam, by its name."),
    _resource("cidr_pools", "The C(spec) of each CIDRPool of nv-ipam, by its name."),
    _resource(
        "network_attachments",
        "Network attachments given as such, by C(name) or C(namespace/name), each with its C(config).",
    ),
)
"""They hold cluster resources."""
SETTING_ROWS = (
    Variable(
        "namespace",
        "str",
        (
            "Namespace of every object without its own.",
            "By default the policy's namespace, or C(nvidia-network-operator).",
        ),
        (*_PREFLIGHT, _SUPPORT),
        asked=True,
    ),
    Variable(
        "engine",
        "str",
        (
            "Who deploys the cluster objects. V(direct) is this collection, without a controller in the cluster.",
            "With V(helm) C(kubernetes.core.helm) installs the chart of the Network Operator, and the custom "
            "resources are applied unchanged for its operator.",
        ),
        _PREFLIGHT,
        choices=("direct", "helm"),
        default="direct",
        asked=True,
    ),
    Variable(
        "helm_chart",
        "str",
        (
            "The chart, for the engine V(helm). A folder or archive on the controller, the name of a chart in the "
            "repository, C(REPOSITORY/NAME) of a repository that Helm knows, or an C(oci://) or C(https://) address. "
            "The default is C(network-operator).",
        ),
        _PREFLIGHT,
    ),
    Variable(
        "helm_chart_repository",
        "str",
        (
            "URL of the repository of a chart that is given by its name, by default "
            "C(https://helm.ngc.nvidia.com/nvidia).",
        ),
        _PREFLIGHT,
    ),
    Variable(
        "helm_chart_version",
        "str",
        (
            "Release of the chart. By default the release whose images the collection uses for the network operator, "
            "and the latest one for another chart. A chart on the controller has its own.",
        ),
        _PREFLIGHT,
    ),
    Variable(
        "operator_release",
        "str",
        (
            "Release of NVIDIA's operator whose images, definitions and chart are the defaults. A policy's own "
            "versions and C(rdma_fabric_image_overrides) win. By default the newest one that NVIDIA has published. "
            "C(26.10.0-beta.3) is not final: its images are in NVIDIA's staging registry.",
        ),
        _PREFLIGHT,
        choices=tuple(RELEASES),
    ),
    Variable(
        "helm_release",
        "str",
        ("Name of Helm's release, by default C(network-operator). Its namespace is C(rdma_fabric_namespace).",),
        _PREFLIGHT,
    ),
    Variable(
        "nfd",
        "bool",
        ("Whether Node Feature Discovery is deployed. It is by default, unless a Helm value disables it.",),
        _PREFLIGHT,
        asked=True,
    ),
    Variable(
        "label_nodes",
        "bool",
        (
            "Whether C(rdma.fabric.site) labels the nodes itself as Node Feature Discovery would, from the facts of "
            "their hosts, for clusters without it. Then set C(rdma_fabric_nfd) to V(false).",
            "Labels that somebody else has set stay. C(rdma.fabric.teardown) removes its own while this is set.",
        ),
        _PREFLIGHT,
    ),
    Variable(
        "openshift",
        "bool",
        (
            "Whether the cluster is OpenShift.",
            "Privileged pods get accounts that it admits, its own service certificates are used, and components that "
            "it includes are omitted: Multus, the CNI project's programs, whereabouts.",
        ),
        _PREFLIGHT,
    ),
    Variable(
        "driver_source",
        "str",
        (
            "What C(ofedDriver) of a policy asks for: C(packages) on the hosts, or the driver's C(container) on the "
            "nodes, as the operator deploys it.",
            "With V(container), a host whose packages contain a driver is refused.",
        ),
        _PREFLIGHT,
        choices=("packages", "container"),
        asked=True,
    ),
    Variable(
        "driver_nodes",
        "list",
        (
            "Groups of nodes that the driver's container runs on, each with C(os), C(os_version), C(kernel) and "
            "C(arch). By default they are those of the hosts, and a run then has to read all of them.",
            "C(precompiled) says that the registry has an image for the kernel, C(runtime) names the container "
            "runtime, C(ostree_version) and C(toolkit_image) are for compiling on OpenShift.",
        ),
        _PREFLIGHT,
        elements="dict",
    ),
    Variable(
        "cni_bin_dir",
        "path",
        (
            "The distribution's directory of CNI programs, by default C(/opt/cni/bin), C(/var/lib/cni/bin) on "
            "OpenShift.",
            "If nodes of k3s, MicroK8s or GKE have it elsewhere, the run is refused before a host is changed, and "
            "names the variable to set.",
        ),
        _PREFLIGHT,
    ),
    Variable(
        "cni_conf_dir",
        "path",
        (
            "The distribution's directory of CNI configurations, by default C(/etc/cni/net.d).",
            "If nodes of k3s or MicroK8s have it elsewhere, the run is refused before a host is changed, and names "
            "the variable to set.",
        ),
        _PREFLIGHT,
    ),
    Variable(
        "kubelet_dir",
        "path",
        (
            "The kubelet's own directory (C(--root-dir)), by default C(/var/lib/kubelet). Device plugins then register "
            "where every kubelet looks, and not in a folder of the default one.",
        ),
        _PREFLIGHT,
    ),
    Variable(
        "join_taint",
        "str",
        (
            "Taint of nodes that are new, as C(kubectl taint) takes it, C(key=value:effect) or C(key:effect) with the "
            "effect C(NoSchedule) or C(NoExecute).",
            "C(rdma.fabric.join) removes it from a node that it has verified. All rendered workloads tolerate it.",
        ),
        _PREFLIGHT,
    ),
    Variable(
        "registry_mirrors",
        "dict",
        ("Mapping of registries, or paths in them, to their mirrors, for every image.",),
        _PREFLIGHT,
        default={},
    ),
    Variable(
        "image_overrides",
        "dict",
        (
            "Mapping of components to the C(repository), C(image) and C(version) that replace those of the bill "
            "of materials.",
        ),
        _PREFLIGHT,
        default={},
    ),
    Variable(
        "image_pull_secrets",
        "list",
        ("Names of pull secrets in the namespace, for every workload.",),
        _PREFLIGHT,
        default=[],
        elements="str",
    ),
    Variable(
        "proxy",
        "dict",
        (
            "C(httpProxy), C(httpsProxy) and C(noProxy) of the driver's container. No other deployed component reads "
            "them; a notice says so if there is no such container.",
        ),
        _PREFLIGHT,
        default={},
    ),
)
"""They belong to no resource."""
PUSH = (
    Variable(
        "set",
        "str",
        ("Name of the set of objects. Two sets in one cluster do not touch each other.",),
        (*_PUSH, "drift", "preflight", "status", *_PLAYBOOKS, _SUPPORT, _TEARDOWN, *_HANDOVERS),
        default="rdma-fabric",
        asked=True,
    ),
    Variable(
        "prune",
        "bool",
        ("Whether objects of the set that are no longer rendered are deleted. Until then they count as differing.",),
        (*_PUSH, "drift", "status", *_PLAYBOOKS),
        default=True,
        asked=True,
    ),
    Variable(
        "force_conflicts",
        "bool",
        (
            "Whether fields that another field manager changed, such as C(kubectl edit), are reverted. If V(false), "
            "the run fails and names such a field.",
            "Objects that an operator, a chart or a GitOps tool manages are refused in both cases.",
        ),
        (*_PUSH, *_PLAYBOOKS),
        default=True,
        asked=True,
    ),
    Variable(
        "wait",
        "bool",
        ("Whether to wait until the workloads are ready, or until they are gone.",),
        (*_PUSH, _TEARDOWN),
        default=True,
        asked=True,
    ),
    Variable(
        "wait_timeout",
        "int",
        (
            "Maximum seconds to wait. The time starts again with each pod of a DaemonSet that is replaced or "
            "becomes available.",
        ),
        (*_PUSH, _TEARDOWN),
        default=600,
        least=0,
        unit="seconds",
        asked=True,
    ),
    Variable(
        "kubeconfig",
        "path",
        (
            "Kubeconfig file, which C(ansible-vault) may have encrypted.",
            "Without it the environment of kubernetes.core decides.",
        ),
        _CLIENTS,
    ),
    Variable("context", "str", ("Context of the kubeconfig.",), _CLIENTS, asked=True),
)
ROWS = (*INPUTS, *RESOURCE_ROWS, *SETTING_ROWS, *PUSH)
