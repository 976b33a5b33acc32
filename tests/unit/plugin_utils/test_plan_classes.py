# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans of a fleet: equal ones are printed once, and nothing that differs is hidden."""

from __future__ import annotations

import pytest

from ansible_collections.rdma.fabric.plugins.action.rdma_host import for_later
from ansible_collections.rdma.fabric.plugins.plugin_utils._console.plan_classes import (
    notice_lines,
    plan_lines_of_classes,
)

MTU = "planned: mtu 0000:29:00.0 (storage0): set the MTU to 9000 (now 1500) [now; interrupts traffic on storage0]"
ROUTE = "planned: routes 0000:29:00.0 (storage0): add the route 10.{}.0.0/16 [now+boot; interrupts nothing]"


def test_equal_hosts_are_one_class_and_idle_ones_another() -> None:
    plans = {"gpu-10": [MTU], "gpu-9": [MTU], "gpu-11": [MTU], "cpu": [], "odd": [MTU, MTU]}
    assert plan_lines_of_classes(plans) == [
        "cpu: nothing to do",
        "gpu-9,gpu-10,gpu-11 (3 hosts): 1 step",
        f"  {MTU}",
        "odd: 2 steps",
        f"  {MTU}",
        f"  {MTU}",
    ]


def test_what_differs_inside_a_class_is_printed_with_its_hosts() -> None:
    plans = {f"gpu-{number}": [MTU, ROUTE.format(7 if number < 4 else number)] for number in range(1, 6)}
    assert plan_lines_of_classes(plans) == [
        "gpu-[1:5] (5 hosts): 2 steps",
        f"  {MTU}",
        f"  [gpu-[1:3]] {ROUTE.format(7)}",
        f"  [gpu-4] {ROUTE.format(4)}",
        f"  [gpu-5] {ROUTE.format(5)}",
    ]


@pytest.mark.parametrize(
    "other",
    [
        MTU.replace("planned", "refused"),
        MTU.replace("planned", "needs consent"),
        MTU.replace("mtu", "queues"),
        MTU.replace("29:00.0", "2a:00.0"),
    ],
)
def test_another_status_concern_or_device_makes_another_class(other: str) -> None:
    assert plan_lines_of_classes({"a": [MTU], "b": [other]}) == ["a: 1 step", f"  {MTU}", "b: 1 step", f"  {other}"]


def test_the_name_of_an_interface_makes_no_other_class() -> None:
    other = MTU.replace("storage0", "ens2")
    assert plan_lines_of_classes({"a": [MTU], "b": [other]}) == [
        "a,b (2 hosts): 1 step",
        f"  [a] {MTU}",
        f"  [b] {other}",
    ]


def test_a_thousand_hosts_print_one_plan() -> None:
    plans = {f"gpu-{number:04}": [MTU] * 40 for number in range(1000)}
    assert len(plan_lines_of_classes(plans)) == 41


def test_a_notice_is_printed_once_with_its_hosts() -> None:
    notices = {"gpu-2": ["slow slot", "no link"], "gpu-1": ["slow slot"], "gpu-3": []}
    assert notice_lines(notices) == ["notice: gpu-1,gpu-2: slow slot", "notice: gpu-2: no link"]


def test_what_a_host_writes_into_its_plan_reaches_no_terminal_and_stops_nobody() -> None:
    """One host of a thousand may answer anything; the plans of the others are printed all the same."""
    escaped = for_later("planned: mtu 0000:18:00.0: \x1b[2J\u202e\u2028\x0cit\nnotice: \x9b31m\n", None, steps=True)
    line = "planned: mtu 0000:18:00.0: \\x1b[2J\\u202e\\u2028\\x0cit"
    assert escaped == {"notices": ["\\x9b31m"], "steps": [line]}
    odd = for_later("garbage\n", None, steps=True)["steps"]
    assert plan_lines_of_classes({"a": odd, "b": escaped["steps"]}) == [
        "a: 1 step",
        "  garbage",
        "b: 1 step",
        f"  {line}",
    ]


def test_wordings_that_name_each_host_are_told_in_part_where_a_file_has_them() -> None:
    plans = {
        f"a-{number:03}": [f"planned: routing rail0: route {number}", "planned: mtu b: 9000"] for number in range(500)
    }
    assert len(plan_lines_of_classes(plans)) == 502
    lines = plan_lines_of_classes(plans, 3)
    assert lines[1:] == [
        "  [a-000] planned: routing rail0: route 0",
        "  [a-001] planned: routing rail0: route 1",
        "  [a-002] planned: routing rail0: route 2",
        "  [a-[003:499]] the same step in 497 other wordings",
        "  planned: mtu b: 9000",
    ]
