# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The vendor's custom resources of group ``mellanox.com``, field by field, of every release since v0.1.0.

Sources: the CRDs under ``deployment/network-operator/crds`` of each release tag of the Network Operator and the
webhook's rules in ``api/v1alpha1/validator``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..checks import doca_telemetry, nic_configuration
from ..checks.devplugin import check_rdma_shared, check_sriov
from ..checks.driver_container import CONTAINERS as DRIVER_CONTAINERS
from ..common.images import SECTIONS
from ..common.jsontext import Problem
from ..common.names import (
    Check,
    dns_label,
    dns_subdomain,
    driver_version,
    image,
    interface,
    label_selector,
    or_empty,
    repository,
    version,
)
from ..common.schema import Field, Model, annotation_map, flag, in_effect, label_map, record, series, text, whole
from .models_kubernetes import container_resources, env_list, node_affinity, node_selector, tolerations
from .models_sriov import SRIOV_MODELS, SRIOV_NETWORK_MODELS

# The pools of nv-ipam, group ``nv-ipam.nvidia.com``, field by field.
#
# Source: nvidia-k8s-ipam ``api/v1alpha1``. What these fields may hold together is judged by ``rules.nv_ipam``.
_INT32 = 2**31 - 1

_INDEXES = record(
    "a range of indexes",
    {
        "startIndex": whole("first index, from 0", required=True, minimum=0, maximum=_INT32),
        "endIndex": whole("last index", required=True, minimum=0, maximum=_INT32),
    },
)
_ADDRESSES = record(
    "a range of addresses",
    {"startIP": text("first address", required=True), "endIP": text("last address", required=True)},
)
_COMMON = {
    "nodeSelector": node_selector("nodes that get a part; every node without it"),
    "exclusions": series("addresses that are never handed out", _ADDRESSES, since="v24.7.0"),
    "perNodeExclusions": series("the same, by index inside each node's part", _INDEXES, since="v26.1.0"),
    "defaultGateway": flag("whether the gateway becomes the pods' default route", since="v25.4.0"),
    "routes": series(
        "routes over the gateway",
        record("a route", {"dst": text("destination, as address/prefix", required=True)}),
        since="v25.4.0",
    ),
}
_IP_POOL = record(
    "a subnet that nodes share, in blocks of addresses",
    {
        "subnet": text("network of the pool, as address/prefix", required=True),
        "perNodeBlockSize": whole("addresses of each node", required=True),
        "gateway": text("address of the gateway"),
        **_COMMON,
    },
    since="v24.1.0",
)
_CIDR_POOL = record(
    "a network that is split into one prefix per node",
    {
        "cidr": text("network of the pool, as address/prefix", required=True),
        "perNodeNetworkPrefix": whole("prefix length of each node's part", required=True, maximum=128),
        "gatewayIndex": whole("index of the gateway inside each node's part", maximum=_INT32),
        "staticAllocations": series(
            "parts that are given to certain nodes, or to none",
            record(
                "a part",
                {
                    "prefix": text("network of the part, as address/prefix", required=True),
                    "nodeName": text("node that gets it; empty keeps it from all nodes"),
                    "gateway": text("address of its gateway"),
                },
            ),
        ),
        **_COMMON,
    },
    since="v24.7.0",
)

POOL_MODELS = {"IPPool": Model("IPPool", _IP_POOL), "CIDRPool": Model("CIDRPool", _CIDR_POOL)}
"""The models of the kinds of pools, by kind."""


def image_fields(containers: tuple[str, ...], idle: str = "", versions: Check = version) -> dict[str, Field]:
    """Declare upstream's ImageSpec for a component with the given containers.

    Upstream requires ``image``; here the bill of materials fills in whatever is not given.
    """
    return {
        "image": text("name of the image, without repository and tag", check=image),
        "repository": text("registry and path of the image", check=or_empty(repository)),
        "version": text("tag or sha256 digest of the image", check=or_empty(versions)),
        "imagePullSecrets": series(
            "names of pull secrets", text("name", check=dns_subdomain), idle=idle, since="v0.6.0"
        ),
        "containerResources": container_resources(
            "cpu and memory per container", containers, idle=idle, since="v24.1.0"
        ),
    }


def _of_section(name: str) -> dict[str, Field]:
    return image_fields(SECTIONS[name].containers)


# The sections of a NicClusterPolicy that run beside networks: what looks at nodes and fabrics.
#
# Sources: as of :mod:`models`.
_LATER = "the operator of today does not read it"

NIC_FEATURE_DISCOVERY = record("NIC feature discovery", _of_section("nicFeatureDiscovery"), since="v24.1.0")

DOCA_TELEMETRY = record(
    "the DOCA telemetry service",
    {
        **_of_section("docaTelemetryService"),
        "config": record(
            "a configuration in place of the operator's",
            {
                "fromConfigMap": text(
                    f"ConfigMap that holds it under {doca_telemetry.KEY}", required=True, check=dns_subdomain
                )
            },
        ),
    },
    since="v24.7.0",
)

IB_KUBERNETES = record(
    "the InfiniBand GUID manager",
    {
        **_of_section("ibKubernetes"),
        # The operator takes 0 as well, with which the program does not start.
        "periodicUpdateSeconds": whole("seconds between updates of the subnet manager, 5 unless given", minimum=1),
        "pKeyGUIDPoolRangeStart": text("the first GUID that pods may get", required=True),
        "pKeyGUIDPoolRangeEnd": text("the last GUID that pods may get", required=True),
        "ufmSecret": text("Secret with the access to UFM", required=True, check=or_empty(dns_subdomain)),
    },
    since="v1.4.0",
)

NIC_CONFIGURATION = record(
    "the NIC configuration operator",
    {
        "operator": record("image of the controller", _of_section("nicConfigurationOperator.operator"), required=True),
        "configurationDaemon": record(
            "image of the daemon on each node",
            _of_section("nicConfigurationOperator.configurationDaemon"),
            required=True,
        ),
        "logLevel": text("what both log, info unless given", choices=("info", "debug")),
        "env": env_list("environment of both", since="v25.10.0"),
        "nicFirmwareStorage": record(
            "storage for the firmware that it updates to; without it none is updated",
            {
                "create": flag("whether the claim is made, as it is unless false is given"),
                "pvcName": text(
                    f"PersistentVolumeClaim, {nic_configuration.DEFAULT_CLAIM} unless given", check=dns_label
                ),
                "storageClassName": text(
                    "StorageClass of the claim, the cluster's default unless given", check=dns_label
                ),
                "availableStorageSize": text(
                    f"size of the claim, {nic_configuration.DEFAULT_SIZE} unless given",
                    check=nic_configuration.check_size,
                ),
            },
        ),
    },
    since="v25.4.0",
)

SPECTRUM_X = record(
    "the Spectrum-X operator",
    {
        **_of_section("spectrumXOperator"),
        "xPlane": record(
            "image of the service that the flow controller starts, none unless given",
            {
                **image_fields(("xplane",)),
                "containerResources": Field("anything", "cpu and memory", idle="the operator reads it neither"),
            },
            since="v26.4.0",
        ),
        "sriovObjNamespace": text(
            "namespace of the SR-IOV objects", until="v25.4.0", successor="it has no effect", idle=_LATER
        ),
        "spectrumXConfig": record(
            "configuration",
            {"name": text("name of a ConfigMap")},
            until="v25.4.0",
            successor="write a SpectrumXRailPoolConfig",
            idle=_LATER,
        ),
    },
    since="v25.4.0",
)


API_VERSION = "mellanox.com/v1alpha1"
POLICY_NAME = "nic-cluster-policy"
"""The only name today's operator honours for a NicClusterPolicy."""

_ON_THE_HOST = (
    "it describes the driver's container, and the driver is installed on the host unless rdma_fabric_driver_source is "
    "container"
)


def _config_field(check: Any) -> Field:
    def judge(given: str) -> list[Problem]:
        problems: list[Problem] = check(given)[1] if given.strip() else []
        return problems

    return text("configuration of the program, as JSON text", check=judge)


def _device_plugin(description: str, section: str, check: Any, **rules: Any) -> Field:
    fields = {
        **_of_section(section),
        "config": _config_field(check),
        "useCdi": flag("whether devices are announced through the Container Device Interface", since="v24.1.0"),
    }
    return record(description, fields, **rules)


def _probe(description: str) -> Field:
    fields = {
        "initialDelaySeconds": whole("seconds before the first probe", required=True),
        "periodSeconds": whole("seconds between probes", required=True),
        "failureThreshold": whole("failures that count", since="v25.10.0"),
        "timeoutSeconds": whole("seconds one probe may take", since="v25.10.0"),
    }
    return record(description, fields, idle=_ON_THE_HOST, since="v0.5.0")


def _seconds(description: str) -> Field:
    return whole(description, minimum=0)


def _check_upgrade(value: dict[str, Any]) -> list[Problem]:
    if value.get("safeLoad") and not value.get("autoUpgrade"):
        hint = "set autoUpgrade: true, or drop safeLoad"
        return [Problem("safeLoad", "is set while autoUpgrade is not: upstream refuses it", hint)]
    return []


_UPGRADE = record(
    "how driver upgrades roll over the nodes",
    {
        "autoUpgrade": flag("whether drivers are upgraded node by node"),
        "maxParallelUpgrades": whole(
            "nodes upgraded at once, 0 for no limit; rdma_fabric_max_unavailable takes percentages", minimum=0
        ),
        "safeLoad": flag("whether a node is drained before its driver loads", since="v24.1.0"),
        "waitForCompletion": record(
            "pods to wait for",
            {
                "podSelector": text("label selector of the pods", check=or_empty(label_selector)),
                "timeoutSeconds": _seconds("seconds to wait, 0 for no limit"),
            },
            since="v23.4.0",
        ),
        "drain": record(
            "how a node is drained",
            {
                "enable": flag("whether the node is drained"),
                "force": flag("whether pods without a controller are deleted"),
                "podSelector": text("label selector of the pods", check=or_empty(label_selector)),
                "timeoutSeconds": _seconds("seconds to drain, 0 for no limit"),
                "deleteEmptyDir": flag("whether pods with emptyDir volumes are deleted"),
            },
        ),
    },
    check=_check_upgrade,
    since="v1.3.0",
)


def _config_map(description: str) -> Field:
    idle = (
        "it describes the driver's container, which rdma_fabric_driver_source: container deploys; set up the package "
        "sources on the host"
    )
    name = text("name of a ConfigMap", check=or_empty(dns_subdomain))
    return record(description, {"name": name}, idle=idle, since="v1.3.0")


OFED_DRIVER = record(
    "the network driver",
    {
        **image_fields(DRIVER_CONTAINERS, idle=_ON_THE_HOST, versions=driver_version),
        "startupProbe": _probe("startup probe of the container"),
        "livenessProbe": _probe("liveness probe of the container"),
        "readinessProbe": _probe("readiness probe of the container"),
        "env": env_list("environment of the driver's container", since="v1.3.0"),
        "upgradePolicy": _UPGRADE,
        "certConfig": _config_map("certificates of the package sources"),
        "repoConfig": _config_map("package sources"),
        "terminationGracePeriodSeconds": whole("seconds to stop", minimum=0, idle=_ON_THE_HOST, since="v23.1.0"),
        "forcePrecompiled": flag("whether only precompiled images are used", idle=_ON_THE_HOST, since="v24.7.0"),
    },
    since="v0.1.0",
)

RDMA_PLUGIN = _device_plugin(
    "the RDMA shared device plugin", "rdmaSharedDevicePlugin", check_rdma_shared, since="v0.4.0"
)
SRIOV_PLUGIN = _device_plugin("the SR-IOV network device plugin", "sriovDevicePlugin", check_sriov, since="v0.4.0")

_PEER_MEMORY = record(
    "the peer memory driver",
    {**image_fields(("nv-peer-mem-driver",)), "gpuDriverSourcePath": text("where the GPU driver's sources are")},
    since="v0.1.0",
    until="v23.5.0",
    successor=(
        "it becomes the peer memory step of each host's plan, its image and paths have no effect; upstream, the GPU "
        "Operator loads nvidia-peermem"
    ),
)

_SECONDARY_NETWORK = record(
    "what pods need for networks of their own",
    {
        "multus": record(
            "Multus",
            {
                **_of_section("secondaryNetwork.multus"),
                "config": text("CNI configuration of Multus; empty generates one"),
            },
        ),
        "cniPlugins": record("the CNI project's plugins", _of_section("secondaryNetwork.cniPlugins")),
        "ipoib": record("the IPoIB CNI plugin", _of_section("secondaryNetwork.ipoib"), since="v1.3.0"),
        "ipamPlugin": record(
            "whereabouts",
            _of_section("secondaryNetwork.ipamPlugin"),
            until="v25.7.0",
            successor="it is supported: whereabouts is deployed from it; upstream's successor is nvIpam",
        ),
    },
    since="v0.2.0",
)


NV_IPAM = record(
    "nv-ipam",
    {
        **_of_section("nvIpam"),
        "enableWebhook": flag(
            "whether the API server asks nv-ipam about each pool; needs cert-manager", since="v24.1.0"
        ),
        "config": text(
            "pools, as JSON text", until="v23.7.0", successor="its pools are read as IPPools; write them as such"
        ),
    },
    since="v23.5.0",
)


_CLUSTER_POLICY = record(
    "the cluster's policy",
    {
        "global": record(
            "defaults of every image",
            {
                "repository": text("registry and path of images", check=or_empty(repository)),
                "version": text("tag of images", check=or_empty(version)),
                "imagePullSecrets": series("names of pull secrets", text("name", check=dns_subdomain)),
            },
            since="v26.4.0",
        ),
        "ofedDriver": OFED_DRIVER,
        "rdmaSharedDevicePlugin": RDMA_PLUGIN,
        "sriovDevicePlugin": SRIOV_PLUGIN,
        "secondaryNetwork": _SECONDARY_NETWORK,
        "nodeAffinity": node_affinity("nodes of the DaemonSets", since="v1.3.0"),
        "tolerations": tolerations("tolerations of the DaemonSets", since="v23.7.0"),
        "deploymentNodeAffinity": node_affinity("nodes of the Deployments", since="v25.7.0"),
        "deploymentTolerations": tolerations("tolerations of the Deployments", since="v25.7.0"),
        "ibKubernetes": IB_KUBERNETES,
        "nvIpam": NV_IPAM,
        "nicFeatureDiscovery": NIC_FEATURE_DISCOVERY,
        "docaTelemetryService": DOCA_TELEMETRY,
        "nicConfigurationOperator": NIC_CONFIGURATION,
        "spectrumXOperator": SPECTRUM_X,
        "devicePlugin": _device_plugin(
            "the RDMA shared device plugin",
            "rdmaSharedDevicePlugin",
            check_rdma_shared,
            since="v0.1.0",
            until="v0.3.0",
            successor="it is read as rdmaSharedDevicePlugin; rename it",
        ),
        "nvPeerDriver": _PEER_MEMORY,
        "psp": record(
            "pod security policies",
            {"enabled": flag("whether they are made")},
            since="v1.1.0",
            until="v23.7.0",
            successor="it has no effect: Kubernetes 1.25 removed PodSecurityPolicy; label the namespace instead",
        ),
    },
)

_NODE_POLICY = record(
    "a policy for a group of nodes",
    {
        "ofedDriver": OFED_DRIVER,
        "rdmaSharedDevicePlugin": RDMA_PLUGIN,
        "sriovDevicePlugin": SRIOV_PLUGIN,
        "nodeSelector": label_map("labels of the nodes"),
        "tolerations": tolerations("tolerations of the DaemonSets"),
        "labels": label_map("labels", idle="the operator reads it neither"),
        "annotations": annotation_map("annotations", idle="the operator reads it neither"),
    },
    since="v26.4.0",
)

_NAMESPACE = text("namespace of the network attachment", check=or_empty(dns_label))
_IPAM = text("address management, as JSON text")
_META = text("further CNI plugins, as JSON objects joined by commas", since="v26.10.0")
_MODES = ("bridge", "private", "vepa", "passthru", "")

NIC_CLUSTER_POLICY = Model("NicClusterPolicy", _CLUSTER_POLICY)
NIC_NODE_POLICY = Model("NicNodePolicy", _NODE_POLICY)
NETWORK_MODELS = {
    "MacvlanNetwork": Model(
        "MacvlanNetwork",
        record(
            "a macvlan network",
            {
                "networkNamespace": _NAMESPACE,
                "master": text("parent interface on the node", check=or_empty(interface)),
                "mode": text("macvlan mode", choices=_MODES),
                "mtu": whole("MTU in bytes, 0 for the parent's", minimum=0, maximum=65535),
                "ipam": _IPAM,
                "metaPlugins": _META,
            },
            since="v0.2.0",
        ),
    ),
    "HostDeviceNetwork": Model(
        "HostDeviceNetwork",
        record(
            "a host-device network",
            {
                "networkNamespace": _NAMESPACE,
                "resourceName": text("resource of the SR-IOV device plugin"),
                "ipam": _IPAM,
                "metaPlugins": _META,
            },
            since="v0.4.0",
        ),
    ),
    "IPoIBNetwork": Model(
        "IPoIBNetwork",
        record(
            "an IPoIB network",
            {
                "networkNamespace": _NAMESPACE,
                "master": text("parent interface on the node", check=or_empty(interface)),
                "ipam": _IPAM,
            },
            since="v1.3.0",
        ),
    ),
    **SRIOV_NETWORK_MODELS,
}
"""The models of the network kinds, by kind."""


def with_container(model: Model) -> Model:
    """Return the model of a policy or of Helm values where the driver's container reads all of its section."""
    fields = dict(model.root.fields or {})
    for name in ("ofedDriver", "proxy"):
        if name in fields:
            fields[name] = in_effect(fields[name])
    return replace(model, root=replace(model.root, fields=fields))


_POLICY_MODELS = {model.name: model for model in (NIC_CLUSTER_POLICY, NIC_NODE_POLICY)}
MODELS = {**_POLICY_MODELS, **NETWORK_MODELS, **POOL_MODELS, **SRIOV_MODELS}
"""Every model, by kind."""

CONTAINER_MODELS = {name: with_container(model) for name, model in _POLICY_MODELS.items()}
"""The models of policies where ``ofedDriver`` asks for the driver's container."""
