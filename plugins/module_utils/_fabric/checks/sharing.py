# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who of many held an address first, in about n log n steps for n intervals: a segment tree over their ends."""

from __future__ import annotations

from typing import Iterator, Sequence, Tuple

Point = Tuple[int, int]
"""An address: its family (4 or 6), and the address as an integer."""
Span = Tuple[Point, Point]
"""Inclusive."""


class Holders:
    """Holders of spans, in the order in which they were added; each is of a pool.

    ``points`` has the ends of all spans that will be added or asked for.
    """

    def __init__(self, points: Sequence[Point]) -> None:
        self._ranks = {point: rank for rank, point in enumerate(sorted(set(points)))}
        self._last = max(len(self._ranks) - 1, 0)
        # By node: who holds all of it, and who holds something of it.
        self._whole: dict[int, list[tuple[int, str]]] = {}
        self._some: dict[int, list[tuple[int, str]]] = {}

    def add(self, holder: int, pool: str, spans: Sequence[Span]) -> None:
        """Add what a holder has; ``holder`` is greater than those that were added before."""
        for span in spans:
            for node, is_whole in self._nodes(span):
                _keep(self._some.setdefault(node, []), holder, pool)
                if is_whole:
                    _keep(self._whole.setdefault(node, []), holder, pool)

    def first(self, pool: str, spans: Sequence[Span]) -> int | None:
        """Return the first holder of another pool that has a part of the spans, None where there is none."""
        found = None
        for span in spans:
            for node, is_whole in self._nodes(span):
                for holder, other in (self._some if is_whole else self._whole).get(node, ()):
                    if other != pool and (found is None or holder < found):
                        found = holder
        return found

    def _nodes(self, span: Span) -> Iterator[tuple[int, bool]]:
        """Yield the nodes that make up a span, as whole ones, and those above them."""
        first, last = self._ranks[span[0]], self._ranks[span[1]]
        open_nodes = [(1, 0, self._last)]
        while open_nodes:
            node, low, high = open_nodes.pop()
            if last < low or high < first:
                continue
            is_whole = first <= low and high <= last
            yield node, is_whole
            if not is_whole:
                middle = (low + high) // 2
                open_nodes += [(2 * node, low, middle), (2 * node + 1, middle + 1, high)]


def _keep(held: list[tuple[int, str]], holder: int, pool: str) -> None:
    """Keep the first holder, and the first of another pool: one of them answers whoever asks."""
    if len(held) < 2 and all(other != pool for _holder, other in held):
        held.append((holder, pool))
