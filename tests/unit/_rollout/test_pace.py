# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many of those that wait for one slot try to take it, however many they are; and what a wait says."""

from __future__ import annotations

import random
from statistics import mean

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.pace import Pace, kept_back

# From a write of one to the moment when the others are told of it.
UNTIL_TOLD = 0.03


@pytest.mark.parametrize("count", [1, 2, 5, 20, 50, 100, 200, 500])
def test_few_of_any_number_try_before_they_are_told_that_one_did(count: int) -> None:
    chance = random.Random(count)  # noqa: S311 - the same numbers each time
    tries, firsts = [], []
    for _slot in range(300):
        times = sorted(kept_back(chance.random(), 0) for _one in range(count))
        tries.append(sum(time <= times[0] + UNTIL_TOLD for time in times))
        firsts.append(times[0])
    assert mean(tries) < 4
    # The slot is idle for so long, out of the minutes of a turn.
    assert mean(firsts) < 0.26


def test_nobody_keeps_back_for_longer_than_a_moment() -> None:
    assert [kept_back(0.0, losses) for losses in range(9)] == [0.0] * 9
    assert [round(kept_back(1.0, losses), 6) for losses in (0, 1, 2, 3, 50)] == [0.3, 0.6, 1.2, 1.2, 1.2]


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def test_a_wait_that_is_renewed_counts_anew_and_still_says_what_it_waits_for() -> None:
    time, said = Time(), list[float]()
    pace = Pace(time, 30.0, lambda _text: said.append(time.seconds))
    while time.seconds < 100:
        pace.wait(lambda: "x", at_most=3.0)
        pace.renew()
        assert not pace.is_over()
    assert 8 <= len(said) <= 10
    assert min(later - before for before, later in zip(said, said[1:])) >= 10


def test_who_has_come_nearer_looks_often_again_and_has_waited_since_then() -> None:
    time = Time()
    pace = Pace(time, 1000.0, lambda _text: None)
    for _look in range(10):
        pace.wait(lambda: "x")
    renewed = time.seconds
    assert pace.waited() == renewed > 20
    pace.renew()
    pace.wait(lambda: "x")
    assert pace.waited() == time.seconds - renewed == 0.5


def looks_of(limit: float) -> list[float]:
    """Return when a wait of this limit looks, the last time at its end."""
    time, looks = Time(), [0.0]
    pace = Pace(time, limit, lambda _text: None)
    while not pace.is_over():
        pace.wait(lambda: "x")
        looks.append(time.seconds)
    return looks


def test_looks_are_at_growing_intervals_and_the_last_one_at_the_limit() -> None:
    looks = looks_of(30.0)
    intervals = [later - before for before, later in zip(looks, looks[1:])]
    assert [round(each, 2) for each in intervals[:3]] == [0.5, 0.75, 1.12]
    assert max(intervals) == 5.0
    assert looks[-1] == 30.0
    assert looks_of(1.0) == [0.0, 0.5, 1.0]


def test_who_keeps_back_beyond_the_limit_does_so_at_the_same_intervals() -> None:
    time = Time()
    pace = Pace(time, 1.0, lambda _text: None)
    time.seconds = 2.0
    pace.wait(lambda: "x", at_most=0.4)
    assert time.seconds == 2.4
    pace.wait(lambda: "x")
    assert 2.4 < time.seconds < 8
