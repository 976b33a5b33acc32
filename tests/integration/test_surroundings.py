# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters that others have set up: ``preview``, ``site``, ``status`` and ``teardown`` leave them as they were.

The API server is real, nodes and their pods are KWOK's, and hosts are recorded. By default all surroundings are in one
cluster; a whole sweep has a cluster of each alone. Sources: rancher/rke2-charts#72 (Multus and its definition are of a
chart), NVIDIA/gpu-operator#660 (GKE admits pods of the critical classes only within a quota for them),
suxess-it/kubriX#2944 (Talos enforces the level baseline), kyverno/kyverno (a policy judges pods, and exempts namespaces
by label), NVIDIA/gpu-operator#87 (Node Feature Discovery of a chart) and nodes of GH200 beside others.
"""

from __future__ import annotations

import copy
import re
import stat
import time
from functools import partial
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.integration.playbooks import Json, User
from ansible_collections.rdma.fabric.tests.integration.whole_cluster import everything, kept_kinds
from ansible_collections.rdma.fabric.tests.lab.api import collection_path
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.guests.budget import Budget, until
from ansible_collections.rdma.fabric.tests.lab.nodes import NIC_LABEL, apply_nodes, kwok_node
from ansible_collections.rdma.fabric.tests.lab.programs import Programs
from ansible_collections.rdma.fabric.tests.sweeps import whole
from tools.fleet import RECORDINGS

NAMESPACE, EXEMPT = "nvidia-network-operator", "security.example.com/exempt"
CRITICAL = ["system-node-critical", "system-cluster-critical"]
ENOUGH_SECONDS = 60.0
IMAGE = {"repository": "registry.example", "version": "v1.5.3"}
DEVICES = '{"configList": [{"resourceName": "rail0", "rdmaHcaMax": 8, "selectors": {"vendors": ["15b3"]}}]}'
NETWORK = {"master": "enp24s0np0", "networkNamespace": "default", "ipam": '{"type": "nv-ipam", "poolName": "rail0"}'}
POOL = {
    "apiVersion": "nv-ipam.nvidia.com/v1alpha1",
    "kind": "IPPool",
    "metadata": {"name": "rail0", "namespace": NAMESPACE},
    "spec": {"subnet": "10.64.0.0/24", "perNodeBlockSize": 16, "gateway": "10.64.0.1"},
}
DEVICES_OF_NODES = {"rdma/rail0": "8"}  # its plugin does not run
HELM = {"labels": {"app.kubernetes.io/managed-by": "Helm"}}
ATTACHMENTS = "network-attachment-definitions"


def of_release(release: str, **more: Any) -> Json:
    """Return the metadata of an object of a release of Helm."""
    annotations = {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": "kube-system"}
    return {**HELM, "annotations": annotations, **more}


def daemon_set(metadata: Json, image: str) -> Json:
    """Return a DaemonSet of somebody else."""
    labels = {"app": metadata["name"]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}


def definition(metadata: Json, kind: str, scope: str, version: str) -> Json:
    """Return a definition that takes any content."""
    plural, _dot, group = metadata["name"].partition(".")
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": version, "served": True, "storage": True, "schema": schema}]
    names = {"plural": plural, "singular": kind.lower(), "kind": kind}
    spec = {"group": group, "scope": scope, "names": names, "versions": versions}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


def rke2() -> list[Json]:
    return [
        definition(
            of_release("multus", name=f"{ATTACHMENTS}.k8s.cni.cncf.io"),
            "NetworkAttachmentDefinition",
            "Namespaced",
            "v1",
        ),
        daemon_set(
            of_release("multus", name="rke2-multus", namespace="kube-system"), "rancher/hardened-multus-cni:v4.2.2"
        ),
    ]


def chart_of_discovery() -> list[Json]:
    rule = {"name": "kernel", "labels": {"example.com/kernel": "true"}, "matchFeatures": []}
    return [
        definition(of_release("nfd", name="nodefeatures.nfd.k8s-sigs.io"), "NodeFeature", "Namespaced", "v1alpha1"),
        definition(
            of_release("nfd", name="nodefeaturerules.nfd.k8s-sigs.io"), "NodeFeatureRule", "Cluster", "v1alpha1"
        ),
        daemon_set(
            of_release("nfd", name="nfd-worker", namespace="kube-system"),
            "registry.k8s.io/nfd/node-feature-discovery:v0.18.3",
        ),
        {
            "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
            "kind": "NodeFeatureRule",
            "metadata": {"name": "own"},
            "spec": {"rules": [rule]},
        },
    ]


def policy_of_pods() -> list[Json]:
    version, name = "admissionregistration.k8s.io/v1", {"name": "no-privileged-pods"}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    free = "object.spec.containers.all(c, c.?securityContext.?privileged.orValue(false) == false)"
    exempt = {"matchExpressions": [{"key": EXEMPT, "operator": "DoesNotExist"}]}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": {EXEMPT: "rdma"}}}
    judges: Json = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": free, "message": f"label the namespace {EXEMPT}"}],
    }
    binding = {
        "policyName": name["name"],
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": exempt},
    }
    return [
        {"apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": name, "spec": judges},
        {"apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": name, "spec": binding},
        namespace,
    ]


# What somebody else has put there, and what the API server is told to judge pods by.
THERE: dict[str, Callable[[], list[Json]]] = {
    "rke2": rke2,
    "gke": list,
    "talos": list,
    "policies": policy_of_pods,
    "discovery": chart_of_discovery,
    "architectures": list,
}
JUDGES: dict[str, Json] = {
    "gke": {
        "name": "ResourceQuota",
        "configuration": {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "ResourceQuotaConfiguration",
            "limitedResources": [
                {
                    "resource": "pods",
                    "matchScopes": [{"scopeName": "PriorityClass", "operator": "In", "values": CRITICAL}],
                }
            ],
        },
    },
    "talos": {
        "name": "PodSecurity",
        "configuration": {
            "apiVersion": "pod-security.admission.config.k8s.io/v1",
            "kind": "PodSecurityConfiguration",
            "defaults": {"enforce": "baseline", "enforce-version": "latest"},
            "exemptions": {"namespaces": ["kube-system"]},
        },
    },
}


def judging(programs: Programs, folder: Path, surroundings: tuple[str, ...]) -> Programs:
    """Return the programs with an API server that judges pods as these distributions have it do."""
    folder.mkdir()
    admission = folder / "admission.yaml"
    plugins = [JUDGES[name] for name in surroundings if name in JUDGES]
    configuration = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins}
    admission.write_text(yaml.safe_dump(configuration), encoding="utf-8")
    wrapper = folder / "kube-apiserver"
    more = f'"$@" --admission-control-config-file={admission}'
    wrapper.write_text(f"#!/bin/sh\nexec {programs.kube_apiserver} {more}\n", encoding="utf-8")
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    return programs._replace(kube_apiserver=wrapper)


@pytest.fixture(params=[(name,) for name in THERE] if whole() else [tuple(THERE)], ids="-".join)
def surroundings(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """What the cluster has of others: all of it, or each alone."""
    found: tuple[str, ...] = request.param
    return found


@pytest.fixture
def cluster(lab_programs: Programs, tmp_path: Path, surroundings: tuple[str, ...]) -> Iterator[ControlPlane]:
    """A cluster as others have set it up."""
    programs = judging(lab_programs, tmp_path / "judges", surroundings)
    with ControlPlane(tmp_path / "cluster", programs=programs) as running:
        second = {"kubernetes.io/arch": "arm64"} if "architectures" in surroundings else {}
        apply_nodes(
            running.api,
            [
                kwok_node("one", NIC_LABEL, allocatable=DEVICES_OF_NODES),
                kwok_node("two", {**NIC_LABEL, **second}, allocatable=DEVICES_OF_NODES),
            ],
        )
        for name in surroundings:
            for body in THERE[name]():
                until(partial(create, running, body), ENOUGH_SECONDS, "it is not taken", every=0.2)
        yield running


def create(cluster: ControlPlane, body: Json) -> bool:
    """Create an object; False while its kind is not served yet."""
    plurals = {"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}
    plural = plurals.get(body["kind"], f"{body['kind'].lower()}s")
    place = collection_path(body["apiVersion"], plural, body["metadata"].get("namespace", ""))
    return cluster.api.request("POST", place, body).status == 201


def as_it_was(cluster: ControlPlane) -> dict[str, Json]:
    """Return every object, without what the server counts, what nodes and DaemonSets report, and who reports it."""
    found = copy.deepcopy(everything(cluster.api))
    for name, body in found.items():
        for key in ("resourceVersion", "generation"):
            body["metadata"].pop(key, None)
        recorded = [entry for entry in body["metadata"].get("managedFields") or [] if not entry.get("subresource")]
        body["metadata"]["managedFields"] = [{**entry, "time": ""} for entry in recorded]
        if name.startswith(("Node ", "DaemonSet ")):
            body["status"] = None
    return found


def added(after: dict[str, Json], before: dict[str, Json]) -> set[str]:
    """Return what is new and is not said to stay: definitions, and a Namespace with what every one has."""
    new = set(after) - set(before)
    own = f"Namespace /{NAMESPACE}", f"ServiceAccount {NAMESPACE}/default", f"ConfigMap {NAMESPACE}/kube-root-ca.crt"
    return new - kept_kinds(new) - set(own)


def differences(before: Any, after: Any, path: str) -> Iterator[str]:
    """Yield where an object is not as it was."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from differences(before.get(key), after.get(key), f"{path}.{key}")
    elif before != after:
        yield f"{path}: {before}, now {after}"


@pytest.fixture
def inventory(tmp_path: Path, surroundings: tuple[str, ...]) -> Path:
    """Two recorded hosts, and what is to be in the cluster."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "critical-pods", "namespace": NAMESPACE},
        "spec": {
            "hard": {"pods": "100"},
            "scopeSelector": {
                "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": CRITICAL}]
            },
        },
    }
    manifests = tmp_path / "input.yaml"
    manifests.write_text(yaml.safe_dump_all([POOL, *([quota] if "gke" in surroundings else [])]), encoding="utf-8")
    multus = {} if "rke2" in surroundings else {"multus": {**IMAGE, "image": "multus-cni", "version": "v4.1.0"}}
    policy = {
        "rdmaSharedDevicePlugin": {**IMAGE, "image": "k8s-rdma-shared-dev-plugin", "config": DEVICES},
        "nvIpam": {**IMAGE, "image": "nvidia-k8s-ipam"},
        "secondaryNetwork": {"cniPlugins": {**IMAGE, "image": "plugins"}, **multus},
    }
    variables = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        "rdma_fabric_recording": str(RECORDINGS / "roce-h100-01.json.gz"),
        "rdma_fabric_nic_cluster_policy": policy,
        "rdma_fabric_macvlan_networks": {"rail0": NETWORK},
        "rdma_fabric_manifests": [str(manifests)],
        "rdma_fabric_nfd": "discovery" not in surroundings,
    }
    content = {"rdma_fabric": {"hosts": {"one": None, "two": None}}, "all": {"vars": variables}}
    path = tmp_path / "hosts.yml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def test_what_was_there_before_is_there_after(cluster: ControlPlane, inventory: Path, tmp_path: Path) -> None:
    user = User(tmp_path / "user")
    before = as_it_was(cluster)
    for playbook in ("preview", "site"):
        user.run(playbook, inventory=inventory, cluster=cluster).succeeded()
    # Recorded hosts have steps to do for ever.
    status = user.run("status", inventory=inventory, cluster=cluster).refused()
    assert status.message == "pending: one, two; next: rdma.fabric.site applies it"
    for what in ("objects +{} matching", "components +{} ready", "networks +{} there"):
        assert re.search(what.format(r"([1-9]\d*) of \1"), status.output), status.output
    user.run(
        "teardown", inventory=inventory, cluster=cluster, variables={"rdma_fabric_allow_teardown": True}
    ).succeeded()
    budget = Budget(ENOUGH_SECONDS)
    while (new := added(after := as_it_was(cluster), before)) and budget.left() > 0:
        time.sleep(0.2)
    assert new == set()
    assert [line for name, body in before.items() for line in differences(body, after.get(name), name)] == []
