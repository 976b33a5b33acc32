# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drains on a real API server: budgets, finalizers, selectors, and pods of every kind, on KWOK nodes."""

from __future__ import annotations

import json
import threading
import time
from functools import partial
from typing import Any, Callable, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import ANNOTATION
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.pods import SKIP_LABEL
from ansible_collections.rdma.fabric.tests.lab.api import Api
from ansible_collections.rdma.fabric.tests.lab.audit import AuditLog
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import apply_nodes, delete_nodes, kwok_node
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

Json = dict[str, Any]
DEVICE = "rdma/drained"
HOLDER = {"limits": {DEVICE: "1"}, "requests": {DEVICE: "1"}}
FINALIZER = "example.com/held"
ENOUGH_SECONDS = 60.0


class Place:
    """One node of a test, its namespace, and what a test does there."""

    def __init__(self, api: Api, node: str, namespace: str) -> None:
        self.api, self.node, self.namespace = api, node, namespace
        self.alive = True
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.owner = self.own("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}})

    def own(self, plural: str, body: Json) -> Json:
        """Create an object and return the reference of a pod that it controls."""
        group = "api/v1" if body["apiVersion"] == "v1" else f"apis/{body['apiVersion']}"
        made = self.api.call("POST", f"/{group}/namespaces/{self.namespace}/{plural}", body)
        reference = {"apiVersion": body["apiVersion"], "kind": body["kind"], "controller": True}
        return {**reference, "name": made["metadata"]["name"], "uid": made["metadata"]["uid"]}

    def pod(self, name: str, *, owned: bool = True, holds: bool = True, spec: Json | None = None, **meta: Any) -> None:
        """Create a pod on the node, one that holds a device and has a controller unless told otherwise."""
        container = {"name": "c", "image": "registry.example/c:1", **({"resources": HOLDER} if holds else {})}
        owners = [self.owner] if owned else []
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "ownerReferences": owners, **meta},
            "spec": {"nodeName": self.node, "containers": [container], **(spec or {})},
        }
        self.api.call("POST", self.pods, body)
        if not self.alive:
            self.finish(name, "Running")
        self.until(lambda: self.live(name).get("status", {}).get("phase") == "Running")

    def live(self, name: str) -> Json:
        return self.api.request("GET", f"{self.pods}/{name}").body

    def is_there(self, name: str) -> bool:
        return self.api.request("GET", f"{self.pods}/{name}").status == 200

    def finish(self, name: str, phase: str) -> None:
        change = {"status": {"phase": phase}}
        content_type = "application/merge-patch+json"
        self.api.call("PATCH", f"{self.pods}/{name}/status", change, content_type=content_type)

    def change_pod(self, name: str, change: Json) -> None:
        self.api.call("PATCH", f"{self.pods}/{name}", change, content_type="application/merge-patch+json")

    def without_kubelet(self) -> None:
        """Go to a node whose pods nobody runs, reports or ends."""
        self.node, self.alive = f"{self.node}-dead", False
        self.api.call("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.node}})

    def end(self, name: str) -> None:
        """End a pod that is being deleted, as a kubelet does."""
        self.api.call("DELETE", f"{self.pods}/{name}", {"gracePeriodSeconds": 0})
        self.until(lambda: not self.is_there(name))

    def live_node(self) -> Json:
        return self.api.call("GET", f"/api/v1/nodes/{self.node}")

    def cordoned(self) -> bool:
        return bool(self.live_node()["spec"].get("unschedulable"))

    def mark(self) -> Json | None:
        text = self.live_node()["metadata"].get("annotations", {}).get(ANNOTATION)
        return None if text is None else dict(json.loads(text))

    def set_cordon(self, unschedulable: bool | None) -> None:
        change = {"spec": {"unschedulable": unschedulable}}
        path = f"/api/v1/nodes/{self.node}"
        self.api.call("PATCH", path, change, content_type="application/merge-patch+json")

    def budget(self, name: str, least: int) -> None:
        """Make a budget for all pods with the label app=budget and wait until the server counts them."""
        spec = {"minAvailable": least, "selector": {"matchLabels": {"app": "budget"}}}
        path = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets"
        body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}
        self.api.call("POST", path, body)
        pods = self.api.call("GET", self.pods, query={"labelSelector": "app=budget"})["items"]

        def counted() -> bool:
            status = self.api.call("GET", f"{path}/{name}").get("status", {})
            return bool(status.get("currentHealthy") == len(pods) and status.get("observedGeneration") == 1)

        self.until(counted)

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + ENOUGH_SECONDS
        while not condition():
            assert time.monotonic() < deadline, "it did not come to that"
            time.sleep(0.05)


def offer(api: Api, node: str, amount: str) -> None:
    """Let a node offer as many devices, as a device plugin does."""
    change = {"status": {"allocatable": {DEVICE: amount}, "capacity": {DEVICE: amount}}}
    api.call("PATCH", f"/api/v1/nodes/{node}/status", change, content_type="application/merge-patch+json")


@pytest.fixture
def place(control_plane: ControlPlane, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(control_plane.kubeconfig))
    node = f"{namespace}-node"
    apply_nodes(control_plane.api, [kwok_node(node, allocatable={DEVICE: "100"})])
    found = Place(control_plane.api, node, namespace)
    yield found
    for pod in found.api.call("GET", found.pods)["items"]:
        if pod["metadata"].get("finalizers"):
            found.change_pod(pod["metadata"]["name"], {"metadata": {"finalizers": None}})
    delete_nodes(control_plane.api, {node, found.node})


def drain(place: Place, *, check: bool = False, **arguments: Any) -> Json:
    return run_action("node_drain", {"node": place.node, "timeout": 120, **arguments}, check=check, diff=True)


def drained(place: Place, **arguments: Any) -> Json:
    result = drain(place, **arguments)
    assert not result.get("failed"), result
    return result


def refused(place: Place, **arguments: Any) -> str:
    result = drain(place, **arguments)
    assert result.get("failed"), result
    return str(result["msg"])


def actions(result: Json) -> dict[str, str]:
    return {row["name"]: row["action"] for row in result["pods"]}


def reason(result: Json, name: str) -> str:
    return str(next(row["reason"] for row in result["pods"] if row["name"] == name))


def test_pods_that_hold_devices_leave_and_the_node_is_given_back(place: Place, audit: AuditLog) -> None:
    place.pod("holder")
    place.pod("other", holds=False)
    mark = audit.mark()
    shown = drained(place, check=True)
    assert not place.cordoned()
    assert place.is_there("holder")
    first = drained(place, reason="new driver", run="r1")
    assert actions(shown) == actions(first) == {"holder": "evicted", "other": "stays"}
    assert (shown["changed"], first["changed"], first["cordoned"]) == (True, True, True)
    assert shown["diff"] == first["diff"]
    assert "pod " not in first["diff"]["after"].replace(f"pod {place.namespace}/other: stays", "")
    assert not place.is_there("holder")
    assert place.is_there("other")
    written = place.mark()
    assert written is not None
    assert (written["reason"], written["run"], written["unschedulable"]) == ("new driver", "r1", False)
    assert drained(place, reason="new driver", run="r1")["changed"] is False
    assert drained(place, state="uncordoned")["changed"] is True
    assert (place.cordoned(), place.mark()) == (False, None)
    assert drained(place, state="uncordoned")["changed"] is False
    verbs = {request.verb for request in audit.requests(mark, user="rdma-fabric-admin") if request.resource == "pods"}
    assert "delete" not in verbs


def test_a_secondary_network_and_a_verbs_device_of_the_node_count(place: Place) -> None:
    place.pod("network", holds=False, annotations={"k8s.v1.cni.cncf.io/networks": "rail0"})
    volume = {"name": "verbs", "hostPath": {"path": "/dev/infiniband"}}
    place.pod("verbs", holds=False, spec={"volumes": [volume]})
    assert actions(drained(place)) == {"network": "evicted", "verbs": "evicted"}


def test_every_pod_leaves_where_all_are_asked_for(place: Place) -> None:
    place.pod("other", holds=False)
    assert actions(drained(place, pods="all")) == {"other": "evicted"}


def test_a_pod_selector_is_the_servers(place: Place) -> None:
    place.pod("train", labels={"job": "train"})
    place.pod("serve", labels={"job": "serve"})
    result = drained(place, pod_selector="job in (train),job!=serve")
    assert actions(result) == {"train": "evicted", "serve": "stays"}
    assert "selector" in reason(result, "serve")
    assert "unable to parse" in refused(place, pod_selector="job in (")


def test_the_operators_skip_label_keeps_a_pod(place: Place) -> None:
    place.pod("kept", labels={SKIP_LABEL: "true"})
    assert actions(drained(place, pods="all", force=True)) == {"kept": "stays"}


def test_a_static_pod_stays(place: Place) -> None:
    place.pod("static", owned=False, annotations={"kubernetes.io/config.mirror": "hash"})
    assert actions(drained(place, pods="all", force=True)) == {"static": "stays"}


def test_a_pod_of_a_daemon_set_stays(place: Place) -> None:
    labels = {"app": "plugin"}
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": place.node},
            "containers": [{"name": "c", "image": "registry.example/c:1", "resources": HOLDER}],
        },
    }
    spec = {"selector": {"matchLabels": labels}, "template": template}
    place.own("daemonsets", {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "ds"}, "spec": spec})
    listed = {"labelSelector": "app=plugin", "fieldSelector": "status.phase=Running"}
    place.until(lambda: bool(place.api.call("GET", place.pods, query=listed)["items"]))
    result = drained(place, force=True)
    assert [row["action"] for row in result["pods"]] == ["stays"]
    assert "DaemonSet ds" in result["pods"][0]["reason"]


def test_all_pods_that_forbid_a_drain_are_named_before_the_node_is_cordoned(place: Place) -> None:
    place.pod("unmanaged", owned=False)
    place.pod("scratch", spec={"volumes": [{"name": "scratch", "emptyDir": {}}]})
    place.pod("holder")
    message = refused(place)
    assert f"pod {place.namespace}/unmanaged on node {place.node}: it has no controller" in message
    assert f"pod {place.namespace}/scratch on node {place.node}: the data in its emptyDir" in message
    assert "force: true" in message
    assert "delete_empty_dir: true" in message
    assert refused(place, check=True) == message
    assert (place.cordoned(), place.mark(), place.is_there("holder")) == (False, None, True)


def test_an_unmanaged_pod_leaves_by_force(place: Place) -> None:
    place.pod("unmanaged", owned=False)
    assert actions(drained(place, force=True)) == {"unmanaged": "evicted"}


def test_a_pod_with_an_empty_dir_leaves_where_its_data_may_be_lost(place: Place) -> None:
    place.pod("scratch", spec={"volumes": [{"name": "scratch", "emptyDir": {}}]})
    assert "emptyDir" in refused(place, force=True)
    assert actions(drained(place, delete_empty_dir=True)) == {"scratch": "evicted"}


def test_a_finished_pod_stays_unless_all_have_to_leave(place: Place) -> None:
    place.pod("done", owned=False)
    place.finish("done", "Succeeded")
    assert actions(drained(place)) == {"done": "stays"}
    assert actions(drained(place, pods="all")) == {"done": "evicted"}


def test_a_budget_is_waited_for_until_it_allows(place: Place, control_plane: ControlPlane, audit: AuditLog) -> None:
    place.pod("one", labels={"app": "budget"})
    place.budget("one-at-least", 1)
    shown = drained(place, check=True)
    assert "one-at-least needs 1 healthy pods and has 1 currently" in shown["pods"][0]["blocked"]
    mark = audit.mark()
    other = Api.from_kubeconfig(control_plane.kubeconfig)
    path = f"/apis/policy/v1/namespaces/{place.namespace}/poddisruptionbudgets/one-at-least"

    def evictions(log: AuditLog) -> list[int]:
        return [request.code for request in log.requests(mark) if request.subresource == "eviction"]

    def allow_after_a_refusal() -> None:
        theirs = AuditLog(audit.path, partial(other.request, "GET"))
        place.until(lambda: bool(evictions(theirs)))
        other.call("PATCH", path, {"spec": {"minAvailable": 0}}, content_type="application/merge-patch+json")

    somebody = threading.Thread(target=allow_after_a_refusal)
    somebody.start()
    try:
        assert actions(drained(place)) == {"one": "evicted"}
    finally:
        somebody.join()
        other.close()
    codes = evictions(audit)
    assert (codes[0], codes[-1]) == (429, 201)


def test_a_budget_that_never_allows_ends_at_the_limit(place: Place) -> None:
    place.pod("one", labels={"app": "budget"})
    place.pod("two")
    place.budget("all", 1)
    result = drain(place, timeout=3)
    assert result["failed"] is True
    assert f"pod {place.namespace}/one has not left node {place.node} within" in result["msg"]
    assert "disruption budget all needs 1 healthy pods" in result["msg"]
    assert "It stays cordoned: run again, or give it back with state: uncordoned" in result["msg"]
    assert (result["changed"], place.cordoned()) == (True, True)
    place.until(lambda: not place.is_there("two"))
    assert place.is_there("one")


def test_two_budgets_over_one_pod_are_told_at_once(place: Place) -> None:
    place.pod("one", labels={"app": "budget"})
    place.budget("first", 0)
    place.budget("second", 0)
    started = time.monotonic()
    message = refused(place, timeout=0)
    assert "more than one PodDisruptionBudget" in message
    assert "delete it by hand" in message
    assert time.monotonic() - started < ENOUGH_SECONDS


def test_a_pod_that_never_ends_is_named_at_the_limit_and_the_next_run_converges(place: Place) -> None:
    place.without_kubelet()
    place.pod("running")
    message = refused(place, timeout=2)
    assert f"pod {place.namespace}/running has not left node {place.node} within" in message
    assert "look at the kubelet of the node, then run again" in message
    again = refused(place, timeout=2)
    assert "the kubelet has not reported its end" in again
    place.end("running")
    assert drained(place)["changed"] is False
    assert "it is not Ready" in refused(place, state="uncordoned", timeout=2)
    assert place.cordoned()
    drained(place, state="uncordoned", wait=False)
    assert not place.cordoned()


def test_a_node_is_given_back_when_it_offers_its_devices_again(place: Place, control_plane: ControlPlane) -> None:
    drained(place)
    offer(place.api, place.node, "0")
    result = drain(place, state="uncordoned", timeout=2)
    assert result["missing"] == [f"it offers none of {DEVICE}, as it did before"]
    assert "It stays cordoned: look at its kubelet and device plugins" in result["msg"]
    assert place.cordoned()
    drained(place, state="uncordoned", check=True)
    other = Api.from_kubeconfig(control_plane.kubeconfig)
    timer = threading.Timer(1.0, offer, [other, place.node, "4"])
    timer.start()
    try:
        drained(place, state="uncordoned")
    finally:
        timer.join()
        other.close()
    assert not place.cordoned()


def test_a_node_that_could_be_given_back_stays_cordoned_where_only_that_is_asked_for(place: Place) -> None:
    drained(place)
    offer(place.api, place.node, "0")
    assert drain(place, state="ready", timeout=2)["missing"] == [f"it offers none of {DEVICE}, as it did before"]
    offer(place.api, place.node, "4")
    result = drained(place, state="ready")
    assert (result["changed"], result["cordoned"], place.cordoned()) == (False, True, True)
    drained(place, state="uncordoned")
    assert drained(place, state="ready")["cordoned"] is False


def test_a_finalizer_that_keeps_a_pod_is_named(place: Place) -> None:
    place.without_kubelet()
    place.pod("held", finalizers=[FINALIZER])
    message = refused(place, timeout=2)
    assert f"pod {place.namespace}/held has not left node {place.node}" in message
    assert f"finalizers {FINALIZER}" in message
    place.change_pod("held", {"metadata": {"finalizers": None}})
    place.end("held")
    assert drained(place)["changed"] is False


def test_a_node_that_somebody_else_cordoned_stays_cordoned_and_is_named(place: Place) -> None:
    place.set_cordon(True)
    place.pod("holder")
    result = drained(place)
    assert actions(result) == {"holder": "evicted"}
    assert "somebody else has cordoned" in result["notices"][0]
    given_back = drained(place, state="uncordoned")
    assert "it stays so" in given_back["notices"][0]
    assert (place.cordoned(), place.mark(), given_back["cordoned"]) == (True, None, True)
    left = drained(place, state="uncordoned")
    assert left["changed"] is False
    assert place.node in left["notices"][0]


def test_what_a_dead_run_left_is_healed_by_any_other(place: Place) -> None:
    assert drained(place, state="cordoned", run="dead", reason="kernel")["changed"] is True
    assert drained(place, state="cordoned", run="dead", reason="kernel")["changed"] is False
    place.pod("holder")
    result = drained(place, run="next")
    assert "run dead" in result["notices"][0]
    assert actions(result) == {"holder": "evicted"}
    kept = drained(place, state="uncordoned", run="next")
    assert (kept["changed"], place.cordoned()) == (False, True)
    assert "run dead" in kept["notices"][0]
    drained(place, state="uncordoned")
    assert (place.cordoned(), place.mark()) == (False, None)


def test_a_cordon_alone_leaves_the_pods(place: Place) -> None:
    place.pod("holder")
    result = drained(place, state="cordoned")
    assert (result["pods"], place.cordoned(), place.is_there("holder")) == ([], True, True)


def test_jobs_are_waited_for_on_the_cordoned_node_and_evicted_at_the_limit(place: Place) -> None:
    place.pod("job", labels={"app": "train"})
    result = drained(place, wait_for="app=train", wait_timeout=1, state="cordoned")
    assert result["notices"] == [f"node {place.node}: jobs that have not ended within 1 s: {place.namespace}/job"]
    assert (place.cordoned(), place.is_there("job")) == (True, True)
    assert drained(place, wait_for="app=other")["notices"] == []
    assert not place.is_there("job")
    place.pod("done", labels={"app": "train"})
    place.finish("done", "Succeeded")
    assert drained(place, wait_for="app=train", wait_timeout=0)["notices"] == []


def test_a_controller_that_puts_its_pods_back_on_the_node_ends_the_drain(place: Place) -> None:
    labels = {"app": "pinned"}
    container = {"name": "c", "image": "registry.example/c:1", "resources": HOLDER}
    template = {"metadata": {"labels": labels}, "spec": {"nodeName": place.node, "containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    place.own("replicasets", {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "rs"}, "spec": spec})
    place.until(lambda: bool(place.api.call("GET", place.pods, query={"labelSelector": "app=pinned"})["items"]))
    message = refused(place, timeout=0)
    assert "ReplicaSet rs puts its pods on the node again and again" in message
    assert place.cordoned()


def test_a_node_that_is_not_there_is_named(place: Place) -> None:
    message = str(run_action("node_drain", {"node": "not-there"})["msg"])
    assert message == "there is no node not-there: give it as `kubectl get nodes` names it"


def test_a_user_without_the_right_to_evict_is_told_it(place: Place, control_plane: ControlPlane) -> None:
    place.pod("holder")
    user = f"drainer-{place.namespace}"
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    ]
    group = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": user},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": user},
        "subjects": [{"kind": "User", "name": user}],
    }
    place.api.call("POST", f"/apis/{group}/v1/clusterroles", role)
    place.api.call("POST", f"/apis/{group}/v1/clusterrolebindings", binding)
    try:
        kubeconfig = str(control_plane.client_kubeconfig(user))
        message = refused(place, kubeconfig=kubeconfig)
    finally:
        place.api.call("DELETE", f"/apis/{group}/v1/clusterrolebindings/{user}")
        place.api.call("DELETE", f"/apis/{group}/v1/clusterroles/{user}")
    assert "pods/eviction" in message
    assert "grant the user this verb" in message
