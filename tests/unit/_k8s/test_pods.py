# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for test pods on an API server in memory, and telling what earlier runs left behind."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.pods import (
    NETWORK_STATUS,
    PodView,
    leftovers,
    wait_for_pods,
)
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, FakeTime, connect, failure

Json = dict[str, Any]

LABELS = {"rdma.fabric/run": "r"}
NOW = datetime(2026, 1, 2, 12, 0, 0, tzinfo=timezone.utc)


def pod(name: str, phase: str = "Running", *, ready: bool = True, **changes: Any) -> Json:
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    metadata = {"name": name, "namespace": "ns", "labels": LABELS, "annotations": {NETWORK_STATUS: "[]"}}
    body: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}, "status": status}
    body["metadata"].update(changes.pop("metadata", {}))
    body["status"].update(changes.pop("status", {}))
    body["spec"].update(changes.pop("spec", {}))
    return body


def waited(server: FakeServer, *names: str, timeout: float = 30, time: FakeTime | None = None) -> dict[str, PodView]:
    said: list[str] = []
    found = wait_for_pods(
        connect(server, time), "ns", names, selector="rdma.fabric/run=r", timeout=timeout, progress=said.append
    )
    assert all(said)
    return found


def test_ready_pods_come_back_at_once_with_what_multus_wrote() -> None:
    server, time = FakeServer(), FakeTime()
    server.put("pods", pod("a"))
    server.put("pods", pod("b", metadata={"labels": {"other": "run"}}))
    found = waited(server, "a", time=time)
    assert (found["a"].ready, found["a"].network_status) == (True, "[]")
    assert time.slept == []


def test_pods_are_waited_for_by_one_list_a_look() -> None:
    server, time = FakeServer(), FakeTime()
    for name in ("a", "b"):
        server.put("pods", pod(name, "Pending", ready=False))

    def start(_plural: str) -> None:
        if time.seconds > 5:
            server.put("pods", pod("a"))
            server.put("pods", pod("b"))

    server.on_list = start
    found = waited(server, "a", "b", time=time)
    assert [view.ready for view in found.values()] == [True, True]
    assert len(server.requests) == len(time.slept) + 1
    assert 5 < time.seconds < 10


def test_a_pod_that_never_becomes_ready_comes_back_with_its_reasons_and_events() -> None:
    server, time = FakeServer(), FakeTime()
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "1 Insufficient rdma/x",
    }
    live = server.put("pods", pod("a", "Pending", ready=False, status={"conditions": [condition]}))
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "ns"},
        "involvedObject": {"uid": live["metadata"]["uid"]},
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": "0/2 nodes are available",
    }
    server.put("events", event)
    view = waited(server, "a", timeout=20, time=time)["a"]
    assert not view.ready
    assert view.reasons == ["Unschedulable: 1 Insufficient rdma/x", "FailedScheduling: 0/2 nodes are available"]
    assert 15 < time.seconds <= 20


def test_events_of_any_number_of_pods_are_one_list() -> None:
    """The image of the test pods is the same on thousands of nodes, and so is what it can't be pulled for."""
    for count in (1, 2, 40):
        server = FakeServer()
        names = [f"p{number}" for number in range(count)]
        for name in names:
            live = server.put("pods", pod(name, "Pending", ready=False))
            event = {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": f"of-{name}", "namespace": "ns"},
                "involvedObject": {"uid": live["metadata"]["uid"]},
                "type": "Warning",
                "reason": f"Failed-{name}",
            }
            server.put("events", event)
        views = waited(server, *names, "never", timeout=1)
        asked = [query for _method, path, query in server.requests if path.endswith("/events")]
        assert len(asked) == 1
        assert [views[name].reasons for name in names] == [[f"Failed-{name}"] for name in names]
        assert views["never"].reasons == ["the pod was never listed by the API server"]


def test_what_cannot_become_ready_is_not_waited_for() -> None:
    waiting = {"state": {"waiting": {"reason": "ErrImageNeverPull", "message": "no image"}}}
    for body in (
        pod("a", "Failed", ready=False, status={"reason": "Evicted", "message": "disk"}),
        pod("a", "Succeeded", ready=False),
        pod("a", "Pending", ready=False, status={"containerStatuses": [waiting]}),
    ):
        server, time = FakeServer(), FakeTime()
        server.put("pods", body)
        view = waited(server, "a", time=time)["a"]
        assert (view.ready, time.slept) == (False, [])
        assert view.reasons


def test_a_pod_that_is_deleted_while_it_is_waited_for_is_told() -> None:
    server, time = FakeServer(), FakeTime()
    server.put("pods", pod("a", "Pending", ready=False))

    def vanish(_plural: str) -> None:
        if time.seconds > 1:
            server.objects.pop(("pods", "ns", "a"), None)

    server.on_list = vanish
    view = waited(server, "a", time=time)["a"]
    assert (view.gone, view.reasons) == (True, ["the pod was deleted"])
    assert time.seconds < 5


def test_a_pod_that_is_going_is_not_ready() -> None:
    server = FakeServer()
    server.put("pods", pod("a", metadata={"deletionTimestamp": "2026-01-02T12:00:00Z"}))
    assert not waited(server, "a", timeout=1)["a"].ready


def test_events_that_may_not_be_read_are_said() -> None:
    server = FakeServer()
    server.put("pods", pod("a", "Pending", ready=False))
    server.intercept = lambda _number, _method, path: (
        failure(403, "Forbidden", "events is forbidden") if path.endswith("/events") else None
    )
    assert any("events can't be read" in reason for reason in waited(server, "a", timeout=1)["a"].reasons)


def test_leftovers_are_what_ended_or_outlived_its_deadline() -> None:
    def aged(name: str, minutes: int, **changes: Any) -> Json:
        stamp = f"2026-01-02T{11 - minutes // 60:02d}:{(60 - minutes % 60) % 60:02d}:00Z"
        return pod(name, metadata={"creationTimestamp": stamp}, spec={"activeDeadlineSeconds": 600}, **changes)

    pods = [
        aged("young", 5),
        aged("at its deadline", 10),
        aged("old", 30),
        aged("ended", 1, status={"phase": "Failed"}),
        pod("no time", metadata={"creationTimestamp": "yesterday"}),
        pod("no deadline", metadata={"creationTimestamp": "2020-01-01T00:00:00Z"}),
    ]
    assert [each["metadata"]["name"] for each in leftovers(pods, NOW)] == ["old", "ended"]
