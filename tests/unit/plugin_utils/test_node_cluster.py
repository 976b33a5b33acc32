# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pods of one node as an API server is asked for them, and what its answers to evictions mean."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Reply
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.pods import Verdict
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.node_cluster import NodeCluster
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, connect, failure


def server_with_pods() -> FakeServer:
    server = FakeServer()
    for name, app in (("a", "train"), ("b", "web")):
        metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": {"app": app}}
        server.put("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n1"}})
    return server


@pytest.mark.parametrize("recent", [True, False])
def test_who_waits_asks_for_what_the_server_has_in_memory_and_who_decides_does_not(recent: bool) -> None:
    server = server_with_pods()
    cluster = NodeCluster(connect(server), "n1", "app=train")
    assert len(cluster.pods(recent=recent)) == 2
    uid = str(server.objects[("pods", "ns", "a")]["metadata"]["uid"])
    assert cluster.selected(recent=recent) == frozenset({uid})
    assert len(cluster.working("app=web", recent=recent)) == 1
    queries = [query for _method, _path, query in server.requests]
    assert [query.get("labelSelector") for query in queries] == [None, "app=train", "app=web"]
    assert {query["fieldSelector"] for query in queries} == {"spec.nodeName=n1"}
    assert {query.get("resourceVersion") for query in queries} == {"0" if recent else None}


def test_without_a_selector_none_is_asked_for() -> None:
    server = server_with_pods()
    assert NodeCluster(connect(server), "n1").selected(recent=True) is None
    assert server.requests == []


BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."
NEEDS = "The disruption budget web needs 2 healthy pods and has 2 currently"
FEW = NEEDS.replace("has 2", "has 1")


@pytest.mark.parametrize(
    ("code", "reason", "message", "details", "refusal"),
    [
        (
            *(429, "TooManyRequests", BUDGET, {"causes": [{"reason": "DisruptionBudget", "message": NEEDS}]}),
            (f"{NEEDS} (run again when more of its kind are healthy, or change the budget)", False, 5.0),
        ),
        (
            *(429, "TooManyRequests", BUDGET, {"causes": [{"reason": "DisruptionBudget", "message": FEW}]}),
            (f"{FEW} (run again when more of its kind are healthy, or change the budget; its unhealthyPod", False, 5.0),
        ),
        (429, "TooManyRequests", BUDGET, {"retryAfterSeconds": 0}, (f"{BUDGET[:-1]} (run again when", False, 5.0)),
        (
            *(429, "TooManyRequests", BUDGET, {"retryAfterSeconds": 10}),
            (f"{BUDGET[:-1]} (run again when more of its kind are healthy, or change the budget)", False, 10.0),
        ),
        (429, "TooManyRequests", "Too many requests.", {"retryAfterSeconds": 1}, ("Too many requests.", False, 1.0)),
        (
            *(500, "InternalError", "This pod has more than one PodDisruptionBudget, which it can not.", {}),
            ("This pod has more than one PodDisruptionBudget, which it can not (leave it in one", True, 0.0),
        ),
        (404, "NotFound", 'pods "a" not found', {}, ('pods "a" not found', False, 5.0)),
        (409, "Conflict", "the UID in the precondition does not match", {}, ("the UID in the precond", False, 5.0)),
        (503, "ServiceUnavailable", "the server is starting", {}, ("the server is starting", False, 5.0)),
        (
            *(403, "Forbidden", "ns is being terminated", {"causes": [{"reason": "NamespaceTerminating"}]}),
            ("ns is being terminated", False, 5.0),
        ),
        (403, "Forbidden", "you may not create pods/eviction.", {}, ("you may not create pods/eviction (", True, 0.0)),
    ],
)
def test_an_eviction_is_tried_again_unless_it_is_refused_for_good(
    code: int, reason: str, message: str, details: dict[str, Any], refusal: tuple[str, bool, float]
) -> None:
    server = server_with_pods()

    def refuse(_number: int, method: str, path: str) -> Reply | None:
        return failure(code, reason, message, **details) if path.endswith("/a/eviction") else None

    server.intercept = refuse
    found = NodeCluster(connect(server), "n1").evict(Verdict("ns", "a", "uid-a", "evict", ""))
    said, hopeless, after = refusal
    assert found is not None and found.reason.startswith(said)
    assert (found.hopeless, found.after) == (hopeless, after)
    assert ("change the budget" in found.reason) == (message == BUDGET)
    assert [path for _method, path, _query in server.requests] == ["/api/v1/namespaces/ns/pods/a/eviction"]
