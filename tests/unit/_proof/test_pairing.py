# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds of pairs: nobody twice in a round, every pair once, and few rounds that still tell a bad node."""

from __future__ import annotations

import time
from itertools import combinations

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof import pairing
from ansible_collections.rdma.fabric.plugins.module_utils._proof.pairing import hunt_length, rounds, suspects

SIZES = [2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33, 100]


def nodes(count: int) -> list[str]:
    return [f"node-{number}" for number in range(count)]


@pytest.mark.parametrize("count", SIZES)
def test_all_covers_every_pair_once_in_the_fewest_rounds(count: int) -> None:
    found = rounds(nodes(count))
    assert len(found) == (count if count % 2 else count - 1)
    assert sorted(pair for turn in found for pair in turn) == sorted(combinations(sorted(nodes(count)), 2))


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("schedule", ["all", "hunt"])
def test_no_node_is_twice_in_a_round(count: int, schedule: str) -> None:
    for turn in rounds(nodes(count), schedule):
        members = [node for pair in turn for node in pair]
        assert len(members) == len(set(members))
        assert len(turn) == count // 2


@pytest.mark.parametrize("count", SIZES)
def test_a_hunt_takes_about_log2_rounds(count: int) -> None:
    found = rounds(nodes(count), "hunt")
    assert len(found) == min(hunt_length(count), len(rounds(nodes(count))))
    assert 2 ** (len(found) - count % 2) >= count or len(found) == len(rounds(nodes(count)))


def test_only_the_pairs_of_a_hunt_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pairs of thousands of nodes are millions."""
    made: list[pairing.Pair] = []

    def ordered(one: str, other: str) -> pairing.Pair:
        made.append((one, other))
        return one, other

    monkeypatch.setattr(pairing, "_ordered", ordered)
    assert len(rounds(nodes(1000), "hunt")) == 10
    assert len(made) == 10 * 500


@pytest.mark.parametrize("count", [0, 1, *SIZES])
@pytest.mark.parametrize("schedule", ["all", "hunt"])
def test_pairs_are_counted_without_being_made(count: int, schedule: str) -> None:
    assert pairing.pair_count(count, schedule) == sum(map(len, rounds(nodes(count), schedule)))


@pytest.mark.parametrize("count", [size for size in SIZES if size > 2])
def test_a_hunt_finds_any_one_bad_node(count: int) -> None:
    found = rounds(nodes(count), "hunt")
    for bad in nodes(count):
        outcomes = {pair: bad not in pair for turn in found for pair in turn}
        assert suspects(outcomes) == [bad]


@pytest.mark.parametrize("count", [5, 8, 16])
def test_all_pairs_find_any_two_bad_nodes(count: int) -> None:
    found = [pair for turn in rounds(nodes(count)) for pair in turn]
    for bad in combinations(nodes(count), 2):
        assert suspects({pair: not set(bad) & set(pair) for pair in found}) == sorted(bad)


def test_two_nodes_that_fail_are_both_suspected() -> None:
    assert rounds(["b", "a"]) == [[("a", "b")]]
    assert suspects({("a", "b"): False}) == ["a", "b"]
    assert suspects({("a", "b"): True}) == []


def test_a_dead_fabric_of_hundreds_of_nodes_is_told_in_no_time() -> None:
    names = nodes(600)
    began = time.process_time()
    assert suspects({pair: False for turn in rounds(names) for pair in turn}) == sorted(names)
    assert time.process_time() - began < 5, "looking through every pair for each node takes half a minute"


def test_a_node_that_met_only_bad_ones_is_not_suspected_with_them() -> None:
    """In a hunt each node meets few others; what fails with a suspected one may be fine itself."""
    assert suspects({("a", "b"): False, ("b", "c"): False, ("c", "d"): True}) == ["b"]
    assert suspects({("a", "b"): False, ("b", "c"): False, ("c", "d"): True, ("e", "f"): False}) == ["b", "e", "f"]


def test_one_bad_wire_between_good_nodes_accuses_nobody() -> None:
    outcomes = {pair: pair != ("a", "b") for pair in combinations("abcd", 2)}
    assert suspects(outcomes) == []


def test_the_schedule_does_not_depend_on_the_order_of_the_nodes_nor_on_repetitions() -> None:
    expected = [[("a", "d"), ("b", "c")], [("a", "c"), ("b", "d")], [("a", "b"), ("c", "d")]]
    assert rounds(["c", "a", "d", "b"]) == rounds(["a", "b", "c", "d", "a"]) == expected


@pytest.mark.parametrize("few", [[], ["a"]])
def test_fewer_than_two_nodes_make_no_round(few: list[str]) -> None:
    assert rounds(few) == rounds(few, "hunt") == []


def test_hostile_names_are_names() -> None:
    strange = ["../x", "a'; rm -rf /", "\x00", ""]
    assert sorted({node for turn in rounds(strange) for pair in turn for node in pair}) == sorted(strange)
