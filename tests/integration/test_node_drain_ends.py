# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a drain ends: budgets, pods that do not end, and pods that come back, on a real API server.

The rows are those of docs/guide-drain.md, "How it ends".
"""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.drain import Refusal
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.pods import Verdict
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.node_cluster import NodeCluster
from ansible_collections.rdma.fabric.tests.integration.draining import (
    DEVICE,
    ENOUGH_SECONDS,
    Json,
    Place,
    actions,
    drain,
    drained,
    evictions,
    refused,
)
from ansible_collections.rdma.fabric.tests.lab.api import Api
from ansible_collections.rdma.fabric.tests.lab.audit import AuditLog
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.guests.budget import Budget, until
from ansible_collections.rdma.fabric.tests.lab.nodes import apply_nodes, delete_nodes, kwok_node


def test_a_budget_is_waited_for_until_it_allows(place: Place, control_plane: ControlPlane, audit: AuditLog) -> None:
    place.pod("one", labels={"app": "budget"})
    place.budget("one-at-least", 1)
    shown = drained(place, check=True)
    assert "one-at-least needs 1 healthy pods and has 1 currently" in shown["pods"][0]["blocked"]
    (notice,) = shown["notices"]
    assert f"{place.node}: evictions that would be refused now: {place.namespace}/" in notice
    assert "one-at-least needs 1 healthy pods" in notice
    mark = audit.mark()
    other = Api.from_kubeconfig(control_plane.kubeconfig)
    path = f"/apis/policy/v1/namespaces/{place.namespace}/poddisruptionbudgets/one-at-least"

    def allow_after_a_refusal() -> None:
        theirs = AuditLog(audit.path, partial(other.request, "GET"))
        until(lambda: bool(evictions(theirs, mark)))
        other.call("PATCH", path, {"spec": {"minAvailable": 0}}, content_type="application/merge-patch+json")

    somebody = threading.Thread(target=allow_after_a_refusal)
    somebody.start()
    try:
        assert actions(drained(place)) == {"one": "evicted"}
    finally:
        somebody.join()
        other.close()
    codes = evictions(audit, mark)
    assert (codes[0], codes[-1]) == (429, 201)


def test_an_eviction_that_is_refused_for_ever_ends_at_the_limit_and_the_node_is_given_back_by_hand(
    place: Place, audit: AuditLog
) -> None:
    (name,) = place.workload("ReplicaSet", "budget")
    place.budget("none", maxUnavailable=0)
    mark, budget = audit.mark(), Budget(8 + ENOUGH_SECONDS / 4)
    result = drain(place, timeout=8)
    assert budget.left() > 0
    assert result["failed"] is True
    assert f"pod {place.namespace}/{name} has not left node {place.node} within" in result["msg"]
    assert "disruption budget none needs 1 healthy pods and has 1 currently" in result["msg"]
    assert "run again when more of its kind are healthy, or change the budget" in result["msg"]
    assert "It stays cordoned: run again, or uncordon it with state: uncordoned" in result["msg"]
    (row,) = result["pods"]
    assert (row["seconds"], row["refused"] >= 5.0) == (None, True)
    codes = evictions(audit, mark)
    assert (len(codes) > 1, set(codes)) == (True, {429})
    assert (place.cordoned(), place.running("budget")) == (True, [name])
    assert drained(place, state="uncordoned")["changed"] is True
    assert (place.cordoned(), place.mark()) == (False, None)


@pytest.mark.parametrize("state", ["in-service", "cordoned-by-somebody", "left-by-a-run"])
def test_a_node_that_can_not_be_drained_is_given_back_where_that_is_wanted_and_nothing_was_changed(
    place: Place, state: str
) -> None:
    place.pod("one", labels={"app": "budget"})
    place.budget("all", 1)
    place.set_cordon(state == "cordoned-by-somebody")
    if state == "left-by-a-run":
        drained(place, state="cordoned", run="r0")
    result = drain(place, timeout=2, give_back=True, run="r1")
    assert result["failed"] is True
    assert "disruption budget all needs 1 healthy pods" in result["msg"]
    said, cordoned, marked = {
        "in-service": (
            "It takes pods again, because nothing on it was changed: fix that, then run again",
            False,
            False,
        ),
        "cordoned-by-somebody": ("was cordoned by somebody else before", True, False),
        "left-by-a-run": ("It stays cordoned: run again, or uncordon it", True, True),
    }[state]
    assert said in result["msg"]
    assert (result["cordoned"], place.cordoned(), place.mark() is not None) == (cordoned, cordoned, marked)
    assert place.is_there("one")


def test_pods_leave_one_after_the_other_where_their_budget_asks_for_it(place: Place, audit: AuditLog) -> None:
    """A controller makes them anew on another node."""
    label = {"example.com/pool": place.namespace}
    path = f"/api/v1/nodes/{place.node}"
    place.api.call("PATCH", path, {"metadata": {"labels": label}}, content_type="application/merge-patch+json")
    before = place.workload("ReplicaSet", "budget", replicas=2, selector=label)
    place.budget("one-at-a-time", maxUnavailable=1)
    other = f"{place.namespace}-other"
    apply_nodes(place.api, [kwok_node(other, label, allocatable={DEVICE: "100"})])
    mark = audit.mark()
    try:
        assert actions(drained(place)) == dict.fromkeys(before, "evicted")
        codes = evictions(audit, mark)
        until(lambda: len(place.running("budget", other)) == 2)
    finally:
        delete_nodes(place.api, [other])
    # Whether the second is refused first depends on how soon the first is made anew.
    assert (codes[0], codes.count(201), codes[-1], set(codes) - {201, 429}) == (201, 2, 201, set())


def test_two_budgets_over_one_pod_are_told_at_once(place: Place) -> None:
    place.pod("one", labels={"app": "budget"})
    place.budget("first", 0)
    place.budget("second", 0)
    budget = Budget(ENOUGH_SECONDS)
    message = refused(place, timeout=0)
    assert "more than one PodDisruptionBudget" in message
    assert "delete it by hand" in message
    assert budget.left() > 0


@pytest.mark.first
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


TOLERATES: Json = {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}
BY_NAME, BY_TOLERATION = "by the name of the node", "by a toleration"


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
@pytest.mark.parametrize("how", [BY_NAME, BY_TOLERATION])
def test_a_controller_that_puts_its_pods_back_on_the_node_ends_the_drain(place: Place, how: str, kind: str) -> None:
    """Those of a StatefulSet have the same name each time."""
    spec = {"nodeName": place.node} if how == BY_NAME else TOLERATES
    place.workload(kind, "pinned", spec=spec)
    result = drain(place, timeout=0)
    assert result["failed"] is True
    assert f"{kind} pinned puts its pods on the node again and again although it is cordoned" in result["msg"]
    assert "take the toleration or the node name out of its pods, or scale it down, then run again" in result["msg"]
    assert place.cordoned()
    assert 1 < len(result["pods"]) < 10
    scale = {"spec": {"replicas": 0}}
    path = f"/apis/apps/v1/namespaces/{place.namespace}/{kind.lower()}s/pinned"
    place.api.call("PATCH", path, scale, content_type="application/merge-patch+json")
    drained(place)
    assert place.running("pinned") == []


def test_a_pod_that_was_made_anew_by_the_same_name_is_not_evicted_for_the_one_before_it(
    place: Place, audit: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is replaced between the look at the node and the eviction, and the new one holds nothing.

    No kubelet is there: KWOK's ends pods by name, so under load it ends the new one for the one before it.
    """
    place.without_kubelet()
    place.pod("same")
    before, ask = place.uid("same"), NodeCluster.evict

    def replaced_first(cluster: NodeCluster, verdict: Verdict, **how: Any) -> Refusal | None:
        if place.uid("same") == before:
            place.end("same")
            place.pod("same", holds=False)
        return ask(cluster, verdict, **how)

    monkeypatch.setattr(NodeCluster, "evict", replaced_first)
    mark = audit.mark()
    result = drained(place)
    assert [row["action"] for row in result["pods"]] == ["evicted", "stays"]
    assert place.uid("same") not in ("", before)
    assert evictions(audit, mark) == [409]
