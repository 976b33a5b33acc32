# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that joins: tainted and marked in one write, verified, let in; nobody else's taints and pods are touched."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.joining import (
    ANNOTATION,
    Mark,
    NotNew,
    has_joined,
    in_service,
    is_tainted,
    mark_of,
    to_fail,
    to_forget,
    to_join,
    to_taint,
    what_keeps_it,
)
from ansible_collections.rdma.fabric.tests.unit._rollout import objects
from ansible_collections.rdma.fabric.tests.unit._rollout.test_cordon import merged
from ansible_collections.rdma.fabric.tests.unit._rollout.test_ready import reporting

TAINT = {"key": "example.com/joining", "value": "yes", "effect": "NoSchedule"}
FOREIGN = {"key": "nvidia.com/gpu", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
MARK = Mark("me@controller", "r1", "2026-01-01T00:00:00Z")
LATER = Mark("me@controller", "r2", "2026-01-02T00:00:00Z")
Json = dict[str, Any]


def node(*taints: Json, mark: Mark | None = None, boot: str = "one") -> Json:
    body = {**reporting(boot), **objects.node()}
    if taints:
        body["spec"] = {"taints": list(taints)}
    if mark is not None:
        body["metadata"]["annotations"][ANNOTATION] = mark.text()
    return body


def test_a_new_node_is_tainted_verified_and_let_in_and_keeps_the_taints_of_others() -> None:
    tainted = merged(node(FOREIGN), to_taint(node(FOREIGN), TAINT, [], MARK))
    assert tainted["spec"]["taints"] == [FOREIGN, TAINT]
    assert mark_of(tainted) == replace(MARK, boot="one")
    assert not has_joined(tainted, TAINT)
    joined = merged(tainted, to_join(tainted, TAINT, LATER))
    assert joined["spec"]["taints"] == [FOREIGN]
    assert mark_of(joined) == replace(LATER, joined=True)
    assert has_joined(joined, TAINT)
    assert [to_taint(joined, TAINT, [], LATER).patch, to_join(joined, TAINT, LATER).patch] == [None, None]


def test_every_write_holds_for_the_node_that_was_read_only() -> None:
    steps = [
        to_taint(node(), TAINT, [], MARK),
        to_join(node(TAINT), TAINT, MARK),
        to_fail(node(TAINT), TAINT, "x", MARK),
    ]
    for step in steps:
        assert step.patch is not None
        assert step.patch["metadata"]["resourceVersion"] == "7"


def test_the_last_taint_leaves_no_empty_list() -> None:
    assert "taints" not in merged(node(TAINT), to_join(node(TAINT), TAINT, MARK))["spec"]


def test_a_taint_of_the_kubelet_is_taken_over() -> None:
    step = to_taint(node(TAINT), TAINT, [objects.pod()], MARK)
    assert step.patch is not None
    assert "spec" not in step.patch
    assert mark_of(merged(node(TAINT), step)) == replace(MARK, boot="one")


def test_a_later_run_goes_on_with_the_mark_of_the_first_and_follows_the_boot() -> None:
    begun = node(TAINT, mark=replace(MARK, boot="one"))
    assert to_taint(begun, TAINT, [], LATER).patch is None
    rebooted = {**begun, "status": reporting("two")["status"]}
    assert mark_of(merged(rebooted, to_taint(rebooted, TAINT, [], LATER))) == replace(MARK, boot="two")


def test_a_node_whose_taint_was_taken_off_before_it_was_verified_has_not_joined() -> None:
    begun = node(mark=MARK)
    assert not has_joined(begun, TAINT)
    assert merged(begun, to_taint(begun, TAINT, [], LATER))["spec"]["taints"] == [TAINT]
    assert mark_of(merged(begun, to_join(begun, TAINT, LATER))) == replace(LATER, joined=True)


def test_a_node_that_was_tainted_again_is_to_be_verified_again() -> None:
    again = node(TAINT, mark=replace(MARK, joined=True))
    assert not has_joined(again, TAINT)
    found = mark_of(merged(again, to_taint(again, TAINT, [objects.pod()], LATER)))
    assert found == replace(LATER, boot="one")


def test_a_node_that_works_is_neither_tainted_nor_are_its_pods_kept_from_it() -> None:
    with pytest.raises(NotNew) as refused:
        to_taint(node(), TAINT, [objects.pod()], MARK)
    assert "runs ns/a" in str(refused.value)
    assert "rdma.fabric.upgrade" in str(refused.value)
    assert to_taint(node(mark=replace(MARK, joined=True)), TAINT, [objects.pod()], MARK).patch is None


def test_a_taint_of_another_value_is_somebody_elses_and_named() -> None:
    rival = {**TAINT, "value": "no"}
    with pytest.raises(NotNew) as refused:
        to_taint(node(rival), TAINT, [], MARK)
    assert "example.com/joining=no:NoSchedule" in str(refused.value)
    assert not is_tainted(node({**TAINT, "effect": "NoExecute"}), TAINT)
    assert is_tainted(node({**TAINT, "timeAdded": "2026-01-01T00:00:00Z"}), TAINT)


@pytest.mark.parametrize(
    ("tolerations", "counts"),
    [
        ([], True),
        ([{"operator": "Exists"}], False),
        ([{"key": "example.com/joining", "operator": "Exists"}], False),
        ([{"key": "example.com/joining", "value": "yes", "effect": "NoSchedule"}], False),
        ([{"key": "example.com/joining", "effect": "NoSchedule"}], True),
        ([{"key": "example.com/joining", "operator": "Exists", "effect": "NoExecute"}], True),
        ([{"key": "other", "operator": "Exists"}], True),
    ],
)
def test_pods_that_tolerate_the_taint_are_no_matter(tolerations: list[Json], counts: bool) -> None:
    pod = objects.pod()
    pod["spec"]["tolerations"] = tolerations
    assert bool(in_service([pod], TAINT)) is counts


def test_pods_of_daemon_sets_and_the_kubelet_and_finished_ones_do_not_work_there() -> None:
    static = objects.pod("static")
    static["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    pods = [objects.pod("d", owner=objects.DAEMON_SET), objects.pod("f", phase="Succeeded"), static]
    assert in_service(pods, TAINT) == []
    assert in_service([*pods, objects.pod("b"), objects.pod("a", managed=False)], TAINT) == ["ns/a", "ns/b"]


def test_a_node_says_what_it_has_failed_by_and_keeps_its_taint() -> None:
    begun = node(TAINT, FOREIGN, mark=replace(MARK, boot="one"))
    failed = merged(begun, to_fail(begun, TAINT, "no such card", LATER))
    assert failed["spec"]["taints"] == [TAINT, FOREIGN]
    assert mark_of(failed) == replace(LATER, reason="no such card", boot="one")
    assert to_fail(failed, TAINT, "no such card", MARK).patch is None
    assert to_fail(node(FOREIGN), TAINT, "no such card", MARK).patch is None


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "null", pytest.param("[" * 100_000, id="too-deep")])
def test_a_mark_that_can_not_be_read_says_nothing(text: str) -> None:
    body = node()
    body["metadata"]["annotations"][ANNOTATION] = text
    assert mark_of(body) is None


def test_a_mark_is_forgotten_and_taints_stay() -> None:
    begun = node(TAINT, mark=MARK)
    after = merged(begun, to_forget(begun))
    assert (mark_of(after), after["spec"]["taints"]) == (None, [TAINT])
    assert to_forget(after).patch is None


def keeps(body: Json | None, *pods: Json, boot: str = "") -> list[str]:
    return what_keeps_it(body, pods, devices=["rdma/a"], daemon_sets=["ns/plugin"], boot=boot)


def daemon_pod(ready: str = "True", name: str = "plugin") -> Json:
    pod = objects.pod(owner={**objects.DAEMON_SET, "name": name})
    pod["status"]["conditions"] = [{"type": "Ready", "status": ready}]
    return pod


def test_what_keeps_a_node_is_named_together() -> None:
    assert keeps(node(), daemon_pod()) == []
    assert keeps(None) == ["it is not registered"]
    silent = {**node(), "status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    assert keeps(silent, daemon_pod("False"), daemon_pod(name="other")) == [
        "it is not Ready",
        "it does not offer rdma/a",
        "no ready pod on it of DaemonSet ns/plugin",
    ]
    assert keeps(node(), daemon_pod(), boot="one") == ["its kubelet has not reported since the reboot"]
    assert keeps(node(boot="two"), daemon_pod(), boot="one") == []
