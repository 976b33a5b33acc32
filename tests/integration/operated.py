# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster as the NVIDIA Network Operator leaves it: its custom resources, and its objects as they were recorded.

The operator itself is a Deployment that runs nothing. What it does once it is started again was tried with the real one
by hand; ``tests/fixtures/operator/README.md`` says which one that was.
"""

from __future__ import annotations

import copy
import json
import time
import uuid
from typing import Any, Callable, Mapping

import yaml

from ansible_collections.rdma.fabric.tests.integration.batch_objects import path_of
from ansible_collections.rdma.fabric.tests.lab.api import collection_path
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.guests.budget import until
from ansible_collections.rdma.fabric.tests.lab.nodes import apply_nodes, kwok_nodes
from ansible_collections.rdma.fabric.tests.recorded_operator import FOLDER, rendered

Json = dict[str, Any]

POLICY = FOLDER / "policy.yaml"
NAMESPACE = "nvidia-network-operator"
GROUP = "mellanox.com"
# The manager of which the server records what the real one's program (``operator``) stores.
MANAGER = "operator"
PLURALS = {
    "NicClusterPolicy": "nicclusterpolicies",
    "MacvlanNetwork": "macvlannetworks",
    "HostDeviceNetwork": "hostdevicenetworks",
    "IPoIBNetwork": "ipoibnetworks",
    "NicNodePolicy": "nicnodepolicies",
}
POOLS = ("nv-ipam.nvidia.com/v1alpha1", "ippools")
ATTACHMENTS = ("k8s.cni.cncf.io", "NetworkAttachmentDefinition", "network-attachment-definitions")
WAIT_SECONDS = 120.0
# What its objects ask of nodes, as node feature discovery and the operator label them.
LABELS = {
    "feature.node.kubernetes.io/kernel-version.full": "6.8.0-31-generic",
    "feature.node.kubernetes.io/pci-15b3.present": "true",
    "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
    "feature.node.kubernetes.io/system-os_release.VERSION_ID": "24.04",
    "network.nvidia.com/operator.mofed.wait": "false",
}
NODES = ("operated-1", "operated-2")
THE_OPERATOR: Json = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "network-operator", "namespace": NAMESPACE},
    "spec": {
        "selector": {"matchLabels": {"app": "operator"}},
        "template": {
            "metadata": {"labels": {"app": "operator"}},
            "spec": {
                "containers": [{"name": "manager", "image": "nvcr.io/nvidia/cloud-native/network-operator:v26.4.1"}]
            },
        },
    },
}


def recorded() -> list[Json]:
    """Return the operator's objects, without the uid of their owners."""
    found: list[Json] = []
    for name in ("definitions.json", "objects.json"):
        found += json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return found + definitions_of_pools()


def definitions_of_pools() -> list[Json]:
    """Return what the recording lacks: the definitions of pools, which the operator makes as they are rendered here.

    Its release v26.4.1 has them in manifests/state-nv-ipam-cni, with these fields.
    """
    group = POOLS[0].partition("/")[0]
    owner = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "NicClusterPolicy", "name": "nic-cluster-policy"}
    found = [body for body in rendered({}) if body["metadata"]["name"].endswith(f".{group}")]
    for body in found:
        body["metadata"] = {
            "name": body["metadata"]["name"],
            "labels": {"nvidia.network-operator.state": "state-nv-ipam-cni"},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        }
    return found


def definition(group: str, kind: str, plural: str, scope: str, version: str) -> Json:
    """Return a definition that takes any object of a kind."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    one = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": scope, "names": names, "versions": [one]},
    }


class Operated:
    """A cluster with two nodes, the operator's objects, and their pods."""

    def __init__(self, cluster: ControlPlane) -> None:
        self.cluster, self.api = cluster, cluster.api
        apply_nodes(cluster.api, kwok_nodes(NODES, LABELS))
        cluster.create_namespace(NAMESPACE)
        for kind, plural in PLURALS.items():
            self._create(definition(GROUP, kind, plural, "Cluster", "v1alpha1"))
        self._create(definition(*ATTACHMENTS, "Namespaced", "v1"))
        self.owners = {}
        for body in yaml.safe_load_all(POLICY.read_text(encoding="utf-8")):
            if body["apiVersion"] == f"{GROUP}/v1alpha1":
                stored = self._until_served(body)
                self.owners[body["kind"], body["metadata"]["name"]] = stored["metadata"]["uid"]
        for body in recorded():
            for owner in body["metadata"]["ownerReferences"]:
                owner["uid"] = self.owners[owner["kind"], owner["name"]]
            self._create(body, fieldManager=MANAGER)
        (pool,) = (body for body in yaml.safe_load_all(POLICY.read_text(encoding="utf-8")) if body["kind"] == "IPPool")
        self._until(lambda: self.api.request("POST", collection_path(*POOLS, NAMESPACE), pool).status == 201)
        self._create(THE_OPERATOR)
        self._until(lambda: len(self.pods()) >= self.wanted_pods())

    def objects(self) -> dict[str, Json]:
        """Return the operator's objects as they are now, by kind and name; those that are gone are missing."""
        found = {}
        for body in recorded():
            answer = self.api.request("GET", self._path(body))
            if answer.status != 404:
                found[f"{body['kind']} {body['metadata']['name']}"] = answer.body
        return found

    def pools(self) -> list[str]:
        """Return the names of the pools of nv-ipam, which are nobody's."""
        items = self.api.call("GET", collection_path(*POOLS, NAMESPACE))["items"]
        return [item["metadata"]["name"] for item in items]

    def pods(self) -> dict[str, str]:
        """Return the uid of each pod of the operator's workloads, by name."""
        items = self.api.call("GET", collection_path("v1", "pods", NAMESPACE))["items"]
        return {
            item["metadata"]["name"]: item["metadata"]["uid"]
            for item in items
            if item["metadata"]["labels"].get("app") != "operator" and not item["metadata"].get("deletionTimestamp")
        }

    def wanted_pods(self) -> int:
        """Return how many pods the workloads want."""
        daemon_sets = [body for body in recorded() if body["kind"] == "DaemonSet"]
        deployments: list[int] = [
            body["spec"].get("replicas", 1) for body in recorded() if body["kind"] == "Deployment"
        ]
        return len(daemon_sets) * len(NODES) + sum(deployments)

    def until_owners_are_known(self) -> None:
        """Wait until what a custom resource owns goes with it."""
        self._until(self._owners_are_known)

    def until_nothing_is_owned(self) -> None:
        """Wait until what the custom resources owned is gone with them."""
        self._until(lambda: not any("ownerReferences" in body["metadata"] for body in self.objects().values()))

    def _owners_are_known(self) -> bool:
        """Tell whether the garbage collector has learnt of the custom resources, as it does after a while.

        What it has met before that it looks at again after minutes only.
        """
        name = f"probe-{uuid.uuid4().hex[:8]}"
        kind = "NicClusterPolicy"
        version = f"{GROUP}/v1alpha1"
        place = collection_path(version, PLURALS[kind])
        owner = self.api.call("POST", place, {"apiVersion": version, "kind": kind, "metadata": {"name": name}})
        reference = {"apiVersion": version, "kind": kind, "name": name, "uid": owner["metadata"]["uid"]}
        metadata = {"name": name, "namespace": NAMESPACE, "ownerReferences": [reference]}
        self._create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        self.api.call("DELETE", f"{place}/{name}")
        time.sleep(1.0)
        return self.api.request("GET", f"{collection_path('v1', 'configmaps', NAMESPACE)}/{name}").status == 404

    def _path(self, body: Json) -> str:
        if body["apiVersion"].startswith(ATTACHMENTS[0]):
            place = collection_path(body["apiVersion"], ATTACHMENTS[2], body["metadata"]["namespace"])
            return f"{place}/{body['metadata']['name']}"
        return path_of(body)

    def _create(self, body: Json, **query: str) -> Json:
        stored: Json = self.api.call("POST", self._path(body).rpartition("/")[0], copy.deepcopy(body), query=query)
        return stored

    def _until_served(self, body: Json) -> Json:
        """Create an object of a definition that may not be served yet."""
        path = collection_path(body["apiVersion"], PLURALS[body["kind"]])
        answers: list[Mapping[str, Any]] = []

        def is_created() -> bool:
            answer = self.api.request("POST", path, body)
            answers.append(answer.body)
            return answer.status == 201

        self._until(is_created)
        return dict(answers[-1])

    def _until(self, is_so: Callable[[], bool]) -> None:
        until(is_so, WAIT_SECONDS, "the cluster does not get there", every=0.2)
