# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way from the SR-IOV Network Operator as the guide prints it: no network attachment goes with its custom resource.

The operator is a Deployment that runs nothing. Its objects have the marks that its controllers give them
(k8snetworkplumbingwg/sriov-network-operator v1.6.0, controllers and bindata/manifests). The tests build on each other.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.operators import NETWORK
from ansible_collections.rdma.fabric.tests.integration.batch_objects import daemon_set
from ansible_collections.rdma.fabric.tests.integration.guides import blocks_of, guide
from ansible_collections.rdma.fabric.tests.integration.operated import ATTACHMENTS, NAMESPACE, Json, definition
from ansible_collections.rdma.fabric.tests.integration.playbooks import Outcome, User, stored_writes
from ansible_collections.rdma.fabric.tests.lab.api import collection_path
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.guests.budget import until
from ansible_collections.rdma.fabric.tests.lab.programs import Programs

GROUP = "sriovnetwork.openshift.io"
API = f"{GROUP}/v1"
PLURALS = {
    "SriovNetwork": "sriovnetworks",
    "SriovIBNetwork": "sriovibnetworks",
    "OVSNetwork": "ovsnetworks",
    "SriovNetworkNodePolicy": "sriovnetworknodepolicies",
    "SriovNetworkPoolConfig": "sriovnetworkpoolconfigs",
    "SriovOperatorConfig": "sriovoperatorconfigs",
}
STATES = ("SriovNetworkNodeState", "sriovnetworknodestates")
OPERATOR = "network-operator-sriov-network-operator"
FINALIZERS = {
    "SriovNetwork": "netattdef.finalizers.sriovnetwork.openshift.io",
    "SriovOperatorConfig": "operatorconfig.finalizers.sriovnetwork.openshift.io",
}
TENANT = "training"
# By namespace. Both attachments are the tenant's: one beside its network, the other apart from it.
NETWORKS = {NAMESPACE: "rail0", TENANT: "rail1"}
SPECS: dict[str, Json] = {
    "SriovNetworkNodePolicy": {
        "deviceType": "netdevice",
        "isRdma": True,
        "nicSelector": {"vendor": "15b3", "pfNames": ["ens1f0"]},
        "nodeSelector": {"feature.node.kubernetes.io/pci-15b3.present": "true"},
        "numVfs": 8,
        "priority": 99,
        "resourceName": "rails",
    },
    "SriovOperatorConfig": {
        "configDaemonNodeSelector": {"network.nvidia.com/operator.mofed.wait": "false"},
        "enableInjector": True,
        "enableOperatorWebhook": True,
        "logLevel": 2,
    },
}


def commands(heading: str) -> list[str]:
    """Return the commands of a section of the guide, in its order, but for playbooks."""
    section = guide("guide-adopt.md").partition(f"\n### {heading}\n")[2].partition("\n### ")[0].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith(("kubectl ", "sed "))]


class Way:
    """A cluster of the SR-IOV operator, and who leaves it."""

    def __init__(self, cluster: ControlPlane, user: User, kubectl: Path) -> None:
        self.cluster, self.user, self.api, self.kubectl = cluster, user, cluster.api, kubectl
        (hosts,) = blocks_of(guide("guide-adopt.md"))
        (user.here / "hosts.yml").write_text(hosts.replace("operator.yaml", "sriov.yaml"), encoding="utf-8")
        for namespace in (NAMESPACE, TENANT):
            cluster.create_namespace(namespace)
        definitions = [definition(GROUP, *each, "Namespaced", "v1") for each in (*PLURALS.items(), STATES)]
        for body in (*definitions, definition(*ATTACHMENTS, "Namespaced", "v1")):
            self.api.call("POST", collection_path("apiextensions.k8s.io/v1", "customresourcedefinitions"), body)
        until(lambda: all(self.is_served(plural) for plural in (*PLURALS.values(), STATES[1], ATTACHMENTS[2])))
        state = {"apiVersion": API, "kind": STATES[0], "metadata": {"name": "gpu-09"}, "spec": {}}
        self.api.call("POST", collection_path(API, STATES[1], NAMESPACE), state)
        self._make_networks()
        config = self._custom("SriovOperatorConfig", "default", SPECS["SriovOperatorConfig"])
        self._custom("SriovNetworkNodePolicy", "rails", SPECS["SriovNetworkNodePolicy"])
        self._make_workloads(self.owner_of(config, controller=True))

    def is_served(self, plural: str) -> bool:
        """Tell whether a kind is served yet."""
        version = API if plural in (*PLURALS.values(), STATES[1]) else f"{ATTACHMENTS[0]}/v1"
        return self.api.request("GET", collection_path(version, plural, NAMESPACE)).status == 200

    def owner_of(self, body: Json, **more: Any) -> list[Json]:
        """Return the owner references of an object that goes with another."""
        named = {"name": body["metadata"]["name"], "uid": body["metadata"]["uid"]}
        return [{"apiVersion": body["apiVersion"], "kind": body["kind"], **named, **more}]

    def attachments(self) -> dict[str, Json]:
        """Return the network attachments of the cluster by name."""
        items = self.api.call("GET", collection_path(f"{ATTACHMENTS[0]}/v1", ATTACHMENTS[2]))["items"]
        return {item["metadata"]["name"]: item for item in items}

    def left(self) -> list[str]:
        """Return the custom resources that are still there."""
        found = [self.api.call("GET", collection_path(API, plural))["items"] for plural in PLURALS.values()]
        return [item["metadata"]["name"] for items in found for item in items]

    def play(self, playbook: str, *arguments: str) -> Outcome:
        cluster = self.cluster
        return self.user.run(
            playbook,
            *arguments,
            inventory="hosts.yml",
            variables={"rdma_fabric_wait": False},
            cluster=cluster,
            kubeconfig=cluster.kubeconfig,
        )

    def shell(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a line of the guide as its reader does."""
        environment = self.user.environment(self.cluster, self.cluster.kubeconfig)
        environment["PATH"] = f"{self.kubectl.parent}{os.pathsep}{environment['PATH']}"
        return subprocess.run(
            ["bash", "-c", line], cwd=self.user.here, env=environment, capture_output=True, text=True, check=False
        )

    def _make_networks(self) -> None:
        for namespace, name in NETWORKS.items():
            spec = {"resourceName": "rails", "networkNamespace": TENANT if namespace == NAMESPACE else ""}
            network = self._custom("SriovNetwork", name, spec, namespace)
            metadata: Json = {
                "name": name,
                "namespace": TENANT,
                "annotations": {NETWORK: f"SriovNetwork.{GROUP}/{namespace}/{name}"},
            }
            if namespace == TENANT:
                metadata["ownerReferences"] = self.owner_of(network)
            body = {"apiVersion": f"{ATTACHMENTS[0]}/v1", "kind": ATTACHMENTS[1], "metadata": metadata}
            place = collection_path(f"{ATTACHMENTS[0]}/v1", ATTACHMENTS[2], TENANT)
            body["spec"] = {"config": json.dumps({"cniVersion": "1.0.0", "name": name, "type": "sriov"})}
            self.api.call("POST", place, body, query={"fieldManager": "sriov-network-operator"})

    def _make_workloads(self, owner: list[Json]) -> None:
        for name in ("sriov-network-config-daemon", "sriov-device-plugin", "network-resources-injector"):
            body = daemon_set(NAMESPACE, name)
            body["metadata"]["ownerReferences"] = owner
            self.api.call("POST", collection_path("apps/v1", "daemonsets", NAMESPACE), body)
        template = {
            "metadata": {"labels": {"app": "sriov"}},
            "spec": {"containers": [{"name": "o", "image": "registry.example/sriov-network-operator:v26.4.1"}]},
        }
        spec = {"selector": {"matchLabels": {"app": "sriov"}}, "template": template}
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": OPERATOR}, "spec": spec}
        self.api.call("POST", collection_path("apps/v1", "deployments", NAMESPACE), body)
        # The injector's is ignored where it does not answer, unless its feature gate has it asked for networks alone.
        for kind, name, groups, resource, policy in (
            ("Mutating", "network-resources-injector-config", [""], "pods", "Ignore"),
            ("Validating", "sriov-operator-webhook-config", [GROUP], "sriovoperatorconfigs", "Fail"),
        ):
            rules = [
                {
                    "operations": ["CREATE", "UPDATE"],
                    "apiGroups": groups,
                    "apiVersions": ["v1"],
                    "resources": [resource],
                }
            ]
            hook = {
                "name": f"{name}.k8s.io",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": policy,
                "clientConfig": {"service": {"name": "gone", "namespace": NAMESPACE}},
                "rules": rules,
            }
            body = {"metadata": {"name": name}, "webhooks": [hook]}
            plural = f"{kind.lower()}webhookconfigurations"
            self.api.call("POST", collection_path("admissionregistration.k8s.io/v1", plural), body)

    def _custom(self, kind: str, name: str, spec: Json, namespace: str = NAMESPACE) -> Json:
        finalizers = [FINALIZERS[kind]] if kind in FINALIZERS and namespace == NAMESPACE else []
        metadata = {"name": name, "finalizers": finalizers}
        body = {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}
        stored: Json = self.api.call("POST", collection_path(API, PLURALS[kind], namespace), body)
        return stored


@pytest.fixture(scope="module")
def way(lab_programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    with ControlPlane(tmp_path_factory.mktemp("sriov"), programs=lab_programs) as running:
        yield Way(running, User(tmp_path_factory.mktemp("sriov-user")), lab_programs.kubectl)


def test_an_operator_that_runs_is_named_and_neither_adopt_nor_site_takes_its_networks(way: Way) -> None:
    export = commands("The SR-IOV Network Operator")[0]
    assert way.shell(export).returncode == 0
    mark = way.cluster.audit.mark()
    refused = way.play("adopt").refused()
    assert f"kubectl scale deployment --namespace={NAMESPACE} {OPERATOR} --replicas=0" in refused.message
    said = " ".join(refused.output.split())
    assert "not compared with the SR-IOV operator's records, as no host was read: gpu-09" in said
    refused = way.play("site").refused()
    assert "is managed by the SR-IOV Network Operator" in refused.message
    assert stored_writes(way.cluster.audit, mark) == []


def test_networks_change_hands_and_outlive_the_operator(way: Way) -> None:
    stop = [
        line for line in commands("The SR-IOV Network Operator")[1:] if "--replicas=0" in line or "daemonset" in line
    ]
    for line in stop:
        done = way.shell(line)
        assert done.returncode == 0, done.stderr
    before = way.attachments()
    way.play("adopt").succeeded()
    after = way.attachments()
    assert {name: body["spec"] for name, body in after.items()} == {name: body["spec"] for name, body in before.items()}
    for name, body in after.items():
        assert "ownerReferences" not in body["metadata"], name
        assert NETWORK not in body["metadata"].get("annotations", {}), name
    way.play("site").succeeded()
    for line in [line for line in commands("The SR-IOV Network Operator")[1:] if line not in stop]:
        done = way.shell(line)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    until(lambda: not way.left())
    # What the operator's configuration owned goes with it.
    daemons = collection_path("apps/v1", "daemonsets", NAMESPACE)
    until(lambda: way.api.request("GET", f"{daemons}/network-resources-injector").status == 404)
    assert sorted(way.attachments()) == sorted(NETWORKS.values())


def test_the_way_back_gives_the_operator_its_resources_and_networks_without_an_owner(way: Way) -> None:
    before = way.attachments()
    daemons = collection_path("apps/v1", "daemonsets", NAMESPACE)
    plugins = {"labelSelector": "app.kubernetes.io/component=sriov-device-plugin"}
    assert way.api.call("GET", daemons, query=plugins)["items"]
    way.play("release").succeeded()
    for line in commands("To the SR-IOV Network Operator"):
        done = way.shell(line)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    assert way.api.call("GET", daemons, query=plugins)["items"] == []
    assert sorted(way.left()) == sorted([*NETWORKS.values(), "rails", "default"])
    for name, body in way.attachments().items():
        assert body["spec"] == before[name]["spec"]
        assert "ownerReferences" not in body["metadata"] and NETWORK not in body["metadata"].get("annotations", {})
    scaled = way.api.call("GET", f"{collection_path('apps/v1', 'deployments', NAMESPACE)}/{OPERATOR}")
    assert scaled["spec"]["replicas"] == 1
