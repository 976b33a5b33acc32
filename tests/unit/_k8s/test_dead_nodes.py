# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodes that are not Ready lack is not waited for; what fails on the others is."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.batch import run
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import (
    BatchError,
    BatchRequest,
    BatchResult,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.dead_nodes import (
    dead_node_notices,
    dead_nodes,
    node_of,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import Key
from ansible_collections.rdma.fabric.tests.unit._k8s.batch_cases import wave
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import (
    FakeServer,
    FakeTime,
    connect,
    daemon_set,
    failure,
)

Json = dict[str, Any]
NODES = ("a", "b", "c", "d")
RULE = {
    "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
    "kind": "NodeFeatureRule",
    "metadata": {"name": "nics", "namespace": "ns"},
    "spec": {"rules": []},
}
NEXT_STEP = (
    "which may not run, or be of an old version; bring these nodes back or remove them from the cluster; then run again"
)


def body(kind: str, name: str, *, ready: bool, **metadata: Any) -> Json:
    conditions = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "status": {"conditions": conditions},
    }


def pod(node: str, *, owner: str = "d", ready: bool = True, version: int = 1, going: bool = False) -> Json:
    labels = {"app": owner, "pod-template-generation": str(version), "controller-revision-hash": f"hash-{version}"}
    metadata: Json = {"namespace": "ns", "labels": labels, "ownerReferences": [{"uid": f"{owner}-uid"}]}
    if going:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    made = body("Pod", f"{owner}-{node}-{version}", ready=ready, **metadata)
    return {**made, "spec": {"nodeName": node}}


def counts(desired: int, available: int, updated: int | None = None, misplaced: int = 0) -> Json:
    return {
        "desiredNumberScheduled": desired,
        "numberAvailable": available,
        "updatedNumberScheduled": desired if updated is None else updated,
        "numberMisscheduled": misplaced,
    }


def live(status: Json, *, generation: str = "1", on_delete: bool = False) -> Json:
    made = daemon_set("d")
    made["metadata"].update(uid="d-uid", annotations={"deprecated.daemonset.template.generation": generation})
    made["spec"]["updateStrategy"] = {"type": "OnDelete" if on_delete else "RollingUpdate"}
    return {**made, "status": status}


def lacking(daemon: Json, *pods: Json, dead: str) -> str:
    """Return the dead nodes where these alone are lacking."""
    found = dead_nodes(daemon, pods, {name: name not in dead for name in NODES})
    return "".join(found.names) if found.alone else ""


@pytest.mark.parametrize(
    ("pods", "status", "dead", "found"),
    [
        pytest.param([pod("a"), pod("b"), pod("c", ready=False)], counts(3, 2), "c", "c", id="one dead node"),
        pytest.param(
            [pod("a"), pod("b"), pod("c", ready=False), pod("d", ready=False)], counts(4, 2), "cd", "cd", id="two"
        ),
        pytest.param(
            [pod("a"), pod("b", ready=False), pod("c", ready=False)], counts(3, 1), "c", "", id="one fails elsewhere"
        ),
        pytest.param([pod("a"), pod("c", ready=False)], counts(3, 1), "c", "", id="one is missing elsewhere"),
        pytest.param([pod(name, ready=False) for name in "abc"], counts(3, 0), "abc", "", id="all nodes are dead"),
        pytest.param([pod("a"), pod("b"), pod("c", ready=False)], counts(3, 2), "", "", id="no node is dead"),
        pytest.param([pod("a"), pod("b"), pod("c", going=True)], counts(3, 2), "c", "c", id="its pod can't end"),
        pytest.param([pod("a"), pod("b", going=True), pod("c")], counts(3, 2), "c", "", id="one ends elsewhere"),
        pytest.param([pod("a"), pod("b"), pod("c", ready=False)], counts(3, 1), "c", "", id="not available for long"),
        pytest.param(
            [pod("a"), pod("b", ready=False), pod("c", ready=False)],
            counts(2, 1, misplaced=1),
            "c",
            "",
            id="the dead one is not to run it",
        ),
        pytest.param(
            [pod("a"), pod("b", owner="other"), pod("c", ready=False)], counts(3, 2), "c", "", id="of another owner"
        ),
        pytest.param([pod("a"), pod("gone"), pod("c", ready=False)], counts(3, 2), "c", "", id="its node is gone"),
    ],
)
def test_nodes_that_are_not_ready_excuse_a_daemon_set_only_where_they_are_all_it_lacks(
    pods: list[Json], status: Json, dead: str, found: str
) -> None:
    assert lacking(live(status), *pods, dead=dead) == found


def test_a_new_version_is_on_every_other_node() -> None:
    old_there = [pod("c", going=True), pod("b", version=2)]
    rolled, rolling = counts(3, 2, updated=2), counts(3, 2, updated=1)
    new = live(rolled, generation="2")
    assert lacking(new, pod("a", version=2), *old_there, dead="c") == "c"
    assert lacking(live(rolling, generation="2"), pod("a"), *old_there, dead="c") == ""
    new["metadata"]["annotations"] = {}
    assert lacking(new, pod("a", version=2), *old_there, dead="c") == ""


def test_pods_of_an_earlier_roll_of_the_same_template_are_of_the_new_version() -> None:
    kept = pod("a", version=1)
    made_anew = pod("b", version=3)
    made_anew["metadata"]["labels"]["controller-revision-hash"] = "hash-1"
    between = pod("c", version=2, going=True)
    assert lacking(live(counts(3, 2, updated=2), generation="3"), kept, made_anew, between, dead="c") == "c"


def test_who_deletes_its_pods_by_hand_is_asked_for_no_version() -> None:
    status = counts(3, 2, updated=0)
    pods = [pod("a"), pod("b"), pod("c", ready=False)]
    assert lacking(live(status, generation="2", on_delete=True), *pods, dead="c") == "c"
    assert lacking(live(status, generation="2"), *pods, dead="c") == ""


def test_a_pod_that_is_not_bound_yet_is_of_the_node_that_it_is_made_for() -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": ["c"]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    unbound = {**pod("c", ready=False), "spec": {"affinity": affinity}}
    assert node_of(unbound) == "c"
    assert node_of({"spec": {}}) == node_of({}) == ""
    assert lacking(live(counts(3, 2)), pod("a"), pod("b"), unbound, dead="c") == "c"


def test_one_notice_names_five_nodes_and_the_daemon_sets_that_lack_them() -> None:
    one, other, fine = (Key("apps/v1", "DaemonSet", "ns", name) for name in ("one", "other", "fine"))
    nodes = tuple(f"n{number}" for number in range(7))
    assert dead_node_notices({one: nodes, fine: (), other: nodes}) == [
        "not Ready: n0, n1, n2, n3, n4 and 2 more: the run did not wait there for pods of DaemonSet ns/one, DaemonSet"
        f" ns/other, {NEXT_STEP}"
    ]


class Cluster:
    """Three nodes, the last of them dead, with the pods of DaemonSets; ``failing`` are pods on live nodes."""

    def __init__(self, *failing: str, dead: str = "c") -> None:
        self.server, self.time = FakeServer(), FakeTime()
        self.failing, self.dead, self.updated = failing, dead, 3
        self.unlabelled: frozenset[str] = frozenset()
        for name in "abc":
            self.server.put("nodes", body("Node", name, ready=name not in dead))
        self.server.on_list = self.listed

    def listed(self, plural: str) -> None:
        """Do what the controllers have done by then."""
        for (kind, _namespace, name), found in list(self.server.objects.items()):
            if plural == kind == "daemonsets":
                pods = [pod(node, owner=name, ready=self.serves(name, node)) for node in "abc"]
                for each in pods:
                    each["metadata"]["ownerReferences"][0]["uid"] = found["metadata"]["uid"]
                    self.server.put("pods", each)
                available = sum(self.serves(name, node) for node in "abc")
                found["status"] = {
                    **counts(3, available, self.updated),
                    "observedGeneration": found["metadata"]["generation"],
                }
                if name in self.unlabelled:
                    found["status"].update(counts(0, 0))

    def serves(self, name: str, node: str) -> bool:
        return node not in self.dead and f"{name}-{node}" not in self.failing

    def apply(self, *names: str, **options: Any) -> BatchResult:
        return self.apply_objects(*map(daemon_set, names or ("d",)), **options)

    def apply_objects(self, *objects: Json, **options: Any) -> BatchResult:
        waves = [wave(*objects)]
        request = BatchRequest(waves=waves, set_name="web", inventory_namespace="ns", **options)
        return run(connect(self.server, self.time), request)

    def asked(self, plural: str) -> int:
        return sum(path.endswith(f"/{plural}") for _method, path, _query in self.server.requests)


def test_a_wait_for_a_dead_node_ends_with_a_notice_and_few_requests() -> None:
    cluster = Cluster()
    cluster.apply("d", "e")
    started, before = cluster.time.seconds, len(cluster.server.requests)
    result = cluster.apply("d", "e")
    assert [(row["ready"], row["reason"], row["desired"], row["available"]) for row in result.waits] == [
        (True, "", 3, 2)
    ] * 2
    assert result.notices == [
        f"not Ready: c: the run did not wait there for pods of DaemonSet ns/d, DaemonSet ns/e, {NEXT_STEP}"
    ]
    assert 10 <= cluster.time.seconds - started < 16
    sent = [path.rpartition("/")[2] for _method, path, _query in cluster.server.requests[before:]]
    assert (sent.count("nodes"), sent.count("pods"), sent.count("events")) == (1, 2, 0)


def test_while_a_node_is_dead_only_the_run_that_brings_the_labels_waits_for_them() -> None:
    cluster = Cluster()
    cluster.server.plurals["nodefeaturerules"] = "NodeFeatureRule"
    cluster.unlabelled = frozenset({"plugin"})
    cluster.failing = ("worker-a", "worker-b")
    listed = cluster.server.on_list

    def started(plural: str) -> None:
        cluster.failing = cluster.failing if cluster.time.seconds < 5 else ()
        listed(plural)

    cluster.server.on_list = started
    objects = [daemon_set("plugin"), daemon_set("worker"), RULE]
    first = cluster.apply_objects(*objects)
    took = cluster.time.seconds
    assert 5 + 10 + 30 <= took < 55
    again = cluster.apply_objects(*objects)
    assert 10 <= cluster.time.seconds - took < 16
    assert again.notices == first.notices and len(again.notices) == 2


def test_a_node_that_is_back_before_anything_is_looked_at_costs_no_request() -> None:
    cluster = Cluster()
    listed = cluster.server.on_list

    def back(plural: str) -> None:
        cluster.dead = "c" if cluster.time.seconds < 5 else ""
        listed(plural)

    cluster.server.on_list = back
    assert cluster.apply().notices == []
    assert cluster.asked("nodes") == 0


def test_a_pod_that_fails_on_a_live_node_fails_the_wait_as_ever() -> None:
    cluster = Cluster("d-b")
    with pytest.raises(BatchError, match=r"DaemonSet ns/d is not ready after .* s: 1 of 3 pods are available") as slow:
        cluster.apply("d", "e", wait_timeout=100.0)
    assert [row["ready"] for row in slow.value.result.waits] == [False, True]
    assert "DaemonSet ns/e is not ready" not in str(slow.value)
    assert 90 <= cluster.time.seconds <= 100
    # After 10 s, every half a minute from then on, and at the end.
    assert cluster.asked("nodes") <= 5


def test_a_roll_that_a_dead_node_may_hold_up_says_so_when_its_time_is_over() -> None:
    cluster = Cluster()
    cluster.updated = 0
    told = (
        "0 of 3 pods are of the new version; not Ready, which counts against maxUnavailable and may hold up the other"
    )
    with pytest.raises(BatchError, match=f"{told} nodes: c [(]fix"):
        cluster.apply(wait_timeout=60.0)


def test_where_every_node_is_dead_the_wait_fails() -> None:
    cluster = Cluster(dead="abc")
    with pytest.raises(BatchError, match="0 of 3 pods are available"):
        cluster.apply(wait_timeout=30.0)


def test_a_wait_too_short_to_look_twice_looks_when_its_time_is_over() -> None:
    cluster = Cluster()
    result = cluster.apply(wait_timeout=2.0)
    assert (result.waits[0]["ready"], len(result.notices)) == (True, 1)


def test_without_the_right_to_list_nodes_the_wait_fails_as_ever_and_asks_once() -> None:
    cluster = Cluster()
    cluster.server.intercept = lambda _number, _method, path: (
        failure(403, "Forbidden", "may not list nodes") if path.endswith("/nodes") else None
    )
    with pytest.raises(BatchError, match="2 of 3 pods are available") as slow:
        cluster.apply(wait_timeout=200.0)
    assert "may not list nodes" not in str(slow.value)
    assert cluster.asked("nodes") == 1


def test_what_is_ready_costs_no_request_about_nodes() -> None:
    cluster = Cluster(dead="")
    cluster.apply()
    result = cluster.apply()
    assert result.requests == {"list": 2, "patch": 0, "get": 0, "delete": 0}
    assert cluster.asked("nodes") == cluster.asked("pods") == 0
