# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook teardown: hosts and cluster are what they were before the first run.

The cluster is a real API server of this file's own, with nodes of KWOK. The hosts are this machine, each with files of
its own.
"""

from __future__ import annotations

import copy
import shlex
import time
import uuid
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from ansible_collections.rdma.fabric.tests.integration.after_site import States, push
from ansible_collections.rdma.fabric.tests.integration.batch_objects import apply
from ansible_collections.rdma.fabric.tests.integration.guides import guide
from ansible_collections.rdma.fabric.tests.integration.playbooks import ADMINISTRATOR, Json, stored_writes
from ansible_collections.rdma.fabric.tests.integration.upgrading import ENOUGH_SECONDS, LIMITS, WANTED, Fleet
from ansible_collections.rdma.fabric.tests.integration.whole_cluster import everything, kept_kinds
from ansible_collections.rdma.fabric.tests.lab.api import collection_path
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.guests.budget import Budget
from ansible_collections.rdma.fabric.tests.lab.nodes import NIC_LABEL, delete_nodes
from ansible_collections.rdma.fabric.tests.lab.programs import Programs

IMAGE = {"repository": "registry.example", "version": "v1.2.3"}
DEVICES = '{"configList": [{"resourceName": "torn", "rdmaHcaMax": 8, "selectors": {"vendors": ["15b3"]}}]}'
NETWORK = {"master": "rail0", "networkNamespace": "default", "ipam": '{"type": "host-local", "subnet": "10.0.0.0/24"}'}
CLUSTER: Json = {
    "rdma_fabric_nic_cluster_policy": {
        "rdmaSharedDevicePlugin": {**IMAGE, "image": "k8s-rdma-shared-dev-plugin", "config": DEVICES},
        "secondaryNetwork": {
            "multus": {**IMAGE, "image": "multus-cni", "version": "v4.1.0"},
            "cniPlugins": {**IMAGE, "image": "plugins"},
        },
    },
    "rdma_fabric_macvlan_networks": {"torn-rail0": NETWORK},
}
CONSENT: Json = {"rdma_fabric_allow_teardown": True}
LOCK = ["/run/rdma-fabric.lock"]

Bring = Callable[..., None]


@pytest.fixture(scope="module")
def cluster(lab_programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane in which nothing but these tests puts objects."""
    with ControlPlane(tmp_path_factory.mktemp("teardown"), programs=lab_programs) as running:
        yield running


@pytest.fixture
def fleet(cluster: ControlPlane, tmp_path: Path, host_names: tuple[str, ...]) -> Iterator[Fleet]:
    """Hosts with files of their own, their nodes, and a pod with a device on each."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    cluster.create_namespace(name)
    found = Fleet(cluster, name, tmp_path, host_names)
    yield found
    delete_nodes(cluster.api, found.nodes.values())
    apply(cluster.kubeconfig, name, set_name="rdma-fabric", absent=True)
    # A pod that goes on is in the way of the next teardown; a namespace that a run has deleted is gone already.
    cluster.api.request("DELETE", collection_path("v1", "pods", name), {"gracePeriodSeconds": 0})
    cluster.api.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def bring(fleet: Fleet, states: States) -> Bring:
    """What ``site`` does to hosts and cluster, with these variables beside those of all tests."""

    def both(**variables: Any) -> None:
        states.give(fleet.hosts.values(), rdma_fabric_limits=WANTED)
        push(fleet.cluster, fleet.namespace, {**CLUSTER, **variables})

    return both


def slots(fleet: Fleet) -> list[str]:
    """Return the names of all Leases of the namespace, which the list of objects leaves out."""
    found = fleet.api.call("GET", collection_path("coordination.k8s.io/v1", "leases", fleet.namespace))["items"]
    return [lease["metadata"]["name"] for lease in found]


def nodes_of(objects: dict[str, Json], fleet: Fleet) -> dict[str, Any]:
    """Return what a run could have left on the nodes."""
    return {
        name: (body["metadata"].get("labels"), body["metadata"].get("annotations"), body.get("spec"))
        for name, body in objects.items()
        if name.startswith(f"Node /{fleet.namespace}-")
    }


def difference(fleet: Fleet, before: dict[str, Json]) -> set[str]:
    """Return what has come and gone since; what the test before this one had may still be going."""
    found = set(everything(fleet.api)) ^ set(before)
    return {name for name in found if "test-" not in name or fleet.namespace in name}


def gone_again(fleet: Fleet, before: dict[str, Json]) -> None:
    """Wait until the cluster holds what it held before, definitions apart; garbage collection takes a moment."""

    def others() -> set[str]:
        found = difference(fleet, before)
        return found - kept_kinds(found)

    budget = Budget(ENOUGH_SECONDS)
    while (left := others()) and budget.left() > 0:
        time.sleep(0.2)
    assert left == set()
    assert nodes_of(everything(fleet.api), fleet) == nodes_of(before, fleet)


@pytest.mark.first
@pytest.mark.hosts("one", "two")
def test_hosts_and_cluster_are_what_they_were_before_the_first_run(fleet: Fleet) -> None:
    before = everything(fleet.api)
    assert {name: host.written() for name, host in fleet.hosts.items()} == {name: [] for name in fleet.names}
    fleet.run(playbook="site", **CLUSTER).succeeded()
    assert fleet.changed() == list(fleet.names)
    made = set(everything(fleet.api)) - set(before)
    assert f"DaemonSet {fleet.namespace}/kube-multus-ds" in made
    version, mark = fleet.version(), fleet.cluster.audit.mark()
    done = fleet.run(playbook="teardown", **CLUSTER, **CONSENT).succeeded()
    assert fleet.most_at_once(version) == 1
    # The lock's file is empty and goes with the next boot.
    assert {name: host.written() for name, host in fleet.hosts.items()} == dict.fromkeys(fleet.names, LOCK)
    gone_again(fleet, before)
    assert (slots(fleet), fleet.cordoned(), fleet.marked()) == ([], [], [])
    said = " ".join(done.output.split())
    kept = said.split("kept, a CustomResourceDefinition is never removed unasked", maxsplit=1)[1].split(")")[0]
    assert [name for name in kept_kinds(made) if name.replace(" /", " ") not in kept] == []
    assert "Multus takes /etc/cni/net.d/00-multus.conf off each node as it ends" in said
    assert "to be torn down in turn, one node out of service at once" in said
    assert sorted(fleet.interrupted(mark)[::2]) == sorted((name, "taken") for name in fleet.names)
    assert fleet.user.report()["summary"]["outcome"] == "changed"
    mark = fleet.cluster.audit.mark()
    again = fleet.run(playbook="teardown", **CLUSTER, **CONSENT).succeeded()
    assert set(again.changed.values()) == {0}
    assert stored_writes(fleet.cluster.audit, mark) == []


@pytest.mark.hosts("two")
def test_a_pod_on_a_network_is_named_before_anything_is_touched(fleet: Fleet, bring: Bring) -> None:
    bring()
    held: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "trainer", "annotations": {"k8s.v1.cni.cncf.io/networks": "default/torn-rail0@net1"}},
        "spec": {"nodeName": fleet.nodes["two"], "containers": [{"name": "c", "image": "registry.example/c:1"}]},
    }
    # A DaemonSet's pods stay through every drain; this one is kept by its label.
    held["metadata"]["labels"] = {"nvidia.com/ofed-driver-upgrade-drain.skip": "true"}
    fleet.api.call("POST", f"/api/v1/namespaces/{fleet.namespace}/pods", held)
    mark = fleet.cluster.audit.mark()
    outcome = fleet.run(playbook="teardown", **CLUSTER, **CONSENT).refused()
    assert f"1 pod still uses networks or devices of this set: {fleet.namespace}/trainer" in outcome.message
    assert "rdma_fabric_allow_teardown_in_use: true" in outcome.message
    assert stored_writes(fleet.cluster.audit, mark) == []
    requests = fleet.cluster.audit.requests(mark, user=ADMINISTRATOR)
    assert len([each for each in requests if (each.resource, each.verb) == ("pods", "list")]) == 1
    assert fleet.changed() == ["two"]


@pytest.mark.hosts("one")
def test_foreign_objects_of_similar_names_stay_and_labels_of_node_feature_discovery_go_with_it(
    fleet: Fleet, bring: Bring
) -> None:
    """A definition is gone by hand. The discovery's programs don't run: the test puts on a node what they would."""
    foreign = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "rdma-devices-2", "labels": {"app.kubernetes.io/managed-by": "rdma-fabric"}},
    }
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "rdma-fabric-slot-upgrade-7"},
    }
    fleet.api.call("POST", collection_path("v1", "configmaps", fleet.namespace), foreign)
    fleet.api.call("POST", collection_path("coordination.k8s.io/v1", "leases", fleet.namespace), lease)
    before = everything(fleet.api)
    bring(rdma_fabric_nfd=True)
    name = "network-attachment-definitions.k8s.cni.cncf.io"
    fleet.cluster.kubectl("delete", "customresourcedefinition", name)
    node = fleet.nodes["one"]
    marks = {"nfd.node.kubernetes.io/feature-labels": "pci-15b3.present", "nfd.node.kubernetes.io/taints": "kept"}
    fleet.cluster.kubectl("annotate", "node", node, *(f"{key}={value}" for key, value in marks.items()))
    fleet.cluster.kubectl("label", "node", node, "feature.node.kubernetes.io/own=true")
    fleet.run(playbook="teardown", **CLUSTER, **CONSENT, rdma_fabric_nfd=True).succeeded()
    expected = copy.deepcopy(before)
    live = expected[f"Node /{node}"]["metadata"]
    live["labels"]["feature.node.kubernetes.io/own"] = "true"
    for label in NIC_LABEL:
        del live["labels"][label]
    live["annotations"]["nfd.node.kubernetes.io/taints"] = "kept"
    gone_again(fleet, expected)
    assert slots(fleet) == ["rdma-fabric-slot-upgrade-7"]


@pytest.mark.hosts("one", "two")
def test_what_a_killed_run_left_is_taken_back_and_the_cluster_side_stays_while_a_host_is_left_behind(
    fleet: Fleet, bring: Bring
) -> None:
    """And definitions go where that is asked for."""
    bring()
    first = fleet.killed_in_a_turn(playbook="teardown", **CLUSTER, **CONSENT)
    assert fleet.holders() == [fleet.nodes[first]]
    (other,) = set(fleet.names) - {first}
    fleet.hosts[other].switch("read-only", on=True)
    outcome = fleet.run(playbook="teardown", **CLUSTER, **CONSENT).refused()
    assert "1 of 2 hosts of this run did not finish" in outcome.output, outcome.output
    assert (fleet.changed(), fleet.cordoned(), fleet.holders()) == ([other], [other], [fleet.nodes[other]])
    assert f"DaemonSet {fleet.namespace}/kube-multus-ds" in everything(fleet.api)
    assert kept_kinds(set(everything(fleet.api)))
    fleet.hosts[other].switch("read-only", on=False)
    fleet.run(playbook="teardown", **CLUSTER, **CONSENT, rdma_fabric_delete_definitions=True).succeeded()
    assert (fleet.changed(), fleet.cordoned(), fleet.marked(), slots(fleet)) == ([], [], [], [])
    assert kept_kinds(set(everything(fleet.api))) == set()


@pytest.mark.hosts("one", "two")
def test_hosts_without_a_cluster_are_taken_back_without_one(fleet: Fleet, states: States) -> None:
    states.give(fleet.hosts.values(), rdma_fabric_limits=WANTED)
    assert fleet.changed() == list(fleet.names)
    outcome = fleet.user.run("teardown", inventory=fleet.inventory, variables=CONSENT).succeeded()
    assert {outcome.changed[name] for name in fleet.names} == {1}
    assert {name: host.written() for name, host in fleet.hosts.items()} == dict.fromkeys(fleet.names, LOCK)


@pytest.mark.hosts("one")
def test_who_may_not_delete_or_lacks_the_consent_is_told_before_a_host_is_looked_at(fleet: Fleet, bring: Bring) -> None:
    bring()
    nobody = fleet.cluster.client_kubeconfig("nobody-of-teardowns")
    reads = fleet.cluster.kubectl("create", "clusterrole", "teardown-reads", "--verb=get,list", "--resource=*.*")
    assert reads
    bind = ("--clusterrole=teardown-reads", "--user=nobody-of-teardowns")
    fleet.cluster.kubectl("create", "clusterrolebinding", "teardown-reads", *bind)
    try:
        outcome = fleet.run(playbook="teardown", kubeconfig=nobody, **CLUSTER).refused()
    finally:
        fleet.cluster.kubectl("delete", "clusterrolebinding,clusterrole", "teardown-reads")
    assert "the user nobody-of-teardowns lacks rights that this run uses" in outcome.message
    for what in ("daemonsets.apps", "configmaps", "clusterroles.rbac.authorization.k8s.io", "serviceaccounts"):
        assert what in outcome.message
    assert "rdma-fabric-push" in outcome.message
    assert "rdma_fabric_allow_teardown: true" in outcome.message
    assert set(outcome.counts) == {"localhost"}
    assert fleet.changed() == list(fleet.names)


@pytest.mark.hosts("one", "two")
def test_the_commands_of_the_guide_run(fleet: Fleet, bring: Bring) -> None:
    """As they are written, with this fleet for its hosts: a look, one host only, and all."""
    bring()
    text = guide("guide-teardown.md")
    commands = [shlex.split(line, comments=True) for line in text.splitlines() if line.startswith("ansible-playbook ")]
    assert [words[1:4] for words in commands] == [["rdma.fabric.teardown", "-i", "hosts.yml"]] * 3

    def follow(number: int) -> str:
        words = [word.replace("gpu-01", "one") for word in commands[number][4:]]
        return " ".join(fleet.run(*words, playbook="teardown", **CLUSTER).succeeded().output.split())

    before, mark = everything(fleet.api), fleet.cluster.audit.mark()
    said = follow(0)
    assert stored_writes(fleet.cluster.audit, mark) == []
    assert (fleet.changed(), fleet.cordoned(), fleet.holders()) == (list(fleet.names), [], [])
    assert "will need the consent rdma_fabric_allow_teardown: true" in said
    assert f"-pod {fleet.namespace}/job-{fleet.nodes['two']}" in said
    assert "kube-multus-ds" in said
    assert LIMITS in said

    mark = fleet.cluster.audit.mark()
    assert "the cluster objects stay, as hosts that the limit leaves out need them: two" in follow(1)
    assert fleet.changed() == ["two"]
    assert fleet.interrupted(mark) == [("one", "taken"), ("one", "uncordoned")]
    assert difference(fleet, before) == set()

    follow(2)
    assert fleet.changed() == []
    assert f"DaemonSet {fleet.namespace}/kube-multus-ds" not in everything(fleet.api)
    for line in (line for line in text.splitlines() if line.startswith("kubectl ")):
        words = [word.replace("nvidia-network-operator", fleet.namespace) for word in shlex.split(line, comments=True)]
        fleet.cluster.kubectl(*words[1:])
