# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stages of a turn: what follows what, how long each took, and what a host looked like before and after."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.timeline import (
    begun,
    closed,
    ended,
    opened,
    refusals_of,
    stage_of_host,
    versions_of,
)


def turn(**changes: Any) -> dict[str, Any]:
    found = begun(host="a", node="a", run="r", slot="s-0", domain="", waited=5.0, now=1000.0)
    return {**found, "state": "present", **changes}


def told(found: dict[str, Any]) -> list[tuple[str, float, float | None, bool]]:
    return [(stage["stage"], stage["at"], stage["seconds"], stage["failed"]) for stage in found["stages"]]


def test_a_stage_takes_what_the_monotonic_clock_says_and_the_turn_what_the_calendar_says() -> None:
    found = closed(opened(turn(), "drain", 1001.0), 1031.5, 30.0)
    found = ended(closed(opened(found, "change", 1032.0), 1100.0, 68.0), 1101.0)
    assert told(found) == [("drain", 1.0, 30.0, False), ("change", 32.0, 68.0, False)]
    assert (found["seconds"], found["end"], found["reason"]) == (101.0, "given_back", "")


def test_a_reboot_that_goes_on_ends_as_the_next_stage_begins() -> None:
    found = opened(opened(turn(), "reboot", 1010.0), "verify", 1250.0)
    assert told(found) == [("reboot", 10.0, 240.0, False), ("verify", 250.0, None, False)]


def test_a_turn_that_fails_in_a_stage_that_goes_on_has_failed_there() -> None:
    found = ended(opened(turn(), "reboot", 1010.0), 1610.0, "unreachable")
    assert told(found) == [("reboot", 10.0, 600.0, True)]
    assert (found["end"], found["reason"], found["seconds"]) == ("failed", "unreachable", 610.0)


def test_a_calendar_that_was_set_back_makes_no_stage_begin_before_its_turn() -> None:
    found = closed(opened(turn(), "drain", 400.0), 430.0)
    assert told(found) == [("drain", 0.0, 0.0, False)]


@pytest.mark.parametrize(
    ("before", "state", "stage"),
    [
        ([], "present", "change"),
        (["drain"], "present", "change"),
        (["drain", "change", "reboot"], "present", "verify"),
        (["drain", "change"], "previous", "roll_back"),
        (["drain", "change", "reboot", "verify"], "previous", "roll_back"),
        (["drain", "change", "roll_back", "reboot"], "previous", "verify"),
    ],
)
def test_a_look_at_the_host_is_named_by_what_was_before_it(before: list[str], state: str, stage: str) -> None:
    found = turn()
    for name in before:
        found = opened(found, name, 1001.0)
    assert stage_of_host(found, state) == stage


def test_the_playbook_rollback_changes_a_host_in_its_turn() -> None:
    found = closed(opened(turn(state="previous"), "change", 1001.0), 1002.0)
    assert stage_of_host(found, "previous") == "verify"


def test_versions_are_those_of_driver_kernel_and_firmware() -> None:
    facts = {
        "stack": {"flavour": "doca-ofed", "version": "25.04"},
        "system": {"kernel": "5.15.0"},
        "rdma": [{"firmware": "28.43"}, {"firmware": "28.39"}, {"firmware": "28.43"}, {"firmware": None}],
    }
    assert versions_of(facts) == {"driver": "doca-ofed 25.04", "kernel": "5.15.0", "firmware": ["28.39", "28.43"]}
    assert versions_of({}) == {"driver": "", "kernel": "", "firmware": []}


def test_pods_that_were_refused_are_named_the_longest_first() -> None:
    pods: list[dict[str, Any]] = [
        {"namespace": "a", "name": "quick", "blocked": "", "refused": None},
        {"namespace": "a", "name": "slow", "blocked": "a budget", "refused": 10.0},
        {"namespace": "b", "name": "slower", "blocked": "a budget", "refused": 31.0},
    ]
    assert [(each["pod"], each["seconds"]) for each in refusals_of(pods)] == [("b/slower", 31.0), ("a/slow", 10.0)]
