# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Specs that the tests of rendering share, as the loader returns them."""

from __future__ import annotations

import json
from typing import Any

RDMA_CONFIG: dict[str, Any] = {
    "periodicUpdateInterval": 300,
    "configList": [{"resourceName": "rdma_shared_device_a", "rdmaHcaMax": 63, "selectors": {"vendors": ["15b3"]}}],
}
SRIOV_CONFIG: dict[str, Any] = {
    "resourceList": [
        {"resourcePrefix": "nvidia.com", "resourceName": "hostdev", "selectors": {"vendors": ["15b3"], "isRdma": True}}
    ]
}
MULTUS_CONFIG: dict[str, Any] = {
    "cniVersion": "0.3.1",
    "name": "multus",
    "type": "multus",
    "kubeconfig": "/etc/cni/net.d/multus.d/multus.kubeconfig",
    "clusterNetwork": "cbr0",
}
WHEREABOUTS: dict[str, Any] = {"type": "whereabouts", "range": "192.168.200.0/24"}
GUIDS: dict[str, Any] = {
    "pKeyGUIDPoolRangeStart": "02:00:00:00:00:00:00:00",
    "pKeyGUIDPoolRangeEnd": "02:FF:FF:FF:FF:FF:FF:FF",
    "ufmSecret": "ufm",
}


def spec_of(policy: dict[str, Any] | None = None, **parts: Any) -> dict[str, Any]:
    """Return a FabricSpec with the given policy spec and parts."""
    spec: dict[str, Any] = {
        "version": 1,
        "namespace": "nvidia-network-operator",
        "cluster_policy": None,
        "node_policies": [],
        "networks": [],
        "attachments": [],
        "objects": [],
        "settings": {"nfd": True, "cni_bin_dir": "/opt/cni/bin", "cni_conf_dir": "/etc/cni/net.d"},
        "host_requests": [],
        "hosts": {},
    }
    if policy is not None:
        spec["cluster_policy"] = {"name": "nic-cluster-policy", "spec": policy, "source": "policy.yaml"}
    spec.update(parts)
    return spec


def training_cluster() -> dict[str, Any]:
    """Return the spec of the walkthrough with MacVLAN, whereabouts and a training job."""
    policy = {
        "ofedDriver": {"image": "doca-driver", "repository": "nvcr.io/nvidia/mellanox", "version": "24.07-0.6.1.0-0"},
        "rdmaSharedDevicePlugin": {
            "image": "k8s-rdma-shared-dev-plugin",
            "repository": "ghcr.io/mellanox",
            "version": "v1.5.1",
            "config": json.dumps(RDMA_CONFIG),
        },
        "secondaryNetwork": {
            "cniPlugins": {"image": "plugins", "repository": "ghcr.io/k8snetworkplumbingwg", "version": "v1.5.0"},
            "multus": {"image": "multus-cni", "repository": "ghcr.io/k8snetworkplumbingwg", "version": "v4.0.2"},
            "ipamPlugin": {"image": "whereabouts", "repository": "ghcr.io/k8snetworkplumbingwg", "version": "v0.7.0"},
        },
    }
    macvlan = {"cniVersion": "0.3.1", "type": "macvlan", "master": "ens3f0", "mode": "bridge", "ipam": WHEREABOUTS}
    infiniband = {
        "cniVersion": "0.3.1",
        "type": "ib-sriov",
        "ibKubernetesEnabled": True,
        "ipam": {"type": "whereabouts", "range": "10.56.217.0/24"},
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "distributed-training", "namespace": "ai-training"},
        "spec": {
            "parallelism": 4,
            "template": {
                "metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "rdma-macvlan"}},
                "spec": {
                    "containers": [
                        {
                            "name": "trainer",
                            "image": "nvcr.io/nvidia/pytorch:24.07-py3",
                            "command": ["torchrun", "--nnodes=4", "train.py"],
                            "resources": {"limits": {"nvidia.com/gpu": 8, "rdma/rdma_shared_device_a": 1}},
                            "env": [{"name": "NCCL_IB_DISABLE", "value": "0"}],
                        }
                    ],
                    "restartPolicy": "Never",
                },
            },
        },
    }
    return spec_of(
        policy,
        attachments=[attachment("rdma-macvlan", macvlan), attachment("ib-network", infiniband)],
        objects=[job],
    )


def first_release() -> dict[str, Any]:
    """Return the spec of the v0.1.0 walkthrough: its own namespace, a deprecated device list, host drivers."""
    config = {"configList": [{"resourceName": "hca_shared_devices_a", "rdmaHcaMax": 1000, "devices": ["ens2f0"]}]}
    policy = {
        "ofedDriver": {"image": "ofed-driver", "repository": "mellanox", "version": "5.0-2.1.8.0"},
        "rdmaSharedDevicePlugin": {
            "image": "k8s-rdma-shared-dev-plugin",
            "repository": "mellanox",
            "version": "v1.0.0",
            "config": json.dumps(config),
        },
        "nvPeerDriver": {"image": "nv-peer-mem-driver", "repository": "mellanox", "version": "1.0-9"},
    }
    return spec_of(policy, namespace="mlnx-network-operator")


def everything() -> dict[str, Any]:
    """Return a spec that makes every component render every object it has."""
    resources = [{"name": "rdma-shared-dp", "requests": {"cpu": "0.5", "memory": "1024Mi"}, "limits": {"cpu": 1}}]
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["gpu"]}]}]
        }
    }
    policy = {
        "global": {"imagePullSecrets": ["ngc"]},
        "rdmaSharedDevicePlugin": {"config": json.dumps(RDMA_CONFIG), "useCdi": True, "containerResources": resources},
        "sriovDevicePlugin": {"config": json.dumps(SRIOV_CONFIG), "useCdi": True},
        "secondaryNetwork": {
            "cniPlugins": {},
            "multus": {"config": json.dumps(MULTUS_CONFIG)},
            "ipamPlugin": {"version": "v0.9.4"},
            "ipoib": {},
        },
        "nodeAffinity": affinity,
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "ai", "effect": "NoSchedule"}],
        "deploymentNodeAffinity": affinity,
        "deploymentTolerations": [{"operator": "Exists"}],
    }
    return spec_of(
        policy,
        networks=[
            network("MacvlanNetwork", "rail-0", master="rail0", mode="bridge", mtu=9000, ipam=json.dumps(WHEREABOUTS)),
            network("HostDeviceNetwork", "vf", resourceName="hostdev", metaPlugins='{"type": "tuning"}'),
            network("IPoIBNetwork", "ib-0", master="ibs1f0", networkNamespace="hpc"),
        ],
        attachments=[
            attachment("slices", {"type": "macvlan", "ipam": {**WHEREABOUTS, "node_slice_size": "/26"}}, "tenant-a")
        ],
        settings={
            "nfd": True,
            "registry_mirrors": {"nvcr.io": "registry.local/nvcr", "registry.k8s.io": "registry.local/k8s"},
            "image_pull_secrets": ["local"],
        },
    )


def node_groups() -> dict[str, Any]:
    """Return a spec whose plugins differ by group of nodes."""
    image = {"repository": "ghcr.io/mellanox", "image": "plugin", "version": "v1.5.3"}
    policies: list[dict[str, Any]] = [
        {
            "name": name,
            "source": f"{name}.yaml",
            "spec": {
                "nodeSelector": {"pool": name},
                "tolerations": [{"key": name, "operator": "Exists"}],
                "rdmaSharedDevicePlugin": {**image, "config": json.dumps(RDMA_CONFIG)},
                "sriovDevicePlugin": {**image, "config": json.dumps(SRIOV_CONFIG)},
            },
        }
        for name in ("hopper", "ampere")
    ]
    return spec_of({"secondaryNetwork": {"ipamPlugin": {"version": "v0.5.4-amd64"}}}, node_policies=policies)


def nv_ipam() -> dict[str, Any]:
    """Return a spec with nv-ipam, both kinds of pools in every field, and a network of each."""
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]
        }
    }
    policy = {
        "nvIpam": {
            "imagePullSecrets": ["ngc"],
            "containerResources": [{"name": "nv-ipam-node", "limits": {"cpu": "0.5", "memory": "1024Mi"}}],
        },
        "secondaryNetwork": {"cniPlugins": {}, "multus": {}},
        "deploymentNodeAffinity": affinity,
        "deploymentTolerations": [{"key": "dedicated", "operator": "Exists"}],
    }
    terms = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["gpu"]}]}]
    common: dict[str, Any] = {
        "nodeSelector": {"nodeSelectorTerms": terms},
        "perNodeExclusions": [{"startIndex": 0, "endIndex": 1}],
        "defaultGateway": True,
        "routes": [{"dst": "10.0.0.0/8"}],
    }
    subnet = {
        "subnet": "192.168.4.0/24",
        "perNodeBlockSize": 50,
        "gateway": "192.168.4.1",
        "exclusions": [{"startIP": "192.168.4.10", "endIP": "192.168.4.20"}],
        **common,
    }
    cidr = {
        "cidr": "10.8.0.0/16",
        "perNodeNetworkPrefix": 24,
        "gatewayIndex": 1,
        "exclusions": [{"startIP": "10.8.0.10", "endIP": "10.8.0.20"}],
        "staticAllocations": [{"nodeName": "node-0", "prefix": "10.8.7.0/24", "gateway": "10.8.7.9"}],
        **common,
    }
    return spec_of(
        policy,
        pools=[pool("IPPool", "rail-0", subnet), pool("CIDRPool", "rail-1", cidr, namespace="nvidia-network-operator")],
        networks=[
            network("MacvlanNetwork", f"rail-{n}", master=f"rail{n}", ipam=json.dumps({"type": "nv-ipam", **named}))
            for n, named in enumerate(({"poolName": "rail-0"}, {"poolName": "rail-1", "poolType": "cidrpool"}))
        ],
    )


def nv_ipam_config() -> dict[str, Any]:
    """Return a spec with a release of nv-ipam that reads its pools from a ConfigMap, and a network."""
    terms = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["gpu"]}]}]
    subnet = {
        "subnet": "192.168.4.0/24",
        "perNodeBlockSize": 50,
        "gateway": "192.168.4.1",
        "nodeSelector": {"nodeSelectorTerms": terms},
    }
    resources = [{"name": "nv-ipam-node", "limits": {"cpu": "0.5", "memory": "1024Mi"}}]
    policy = {"nvIpam": {"version": "v0.0.3", "imagePullSecrets": ["ngc"], "containerResources": resources}}
    ipam = json.dumps({"type": "nv-ipam", "poolName": "rail-0"})
    return spec_of(
        policy,
        pools=[pool("IPPool", "rail-0", subnet)],
        networks=[network("MacvlanNetwork", "rail-0", master="rail0", ipam=ipam)],
    )


def nv_ipam_webhook() -> dict[str, Any]:
    """Return a spec with the webhook of nv-ipam, whose certificate is cert-manager's work."""
    return spec_of({"nvIpam": {"enableWebhook": True}}, settings={"nfd": False})


def services() -> dict[str, Any]:
    """Return a spec with what runs beside networks, each section in its own fields."""
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]
        }
    }
    policy = {
        "docaTelemetryService": {
            "imagePullSecrets": ["ngc"],
            "containerResources": [{"name": "doca-telemetry-service", "requests": {"cpu": 1, "memory": "1024Mi"}}],
        },
        "ibKubernetes": {
            **GUIDS,
            "imagePullSecrets": ["ngc"],
            "containerResources": [{"name": "ib-kubernetes", "requests": {"cpu": "0.5", "memory": "1024Mi"}}],
            "periodicUpdateSeconds": 10,
        },
        "deploymentNodeAffinity": affinity,
        "deploymentTolerations": [{"key": "dedicated", "operator": "Exists"}],
        "nicFeatureDiscovery": {
            "imagePullSecrets": ["ngc"],
            "containerResources": [{"name": "nic-feature-discovery", "limits": {"cpu": "0.5", "memory": "1024Mi"}}],
        },
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    }
    return spec_of(policy)


def controllers(release: str = "26.7.0") -> dict[str, Any]:
    """Return a spec with the controllers that a policy deploys, in every field, and an object for one of them.

    Those of 26.7 have the rights of older ones and more.
    """
    version = f"network-operator-v{release}"
    resources = {"limits": {"cpu": "0.5", "memory": "1024Mi"}}
    variables = [
        {"name": "EMPTY", "value": ""},
        {"name": "NODE_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
        {"name": "CORES", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1.0"}}},
    ]
    policy = {
        "nicConfigurationOperator": {
            "operator": {
                "version": version,
                "imagePullSecrets": ["ngc"],
                "containerResources": [{"name": "nic-configuration-operator", **resources}],
            },
            "configurationDaemon": {
                "version": version,
                "imagePullSecrets": ["ngc"],
                "containerResources": [{"name": "nic-configuration-daemon", **resources}],
            },
            "env": variables,
            "logLevel": "debug",
            "nicFirmwareStorage": {"storageClassName": "shared", "availableStorageSize": "1024Mi"},
        },
        "spectrumXOperator": {
            "version": version,
            "imagePullSecrets": ["ngc"],
            "containerResources": [{"name": "spectrum-x-flowcontroller", **resources}],
            "xPlane": {"imagePullSecrets": ["ngc", "doca"]},
        },
        "deploymentTolerations": [{"key": "dedicated", "operator": "Exists"}],
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    }
    template = {
        "apiVersion": "configuration.net.nvidia.com/v1alpha1",
        "kind": "NicConfigurationTemplate",
        "metadata": {"name": "rails", "namespace": "nvidia-network-operator"},
        "spec": {
            "nodeSelector": {"pool": "gpu"},
            "nicSelector": {"nicType": "1023"},
            "resetToDefault": False,
            "template": {
                **({} if release.startswith("26.4") else {"force": True}),
                "numVfs": 1,
                "linkType": "Ethernet",
                "spectrumXOptimized": {
                    "enabled": True,
                    "version": "RA2.1",
                    "overlay": "l3",
                    "multiplaneMode": "none",
                    "numberOfPlanes": 1,
                    **({"platformType": "gb300"} if release.startswith("26.10") else {}),
                },
            },
        },
    }
    return spec_of(policy, objects=[template])


def openshift() -> dict[str, Any]:
    """Return a spec for OpenShift with everything that has privileged pods there, but for the controllers."""
    policy = {
        "docaTelemetryService": {},
        "ibKubernetes": GUIDS,
        "nicFeatureDiscovery": {},
        "nvIpam": {},
        "rdmaSharedDevicePlugin": {"config": json.dumps(RDMA_CONFIG)},
        "secondaryNetwork": {"ipoib": {}, "multus": {}},
        "sriovDevicePlugin": {"config": json.dumps(SRIOV_CONFIG)},
    }
    return spec_of(policy, settings={"nfd": True, "openshift": True, "cni_bin_dir": "/var/lib/cni/bin"})


def driver_container() -> dict[str, Any]:
    """Return a spec with the driver's container in every field, on nodes of several systems, and a policy for some."""
    groups = [
        {"os": "ubuntu", "os_version": "24.04", "kernel": "6.8.0-41-generic", "arch": "amd64"},
        {"os": "ubuntu", "os_version": "24.04", "kernel": "6.8.0-41-generic", "arch": "arm64", "precompiled": True},
        {"os": "rhel", "os_version": "9.4", "kernel": "5.14.0-427.13.1.el9_4.x86_64", "arch": "amd64"},
        {"os": "sles", "os_version": "15.7", "kernel": "6.4.0-150700.51-default", "arch": "amd64"},
    ]
    section = {
        "imagePullSecrets": ["ngc"],
        "startupProbe": {"initialDelaySeconds": 5, "periodSeconds": 6, "failureThreshold": 7, "timeoutSeconds": 8},
        "livenessProbe": {"initialDelaySeconds": 0, "periodSeconds": 9},
        "env": [
            {"name": "EMPTY", "value": ""},
            {"name": "NODE_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
        ],
        "certConfig": {"name": "certificates"},
        "repoConfig": {"name": "repositories"},
        "terminationGracePeriodSeconds": 0,
        "containerResources": [
            {"name": "mofed-container", "requests": {"cpu": "0.5"}, "limits": {"memory": "4096Mi"}},
            {"name": "network-operator-init-container", "limits": {"memory": "64Mi"}},
        ],
        "upgradePolicy": {"autoUpgrade": True, "safeLoad": True},
    }
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["old"]}]}]
        }
    }
    policy = {
        "ofedDriver": section,
        "rdmaSharedDevicePlugin": {"config": json.dumps(RDMA_CONFIG)},
        "nodeAffinity": affinity,
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    }
    files = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "nvidia-network-operator"},
            "data": {file: "text"},
        }
        for name, file in (("certificates", "ca.crt"), ("repositories", "mirror.list"))
    ]
    settings = {
        "nfd": True,
        "driver_source": "container",
        "driver_nodes": groups,
        "proxy": {"httpsProxy": "http://proxy.example:3128", "noProxy": ".cluster.local"},
    }
    return spec_of(policy, objects=files, settings=settings)


def driver_container_of_groups() -> dict[str, Any]:
    """Return a spec for OpenShift whose policies for groups of nodes compile the driver's container."""
    node = {
        "os": "rhcos",
        "os_version": "4.17",
        "kernel": "5.14.0-427.40.1.el9_4.x86_64",
        "arch": "amd64",
        "ostree_version": "417.94.202411261220-0",
        "toolkit_image": "quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:" + "0" * 64,
    }
    settings = {"nfd": True, "openshift": True, "driver_source": "container", "driver_nodes": [node]}
    policies = [
        {"name": name, "spec": {"ofedDriver": {}, "nodeSelector": {"pool": name}}, "source": f"{name}.yaml"}
        for name in ("a", "b")
    ]
    return spec_of(None, node_policies=policies, settings=settings)


def pool(kind: str, name: str, spec: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    """Return one pool of a FabricSpec."""
    return {
        "kind": kind,
        "name": name,
        "namespace": namespace,
        "labels": {},
        "annotations": {},
        "spec": spec,
        "source": f"{name}.yaml",
    }


def network(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    """Return one network of a FabricSpec."""
    return {"kind": kind, "name": name, "spec": spec, "source": f"{name}.yaml"}


def attachment(name: str, config: Any, namespace: str = "ai-training", **annotations: str) -> dict[str, Any]:
    """Return one attachment of a FabricSpec."""
    text = config if isinstance(config, str) else json.dumps(config, indent=2)
    return {
        "name": name,
        "namespace": namespace,
        "annotations": annotations,
        "labels": {},
        "config": text,
        "source": "nads.yaml",
    }


SPECS = {
    "training_cluster": training_cluster,
    "first_release": first_release,
    "everything": everything,
    "node_groups": node_groups,
    "nv_ipam": nv_ipam,
    "nv_ipam_config": nv_ipam_config,
    "nv_ipam_webhook": nv_ipam_webhook,
    "services": services,
    "controllers": controllers,
    "openshift": openshift,
    "driver_container": driver_container,
    "driver_container_of_groups": driver_container_of_groups,
}
