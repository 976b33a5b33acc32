# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of many hosts in few words, as an inventory writes ranges: ``gpu-[01:32].example.org``. Pure."""

from __future__ import annotations

import re
from typing import Iterable, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import natural_key

_NUMBERS = re.compile(r"([0-9]+)")
_FEWEST = 3
_MOST_IN_A_LINE = 24


class Fold(NamedTuple):
    """One name, or a range of names, and how many hosts it stands for."""

    text: str
    hosts: int


def fold(names: Iterable[str]) -> list[Fold]:
    """Return names in natural order, runs of at least three that count up one number of one width as a range."""
    folds: list[Fold] = []
    run: list[str] = []
    place: int | None = None  # of the number that the run counts up
    for name in sorted(names, key=natural_key):
        counted = _counted_up(run[-1], name) if run else None
        if run and (counted is None or place not in (None, counted)):
            # The last of two names may as well be the first of a run that counts up another number.
            kept = run[1:] if counted is not None and len(run) < _FEWEST else []
            folds += _folded(run[: len(run) - len(kept)], place)
            run, place = kept, counted if kept else None
        else:
            place = counted
        run.append(name)
    return folds + _folded(run, place)


def fold_names(names: Iterable[str]) -> str:
    """Return ``names``, folded, in one line: the first 24 of more, and how many hosts the others are."""
    folds = fold(names)
    shown = ",".join(each.text for each in folds[:_MOST_IN_A_LINE])
    rest = sum(each.hosts for each in folds[_MOST_IN_A_LINE:])
    return f"{shown} and {rest} more" if rest else shown


def host_list(folds: Sequence[Fold], shown: int = 6) -> str:
    """Return folded names as words of a sentence: the first few of many, and how many hosts the others are."""
    if len(folds) <= shown + 1:
        return ", ".join(each.text for each in folds)
    rest = sum(each.hosts for each in folds[shown:])
    return f"{', '.join(each.text for each in folds[:shown])} and {rest} more"


def _counted_up(before: str, name: str) -> int | None:
    """Return which part of a name is the one number that it counts up from the name before; None without one."""
    first, second = _NUMBERS.split(before), _NUMBERS.split(name)
    differing = [place for place, part in enumerate(first) if len(first) != len(second) or part != second[place]]
    if len(differing) != 1:
        return None
    old, new = first[differing[0]], second[differing[0]]
    follows = old.isdecimal() and new.isdecimal() and len(old) == len(new) and int(new) == int(old) + 1
    return differing[0] if follows else None


def _folded(run: Sequence[str], place: int | None) -> list[Fold]:
    if place is None or len(run) < _FEWEST:
        return [Fold(name, 1) for name in run]
    parts, last = _NUMBERS.split(run[0]), _NUMBERS.split(run[-1])[place]
    return [Fold("".join([*parts[:place], f"[{parts[place]}:{last}]", *parts[place + 1 :]]), len(run))]
