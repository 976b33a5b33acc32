# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes are tested with which, and in what order. Pure.

In one round every node is in at most one pair, so the pairs of a round can be measured at the same time without
sharing a NIC. Same nodes, same rounds.
"""

from __future__ import annotations

from itertools import islice
from typing import Iterable, Iterator, List, Mapping, Sequence, Tuple

Pair = Tuple[str, str]
Round = List[Pair]

SCHEDULES = ("all", "hunt")


def rounds(nodes: Iterable[str], schedule: str = "all") -> list[Round]:
    """Return the rounds of a schedule (one of SCHEDULES) over distinct ``nodes``, whatever their order.

    ``all`` tests every pair once: N - 1 rounds for an even number of nodes, N for an odd one, where each node sits out
    once. ``hunt`` stops after about log2 N of these rounds: every node then has met as many different partners, which
    is enough to tell a bad node (all of its pairs fail) from its partners (one of theirs does).
    """
    distinct = sorted(set(nodes))
    return list(islice(round_robin(distinct), round_count(len(distinct), schedule)))


def round_count(count: int, schedule: str) -> int:
    """Return how many rounds a schedule has over so many nodes."""
    return hunt_length(count) if schedule == "hunt" else max(count - 1 + count % 2, 0)


def pair_count(count: int, schedule: str) -> int:
    """Return how many pairs the rounds of a schedule have together, without making them."""
    return round_count(count, schedule) * (count // 2)


def round_robin(nodes: Sequence[str]) -> Iterator[Round]:
    """Yield rounds in which every node meets every other exactly once (the circle method).

    Those of thousands of nodes hold millions of pairs, so each is made when it is asked for.
    """
    if len(nodes) < 2:
        return
    circle: list[str | None] = [*nodes, None] if len(nodes) % 2 else list(nodes)
    half = len(circle) // 2
    for _turn in range(len(circle) - 1):
        meetings = zip(circle[:half], reversed(circle[half:]))
        yield sorted(_ordered(one, other) for one, other in meetings if one is not None and other is not None)
        circle = [circle[0], circle[-1], *circle[1:-1]]


def hunt_length(count: int) -> int:
    """Return how many rounds a hunt over ``count`` nodes takes: log2 of it, rounded up, and one more for odd numbers.

    The one more is for the round in which a node sits out, so that no node is judged by fewer partners.
    """
    if count < 2:
        return 0
    return (count - 1).bit_length() + (count % 2)


def suspects(outcomes: Mapping[Pair, bool]) -> list[str]:
    """Return the nodes that failing pairs point at; ``outcomes`` tells of every pair that was tested if it passed.

    A node is suspected when all of its pairs fail. Where that is true of both sides of a pair, a side with a partner
    that passes elsewhere is the likelier one; when nothing tells them apart, both are named.
    """
    partners: dict[str, list[str]] = {}
    healthy: set[str] = set()
    for pair, passed in outcomes.items():
        healthy.update(pair if passed else ())
        for node, other in (pair, pair[::-1]):
            partners.setdefault(node, []).append(other)
    failing = set(partners) - healthy
    accused = {node for node in failing if not healthy.isdisjoint(partners[node])}
    undecided = {node for node in failing - accused if accused.isdisjoint(partners[node])}
    return sorted(accused | undecided)


def _ordered(one: str, other: str) -> Pair:
    return (one, other) if one < other else (other, one)
