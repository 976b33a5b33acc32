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

from ..checks.devplugin import check_rdma_shared, check_sriov
from ..checks.driver_container import CONTAINERS as DRIVER_CONTAINERS
from ..common.jsontext import Problem
from ..common.names import (
    dns_label,
    dns_subdomain,
    driver_version,
    interface,
    label_selector,
    or_empty,
    repository,
    version,
)
from ..common.schema import Field, Model, annotation_map, flag, in_effect, label_map, record, series, text, whole
from .models_images import image_fields
from .models_ipam import POOL_MODELS
from .models_kubernetes import env_list, node_affinity, tolerations
from .models_services import DOCA_TELEMETRY, IB_KUBERNETES, NIC_CONFIGURATION, NIC_FEATURE_DISCOVERY, SPECTRUM_X
from .models_sriov import SRIOV_MODELS, SRIOV_NETWORK_MODELS

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


def _device_plugin(description: str, container: str, check: Any, **rules: Any) -> Field:
    fields = {
        **image_fields((container,)),
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

RDMA_PLUGIN = _device_plugin("the RDMA shared device plugin", "rdma-shared-dp", check_rdma_shared, since="v0.4.0")
SRIOV_PLUGIN = _device_plugin("the SR-IOV network device plugin", "kube-sriovdp", check_sriov, since="v0.4.0")

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
                **image_fields(("kube-multus",)),
                "config": text("CNI configuration of Multus; empty generates one"),
            },
        ),
        "cniPlugins": record("the CNI project's plugins", image_fields(("cni-plugins",))),
        "ipoib": record("the IPoIB CNI plugin", image_fields(("ipoib-cni",)), since="v1.3.0"),
        "ipamPlugin": record(
            "whereabouts",
            image_fields(("whereabouts", "whereabouts-reconciler", "whereabouts-controller")),
            until="v25.7.0",
            successor="it is supported: whereabouts is deployed from it; upstream's successor is nvIpam",
        ),
    },
    since="v0.2.0",
)


NV_IPAM = record(
    "nv-ipam",
    {
        **image_fields(("nv-ipam-controller", "nv-ipam-node")),
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
            "rdma-shared-dp",
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
