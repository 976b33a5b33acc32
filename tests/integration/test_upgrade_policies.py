# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each field of ``ofedDriver.upgradePolicy`` in an upgrade of real nodes, and the policies of upstream's examples.

Every host has a NicNodePolicy of its own, so one run is about all of them. It is enough to look at what pods would
become, as the drain of each kind of pod is in test_node_drain_pods.py.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.schema import Field
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.models import OFED_DRIVER
from ansible_collections.rdma.fabric.tests.integration.draining import Place, actions, drained, refused
from ansible_collections.rdma.fabric.tests.integration.playbooks import SEEDS, Json, Outcome, stored_writes
from ansible_collections.rdma.fabric.tests.integration.upgrading import DEVICE, Fleet
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import NIC_LABEL, apply_nodes, delete_nodes, kwok_node
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action
from tools.checkout import CHECKOUT
from tools.fleet import RECORDINGS, SUFFIX

LABEL = "example.com/policy"
IMAGE = {"image": "doca-driver", "repository": "nvcr.io/nvidia/mellanox", "version": "24.07-0.6.1.0-0"}
FIXTURES = CHECKOUT / "tests" / "fixtures"


@dataclass(frozen=True)
class Pod:
    """A pod on a node; ``owned`` by a controller, and holding a device, unless told otherwise."""

    name: str
    owned: bool = True
    holds: bool = True
    empty_dir: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)


OWNED = Pod("owned")
UNMANAGED = Pod("unmanaged", owned=False)
EMPTY_DIR = Pod("empty-dir", empty_dir=True)
SELECTED = Pod("selected", labels={"app": "a"})
NEEDED = Pod("needed", labels={"app": "needed"})
JOB = Pod("job", holds=False, labels={"job": "a"})


@dataclass(frozen=True)
class Case:
    """A policy, the pods on the node of its host, and what becomes of them.

    ``evicts`` and ``stays`` name pods, ``forbids`` is why the drain is refused while nothing is done, ``said`` is told
    in the run that drains.
    """

    policy: Json
    pods: Sequence[Pod]
    evicts: Sequence[Pod] = ()
    stays: Sequence[Pod] = ()
    forbids: str = ""
    said: str = ""


def with_jobs(**jobs: Any) -> Json:
    """Return a policy that waits for pods."""
    return {"waitForCompletion": {"podSelector": "job=a", **jobs}}


# What differs from the first one is one field, or the same field with two values.
CASES = {
    "defaults": Case({}, [OWNED, JOB], evicts=[OWNED], stays=[JOB]),
    "drain.enable": Case({"drain": {"enable": False}}, [OWNED, UNMANAGED], stays=[OWNED, UNMANAGED]),
    "drain.force": Case({"drain": {"force": True}}, [OWNED, UNMANAGED], evicts=[OWNED, UNMANAGED]),
    "drain.force not": Case({}, [UNMANAGED], forbids="it has no controller"),
    "drain.deleteEmptyDir": Case({"drain": {"deleteEmptyDir": True}}, [EMPTY_DIR], evicts=[EMPTY_DIR]),
    "drain.deleteEmptyDir not": Case({}, [EMPTY_DIR], forbids="the data in its emptyDir volumes would be lost"),
    "drain.podSelector": Case({"drain": {"podSelector": "app=a"}}, [SELECTED, OWNED], evicts=[SELECTED], stays=[OWNED]),
    "waitForCompletion.podSelector": Case(
        with_jobs(timeoutSeconds=1), [JOB], stays=[JOB], said="jobs that have not ended within 1 s: {namespace}/job-"
    ),
    "waitForCompletion.timeoutSeconds": Case(
        with_jobs(timeoutSeconds=2), [JOB], stays=[JOB], said="jobs that have not ended within 2 s: {namespace}/job-"
    ),
    "maxParallelUpgrades": Case({"maxParallelUpgrades": 2}, [OWNED], evicts=[OWNED]),
}
# These have tests of their own.
OTHERS = {"drain.timeoutSeconds", "autoUpgrade", "safeLoad"}
# By the policy of each file: the pods that leave, and those that forbid the drain.
EXAMPLES = {
    FIXTURES / "operator" / "policy.yaml": ([OWNED, UNMANAGED, EMPTY_DIR], []),
    FIXTURES / "examples" / "ipoib-rdma-shared.yaml": ([OWNED], [UNMANAGED, EMPTY_DIR]),
    SEEDS / "guide" / "nic-cluster-policy.yaml": ([OWNED, UNMANAGED], [EMPTY_DIR]),
}


class Policies(Fleet):
    """Hosts that each have a node, a policy and pods of their own."""

    def __init__(self, cluster: ControlPlane, namespace: str, folder: Path, cases: Mapping[str, Case]) -> None:
        self.cases = {f"host-{number:02}": case for number, case in enumerate(cases.values())}
        self.host_of = dict(zip(cases, self.cases))
        self.names = tuple(self.cases)
        labels = {**NIC_LABEL, LABEL: "{{ inventory_hostname }}"}
        self._manifests = folder / "policies.yaml"
        self._inventory_of(cluster, namespace, folder, rdma_fabric_node_labels=labels)
        policies = [node_policy(host, {**IMAGE, "upgradePolicy": case.policy}) for host, case in self.cases.items()]
        self._manifests.write_text(yaml.safe_dump_all(policies), encoding="utf-8")
        apply_nodes(self.api, [kwok_node(node, allocatable={DEVICE: "8"}) for node in self.nodes.values()])
        owner = self.api.call(
            "POST",
            f"/api/v1/namespaces/{namespace}/configmaps",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}},
        )["metadata"]
        self._owner = {"apiVersion": "v1", "kind": "ConfigMap", "controller": True}
        self._owner.update(name=owner["name"], uid=owner["uid"])
        for host, case in self.cases.items():
            for pod in case.pods:
                self.place(host, pod)

    def place(self, host: str, pod: Pod) -> None:
        """Put a pod on the node of a host."""
        amount = {DEVICE: "1"} if pod.holds else {}
        container = {"name": "c", "image": "registry.example/c:1", "resources": {"limits": amount, "requests": amount}}
        metadata = {"name": f"{pod.name}-{host}", "labels": dict(pod.labels)}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**metadata, "ownerReferences": [self._owner] if pod.owned else []},
            "spec": {
                "nodeName": self.nodes[host],
                "containers": [container],
                "volumes": [{"name": "v", "emptyDir": {}}] if pod.empty_dir else [],
            },
        }
        self.api.call("POST", f"/api/v1/namespaces/{self.namespace}/pods", body)

    def run(self, *arguments: str, **variables: Any) -> Outcome:
        """Run upgrade with the policies and nothing else for the cluster."""
        of_the_run: dict[str, Any] = {
            "rdma_fabric_manifests": [str(self._manifests)],
            "rdma_fabric_helm_set": ["nfd.enabled=false"],
            "rdma_fabric_set": self.namespace,
        }
        return super().run(*arguments, **of_the_run, **variables)

    def look(self, *arguments: str, **variables: Any) -> Outcome:
        """Run upgrade in check mode, which must not change anything."""
        mark = self.cluster.audit.mark()
        outcome = self.run("--check", "--diff", *arguments, **variables)
        assert (self.changed(), stored_writes(self.cluster.audit, mark)) == ([], [])
        return outcome

    def budget(self, pod: Pod) -> None:
        """Have a budget refuse the eviction of a pod."""
        path = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets"
        spec = {"minAvailable": 1, "selector": {"matchLabels": dict(pod.labels)}}
        body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "all"}, "spec": spec}
        self.api.call("POST", path, body)

    def left(self) -> set[str]:
        """Return the names of the pods that are there."""
        items = self.api.call("GET", f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return {pod["metadata"]["name"] for pod in items}

    def wrong_in_the_look(self, outcome: Outcome) -> list[str]:
        """Return of which hosts a look did not say what leaves, or what forbids the drain."""
        wrong = []
        for name, host in self.host_of.items():
            case, message = self.cases[host], outcome.failures.get(host, {}).get("msg", "")
            missing = [
                pod.name for pod in case.evicts if f"-pod {self.namespace}/{pod.name}-{host}\n" not in outcome.output
            ]
            leaving = [pod.name for pod in case.stays if f"-pod {self.namespace}/{pod.name}-{host}\n" in outcome.output]
            if missing or leaving or case.forbids not in message or bool(case.forbids) != bool(message):
                wrong.append(f"{name}: not to leave: {missing}, to leave: {leaving}, refused: {message!r}")
        return wrong

    def wrong_after(self, outcome: Outcome, names: Sequence[str]) -> list[str]:
        """Return of which of these hosts a run did not come to what their policy says."""
        there, wrong = self.left(), []
        said = " ".join(outcome.output.split())
        for name in names:
            host = self.host_of[name]
            case = self.cases[host]
            evicted = [pod.name for pod in case.pods if f"{pod.name}-{host}" not in there]
            if evicted != [pod.name for pod in case.pods if pod in case.evicts] or not self.hosts[host].has(
                self.limits_file
            ):
                wrong.append(f"{name}: evicted {evicted}")
            if case.said.format(namespace=self.namespace) not in said:
                wrong.append(f"{name}: {case.said!r} is not said")
        return wrong


def node_policy(host: str, driver: Json) -> Json:
    """Return a policy for the node of one host."""
    return {
        "apiVersion": "mellanox.com/v1alpha1",
        "kind": "NicNodePolicy",
        "metadata": {"name": host},
        "spec": {"ofedDriver": driver, "nodeSelector": {LABEL: host}},
    }


def leaves(fields: Mapping[str, Field], path: str = "") -> Iterator[str]:
    """Yield the paths of the fields that hold values."""
    for name, each in fields.items():
        if each.fields:
            yield from leaves(each.fields, f"{path}{name}.")
        else:
            yield f"{path}{name}"


@pytest.fixture
def fleet_of(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> Iterator[Callable[[Mapping[str, Case]], Policies]]:
    """Make the hosts, nodes and pods of some cases."""
    made: list[Policies] = []

    def make(cases: Mapping[str, Case]) -> Policies:
        made.append(Policies(control_plane, namespace, tmp_path, cases))
        return made[-1]

    yield make
    for each in made:
        delete_nodes(control_plane.api, each.nodes.values())


def test_each_field_has_its_effect_or_a_notice(fleet_of: Callable[[Mapping[str, Case]], Policies]) -> None:
    upgrade_policy = (OFED_DRIVER.fields or {})["upgradePolicy"]
    assert {name.partition(" ")[0] for name in CASES} | OTHERS == {"defaults", *leaves(upgrade_policy.fields or {})}
    unlimited = {"autoUpgrade": True, "maxParallelUpgrades": 0}
    cases = {name: Case({**unlimited, **case.policy}, *tuple(vars(case).values())[1:]) for name, case in CASES.items()}
    fleet = fleet_of(cases)

    look = fleet.look().refused()
    assert fleet.wrong_in_the_look(look) == []
    said = " ".join(look.output.split())
    assert "to be changed in turn, 2 nodes out of service at once: " in said
    assert said.count("autoUpgrade: lets a run upgrade drivers, and starts no run") == len(cases)

    # Nothing is waited for in a look.
    names = ["defaults", "waitForCompletion.podSelector", "waitForCompletion.timeoutSeconds"]
    outcome = fleet.run("--limit", ",".join(fleet.host_of[name] for name in names)).succeeded()
    assert fleet.wrong_after(outcome, names) == []
    assert (fleet.cordoned(), fleet.marked(), fleet.holders()) == ([], [], [])


def test_the_timeout_of_a_drain_ends_it_by_name(fleet_of: Callable[[Mapping[str, Case]], Policies]) -> None:
    policy = {"autoUpgrade": True, "drain": {"timeoutSeconds": 2}}
    fleet = fleet_of({"drain.timeoutSeconds": Case(policy, [NEEDED])})
    (host,) = fleet.names
    fleet.budget(NEEDED)
    message = fleet.run(rdma_fabric_drain_give_back=False).refused().failures[host]["msg"]
    seconds = re.findall(rf"/{NEEDED.name}-{host} has not left node {fleet.nodes[host]} within ([0-9]+) s", message)
    assert [int(each) <= 2 for each in seconds] == [True], message
    assert (fleet.changed(), fleet.holders()) == ([], [fleet.nodes[host]])
    assert fleet.cordoned() == fleet.marked() == [host]


def upgrade_policy_of(path: Path) -> Json:
    """Return what the policy of a file says of upgrades."""
    documents = [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each]
    (policy,) = [each for each in documents if each["kind"] == "NicClusterPolicy"]
    found: Json = policy["spec"]["ofedDriver"]["upgradePolicy"]
    return found


def test_every_example_of_upstream_is_tried() -> None:
    assert {path for path in FIXTURES.rglob("*.yaml") if "upgradePolicy:" in path.read_text(encoding="utf-8")} == set(
        EXAMPLES
    )


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_policies_of_upstreams_examples_mean_what_they_say(place: Place, path: Path) -> None:
    leave, forbid = EXAMPLES[path]
    driver = {**IMAGE, "upgradePolicy": upgrade_policy_of(path)}
    spec = run_action("fabric_input", {"nic_cluster_policy": {"ofedDriver": driver}})["spec"]
    (rollout,) = spec["rollouts"]
    assert rollout["parallel"] == 1

    def come(pod: Pod) -> None:
        place.pod(pod.name, owned=pod.owned, spec={"volumes": [{"name": "v", "emptyDir": {}}]} if pod.empty_dir else {})

    for pod in leave:
        come(pod)
    result = drained(place, check=True, **rollout["drain"])
    assert actions(result) == {pod.name: "evicted" for pod in leave}
    for pod in forbid:
        come(pod)
    if forbid:
        message = refused(place, check=True, **rollout["drain"])
        assert [pod.name for pod in forbid if f"{place.namespace}/{pod.name} on node" not in message] == []


def test_a_policy_without_automatic_upgrades_keeps_the_driver_and_names_the_consent(
    fleet_of: Callable[[Mapping[str, Case]], Policies],
) -> None:
    """Hosts that were recorded with another release of the driver."""
    policies = {
        "autoUpgrade": {"autoUpgrade": True},
        "not": {"autoUpgrade": False},
        "safeLoad": {"autoUpgrade": True, "safeLoad": True},
    }
    fleet = fleet_of({name: Case(policy, []) for name, policy in policies.items()})
    inventory = json.loads(fleet.inventory.read_text(encoding="utf-8"))
    recording = str(RECORDINGS / f"dgx-h100-01{SUFFIX}")
    inventory["rdma_fabric"]["hosts"] = {host: {"rdma_fabric_recording": recording} for host in fleet.names}
    fleet.inventory.write_text(json.dumps(inventory), encoding="utf-8")

    said = " ".join(fleet.look().succeeded().output.split())
    upgrade = "driver mlx5_core: upgrade DOCA-OFED 23.10-1.1.9 to DOCA-OFED 24.07-0.6.1.0"
    upgraded, kept = said.split("host-00,host-02 (2 hosts): ")[1].split("host-01: ")
    assert f"planned: {upgrade}" in upgraded
    assert f"needs consent: {upgrade}" in kept
    assert "allow it with rdma_fabric_allow_driver_upgrade: true - autoUpgrade of NicNodePolicy/host-01 is not" in kept
    assert "load DOCA-OFED" not in kept.split("PLAY [")[0]
    assert said.count("upgradePolicy.safeLoad: has rdma.fabric.site drain nodes, too") == 1


def test_a_share_of_nodes_is_asked_for_by_variable() -> None:
    driver = {**IMAGE, "upgradePolicy": {"autoUpgrade": True, "maxParallelUpgrades": "50%"}}
    (found,) = run_action("fabric_input", {"nic_cluster_policy": {"ofedDriver": driver}})["violations"]
    assert found["path"] == "ofedDriver.upgradePolicy.maxParallelUpgrades"
    assert "rdma_fabric_max_unavailable takes percentages" in found["hint"]
