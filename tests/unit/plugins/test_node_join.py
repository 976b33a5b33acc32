# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_join on an API server in memory: what is waited for, written and said."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.action import node_join
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Reply
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.joining import Mark, mark_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions import cluster
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeTime, failure
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action
from ansible_collections.rdma.fabric.tests.unit.plugins.node_server import NODE, Nodes

TEXT = "joining:NoSchedule"
TAINT = {"key": "joining", "effect": "NoSchedule"}
READY = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"rdma/a": "8"}}
Json = dict[str, Any]


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, time: FakeTime) -> Nodes:
    found = Nodes()
    clock = time.clock()
    monkeypatch.setattr(node_join.ActionModule, "client", lambda _self, _arguments: found)
    monkeypatch.setattr(cluster, "Clock", lambda **_given: clock)
    return found


def put(server: Nodes, *taints: Json, status: Json | None = None) -> None:
    spec = {"taints": list(taints)} if taints else {}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": spec, "status": status or READY}
    server.put("nodes", body)


def join(*, check: bool = False, diff: bool = False, **arguments: Any) -> Json:
    return run_action("node_join", {"node": "n", "taint": TEXT, "timeout": 5, **arguments}, check=check, diff=diff)


def done(**arguments: Any) -> Json:
    result = join(**arguments)
    assert not result.get("failed"), result
    return result


def mark(server: Nodes) -> Mark:
    found = mark_of(server.objects[NODE])
    assert found is not None
    return found


def test_a_node_is_tainted_and_let_in_and_a_second_run_writes_nothing(server: Nodes) -> None:
    put(server)
    first = done()
    assert (first["changed"], first["joining"], server.objects[NODE]["spec"]["taints"]) == (True, True, [TAINT])
    assert not done()["changed"]
    last = done(state="joined", devices=["rdma/a"])
    assert (last["changed"], last["joining"], mark(server).joined) == (True, False, True)
    assert not server.objects[NODE]["spec"].get("taints")
    for state in ("tainted", "joined"):
        again = done(state=state)
        assert (again["changed"], again["joining"], again["requests"]["patch"]) == (False, False, 0)


def test_a_node_that_is_not_verified_keeps_its_taint_and_says_why(server: Nodes) -> None:
    put(server, TAINT)
    result = join(state="joined", devices=["rdma/a", "rdma/b"])
    assert result["missing"] == ["it does not offer rdma/b"]
    assert "not verified within 5 s: it does not offer rdma/b" in result["msg"]
    assert mark(server).reason == "not verified within 5 s: it does not offer rdma/b"
    assert server.objects[NODE]["spec"]["taints"] == [TAINT]
    (event,) = [body for key, body in server.objects.items() if key[0] == "events"]
    assert (event["reason"], event["message"]) == ("RdmaFabricJoinFailed", mark(server).reason)


def test_a_host_that_failed_is_said_on_its_node(server: Nodes) -> None:
    put(server, TAINT)
    assert done(state="failed", reason="failed:\n no such card")["changed"]
    assert mark(server).reason == "failed: no such card"
    assert not done(state="failed", reason="failed: no such card")["changed"]


def test_nothing_is_said_on_a_node_that_was_not_tainted(server: Nodes) -> None:
    put(server)
    assert not done(state="failed", reason="no such card")["changed"]
    assert mark_of(server.objects[NODE]) is None


def test_an_event_that_is_refused_is_no_failure(server: Nodes) -> None:
    put(server, TAINT)
    forbidden = failure(403, "Forbidden", "no")
    server.intercept = lambda _number, method, _path: forbidden if method == "POST" else None
    result = done(state="failed", reason="no such card")
    assert "only the annotation rdma.fabric/join of node n says" in result["notices"][0]


def test_a_node_that_is_not_registered_is_left_and_later_waited_for_and_tainted_first(server: Nodes) -> None:
    first = done()
    assert (first["changed"], first["registered"], first["joining"]) == (False, False, True)
    looks: list[int] = []

    def comes_at_the_third_look(number: int, method: str, _path: str) -> None:
        looks.append(number)
        if len(looks) == 3:
            put(server)

    server.intercept = comes_at_the_third_look
    assert done(state="joined")["joining"] is False
    assert server.tainted == [["joining"], []]


@pytest.mark.parametrize("first", ["one", "two"])
def test_a_rebooted_node_is_verified_by_what_it_says_since_whenever_that_comes(server: Nodes, first: str) -> None:
    """The look that begins the wait may come before the kubelet reports the new boot, or after it."""

    def booted(boot: str, devices: str) -> Json:
        return {**READY, "nodeInfo": {"bootID": boot}, "allocatable": {"rdma/a": devices}}

    put(server, status=booted("one", "8"))
    done()
    server.put("nodes", {**server.objects[NODE], "status": booted(first, "0" if first == "two" else "8")})

    def comes_back(number: int, method: str, _path: str) -> None:
        if len(server.requests) == began + 6:
            server.put("nodes", {**server.objects[NODE], "status": booted("two", "8")})

    began = len(server.requests)
    server.intercept = comes_back
    assert done(state="joined", rebooted=True, devices=["rdma/a"])["joining"] is False
    assert len(server.requests) > began + 6


def test_a_node_that_never_comes_is_named(server: Nodes) -> None:
    result = join(state="joined")
    assert "node n was not verified within 5 s: it is not registered" in result["msg"]
    assert server.written() == []


def test_a_node_that_works_is_marked_without_keeping_pods_from_it(server: Nodes) -> None:
    put(server)
    running = {"containers": [], "nodeName": "n"}
    server.put(
        "pods", {"metadata": {"namespace": "ns", "name": "web"}, "spec": running, "status": {"phase": "Running"}}
    )
    assert "runs ns/web" in join()["msg"]
    assert done(state="joined")["changed"]
    assert (mark(server).joined, server.tainted) == (True, [[]])


def test_a_node_that_came_without_the_taint_and_runs_nothing_is_tainted_before_it_is_verified(server: Nodes) -> None:
    put(server)
    assert done(state="joined")["changed"]
    assert server.tainted == [["joining"], []]


def test_a_server_that_is_away_while_the_node_is_tainted_is_waited_for(
    server: Nodes, time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(server)
    send = server.send

    def away(method: str, path: str, body: bytes | None, content_type: str | None) -> Reply:
        if method == "PATCH" and time.seconds < 120:
            return failure(503, "ServiceUnavailable", "the server is shutting down")
        return send(method, path, body, content_type)

    monkeypatch.setattr(server, "send", away)
    assert done(state="joined", timeout=600, devices=["rdma/a"])["joining"] is False
    assert server.tainted == [["joining"], []]


def test_a_write_in_between_is_taken_into_account(server: Nodes) -> None:
    put(server)
    other = {"key": "other", "effect": "NoExecute"}

    def somebody_writes(number: int, method: str, _path: str) -> None:
        if number == 3:
            put(server, other)

    server.intercept = somebody_writes
    assert done()["changed"]
    assert server.objects[NODE]["spec"]["taints"] == [other, TAINT]


def test_check_mode_writes_nothing_and_shows_taint_and_mark(server: Nodes) -> None:
    put(server, {"key": "other", "effect": "NoExecute"})
    before = server.objects[NODE]
    shown = done(check=True, diff=True)["diff"]
    assert shown["before"] == "taint other:NoExecute\nrdma.fabric/join: none\n"
    assert shown["after"] == "taint other:NoExecute\ntaint joining:NoSchedule\nrdma.fabric/join: joining\n"
    result = done(check=True, diff=True, state="joined", devices=["rdma/b"])
    assert result["missing"] == ["it does not offer rdma/b"]
    assert result["diff"]["after"].endswith("rdma.fabric/join: joined\n")
    assert server.objects[NODE] == before


@pytest.mark.parametrize("state", ["tainted", "joined"])
def test_what_preflight_validated_is_taken_from_there(
    server: Nodes, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only who waits for the node looks at what is wanted on it."""
    asked: list[Json] = []

    def whole(spec: Json, _variables: Any) -> tuple[Json, str]:
        asked.append(spec)
        return spec, ""

    monkeypatch.setattr(node_join, "whole", whole)
    monkeypatch.setattr(node_join, "render", lambda _spec: [])
    put(server)
    spec = {"hosts": {"gpu01": {}}, "settings": {"join_taint": TEXT}}
    variables = {"inventory_hostname": "gpu01", "rdma_fabric_preflight_result": {"spec": spec}}
    arguments = {"node": "n", "role_variables": True, "timeout": 5, "state": state}
    result = run_action("node_join", arguments, task_vars=variables)
    assert result["joining"] is (state == "tainted"), result
    assert server.tainted[0] == ["joining"]
    assert asked == ([spec] if state == "joined" else [])
    of_nobody = run_action("node_join", arguments, task_vars={**variables, "inventory_hostname": "localhost"})
    assert of_nobody["skipped"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"taint": ""}, "taint: is needed"),
        ({"taint": "joining"}, "taint: is not a valid taint (write key=value:NoSchedule"),
        ({"timeout": -1}, "timeout: -1 is negative"),
        ({"state": "failed"}, "reason: is needed"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_asked(server: Nodes, arguments: Json, text: str) -> None:
    result = join(**arguments)
    assert text in result["msg"]
    assert server.requests == []
