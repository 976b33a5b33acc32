# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that are kept out of service are on the screen with who keeps them, and red where that waits for a person."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._rollout import joining
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import ANNOTATION, Mark
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import Slot, lease_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._status.held_nodes import RUN
from ansible_collections.rdma.fabric.plugins.plugin_utils._status.service import service_state
from ansible_collections.rdma.fabric.plugins.plugin_utils._status.status import attention_of, cluster_state, screen

Json = dict[str, Any]
TAINT = "fabric.example.com/joining:NoSchedule"
WHY = "the links are not as before; rolled back to what it was before"
SINCE = "2026-03-01T10:00:00Z"


def node(
    name: str, *, cordoned: bool = False, mark: str = "", ready: bool = True, taint: str = "", join: str = ""
) -> Json:
    annotations = {key: value for key, value in ((ANNOTATION, mark), (joining.ANNOTATION, join)) if value}
    key, _colon, effect = taint.rpartition(":")
    return {
        "metadata": {"name": name, **({"annotations": annotations} if annotations else {})},
        "spec": {
            **({"unschedulable": True} if cordoned else {}),
            **({"taints": [{"key": key, "effect": effect}]} if taint else {}),
        },
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


def marked(name: str, run: str = RUN, reason: str = WHY) -> Json:
    """Return a node that we have cordoned."""
    return node(name, cordoned=True, mark=Mark("root@ctl", run, reason, SINCE).text())


def lease(name: str, failed: str = "", index: int = 0, group: str = "upgrade") -> Json:
    slot = Slot(index, name, "run-1" if name else "", renewed="2026-03-01T10:00:00.000000Z", duration=60, failed=failed)
    return dict(lease_of(slot, group, "fabric"))


def shown(nodes: list[Json], leases: list[Json], taint: str = "", unread: str = "") -> tuple[list[str], list[str]]:
    """Return what the screen says of these nodes beside a cluster that is as asked for, and what needs attention."""
    result: Json = {"results": [], "waits": []}
    hosts = {each["metadata"]["name"] for each in nodes if each["metadata"]["name"].startswith("gpu")}
    service = service_state(nodes, leases, taint, unread)
    cluster = {"server": "s", **cluster_state(result, nodes, [], hosts), **service}
    attention = attention_of([], cluster)
    lines = screen({"hosts": {"total": 0, "classes": []}, "cluster": cluster, "attention": attention})
    start = lines.index("  networks    0 of 0 there") + 1
    (end,) = (number for number, line in enumerate(lines) if line.startswith("result: "))
    return lines[start:end], attention


def test_nodes_in_service_are_no_line_whatever_their_number() -> None:
    free = lease("", index=3)
    assert shown([node(f"gpu-{number}") for number in range(50)], [free], TAINT) == ([], [])


def test_a_node_that_failed_its_upgrade_is_red_with_reason_time_and_next_step() -> None:
    lines, attention = shown([node("gpu-1"), marked("gpu-07")], [lease("gpu-07", WHY)])
    assert lines == [
        f"  cordoned    gpu-07: since {SINCE} by root@ctl: {WHY}",
        f"  slots       gpu-07: failed: {WHY}",
    ]
    cordon, slot = attention
    assert cordon.startswith("cordoned by a run: gpu-07; next: ")
    assert slot.startswith("failed slots, so no other node has its turn: gpu-07; next: ")
    for each in attention:
        assert "rdma.fabric.upgrade" in each and "rdma.fabric.rollback" in each
    assert "any_run: true" in slot


def test_a_failed_slot_is_red_without_its_node() -> None:
    lines, attention = shown([], [lease("gpu-07", WHY)])
    assert lines == [f"  slots       gpu-07: failed: {WHY}"]
    assert [each.partition(":")[0] for each in attention] == ["failed slots, so no other node has its turn"]


def test_a_held_slot_is_shown_and_says_what_to_wait_for_where_its_node_is_cordoned() -> None:
    line = f"  slots       gpu-3: held by run run-1, renewed {SINCE}"
    assert shown([node("gpu-3")], [lease("gpu-3")]) == ([line], [])
    lines, attention = shown([marked("gpu-3")], [lease("gpu-3")])
    assert lines[1:] == [line]
    assert [each.partition("; next: ")[0] for each in attention] == ["cordoned for a turn: gpu-3"]
    assert "wait for the run" in attention[0]


def test_the_slots_of_a_node_in_its_domain_and_of_all_are_one_line() -> None:
    leases = [lease("gpu-7", WHY), lease("gpu-7", WHY, group="upgrade-rack-1-0a1b2c3d")]
    lines, attention = shown([], leases)
    assert len(lines) == len(attention) == 1
    groups = [each["group"] for each in service_state([], leases, "")["slots"]["failed"]]
    assert groups == ["upgrade", "upgrade-rack-1-0a1b2c3d"]


def test_nodes_are_in_their_order_by_number_whatever_order_the_server_has_them_in() -> None:
    nodes = [marked("gpu-10"), marked("gpu-9"), node("gpu-12", cordoned=True), node("gpu-11", cordoned=True)]
    new = [node("gpu-14", taint=TAINT, ready=False), node("gpu-13", taint=TAINT)]
    leases = [lease("gpu-16"), lease("gpu-15"), lease("gpu-10", WHY), lease("gpu-9", "it did not come back")]
    lines, _attention = shown([*nodes, *new], leases, TAINT)
    assert lines == [
        f"  cordoned    gpu-9: since {SINCE} by root@ctl: {WHY}",
        f"              gpu-10: since {SINCE} by root@ctl: {WHY}",
        "              2 nodes by somebody else (SchedulingDisabled): gpu-11, gpu-12",
        "  slots       gpu-9: failed: it did not come back",
        f"              gpu-10: failed: {WHY}",
        f"              gpu-15: held by run run-1, renewed {SINCE}",
        f"              gpu-16: held by run run-1, renewed {SINCE}",
        f"  joining     2 nodes have the taint {TAINT}",
        "              gpu-13: Ready",
        "              gpu-14: not Ready",
    ]


def test_a_node_that_node_drain_has_cordoned_is_given_back_by_it() -> None:
    _lines, attention = shown([marked("gpu-2", run="", reason="new cables")], [])
    assert attention == [
        "cordoned by node_drain: gpu-2; next: rdma.fabric.node_drain with state: uncordoned, once it may take pods"
    ]


def test_what_somebody_else_has_cordoned_is_named_and_not_red() -> None:
    nodes = [node(f"gpu-{number}", cordoned=True) for number in range(1, 8)]
    lines, attention = shown(nodes, [])
    named = "gpu-1, gpu-2, gpu-3, gpu-4, gpu-5 and 2 more"
    assert lines == [f"  cordoned    7 nodes by somebody else (SchedulingDisabled): {named}"]
    assert attention == []


def test_a_host_that_somebody_else_has_cordoned_is_red_for_what_else_is_wrong() -> None:
    _lines, attention = shown([node("gpu-1", cordoned=True, ready=False), node("db-1", cordoned=True, ready=False)], [])
    assert attention == ["nodes not ready: gpu-1; next: look at their kubelet"]


def test_a_mark_on_a_node_that_takes_pods_is_no_cordon() -> None:
    assert shown([node("gpu-1", mark=Mark("root@ctl", RUN, WHY, SINCE).text())], []) == ([], [])


def test_a_cordon_whose_mark_can_not_be_read_is_ours() -> None:
    lines, attention = shown([node("gpu-1", cordoned=True, mark="{")], [])
    assert "can't be read" in lines[0] and len(attention) == 1


@pytest.mark.parametrize(("ready", "red"), [(True, True), (False, False)])
def test_a_node_that_waits_to_join_is_red_once_it_is_ready(ready: bool, red: bool) -> None:
    lines, attention = shown([node("new-1", taint=TAINT, ready=ready)], [], TAINT)
    state = "Ready" if ready else "not Ready"
    assert lines == [f"  joining     1 node has the taint {TAINT}", f"              new-1: {state}"]
    assert [each.partition("; next: ")[0] for each in attention] == (["Ready and not joined: new-1"] if red else [])


def test_a_node_that_failed_to_join_says_by_what() -> None:
    join = json.dumps({"joined": False, "reason": "it does not offer rdma/rail0"})
    lines, _attention = shown([node("new-1", taint=TAINT, join=join)], [], TAINT)
    assert lines[1] == "              new-1: Ready, it does not offer rdma/rail0"


@pytest.mark.parametrize("given", ["", "fabric.example.com/joining:NoExecute", "other.example.com/joining:NoSchedule"])
def test_a_taint_of_somebody_else_is_none_of_ours(given: str) -> None:
    assert shown([node("new-1", taint=TAINT)], [], given) == ([], [])


def test_many_are_a_few_lines() -> None:
    lines, attention = shown([marked(f"gpu-{number}") for number in range(1, 31)], [])
    assert len(lines) == 6 and lines[-1] == "              and 25 more"
    assert "gpu-1, gpu-2, gpu-3, gpu-4, gpu-5 and 25 more" in attention[0]


def test_slots_that_may_not_be_listed_are_said_and_not_red() -> None:
    unread = "the slots were not read: forbidden"
    assert shown([], [], unread=unread) == ([f"  slots       {unread}"], [])


def test_what_others_have_written_stays_on_its_line() -> None:
    lines, _attention = shown([marked("gpu-1", reason="a\nb\x1b[31m")], [])
    assert len(lines) == 1 and "\x1b" not in lines[0]
