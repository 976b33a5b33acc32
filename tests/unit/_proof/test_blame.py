# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is at fault, on outcomes of a few pairs: each kind of fault, what can't be told apart, and what is chance."""

from __future__ import annotations

import time
from itertools import combinations

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.blame import (
    Accused,
    Outcome,
    Place,
    blame,
    next_rounds,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.schedule import rounds

RAIL = "rail0"


def all_pairs(count: int, bad: set[int], networks: tuple[str, ...] = (RAIL,)) -> list[Outcome]:
    return [
        Outcome(network, a, b, not {a, b} & bad, round=number)
        for network in networks
        for number, turn in enumerate(rounds("all", range(count), seed=0))
        for a, b in turn
    ]


def sure(outcomes: list[Outcome], places: dict[tuple[str, int], Place] | None = None) -> list[Accused]:
    return [each for each in blame(outcomes, places=places or {}) if each.sure]


@pytest.mark.parametrize("count", [4, 5, 8, 17])
def test_any_one_bad_end_is_named_and_nobody_else(count: int) -> None:
    for bad in range(count):
        (found,) = blame(all_pairs(count, {bad}), places={})
        assert (found.causes, found.ends, found.fault, found.sure) == (
            (("end", RAIL, bad),),
            ((RAIL, bad),),
            "dead",
            True,
        )
        assert found.failed == found.good == count - 1


@pytest.mark.parametrize("count", [8, 16])
def test_any_two_bad_ends_are_named(count: int) -> None:
    for bad in combinations(range(count), 2):
        assert sorted(each.causes[0][2] for each in sure(all_pairs(count, set(bad)))) == sorted(bad)


def test_two_ends_that_fail_are_suspected_both_with_their_network() -> None:
    once = [Outcome(RAIL, 0, 1, False)]
    (found,) = blame(once, places={})
    assert found.causes == (("network", RAIL), ("end", RAIL, 0), ("end", RAIL, 1), ("path", RAIL, 0, 1))
    assert not found.sure
    assert blame([Outcome(RAIL, 0, 1, True)], places={}) == blame([], places={}) == []


def test_a_slow_end_and_its_partners_are_told_apart_by_the_others() -> None:
    rates = {0: 50.0}
    slow = [
        Outcome(RAIL, a, b, False, rates.get(a, 98.0), rates.get(a, 98.0), 90.0, number)
        if a == 0
        else Outcome(RAIL, a, b, True, 98.0, 97.0, 90.0, number)
        for number, turn in enumerate(rounds("all", range(6), seed=0))
        for a, b in turn
    ]
    (found,) = blame(slow, places={})
    assert (found.causes, found.fault, found.slowest) == ((("end", RAIL, 0),), "slow", 50.0)


@pytest.mark.parametrize(("kind", "a_to_b", "b_to_a"), [("send", 50.0, 98.0), ("receive", 98.0, 50.0)])
def test_one_direction_of_an_end_is_told_from_the_other(kind: str, a_to_b: float, b_to_a: float) -> None:
    (found,) = blame(
        [
            Outcome(RAIL, a, b, a > 0, a_to_b if a == 0 else 98.0, b_to_a if a == 0 else 98.0, 90.0, number)
            for number, turn in enumerate(rounds("all", range(6), seed=0))
            for a, b in turn
        ],
        places={},
    )
    assert found.causes == ((kind, RAIL, 0),)


def test_a_host_is_at_fault_where_all_its_networks_fail_and_its_ends_where_one_does() -> None:
    networks = ("rail0", "rail1")
    places = {(network, end): Place(f"host{end}") for network in networks for end in range(8)}
    assert [each.causes for each in sure(all_pairs(8, {3}, networks), places)] == [(("host", "host3"),)]
    one = all_pairs(8, {3}) + all_pairs(8, set(), ("rail1",))
    assert [each.causes for each in sure(one, places)] == [(("end", RAIL, 3),)]


def test_a_leaf_its_uplinks_and_a_path_are_told_apart_where_pairs_can() -> None:
    places = {(RAIL, end): Place(f"host{end}", f"leaf{end // 4}") for end in range(12)}
    planned = [(n, a, b) for n, turn in enumerate(rounds("all", range(12), seed=0)) for a, b in turn]

    def named(bad: set[tuple[int, int]]) -> list[tuple[tuple[object, ...], ...]]:
        outcomes = [Outcome(RAIL, a, b, (a // 4, b // 4) not in bad, round=n) for n, a, b in planned]
        return [each.causes for each in sure(outcomes, places)]

    assert named({(0, 0), (0, 1), (0, 2)}) == [(("leaf", "leaf0"),)]
    assert named({(0, 1), (0, 2)}) == [(("uplinks", "leaf0"),)]
    assert named({(1, 2)}) == [(("path", "leaf1", "leaf2"),)]
    across = [each for each in planned if each[1] // 4 != each[2] // 4]
    outcomes = [Outcome(RAIL, a, b, a // 4 > 0, round=n) for n, a, b in across]
    assert [each.causes for each in sure(outcomes, places)] == [(("leaf", "leaf0"), ("uplinks", "leaf0"))]


def test_who_met_only_ends_that_pass_with_nobody_is_open() -> None:
    outcomes = [Outcome(RAIL, 0, other, False, round=other) for other in (1, 2, 3)] + [Outcome(RAIL, 4, 5, True)]
    (found,) = blame(outcomes, places={})
    assert (found.causes, found.good, found.sure) == ((("end", RAIL, 0),), 0, False)


def test_ends_that_share_a_cable_have_a_bad_cable_and_one_of_them_has_not() -> None:
    places = {(RAIL, end): Place(f"host{end}", cable=f"cable{end // 2}") for end in range(8)}
    assert [each.causes for each in sure(all_pairs(8, {4, 5}), places)] == [(("cable", "cable2"),)]
    assert [each.causes for each in sure(all_pairs(8, {4}), places)] == [(("end", RAIL, 4),)]


def test_a_failure_between_good_ends_accuses_nobody() -> None:
    outcomes = [each._replace(passed=(each.a, each.b) != (0, 1)) for each in all_pairs(8, set())]
    assert [(each.causes, each.sure) for each in blame(outcomes, places={})] == [((("path", RAIL, 0, 1),), False)]


def test_an_end_that_fails_now_and_then_is_unsteady() -> None:
    outcomes = [each._replace(passed=3 not in (each.a, each.b) or each.round % 2 == 0) for each in all_pairs(16, set())]
    places = {(RAIL, end): Place(f"host{end}", "leaf") for end in range(16)}
    assert [(each.causes, each.fault) for each in sure(outcomes, places)] == [((("end", RAIL, 3),), "unsteady")]


def test_an_end_that_met_only_bad_ones_is_tested_with_good_ones_next() -> None:
    seen = [Outcome(RAIL, 0, 1, False), Outcome(RAIL, 2, 3, True), Outcome(RAIL, 4, 5, True)]
    (turn,) = next_rounds(seen, {RAIL: range(6)}, places={}, seed=1).values()
    assert {end for pair in turn for end in pair} >= {0, 1}
    assert all(len({0, 1} & set(pair)) == 1 for pair in turn)


def test_where_all_is_decided_or_the_rounds_are_over_there_is_no_next_one() -> None:
    assert next_rounds(all_pairs(8, {3}), {RAIL: range(8)}, places={}, seed=1) == {}
    passed = [Outcome(RAIL, a, b, True) for a, b in ((0, 1), (2, 3))]
    assert next_rounds(passed, {RAIL: range(4)}, places={}, seed=1) == {}
    assert next_rounds(passed, {RAIL: range(5)}, places={}, seed=1)[RAIL][0][1] == 4, "who sat out has its turn"
    last = [Outcome(RAIL, 0, 1, False, round=number) for number in range(4)]
    assert next_rounds(last, {RAIL: range(2)}, places={}, seed=1) == {}


def test_a_hunt_goes_on_from_what_was_seen() -> None:
    ends = {RAIL: range(16), "rail1": range(16)}
    first = next_rounds([], ends, places={}, seed=7)
    assert {name: len(turn) for name, turn in first.items()} == {RAIL: 8, "rail1": 8}
    assert first[RAIL] != first["rail1"], "not the same hosts on all networks at a time"
    seen = [Outcome(RAIL, a, b, 3 not in (a, b)) for a, b in first[RAIL]]
    assert next_rounds(seen, {RAIL: range(16)}, places={}, seed=7) == next_rounds(
        seen, {RAIL: range(16)}, places={}, seed=7
    )


def test_a_dead_network_of_hundreds_of_ends_is_told_in_no_time() -> None:
    began = time.process_time()
    (found,) = blame(all_pairs(200, set(range(200)))[: 100 * 20], places={})
    assert (found.causes, found.sure) == ((("network", RAIL),), True)
    assert time.process_time() - began < 5, "looking through every pair for each end takes half a minute"
