# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the report says of turns: those of the last run, on one line of time."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._report.documents import turn_violations
from ansible_collections.rdma.fabric.plugins.module_utils._report.rollout import rollout_section
from ansible_collections.rdma.fabric.tests.unit._report.turns import turn


def section(*turns: dict[str, Any]) -> dict[str, Any]:
    found = rollout_section(turns)
    assert found is not None
    return found


def test_turns_stand_in_their_order_from_when_the_first_host_waited() -> None:
    found = section(turn("b", 600.0, waited=590.0), turn("a", 5.0, waited=5.0))
    assert (found["began"], found["seconds"]) == ("2026-01-01T00:00:00Z", 1090.0)
    assert [(row["host"], row["at"], row["waited"]) for row in found["turns"]] == [("a", 5.0, 5.0), ("b", 600.0, 590.0)]


def test_stages_and_what_is_between_them_add_up_to_the_turn() -> None:
    (row,) = section(turn("a"))["turns"]
    assert sum(stage["seconds"] for stage in row["stages"]) + row["other"] == row["seconds"] == 490.0


def test_a_turn_that_has_not_ended_is_shown_as_far_as_it_is_known() -> None:
    stages = turn("a")["stages"][:2]
    going_on = [stages[0], {**stages[1], "seconds": None}]
    (row,) = section(turn("a", stages=going_on, seconds=None, end=""))["turns"]
    assert (row["seconds"], row["other"], row["shown"]) == (None, None, 25.0)


def test_only_the_last_run_counts_and_without_turns_there_is_nothing() -> None:
    found = section(turn("a", run="old"), turn("b", 10.0, run="new"), turn("c", 20.0, run="new"))
    assert (found["run"], [row["host"] for row in found["turns"]]) == ("new", ["b", "c"])
    assert rollout_section([]) is None


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"format": "another"}, "format"),
        ({"waited": "long"}, "waited"),
        ({"began": 1e300}, "began"),
        ({"stages": [{"stage": "drain"}]}, "stages[0].at"),
        ({"stages": [{"stage": "lunch", "at": 0.0, "seconds": 1.0, "failed": False}]}, "stages[0].stage"),
        ({"end": "won"}, "end"),
        ({"before": {"driver": "x"}}, "before.kernel"),
        ({"refusals": [1]}, "refusals[0]"),
    ],
)
def test_what_is_no_turn_is_named(changes: dict[str, Any], path: str) -> None:
    assert path in [violation.path for violation in turn_violations("a.json", {**turn("a"), **changes})]
    assert turn_violations("a.json", turn("a")) == []
