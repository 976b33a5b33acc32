# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds of pairs: nobody twice in a round, every pair once, each leaf with each other, the same by the same seed."""

from __future__ import annotations

from itertools import combinations

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof import schedule
from ansible_collections.rdma.fabric.plugins.module_utils._proof.schedule import (
    SCHEDULES,
    most_rounds,
    pair_count,
    pair_of,
    rounds,
)

SIZES = [2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33, 100]


@pytest.mark.parametrize("count", SIZES)
def test_all_covers_every_pair_once_in_the_fewest_rounds(count: int) -> None:
    found = rounds("all", range(count), seed=3)
    assert len(found) == (count if count % 2 else count - 1)
    assert sorted(pair for turn in found for pair in turn) == sorted(combinations(range(count), 2))
    assert all(len(turn) == count // 2 for turn in found)


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("kind", SCHEDULES)
def test_no_end_is_twice_in_a_round_and_what_is_counted_is_not_exceeded(count: int, kind: str) -> None:
    leaves = {end: f"leaf{end // 3}" for end in range(count)}
    found = rounds(kind, range(count), seed=1, leaves=leaves)
    for turn in found:
        members = [end for pair in turn for end in pair]
        assert len(members) == len(set(members))
        assert turn == sorted(pair_of(*pair) for pair in turn)
    counted = pair_count(kind, count, len(set(leaves.values())))
    assert sum(map(len, found)) == counted if kind in ("all", "ring") else sum(map(len, found)) <= counted
    assert kind == "leaf" or len(found) <= most_rounds(kind, count)


def test_another_seed_has_other_pairs_and_the_same_has_the_same() -> None:
    first, again, other = (rounds("hunt", range(64), seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert len(set(first[0]) & set(other[0])) < 8


def test_a_hunt_has_as_many_plain_rounds_as_are_asked_for_and_only_their_pairs_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All pairs of thousands of nodes are millions."""
    made: list[schedule.Pair] = []

    def pair(one: int, other: int) -> schedule.Pair:
        made.append((one, other))
        return one, other

    monkeypatch.setattr(schedule, "pair_of", pair)
    assert len(rounds("hunt", range(1000), seed=0)) == 1
    assert len(made) == 500


@pytest.mark.parametrize("count", [size for size in SIZES if size > 2])
def test_a_ring_has_each_end_with_both_of_its_neighbours(count: int) -> None:
    found = rounds("ring", range(count), seed=5)
    assert sorted(pair for turn in found for pair in turn) == sorted(pair_of(n, (n + 1) % count) for n in range(count))


@pytest.mark.parametrize(("ends", "size", "most"), [(8, 4, 2), (64, 8, 3), (512, 32, 3), (1000, 32, 5), (7, 3, 4)])
def test_leaves_meet_each_other_and_themselves_in_few_rounds(ends: int, size: int, most: int) -> None:
    leaves = {end: f"leaf{end // size}" for end in range(ends)}
    found = rounds("leaf", range(ends), seed=1, leaves=leaves)
    met = {tuple(sorted((leaves[a], leaves[b]))) for turn in found for a, b in turn}
    assert met >= set(combinations(sorted(set(leaves.values())), 2))
    assert len(found[0]) == ends // size * (size // 2) + ends % size // 2
    assert len(found) <= most


@pytest.mark.parametrize("kind", SCHEDULES)
@pytest.mark.parametrize("few", [[], [1]])
def test_fewer_than_two_ends_make_no_round(kind: str, few: list[int]) -> None:
    assert rounds(kind, few, seed=0) == []
    assert most_rounds(kind, len(few)) == 0
