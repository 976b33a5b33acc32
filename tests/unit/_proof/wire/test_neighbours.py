# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom a node is tested with: a healthy neighbour with a free device, another one for each node, and who is blamed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.neighbours import (
    MOST_PAIRS,
    Attempt,
    devices_in_use,
    in_order,
    is_healthy,
    is_over,
    judge,
    lacks_device,
)
from ansible_collections.rdma.fabric.tests.unit._proof.wire.test_plan import RESOURCE, node

Json = dict[str, Any]


def pod(*containers: Json, phase: str = "Running", **spec: Any) -> Json:
    return {"spec": {"containers": list(containers), **spec}, "status": {"phase": phase}}


def container(amount: str, kind: str = "requests") -> Json:
    return {"resources": {kind: {RESOURCE: amount, "cpu": "100m"}}}


def test_the_order_is_the_same_in_each_run_and_another_one_for_each_node() -> None:
    names = [f"gpu-{number:02}" for number in range(40)]
    others = {name: [each for each in names if each != name] for name in names}
    first = Counter(in_order(name, others[name])[0] for name in names)
    assert first == Counter(in_order(name, reversed(others[name]))[0] for name in names)
    assert max(first.values()) <= 5, "no node is everybody's neighbour"
    assert len(first) > 20


@pytest.mark.parametrize(
    ("row", "healthy"),
    [
        (node("n2"), True),
        (node("n2", ready=False), False),
        (node("n2", unschedulable=True), False),
        (node("n3"), False),
        (None, False),
    ],
)
def test_a_neighbour_is_ready_in_service_and_has_no_slot(row: Json | None, healthy: bool) -> None:
    assert is_healthy(row, {"n3"}) is healthy


@pytest.mark.parametrize(
    ("pods", "used"),
    [
        ([], 0),
        ([pod(container("2"), container("1")), pod(container("1", "limits"))], 4),
        ([pod(container("2"), phase="Succeeded"), pod(container("2"), phase="Failed")], 0),
        ([pod(container("1"), initContainers=[container("3"), container("2")])], 3),
        ([pod({}), {"spec": {}}], 0),
    ],
)
def test_devices_are_counted_as_the_kubelet_counts_them(pods: list[Json], used: int) -> None:
    assert devices_in_use(pods).get(RESOURCE, 0) == used


@pytest.mark.parametrize(
    ("allocatable", "used", "lacks"),
    [
        ({RESOURCE: 1}, {}, ""),
        ({RESOURCE: 2}, {RESOURCE: 1}, ""),
        ({RESOURCE: 2}, {RESOURCE: 2}, f"has no {RESOURCE} free"),
        ({RESOURCE: 0}, {}, f"offers no {RESOURCE}"),
        ({}, {}, f"offers no {RESOURCE}"),
    ],
)
def test_a_device_has_to_be_there_and_free(allocatable: Json, used: dict[str, int], lacks: str) -> None:
    assert lacks_device(node("n1", allocatable=allocatable), [RESOURCE], used) == lacks


PASSED, RED, EXCUSED = "pass", "fail", "excused"


def attempts(*verdicts: str) -> list[Attempt]:
    return [
        Attempt(f"n{number}", RED if verdict == EXCUSED else verdict, verdict == RED)
        for number, verdict in enumerate(verdicts, 2)
    ]


@pytest.mark.parametrize(
    ("verdicts", "over"),
    [
        ((), False),
        ((PASSED,), True),
        (("reported",), True),
        ((RED,), False),
        ((RED, RED), True),
        ((RED, EXCUSED), False),
        ((EXCUSED,) * (MOST_PAIRS - 1), False),
        ((EXCUSED,) * MOST_PAIRS, True),
    ],
)
def test_a_second_neighbour_is_asked_after_a_failure_and_no_third_one(verdicts: tuple[str, ...], over: bool) -> None:
    assert is_over(attempts(*verdicts)) is over


@pytest.mark.parametrize(
    ("verdicts", "verdict", "line", "notices"),
    [
        ((PASSED,), "pass", "rail0: n1 passes with n2", 0),
        ((RED, "reported"), "reported", "rail0: n1 passes with n3", 1),
        ((EXCUSED, PASSED), "pass", "rail0: n1 passes with n3", 0),
        ((RED, RED), "fail", "rail0: n1 fails with n2 and with n3", 0),
        (
            (RED,),
            "fail",
            "rail0: n1 fails with n2, and there is no other neighbour to tell which of both is at fault",
            0,
        ),
        (
            (EXCUSED,),
            "skipped",
            "rail0: n1 is not tested: each neighbour went out of service meanwhile: n2",
            1,
        ),
    ],
)
def test_the_node_is_blamed_for_what_it_fails_with_two_healthy_neighbours(
    verdicts: tuple[str, ...], verdict: str, line: str, notices: int
) -> None:
    found = judge("n1", "rail0", attempts(*verdicts))
    assert (found.verdict, found.line, len(found.notices)) == (verdict, line, notices)


def test_a_neighbour_that_only_one_node_passes_with_is_named() -> None:
    (notice,) = judge("n1", "rail0", attempts(RED, PASSED)).notices
    assert notice == "rail0: n2 fails with n1, which passes with n3: look at n2"
