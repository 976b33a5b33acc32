# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting ends when workloads are ready, says what it waits for meanwhile, and why in the end."""

from __future__ import annotations

from typing import Any, Callable

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Reply
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.batch import run
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import (
    BatchError,
    BatchRequest,
    BatchResult,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.diagnosis import event_reasons, pod_reasons
from ansible_collections.rdma.fabric.tests.unit._k8s.batch_cases import wave
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import (
    FakeServer,
    FakeTime,
    config_map,
    connect,
    daemon_set,
    failure,
    namespace_object,
)

READY = {"desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 2, "observedGeneration": 1}
PENDING = {**READY, "numberAvailable": 1}


class Controller:
    """Gives each DaemonSet its status when the time has come; ``said`` keeps the progress reports with their time."""

    def __init__(self, statuses: Callable[[str, float], dict[str, Any]]) -> None:
        self.server = FakeServer()
        self.time = FakeTime()
        self.said: list[tuple[float, str]] = []
        self.statuses = statuses
        self.server.on_list = self.listed

    def listed(self, plural: str) -> None:
        for (kind, _namespace, name), body in self.server.objects.items():
            if plural == kind == "daemonsets":
                body["status"] = self.statuses(name, self.time.seconds)

    def apply(self, *objects: Any, **options: Any) -> BatchResult:
        request = BatchRequest(
            waves=[wave(*objects)],
            set_name="web",
            inventory_namespace="ns",
            progress=lambda text: self.said.append((self.time.seconds, text)),
            **options,
        )
        return run(connect(self.server, self.time), request)

    def add_pod(self, owner: str, name: str = "", **status: Any) -> None:
        name = name or f"{owner}-pod"
        metadata = {"name": name, "namespace": "ns", "labels": {"app": owner}, "uid": f"{name}-uid"}
        self.server.put("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status})


def test_what_is_ready_already_costs_no_request() -> None:
    controller = Controller(lambda _name, _now: READY)
    controller.apply(daemon_set("d"))
    result = controller.apply(daemon_set("d"))
    assert result.requests == {"list": 2, "patch": 0, "get": 0, "delete": 0}
    assert result.waits == [
        {
            "kind": "DaemonSet",
            "namespace": "ns",
            "name": "d",
            "ready": True,
            "reason": "",
            "desired": 2,
            "available": 2,
            "seconds": 0.0,
        }
    ]


def test_each_workload_is_waited_for_with_one_list_per_round() -> None:
    controller = Controller(lambda name, now: READY if now >= (2 if name == "fast" else 30) else PENDING)
    result = controller.apply(daemon_set("slow"), daemon_set("fast"), config_map("c"))
    rows = {row["name"]: row for row in result.waits}
    assert [rows[name]["ready"] for name in ("slow", "fast")] == [True, True]
    assert 2 <= rows["fast"]["seconds"] < 5
    assert 30 <= rows["slow"]["seconds"] < 36
    rounds = len(controller.time.slept)
    # The nodes are listed once: for 10 s nothing has changed. So are inventories: the set has none.
    assert result.requests["list"] <= 3 + rounds + 2 * len(controller.said) + 1
    assert rounds < 15
    assert max(controller.time.slept) <= 5


def test_progress_is_told_at_least_every_fifteen_seconds_with_the_slowest_and_its_reason() -> None:
    controller = Controller(lambda name, now: READY if name == "fine" or now >= 100 else PENDING)
    waiting = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    controller.add_pod("slow", phase="Pending", containerStatuses=[waiting])
    controller.apply(daemon_set("slow"), daemon_set("fine"))
    times = [0.0, *(when for when, _text in controller.said)]
    assert max(later - earlier for earlier, later in zip(times, times[1:])) <= 15
    assert controller.said[0][1] == "1/2 ready, slowest: DaemonSet ns/slow 1/2: ImagePullBackOff: no such image"


def test_a_timeout_names_every_slow_workload_with_its_reason() -> None:
    controller = Controller(lambda name, _now: READY if name == "fine" else PENDING)
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no rdma/hca"}
    controller.add_pod("slow", phase="Pending", conditions=[unschedulable])
    with pytest.raises(BatchError, match="DaemonSet ns/slow is not ready after") as slow:
        controller.apply(daemon_set("slow"), daemon_set("fine"), wait_timeout=20.0)
    assert "1 of 2 pods are available; Unschedulable: no rdma/hca" in str(slow.value)
    assert "raise wait_timeout" in str(slow.value)
    assert "DaemonSet ns/fine" not in str(slow.value).partition("changed before")[0]
    assert [row["ready"] for row in slow.value.result.waits] == [False, True]
    assert slow.value.as_dict()["not_applied"] == []
    assert controller.time.seconds <= 20.0


def rolling(pods: int, seconds: float, stuck: float = 1e6) -> Controller:
    """A DaemonSet whose pods are replaced one after the other, each in so many seconds, until it is ``stuck``."""

    def status(_name: str, now: float) -> dict[str, Any]:
        updated = min(int(min(now, stuck) / seconds), pods)
        available = pods if updated == pods else pods - 1
        numbers = {"desiredNumberScheduled": pods, "updatedNumberScheduled": updated, "numberAvailable": available}
        return {**numbers, "observedGeneration": 1}

    return Controller(status)


def test_a_roll_that_goes_on_is_waited_for_longer_than_the_time_of_one_pod() -> None:
    controller = rolling(pods=20, seconds=50)
    result = controller.apply(daemon_set("plugin"), wait_timeout=60)
    assert result.waits[0]["ready"] is True
    assert 1000 <= controller.time.seconds < 1010


def test_a_roll_that_is_stuck_ends_when_its_time_is_over() -> None:
    controller = rolling(pods=20, seconds=50, stuck=499)
    with pytest.raises(BatchError, match="9 of 20 pods are of the new version"):
        controller.apply(daemon_set("plugin"), wait_timeout=60)
    assert 500 <= controller.time.seconds <= 515


def test_pods_that_come_and_go_are_no_progress() -> None:
    def status(_name: str, now: float) -> dict[str, Any]:
        return {
            **READY,
            "desiredNumberScheduled": 3,
            "updatedNumberScheduled": 3,
            "numberAvailable": 1 + int(now / 20) % 2,
        }

    controller = Controller(status)
    with pytest.raises(BatchError, match="of 3 pods are available"):
        controller.apply(daemon_set("plugin"), wait_timeout=60)
    assert controller.time.seconds < 90


def test_events_tell_where_pods_do_not() -> None:
    controller = Controller(lambda _name, _now: PENDING)
    controller.add_pod("slow", phase="Pending")
    event = {
        "metadata": {"name": "e", "namespace": "ns"},
        "type": "Warning",
        "reason": "FailedMount",
        "message": "no such\n  volume",
    }
    controller.server.put("events", event)
    with pytest.raises(BatchError, match="FailedMount: no such volume"):
        controller.apply(daemon_set("slow"), wait_timeout=1.0)


def test_a_pull_secret_that_is_not_there_is_told_before_what_the_registry_says() -> None:
    controller = Controller(lambda _name, _now: PENDING)
    waiting = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "401 Unauthorized"}}}
    controller.add_pod("slow", phase="Pending", containerStatuses=[waiting])
    message = "Unable to retrieve some image pull secrets (ngc); attempting to pull the image may not succeed."
    for reason, text in (("FailedToRetrieveImagePullSecret", message), ("Failed", "Error: ErrImagePull")):
        event = {"metadata": {"name": reason.lower(), "namespace": "ns"}, "type": "Warning", "reason": reason}
        controller.server.put("events", {**event, "message": text})
    with pytest.raises(BatchError) as slow:
        controller.apply(daemon_set("slow"), wait_timeout=1.0)
    told = f"FailedToRetrieveImagePullSecret: {message}; ImagePullBackOff: 401 Unauthorized ("
    assert f"available; {told}make the Secret ngc in the namespace" in str(slow.value)


def test_missing_rights_to_read_pods_do_not_hide_the_timeout() -> None:
    controller = Controller(lambda _name, _now: PENDING)
    controller.server.intercept = lambda _n, _m, path: (
        failure(403, "Forbidden", "may not list pods") if path.endswith("/pods") else None
    )
    with pytest.raises(BatchError, match=r"is not ready after .* the reason can't be read: .*may not list pods"):
        controller.apply(daemon_set("slow"), wait_timeout=1.0)


def test_a_workload_without_nodes_is_ready_with_a_notice() -> None:
    controller = Controller(lambda _name, _now: {"desiredNumberScheduled": 0, "observedGeneration": 1})
    result = controller.apply(daemon_set("d"))
    assert result.waits[0]["ready"]
    assert result.notices == ["DaemonSet ns/d runs on no node: its node selector nic=true matches none"]


def test_a_taint_is_told_in_place_of_a_selector_that_matches() -> None:
    controller = Controller(lambda _name, _now: {"desiredNumberScheduled": 0, "observedGeneration": 1})
    taint = {"key": "dedicated", "effect": "NoSchedule"}
    node = {"metadata": {"name": "a", "labels": {"nic": "true"}}, "spec": {"taints": [taint]}}
    controller.server.put("nodes", {"apiVersion": "v1", "kind": "Node", **node})
    first, second = controller.apply(daemon_set("d")).notices
    assert first == "DaemonSet ns/d runs on no node"
    assert second.startswith("a has the taint dedicated:NoSchedule") and "tolerations: [{key" in second


NO_NODE = {"desiredNumberScheduled": 0, "observedGeneration": 1}
RULE = {
    "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
    "kind": "NodeFeatureRule",
    "metadata": {"name": "nics", "namespace": "ns"},
    "spec": {"rules": []},
}


def labelling(labelled: float, available: float) -> Controller:
    """Give a cluster whose nodes are labelled some time after the worker that does so is ready, at 20 s."""

    def status(name: str, now: float) -> dict[str, Any]:
        if name == "worker":
            return READY if now >= 20 else PENDING
        if now < labelled:
            return NO_NODE
        return READY if now >= available else {**READY, "numberAvailable": 0}

    controller = Controller(status)
    controller.server.plurals["nodefeaturerules"] = "NodeFeatureRule"
    return controller


def test_nodes_that_are_labelled_once_the_labelling_program_runs_are_waited_for() -> None:
    controller = labelling(labelled=30, available=60)
    result = controller.apply(daemon_set("plugin"), daemon_set("worker"), RULE)
    plugin = next(row for row in result.waits if row["name"] == "plugin")
    assert (plugin["ready"], plugin["desired"], plugin["available"]) == (True, 2, 2)
    assert 60 <= plugin["seconds"] < 66
    assert result.notices == []
    settled = controller.time.seconds
    controller.apply(daemon_set("plugin"), daemon_set("worker"), RULE)
    assert controller.time.seconds == settled


def test_nodes_that_are_never_labelled_are_waited_for_half_a_minute_and_in_the_first_run_only() -> None:
    controller = labelling(labelled=1e6, available=1e6)
    result = controller.apply(daemon_set("plugin"), daemon_set("worker"), RULE)
    assert [row["ready"] for row in result.waits] == [True, True]
    assert result.notices == ["DaemonSet ns/plugin runs on no node: its node selector nic=true matches none"]
    assert 50 <= controller.time.seconds < 60
    settled = controller.time.seconds
    controller.apply(daemon_set("plugin"), daemon_set("worker"), RULE)
    assert controller.time.seconds == settled


def test_without_a_program_that_labels_nodes_nobody_waits_for_labels() -> None:
    controller = labelling(labelled=30, available=30)
    result = controller.apply(daemon_set("plugin"), daemon_set("worker"))
    assert 20 <= controller.time.seconds < 26
    assert len(result.notices) == 1


def test_pods_on_nodes_that_were_labelled_late_have_until_the_timeout_of_the_run() -> None:
    controller = labelling(labelled=30, available=1e6)
    with pytest.raises(BatchError, match="DaemonSet ns/plugin is not ready after") as slow:
        controller.apply(daemon_set("plugin"), daemon_set("worker"), RULE, wait_timeout=100.0)
    assert 90 <= controller.time.seconds <= 100
    assert "0 of 2 pods are available" in str(slow.value)


def test_a_new_generation_is_waited_for_though_the_old_one_was_ready() -> None:
    controller = Controller(lambda _name, now: {**READY, "observedGeneration": 2 if now > 3 else 1})
    assert controller.apply(daemon_set("d"), config_map("c"), wait=False).as_dict()["unwaited"] == 1
    result = controller.apply(daemon_set("d", image="registry.example/plugin:2"))
    assert result.waits[0]["seconds"] > 3


def test_a_workload_that_vanishes_meanwhile_is_not_ready() -> None:
    controller = Controller(lambda _name, _now: PENDING)

    def vanish(plural: str) -> None:
        if controller.time.seconds > 1:
            controller.server.objects.pop((plural, "ns", "d"), None)

    controller.server.on_list = vanish
    with pytest.raises(BatchError, match="it is gone"):
        controller.apply(daemon_set("d"), wait_timeout=5.0)


def test_check_mode_does_not_wait() -> None:
    controller = Controller(lambda _name, _now: PENDING)
    assert controller.apply(daemon_set("d"), check=True).waits == []
    assert controller.time.slept == []


def test_check_mode_shows_how_ready_workloads_are_that_exist_without_a_request_more() -> None:
    controller = Controller(lambda name, _now: READY if name == "d" else PENDING)
    controller.apply(daemon_set("d"), daemon_set("slow"), config_map("c"), wait=False)
    slept = list(controller.time.slept)
    result = controller.apply(daemon_set("d"), daemon_set("slow"), daemon_set("new"), config_map("c"), check=True)
    assert [row["name"] for row in result.waits] == ["d", "slow"]
    assert [row["ready"] for row in result.waits] == [True, False]
    assert result.failures == []
    # The namespace and the new object are looked at, to see whether somebody else has it already.
    assert result.requests["get"] == 2
    assert controller.time.slept == slept


def test_deleted_objects_are_waited_for_until_they_are_gone() -> None:
    controller = Controller(lambda _name, _now: READY)
    controller.apply(daemon_set("d"), config_map("c"))
    kept = controller.server.objects[("configmaps", "ns", "c")]

    def linger(plural: str) -> None:
        present = plural == "configmaps" and controller.time.seconds < 8
        controller.server.objects.pop(("configmaps", "ns", "c"), None)
        if present:
            controller.server.objects[("configmaps", "ns", "c")] = kept

    controller.server.on_list = linger
    controller.apply(absent=True)
    assert 8 <= controller.time.seconds < 14


TEST_POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}}


@pytest.mark.parametrize(
    ("body", "place", "finalizers", "told"),
    [
        (config_map("c"), ("configmaps", "ns", "c"), ["example.com/hold"], r"20 s; finalizers: example\.com/hold"),
        (TEST_POD, ("pods", "ns", "p"), [], r"20 s; its kubelet has not reported its end \(look at its node"),
    ],
)
def test_an_object_that_does_not_go_is_named_with_what_holds_it(
    body: dict[str, Any], place: tuple[str, str, str], finalizers: list[str], told: str
) -> None:
    controller = Controller(lambda _name, _now: READY)
    controller.apply(body)
    kept = controller.server.objects[place]

    def linger(_plural: str) -> None:
        kept["metadata"]["finalizers"] = finalizers
        controller.server.objects[place] = kept

    controller.server.on_list = linger
    with pytest.raises(BatchError, match=f"{body['kind']} ns/{place[2]} is still there after {told}"):
        controller.apply(absent=True, wait_timeout=20.0)
    assert controller.said


def test_a_namespace_that_does_not_go_is_named_with_what_it_says_of_its_content() -> None:
    controller = Controller(lambda _name, _now: READY)
    controller.apply(namespace_object("gone"))
    kept = controller.server.objects[("namespaces", "", "gone")]
    message = "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"

    def linger(_plural: str) -> None:
        remaining = {"type": "NamespaceFinalizersRemaining", "status": "True", "message": message}
        kept["status"] = {"phase": "Terminating", "conditions": [remaining]}
        controller.server.objects[("namespaces", "", "gone")] = kept

    controller.server.on_list = linger
    with pytest.raises(BatchError, match=f"Namespace gone is still there after 20 s; finalizers: {message}"):
        controller.apply(absent=True, remove_kept=True, wait_timeout=20.0)


def test_reasons_of_a_pod() -> None:
    waiting = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    ended = {"name": "init", "state": {"terminated": {"exitCode": 3, "message": "x" * 2000}}}
    starting = {"state": {"waiting": {"reason": "PodInitializing"}}}
    done = {"state": {"terminated": {"exitCode": 0}}}
    status = {
        "initContainerStatuses": [ended, done],
        "containerStatuses": [waiting, starting, {"state": {"running": {}}}],
    }
    assert pod_reasons({"status": status}) == [f"init ended with 3: {'x' * 1024}", "CrashLoopBackOff"]
    assert pod_reasons({}) == []


def crashed(name: str, exit_code: int, state: dict[str, Any], **last: Any) -> dict[str, Any]:
    """A container that has ended before."""
    ended = {"terminated": {"exitCode": exit_code, "reason": "Error", **last}}
    return {"name": name, "state": state, "lastState": ended, "restartCount": 4, "ready": False}


LOOPING = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container=c pod=d-1"}}


@pytest.mark.parametrize(
    ("container", "reason"),
    [
        (crashed("c", 2, LOOPING), "CrashLoopBackOff: c ended with 2"),
        (crashed("c", 137, LOOPING, reason="OOMKilled"), "CrashLoopBackOff: c ended with 137 (OOMKilled)"),
        (crashed("c", 0, LOOPING, reason="Completed"), "CrashLoopBackOff: c ended with 0"),
        (crashed("c", 1, LOOPING, message="no config\n"), "CrashLoopBackOff: c ended with 1: no config"),
        (crashed("c", 1, {"running": {}}), "restarted 4 times and not ready: c ended with 1"),
        ({**crashed("c", 1, {"running": {}}), "ready": True}, None),
        (crashed("c", 0, {"running": {}}), None),
        # Docker, as in k8snetworkplumbingwg/multus-cni#710.
        (
            crashed("c", 128, {"waiting": {"reason": "RunContainerError"}}, reason="ContainerCannotRun", message="OCI"),
            "RunContainerError: c ended with 128 (ContainerCannotRun): OCI",
        ),
        (crashed("c", 1, {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}), "ImagePullBackOff: no"),
    ],
)
def test_a_container_that_crashes_is_told_by_its_last_end(container: dict[str, Any], reason: str | None) -> None:
    assert pod_reasons({"status": {"containerStatuses": [container]}}) == ([reason] if reason else [])


def test_a_container_without_memory_is_told_with_its_limit() -> None:
    """k8snetworkplumbingwg/multus-cni#1349: 50Mi are too few on a node with a hundred pods."""
    containers = [{"name": "c", "resources": {"limits": {"memory": "50Mi"}}}]
    status = {"containerStatuses": [crashed("c", 137, LOOPING, reason="OOMKilled")]}
    assert pod_reasons({"spec": {"containers": containers}, "status": status}) == [
        "CrashLoopBackOff: c ended with 137 (OOMKilled: its memory is limited to 50Mi)"
    ]


def test_a_pod_that_the_kubelet_has_ended_is_told_after_those_that_are_there() -> None:
    """kubernetes/kubernetes#125579."""
    message = "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices rdma/hca"
    ended = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message}
    controller = Controller(lambda _name, _now: PENDING)
    controller.add_pod("d", "d-1", **ended)
    controller.add_pod("d", "d-2", phase="Running", containerStatuses=[crashed("plugin", 1, LOOPING)])
    with pytest.raises(BatchError) as slow:
        controller.apply(daemon_set("d"), wait_timeout=30.0)
    told = f"the pod has ended (Failed): UnexpectedAdmissionError {message}"
    assert f"CrashLoopBackOff: plugin ended with 1; {told}" in str(slow.value)


def test_pods_that_crash_alike_are_told_once_with_the_command_that_shows_the_log_of_one() -> None:
    controller = Controller(lambda _name, _now: PENDING)
    for name in ("d-1", "d-2"):
        controller.add_pod("d", name, phase="Running", containerStatuses=[crashed("plugin", 1, LOOPING)])
    with pytest.raises(BatchError) as slow:
        controller.apply(daemon_set("d"), wait_timeout=30.0)
    assert str(slow.value).count("CrashLoopBackOff: plugin ended with 1") == 1
    assert "see kubectl logs --namespace=ns d-1 --container=plugin --previous" in str(slow.value)


def test_warnings_come_latest_first() -> None:
    events = [
        {"type": "Warning", "reason": "old", "lastTimestamp": "2026-01-01T00:00:00Z"},
        {"type": "Normal", "reason": "fine", "lastTimestamp": "2026-01-03T00:00:00Z"},
        {"type": "Warning", "reason": "new", "eventTime": "2026-01-02T00:00:00Z"},
    ]
    assert event_reasons(events) == ["new", "old"]


def test_a_warning_about_each_pod_is_told_once_and_to_its_end() -> None:
    remedy = f"{'x' * 300}: label the namespace"
    about = [f'Error creating: pods "d-{each}" is forbidden: {remedy}' for each in "abc"]
    about.append(f"(combined from similar events): {about[0]}")
    events = [{"type": "Warning", "reason": "FailedCreate", "message": text} for text in about]
    assert event_reasons(events) == [f"FailedCreate: Error creating: the pod is forbidden: {remedy}"]


def test_a_deployment_tells_what_its_replica_set_meets_and_what_to_do() -> None:
    controller = Controller(lambda _name, _now: READY)
    text = 'pods "d-5f-x" is forbidden: exceeded quota: small, requested: pods=1'
    failing = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": text}

    def listed(plural: str) -> None:
        for (kind, _namespace, _name), body in controller.server.objects.items():
            if plural == kind == "deployments":
                body["status"] = {"observedGeneration": 1, "conditions": [failing]}

    controller.server.on_list = listed
    body = {**daemon_set("d"), "kind": "Deployment"}
    with pytest.raises(BatchError) as refused:
        controller.apply(body, wait_timeout=1.0)
    assert "FailedCreate: the pod is forbidden: exceeded quota: small" in str(refused.value)
    assert "(raise the ResourceQuota small, or free some of it)" in str(refused.value)


def away(controller: Controller, start: float, end: float) -> None:
    """Let the server answer no LIST of DaemonSets and Pods between two times."""

    def unavailable(_number: int, _method: str, path: str) -> Reply | None:
        hit = path.endswith(("/daemonsets", "/pods")) and start <= controller.time.seconds < end
        return failure(503, "ServiceUnavailable", "etcd has no leader") if hit else None

    controller.server.intercept = unavailable


def test_a_wait_goes_on_through_an_outage_longer_than_any_request_is_tried() -> None:
    controller = Controller(lambda _name, now: READY if now >= 10 else PENDING)
    away(controller, 5, 205)
    result = controller.apply(daemon_set("d"), wait_timeout=300.0)
    assert result.waits[0]["ready"]
    assert 205 <= controller.time.seconds < 240


def test_an_outage_that_outlasts_the_wait_is_named_when_its_time_is_over() -> None:
    controller = Controller(lambda _name, _now: PENDING)
    away(controller, 5, 9999)
    with pytest.raises(BatchError, match="1 of 2 pods are available; it could no longer be read") as slow:
        controller.apply(daemon_set("d"), wait_timeout=60.0)
    assert "etcd has no leader" in str(slow.value)
    assert controller.time.seconds <= 60.0 + 5.0


def test_a_right_that_is_taken_away_ends_a_wait_at_once() -> None:
    controller = Controller(lambda _name, _now: PENDING)

    def forbidden(_number: int, _method: str, path: str) -> Reply | None:
        hit = path.endswith("/daemonsets") and controller.time.seconds > 5
        return failure(403, "Forbidden", "no more") if hit else None

    controller.server.intercept = forbidden
    with pytest.raises(BatchError, match="no more"):
        controller.apply(daemon_set("d"), wait_timeout=60.0)
    assert controller.time.seconds < 20.0
