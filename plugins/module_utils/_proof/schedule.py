# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ends of a network are tested with which, and in what order. Pure.

An end is a number. In one round every end is in at most one pair, so the pairs of a round can be measured at the same
time without sharing a NIC. Same ends and seed, same rounds.
"""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import Iterator, List, Mapping, Sequence, Tuple

Pair = Tuple[int, int]
Round = List[Pair]

SCHEDULES = ("all", "hunt", "ring", "leaf")
_MORE_OF_A_HUNT = 3


def rounds(kind: str, ends: Sequence[int], *, seed: int, leaves: Mapping[int, str] | None = None) -> list[Round]:
    """Return the rounds of a schedule (one of SCHEDULES) over distinct ``ends``.

    ``all`` tests every pair once. ``hunt`` begins with one of these rounds, in an order that the seed gives;
    :func:`blame.next_rounds` has the others. ``ring`` tests neighbours in the order of ``ends``. ``leaf`` tests each
    end within its leaf, and each leaf with every other; an end without one in ``leaves`` has a leaf of its own.
    """
    order = list(ends)
    if kind == "ring":
        return _ring(order)
    Random(seed).shuffle(order)  # noqa: S311 - an order, no secret
    if kind == "leaf":
        return _by_leaf(order, leaves or {})
    return list(islice(_circle(order), 1 if kind == "hunt" else None))


def most_rounds(kind: str, count: int) -> int:
    """Return how many rounds a schedule over so many ends takes at most, without making them."""
    if count < 2:
        return 0
    if kind == "ring":
        return 1 if count == 2 else 2 + count % 2
    return (count - 1).bit_length() + _MORE_OF_A_HUNT if kind == "hunt" else count - 1 + count % 2


def pair_count(kind: str, count: int, leaves: int) -> int:
    """Return how many pairs a schedule over so many ends at so many leaves has, without making them.

    Those of a hunt follow from what it finds: they are as many as of two rounds, unless much is broken.
    """
    if kind == "leaf":
        return leaves * (leaves - 1) // 2 + count // 2
    if kind == "ring":
        return count if count > 2 else count // 2
    return (2 if kind == "hunt" else most_rounds(kind, count)) * (count // 2)


def pair_of(one: int, other: int) -> Pair:
    """Return two ends as a pair, the lower first."""
    return (one, other) if one < other else (other, one)


def _circle(ends: Sequence[int]) -> Iterator[Round]:
    """Yield rounds in which every end meets every other exactly once (the circle method).

    Those of thousands of ends hold millions of pairs, so each is made when it is asked for.
    """
    if len(ends) < 2:
        return
    circle: list[int | None] = [*ends, None] if len(ends) % 2 else list(ends)
    half = len(circle) // 2
    for _turn in range(len(circle) - 1):
        meetings = zip(circle[:half], reversed(circle[half:]))
        yield sorted(pair_of(one, other) for one, other in meetings if one is not None and other is not None)
        circle = [circle[0], circle[-1], *circle[1:-1]]


def _ring(ends: Sequence[int]) -> list[Round]:
    pairs = [pair_of(one, other) for one, other in zip(ends, ends[1:])]
    turns = [pairs[0::2], pairs[1::2]]
    if len(ends) > 2:
        turns.append([pair_of(ends[0], ends[-1])])
        if len(ends) % 2 == 0:
            # The last pair begins where the second round has nobody.
            turns[1] += turns.pop()
    return [sorted(turn) for turn in turns if turn]


def _by_leaf(ends: Sequence[int], leaves: Mapping[int, str]) -> list[Round]:
    """Return a round within leaves, and as few more as have each leaf meet every other."""
    members: dict[str, list[int]] = {}
    for end in ends:
        members.setdefault(leaves.get(end) or f"\0{end}", []).append(end)
    names = list(members)
    within = [pair_of(*ends[place : place + 2]) for ends in members.values() for place in range(0, len(ends) - 1, 2)]
    found: list[Round] = [sorted(within)] if within else []
    free: list[dict[str, list[int]]] = []
    for turn in _circle(range(len(names))):
        for one, other in ((names[one], names[other]) for one, other in turn):
            place = next((at for at in range(len(free)) if free[at][one] and free[at][other]), len(free))
            if place == len(free):
                free.append({name: list(ends) for name, ends in members.items()})
                found.append([])
            found[len(found) - len(free) + place].append(pair_of(free[place][one].pop(), free[place][other].pop()))
    return [sorted(turn) for turn in found]
