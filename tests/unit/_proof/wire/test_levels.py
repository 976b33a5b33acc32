# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Levels of acceptance, what a plan takes, and which schedule fits a time."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._proof.schedule import SCHEDULES
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.campaign import Settings
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.levels import (
    BY_THOROUGHNESS,
    LEVELS,
    Estimate,
    estimate,
    fitting_plan,
    gpus_left_out,
    schedules_of,
    with_level,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.plan import Surroundings, make_plan
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.plugins.modules import fabric_verify
from ansible_collections.rdma.fabric.tests.unit._proof.wire.test_plan import RESOURCE, around, network, node, options

NOT_GIVEN = {"pairs": None, "test_timeout": None, "iterations": None}
OPTIONS = yaml.safe_load(fabric_verify.DOCUMENTATION)["options"]


def cluster(count: int, *, rails: int = 1, leaf: int = 0) -> Surroundings:
    """So many nodes, with a leaf of so many if that is told, and networks that are tested at once."""
    names = [f"n{number}" for number in range(count)]
    networks = [network(f"rail{rail}", master=f"rail{rail}") for rail in range(rails)]
    told = [f"leaf{number // leaf}" if leaf else "" for number in range(count)]
    nodes = [node(name, leaf=each, allocatable={RESOURCE: rails}) for name, each in zip(names, told)]
    return around(nodes=nodes, networks=networks, hosts=dict.fromkeys(names))


def chosen(there: Surroundings, schedules: Any, minutes: int, limit: int = 30) -> str:
    """The schedule that fits."""
    takes = partial(estimate, settings=Settings(limit=limit), parallel=64)
    return str(fitting_plan(options(test_timeout=limit), there, schedules, minutes, takes)["schedule"])


def test_a_level_sets_what_is_not_given_and_nothing_else() -> None:
    assert with_level({**NOT_GIVEN, "level": "quick"}) == {"level": "quick", **LEVELS["quick"]}
    given = {"pairs": "ring", "test_timeout": 45, "iterations": 7}
    assert with_level({**given, "level": "strict"}) == {**given, "level": "strict"}
    usual = {"level": None, "pairs": "all", "test_timeout": 30, "iterations": None}
    assert with_level({**NOT_GIVEN, "level": None}) == usual


@pytest.mark.parametrize("level", [None, *LEVELS])
def test_a_level_with_gpu_memory_says_where_it_has_no_pods_with_a_gpu(level: str | None) -> None:
    nodes = [node("n1", allocatable={"nvidia.com/gpu": 8}), node("n2", allocatable={RESOURCE: 1})]
    found = gpus_left_out(level, None, nodes)
    assert ["n1)" in each for each in found] == [True] * (level in ("full", "strict"))
    assert gpus_left_out(level, "nvidia.com/gpu", nodes) == gpus_left_out(level, None, nodes[1:]) == []


def test_the_documented_levels_and_schedules_are_those_of_the_table() -> None:
    assert OPTIONS["level"]["choices"] == list(LEVELS)
    assert sorted(BY_THOROUGHNESS) == sorted(SCHEDULES) == sorted(OPTIONS["pairs"]["choices"])
    for level, sets in LEVELS.items():
        (words,) = [each for each in OPTIONS["level"]["description"] if f"V({level})" in each]
        assert f"O(pairs={sets['pairs']})" in words
        assert level == "strict" or f"slots of {sets['test_timeout']} seconds" in words


def test_a_plan_says_what_it_takes() -> None:
    plan = make_plan(options(test_timeout=30), cluster(8, rails=2))
    found = estimate(plan, Settings(limit=30), 16)
    # 28 pairs a rail in 7 rounds, both at once; 20 GB each way.
    assert found[:3] == (16, 7, 56)
    assert found.sent == 56 * 2 * 5000 * 4 * 2**20
    assert 7 * 30 < found.seconds < 7 * 30 + 60
    assert found.words() == "16 pods, 56 pairs in up to 7 rounds, 2,349 GB sent, 4 minutes at most"
    assert estimate(plan, Settings(limit=30, gpu=True), 16).sent == 2 * found.sent
    assert Estimate(2, 1, 1, 10**9, 50).words().endswith("1 minute at most")


def test_a_hunt_over_a_thousand_nodes_and_eight_rails_fits_ten_minutes_and_a_quick_one_six() -> None:
    plan = make_plan(options(schedule="hunt", test_timeout=30), cluster(1000, rails=8))
    full = estimate(plan, Settings(limit=30), 64)
    assert full[:3] == (8000, 13, 8000)
    assert full.seconds < 600
    assert estimate(plan, Settings(limit=10), 64).seconds < 360


def test_networks_that_take_turns_add_up() -> None:
    there = around(networks=[network("rail0"), network("rail1")])
    one, two = (make_plan(options(**more), there) for more in ({"networks": ["rail0"]}, {}))
    seconds = [estimate(plan, Settings(limit=30), 16).seconds for plan in (one, two)]
    assert abs(seconds[1] - 2 * seconds[0]) <= 1


@pytest.mark.parametrize(
    ("minutes", "leaf", "schedule"), [(60, 8, "all"), (20, 8, "leaf"), (20, 0, "hunt"), (2, 0, "ring")]
)
def test_the_most_thorough_schedule_that_fits_is_taken(minutes: int, leaf: int, schedule: str) -> None:
    assert chosen(cluster(64, leaf=leaf), BY_THOROUGHNESS, minutes) == schedule


def test_a_schedule_with_too_many_pairs_for_one_run_gives_way_to_one_with_fewer() -> None:
    assert chosen(cluster(500), BY_THOROUGHNESS, 10**6) == "hunt"


def test_a_level_is_the_most_that_is_taken_and_pairs_that_are_given_are_the_only_ones() -> None:
    assert schedules_of(None, "full") == ("ring", "hunt")
    assert schedules_of(None, "strict") == schedules_of(None, None) == BY_THOROUGHNESS
    assert schedules_of("leaf", "quick") == ("leaf",)
    assert chosen(cluster(8), schedules_of(None, "full"), 10**6) == "hunt"


def test_what_does_not_fit_is_refused_with_what_it_takes() -> None:
    with pytest.raises(InvalidInput) as refused:
        chosen(cluster(64), BY_THOROUGHNESS, 1)
    (flaw,) = refused.value.violations
    assert flaw.path == "minutes"
    assert "nothing that is asked for fits 1 minutes; ring: 64 pods, 64 pairs in up to 2 rounds" in flaw.problem
    with pytest.raises(InvalidInput) as refused:
        chosen(cluster(64), ("all",), 20)
    assert "all: 64 pods, 2,016 pairs in up to 63 rounds" in refused.value.violations[0].problem


def test_what_forbids_every_plan_is_told_as_without_a_limit() -> None:
    with pytest.raises(InvalidInput) as refused:
        chosen(around(attachments=[]), BY_THOROUGHNESS, 10)
    assert "there is no NetworkAttachmentDefinition" in refused.value.violations[0].problem
