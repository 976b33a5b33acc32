# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much of a sweep runs: a sample by default, all of it with ``RDMA_FABRIC_SWEEPS=whole`` in the environment."""

from __future__ import annotations

import os
from itertools import product
from typing import Any, Callable, Iterable, Sequence, TypeVar

import pytest

CHOICE = "RDMA_FABRIC_SWEEPS"

Case = TypeVar("Case")
Other = TypeVar("Other")

# One of so many random examples is in a sample.
_SHARE = 5
# So many cases of a campaign are one test.
_AT_ONCE = 500


def whole() -> bool:
    """Return whether sweeps leave nothing out."""
    chosen = os.environ.get(CHOICE, "sampled")
    if chosen not in ("sampled", "whole"):
        raise ValueError(f"{CHOICE} is {chosen}; it may be sampled or whole")
    return chosen == "whole"


def some_of(cases: Sequence[Case], count: int) -> list[Case]:
    """Return all ``cases`` in a whole sweep, else ``count`` at even distances, the first and the last among them."""
    if count < 2:
        raise ValueError(f"a sample of {count} can not have the first and the last")
    if whole() or len(cases) <= count:
        return list(cases)
    return [cases[number * (len(cases) - 1) // (count - 1)] for number in range(count)]


def examples(count: int) -> int:
    """Return how many random examples a property is tried with: ``count`` in a whole sweep, else a fifth of them."""
    return count if whole() else count // _SHARE


def shares_of(count: int, sampled: int) -> list[range]:
    """Return the seeds of a campaign to parametrize with: ``count`` in a whole sweep, else ``sampled``."""
    chosen = count if whole() else sampled
    return [range(first, min(first + _AT_ONCE, chosen)) for first in range(0, chosen, _AT_ONCE)]


def smallest(case: Case, smaller: Callable[[Case], Iterable[Case]], problem: Callable[[Case], str]) -> tuple[Case, str]:
    """Return what is left of a case without all that its problem does not need, and the problem; "" of a good case.

    ``smaller`` gives the cases with one part less, and ``problem`` what is wrong with one.
    """
    said = problem(case)
    left = iter(smaller(case) if said else ())
    while (each := next(left, None)) is not None:
        found = problem(each)
        if found:
            case, said, left = each, found, iter(smaller(each))
    return case, said


def first_of(cases: Iterable[Any]) -> list[Any]:
    """Return ``cases`` to parametrize with, all but the first marked as slow: ``make test`` has one of the sweep."""
    first, *others = cases
    return [first, *(pytest.param(case, marks=pytest.mark.slow) for case in others)]


def some_pairs(cases: Sequence[Case], others: Sequence[Other]) -> list[tuple[Case, Other]]:
    """Return each of ``cases`` with each of ``others`` in a whole sweep, else as few pairs as have all of both."""
    if whole():
        return list(product(cases, others))
    return [
        (cases[number % len(cases)], others[number % len(others)]) for number in range(max(len(cases), len(others)))
    ]
