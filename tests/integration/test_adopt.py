# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``rdma.fabric.adopt`` and ``rdma.fabric.release``: what an operator has made changes hands, and no pod is made anew.

The tests of the playbooks build on each other, in the file's order: the way of a cluster from the operator to here.
"""

from __future__ import annotations

import contextlib
import copy
import json
import shlex
import uuid
from itertools import count
from pathlib import Path
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.client import Client
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchError
from ansible_collections.rdma.fabric.tests.integration.batch_objects import (
    apply,
    apply_through,
    config_map,
    daemon_set,
    path_of,
    read,
    wave,
)
from ansible_collections.rdma.fabric.tests.integration.faulty_proxy import FaultyProxy
from ansible_collections.rdma.fabric.tests.integration.guides import blocks_of, guide
from ansible_collections.rdma.fabric.tests.integration.operated import (
    LABELS,
    MANAGER,
    NAMESPACE,
    Json,
    Operated,
    definition,
)
from ansible_collections.rdma.fabric.tests.integration.playbooks import Outcome, User, stored_writes
from ansible_collections.rdma.fabric.tests.integration.test_k8s_batch_faults import Faulty, Killed, Mortal
from ansible_collections.rdma.fabric.tests.lab.api import collection_path
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.programs import Programs
from ansible_collections.rdma.fabric.tests.sweeps import whole

SET = "rdma.fabric/set"
STATE = "nvidia.network-operator.state"
DRIVER = "DaemonSet mofed-ubuntu24.04-d57dd4984-ds"
# Not asked for here: the driver's container and its rights, as the driver is installed on the hosts.
STAY = {DRIVER, "ServiceAccount ofed-driver", "ClusterRole ofed-driver", "ClusterRoleBinding ofed-driver"}
GUIDE = guide("guide-adopt.md")
COMMANDS = [line for line in GUIDE.splitlines() if line.startswith(("ansible-playbook ", "kubectl "))]
# What ``site`` changes in templates of pods, each for a reason that docs/guide-adopt.md gives.
RESTARTED = {
    "doca-telemetry-service",
    "kube-multus-ds",
    "network-operator-sriov-device-plugin",
    "nic-configuration-daemon",
    "rdma-shared-dp-ds",
}


class Run:
    """The operator's cluster and who takes it over."""

    def __init__(self, operated: Operated, user: User) -> None:
        self.operated, self.user = operated, user

        (hosts,) = blocks_of(GUIDE)
        (user.here / "hosts.yml").write_text(hosts, encoding="utf-8")

    def printed(self, *words: str) -> None:
        """Run the only command of the guide that has these words; a playbook's outcome is that of ``play``."""
        (line,) = (line for line in COMMANDS if all(word in line for word in words))
        command, _arrow, file = line.partition(" > ")
        output = self.operated.cluster.kubectl(*shlex.split(command, comments=True)[1:])
        if file:
            (self.user.here / file).write_text(output, encoding="utf-8")

    def play(self, playbook: str, *arguments: str, **variables: Any) -> Outcome:
        """Run a playbook as the guide prints it."""
        words = ["ansible-playbook", f"rdma.fabric.{playbook}", "-i", "hosts.yml", *arguments]
        assert words in [shlex.split(line, comments=True) for line in COMMANDS]
        cluster = self.operated.cluster
        return self.user.run(
            playbook,
            *arguments,
            inventory="hosts.yml",
            variables=variables,
            cluster=cluster,
            kubeconfig=cluster.kubeconfig,
        )


@pytest.fixture(scope="module")
def cluster(lab_programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane in which nothing but these tests puts objects."""
    with ControlPlane(tmp_path_factory.mktemp("adopt"), programs=lab_programs) as running:
        yield running


@pytest.fixture(scope="module")
def run(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(Operated(cluster), User(tmp_path_factory.mktemp("adopt-user")))


def substance(objects: dict[str, Json]) -> dict[str, Json]:
    """Return what objects are for: all of them but status and metadata."""
    return {
        name: {key: body[key] for key in body if key not in ("metadata", "status")} for name, body in objects.items()
    }


@pytest.mark.first
def test_one_object_changes_hands_as_it_is(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    user, theirs = User(tmp_path), config_map(namespace, "devices", key="theirs")
    theirs["metadata"]["labels"] = {STATE: "state-x"}
    path = path_of(theirs)
    control_plane.api.call("POST", path.rpartition("/")[0], theirs, query={"fieldManager": MANAGER})
    (user.here / "ours.yaml").write_text(json.dumps(config_map(namespace, "devices")), encoding="utf-8")
    given = {"rdma_fabric_manifests": ["ours.yaml"], "rdma_fabric_namespace": namespace, "rdma_fabric_set": namespace}
    user.run("adopt", variables=given, cluster=control_plane).succeeded()
    live = control_plane.api.call("GET", path)
    assert (live["data"], live["metadata"]["labels"].get(SET)) == ({"key": "theirs"}, namespace)
    assert {entry["manager"] for entry in live["metadata"]["managedFields"]} == {"rdma-fabric"}


def test_an_operator_that_runs_is_named_and_nothing_is_changed(run: Run) -> None:
    run.printed("kubectl get nicclusterpolicies")
    run.play("preflight").succeeded()
    mark = run.operated.cluster.audit.mark()
    refused = run.play("adopt").refused()
    assert f"the operator {NAMESPACE}/network-operator runs and would take back what is adopted" in refused.message
    assert f"kubectl scale deployment --namespace={NAMESPACE} network-operator --replicas=0" in refused.message
    assert stored_writes(run.operated.cluster.audit, mark) == []


def test_site_does_not_take_it_by_force(run: Run) -> None:
    refused = run.play("site").refused()
    assert "is managed by the controller of NicClusterPolicy nic-cluster-policy" in refused.message
    assert "stop the operator and run rdma.fabric.adopt" in refused.message


def test_check_mode_shows_what_is_taken_over_and_what_stays(run: Run) -> None:
    run.printed("kubectl scale", " network-operator --replicas=0")
    mark = run.operated.cluster.audit.mark()
    outcome = run.play("adopt", "--check", "--diff").succeeded()
    assert f'-            "{STATE}": "state-multus-cni"' in outcome.output
    assert f'+            "{SET}": "rdma-fabric"' in outcome.output
    assert "not asked for here, so the NVIDIA Network Operator's still" in outcome.output
    assert "A host of the inventory was not read" not in outcome.output
    assert all(name.partition(" ")[2] in outcome.output for name in STAY)
    assert stored_writes(run.operated.cluster.audit, mark) == []


def test_objects_change_hands_as_they_are_and_no_pod_is_made_anew(run: Run) -> None:
    before, pods = run.operated.objects(), run.operated.pods()
    run.play("adopt").succeeded()
    after = run.operated.objects()
    assert substance(after) == substance(before)
    assert run.operated.pods() == pods
    for name, body in after.items():
        metadata = body["metadata"]
        ours = name not in STAY
        assert (SET in metadata.get("labels", {})) is ours, name
        assert (STATE in metadata.get("labels", {})) is not ours, name
        assert ("ownerReferences" in metadata) is not ours, name
        managers = {entry["manager"] for entry in metadata["managedFields"] if "subresource" not in entry}
        assert managers == {"rdma-fabric" if ours else MANAGER}, name


def test_a_second_run_changes_nothing(run: Run) -> None:
    mark = run.operated.cluster.audit.mark()
    outcome = run.play("adopt").succeeded()
    assert set(outcome.changed.values()) == {0}
    assert stored_writes(run.operated.cluster.audit, mark) == []


def test_what_was_released_stays_as_it_is_and_is_nobodys(run: Run) -> None:
    before, pods = run.operated.objects(), run.operated.pods()
    shown = run.play("release", "--check", "--diff").succeeded()
    assert shown.changed["localhost"] == 1
    assert run.operated.objects() == before
    run.play("release").succeeded()
    after = run.operated.objects()
    assert substance(after) == substance(before)
    assert run.operated.pods() == pods
    for name, body in after.items():
        assert SET not in body["metadata"].get("labels", {}), name
        assert "rdma-fabric" not in {entry.get("manager") for entry in body["metadata"].get("managedFields", [])}, name
    inventory = f"{collection_path('v1', 'configmaps', NAMESPACE)}/rdma-fabric-rdma-fabric"
    assert run.operated.api.request("GET", inventory).status == 404
    again = run.play("release").succeeded()
    assert again.changed["localhost"] == 0


def test_site_takes_over_what_is_nobodys_and_names_pods_that_it_makes_anew(run: Run) -> None:
    pods = run.operated.pods()
    shown = run.play("site", "--check", "--diff").succeeded()
    assert all(f'"name": "{name}"' in shown.output for name in RESTARTED)
    run.play("site", rdma_fabric_wait=False).succeeded()
    templates = {}
    for name, body in run.operated.objects().items():
        if name not in STAY and body["kind"] in ("DaemonSet", "Deployment"):
            templates[body["metadata"]["name"]] = body["metadata"]["generation"] > 1
    assert {name for name, changed in templates.items() if changed} >= RESTARTED
    kept = {name for name in pods if not any(name.startswith(each) for each in (*RESTARTED, "mofed"))}
    now = run.operated.pods()
    assert {name: pods[name] for name in kept} == {name: now.get(name) for name in kept}


def test_the_policy_goes_and_takes_nothing_of_ours_with_it(run: Run) -> None:
    run.operated.until_owners_are_known()
    run.printed("kubectl delete nicclusterpolicies")
    run.operated.until_nothing_is_owned()
    left = run.operated.objects()
    assert STAY.isdisjoint(left)
    assert all(SET in body["metadata"]["labels"] for body in left.values())
    assert run.operated.pools() == ["my-pool"]
    run.printed("kubectl scale", " network-operator --replicas=1")


def test_the_chart_goes_without_a_label_of_its_feature_discovery(run: Run) -> None:
    """That a master without that list leaves the labels alone was tried with nfd-master v0.17.3."""
    api, labels = run.operated.api, {"app.kubernetes.io/name": "node-feature-discovery"}
    listed = "nfd.node.kubernetes.io/feature-labels"
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "master", "image": "nfd"}]}}
    master = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "nfd-of-the-chart", "namespace": NAMESPACE, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    api.call("POST", path_of(master).rpartition("/")[0], master)
    run.operated.cluster.kubectl("annotate", "nodes", "--all", f"{listed}=pci-15b3.present")
    run.printed("kubectl scale", "--selector")
    assert api.call("GET", path_of(master))["spec"]["replicas"] == 0
    run.printed("kubectl annotate")
    for node in api.call("GET", collection_path("v1", "nodes"))["items"]:
        assert listed not in node["metadata"]["annotations"]
        assert LABELS.items() <= node["metadata"]["labels"].items()


def test_definitions_that_stay_the_operators_are_named(run: Run, cluster: ControlPlane) -> None:
    """With them everything of their kind is deleted, as with the operator's own definitions of pools."""
    run.printed("kubectl scale", " network-operator --replicas=0")
    body = definition("owned.example", "Thing", "things", "Cluster", "v1")
    body["metadata"]["labels"] = {STATE: "state-x"}
    cluster.api.call("POST", path_of(body).rpartition("/")[0], body)
    namespace = f"owned-{uuid.uuid4().hex[:8]}"
    cluster.create_namespace(namespace)
    adoptable = config_map(namespace, "theirs")
    adoptable["metadata"]["labels"] = {STATE: "state-x"}
    cluster.api.call("POST", path_of(adoptable).rpartition("/")[0], adoptable)
    result = apply(cluster.kubeconfig, namespace, wave(config_map(namespace, "theirs")), adopted=True, check=True)
    assert any("CustomResourceDefinition things.owned.example" in notice for notice in result.notices)
    cluster.api.call("DELETE", path_of(body))


class Owned:
    """Two objects of an operator in a namespace of their own, and one that it has besides."""

    def __init__(self, cluster: ControlPlane, namespace: str, owner: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.wanted = [wave(config_map(namespace, "devices")), wave(daemon_set(namespace, "plugin"))]
        reference = {
            "apiVersion": "mellanox.com/v1alpha1",
            "kind": "NicClusterPolicy",
            "name": namespace,
            "uid": owner,
            "controller": True,
        }
        self.bodies = []
        for body in (config_map(namespace, "devices", key="theirs"), daemon_set(namespace, "plugin", theirs="true")):
            metadata = {**body["metadata"], "ownerReferences": [reference], "annotations": {"theirs": "kept"}}
            metadata["labels"] = {**body["metadata"].get("labels", {}), STATE: "state-x"}
            self.bodies.append({**body, "metadata": metadata})

    def reset(self) -> None:
        for body in self.bodies:
            path = path_of(body)
            self.cluster.api.request("DELETE", path)
            self.cluster.api.call("POST", path.rpartition("/")[0], copy.deepcopy(body), query={"fieldManager": MANAGER})
        for version, plural in (("v1", "configmaps"), ("coordination.k8s.io/v1", "leases")):
            path = collection_path(version, plural, self.namespace)
            self.cluster.api.request("DELETE", f"{path}/rdma-fabric-{self.namespace}")

    def assert_converges(self) -> None:
        """One more run has taken over everything, as it is, and a push makes it what is wanted."""
        kubeconfig = self.cluster.kubeconfig
        lease = collection_path("coordination.k8s.io/v1", "leases", self.namespace)
        self.cluster.api.request("DELETE", f"{lease}/rdma-fabric-{self.namespace}")
        apply(kubeconfig, self.namespace, *self.wanted, adopted=True)
        assert not apply(kubeconfig, self.namespace, *self.wanted, adopted=True).changed
        for body in self.bodies:
            live = read(self.cluster.api, body)
            assert live is not None
            labels = live["metadata"]["labels"]
            assert (labels.get(SET), STATE in labels) == (self.namespace, False)
            assert "ownerReferences" not in live["metadata"]
            assert live["metadata"]["annotations"]["theirs"] == "kept"
            records = [entry for entry in live["metadata"]["managedFields"] if "subresource" not in entry]
            assert [(entry["manager"], entry["operation"]) for entry in records] == [("rdma-fabric", "Apply")]
        apply(kubeconfig, self.namespace, *self.wanted)
        for body in self.bodies:
            live = read(self.cluster.api, body)
            assert live is not None
            # What the operator had set and nobody wants has gone, as it is ours to take away.
            assert "theirs" not in live["metadata"].get("annotations", {})
            if live["kind"] == "DaemonSet":
                assert live["spec"]["template"]["spec"]["nodeSelector"] == {"rdma.fabric/none": "true"}


@pytest.fixture
def owned(run: Run, cluster: ControlPlane) -> Iterator[Owned]:
    run.printed("kubectl scale", " network-operator --replicas=0")
    name = f"owned-{uuid.uuid4().hex[:8]}"
    cluster.create_namespace(name)
    policy = {"apiVersion": "mellanox.com/v1alpha1", "kind": "NicClusterPolicy", "metadata": {"name": name}}
    path = collection_path("mellanox.com/v1alpha1", "nicclusterpolicies")
    owner = cluster.api.call("POST", path, policy)["metadata"]["uid"]
    yield Owned(cluster, name, owner)
    cluster.api.call("DELETE", f"{path}/{name}")
    cluster.delete_namespace(name)


def test_killed_at_every_request(owned: Owned, cluster: ControlPlane) -> None:
    number = 0
    while True:
        number += 1
        owned.reset()
        mortal = Mortal(Client({"kubeconfig": str(cluster.kubeconfig)}), number)
        with contextlib.suppress(Killed):
            apply_through(mortal, owned.namespace, *owned.wanted, adopted=True)
        owned.assert_converges()
        if mortal.left > 0:
            break
    assert number > 12


FAULTS = ("409", "end of stream", "reset after commit")


@pytest.mark.parametrize("fault", FAULTS)
def test_every_request_broken(owned: Owned, cluster: ControlPlane, fault: str) -> None:
    """By default each request by one of them."""
    with FaultyProxy(cluster) as proxy:
        faulty = Faulty(cluster, proxy)
        for number in count(1) if whole() else count(1 + FAULTS.index(fault), len(FAULTS)):
            owned.reset()
            plan = faulty.proxy.break_request(number, fault)
            with contextlib.suppress(BatchError):
                apply_through(faulty.sender(), owned.namespace, *owned.wanted, adopted=True)
            was_broken = plan.seen >= number
            faulty.proxy.break_request(0, "")
            owned.assert_converges()
            if not was_broken:
                break
    assert number > 12
