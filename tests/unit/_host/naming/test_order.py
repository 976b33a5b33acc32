# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each new name is free when its turn comes; who needs the name of one that is refused falls with it."""

from __future__ import annotations

from itertools import permutations, product
from typing import Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.naming.order import (
    Rename,
    in_turn,
    refusals_of,
)

WANTED = {"a": "b", "b": "c", "c": "d", "x": "y", "y": "x"}


def held(name: str, refusals: Mapping[str, str]) -> str:
    return f"{WANTED[name]} stays" if WANTED[name] in refusals else ""


@pytest.mark.parametrize("names", [tuple(WANTED), tuple(reversed(WANTED))])
def test_whoever_needs_a_name_that_stays_is_refused_in_whatever_order_they_come(names: tuple[str, ...]) -> None:
    given = {"c": "it has no place"}
    assert refusals_of(names, given, held) == {**given, "b": "c stays", "a": "b stays"}
    assert given == {"c": "it has no place"}


def test_without_a_refusal_all_go() -> None:
    assert refusals_of(WANTED, {}, held) == {}


def test_every_name_is_free_in_its_turn_whatever_the_renames() -> None:
    """All ways to give four interfaces names among their own and two free ones, in all orders of their keys."""
    names = "abcd"
    for wanted in permutations("abcdxy", 4):
        renames = [(now, then) for now, then in zip(names, wanted) if now != then]
        for keys in (sorted(names), sorted(names, reverse=True)):
            key_of = dict(zip(names, keys))
            held = {name: key_of[name] for name in names}
            taken = {*names, "rdmatmp0"}
            for turn in in_turn([Rename(key_of[now], now, then) for now, then in renames], taken):
                if turn.parking is not None:
                    assert held.pop(turn.parking.holder) == turn.parking.key
                    assert turn.parking.temporary not in {*held, "rdmatmp0"}
                    held[turn.parking.temporary] = turn.parking.key
                assert turn.rename.wanted not in held, (renames, keys)
                held[turn.rename.wanted] = held.pop(turn.current)
            assert held == {then: key_of[now] for now, then in zip(names, wanted)}, (renames, keys)


def test_only_one_of_a_circle_is_parked_and_none_of_a_chain() -> None:
    chain = in_turn([Rename("1", "a", "b"), Rename("2", "b", "c")], {"a", "b"})
    assert [(turn.current, turn.rename.wanted, turn.parking) for turn in chain] == [("b", "c", None), ("a", "b", None)]
    circle = in_turn([Rename(each, each, then) for each, then in zip("abc", "bca")], set("abc"))
    assert len([turn for turn in circle if turn.parking is not None]) == 1


def test_renames_without_a_reason_for_an_order_come_by_their_keys() -> None:
    for keys in product("12", repeat=2):
        renames = [Rename(f"{keys[0]}a", "z", "p"), Rename(f"{keys[1]}b", "y", "q")]
        assert [turn.rename.key for turn in in_turn(renames, "zy")] == sorted(each.key for each in renames)
