# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Campaigns: documents with random mutations, each of a seed of its own, so that any can be left out of a case."""

from __future__ import annotations

import copy
import random
import resource
import time
import traceback
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

from ansible_collections.rdma.fabric.tests.sweeps import smallest
from ansible_collections.rdma.fabric.tests.unit._host.test_hostile_wishes import BROKEN, HOSTILE, SHELL
from ansible_collections.rdma.fabric.tests.unit.rules import none_of

MOST_MUTATIONS = 4
MOST_SECONDS = 20.0
MOST_BYTES = 512 * 1024 * 1024

# What no reader of files or variables can have.
_JSON = (str, int, float, bool, list, dict, type(None))
VALUES = [value for value in HOSTILE if isinstance(value, _JSON)]
Mutate = Callable[[random.Random, Any], None]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each mapping or list below a value with each of its keys or indexes."""
    left = [value]
    while left:
        owner = left.pop()
        for key in list(owner) if isinstance(owner, dict) else range(len(owner)):
            yield owner, key
            if isinstance(owner[key], (dict, list)):
                left.append(owner[key])


def drop(_dice: random.Random, owner: Any, key: Any) -> None:
    del owner[key]


def repeat(dice: random.Random, owner: Any, key: Any) -> None:
    """Have a list hold an item twice, a mapping a value under another name too."""
    if isinstance(owner, list):
        owner.insert(dice.randint(0, len(owner)), copy.deepcopy(owner[key]))
    else:
        owner[dice.choice([f"{key}2", str(key).upper(), *map(str, owner)])] = copy.deepcopy(owner[key])


def retype(dice: random.Random, owner: Any, key: Any) -> None:
    value = owner[key]
    owner[key] = copy.deepcopy(dice.choice([*VALUES, [value], {"a": value}, str(value), None]))


def rename(dice: random.Random, owner: Any, key: Any) -> None:
    if isinstance(owner, list):
        owner[key] = copy.deepcopy(dice.choice(VALUES))
        return
    value, name = owner.pop(key), str(key)
    owner[dice.choice([name[1:], name.upper(), f" {name}", f"{name}:", *SHELL, *BROKEN, 1, True, None])] = value


def taint(dice: random.Random, owner: Any, key: Any) -> None:
    """Put hostile text into text, or a number beside the one that is there."""
    value = owner[key]
    if isinstance(value, str):
        at = dice.randint(0, len(value))
        owner[key] = value[:at] + dice.choice([*SHELL, *BROKEN]) + value[at:]
    elif isinstance(value, (int, float)):
        owner[key] = dice.choice([-value, value + 1, value * 1000, value - 1, value / 3])
    else:
        owner[key] = copy.deepcopy(dice.choice(VALUES))


def move(dice: random.Random, owner: Any, key: Any) -> None:
    """Give one part of a mapping or list what another one has."""
    other = dice.choice(list(owner) if isinstance(owner, dict) else range(len(owner)))
    owner[key], owner[other] = owner[other], owner[key]


def change_value(dice: random.Random, document: Any) -> None:
    """Change one value of a document, or one name of a mapping, whatever they are."""
    found = list(places(document))
    if found:
        dice.choice((drop, repeat, retype, rename, taint, move))(dice, *dice.choice(found))


def mutated(document: Any, mutate: Mutate, seeds: Sequence[int]) -> Any:
    """Return a copy of a document with a mutation for each seed."""
    document = copy.deepcopy(document)
    for seed in seeds:
        mutate(random.Random(seed), document)  # noqa: S311 - the same mutations in every run, no secret
    return document


def without_one(seeds: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the seeds but one, for each of them."""
    for number in range(len(seeds)):
        yield (*seeds[:number], *seeds[number + 1 :])


def campaign(seeds: Iterable[int], documents: Mapping[str, Any], mutate: Mutate, problem: Callable[[Any], str]) -> None:
    """Fail with the smallest of each kind of case in which there is a ``problem`` with a mutated document.

    An error that is raised, too much time and too much memory are problems as well.
    """
    found: dict[str, str] = {}
    names = sorted(documents)
    before = memory()
    for seed in seeds:
        dice = random.Random(seed)  # noqa: S311 - the same cases in every run, no secret
        name = dice.choice(names)
        drawn = tuple(dice.randrange(2**32) for _each in range(dice.randint(1, MOST_MUTATIONS)))
        document = documents[name]

        def of_seeds(chosen: tuple[int, ...], document: Any = document) -> str:
            return in_time(mutated(document, mutate, chosen), problem)

        left, said = smallest(drawn, without_one, of_seeds)
        if said:
            differences = "\n".join(differing(document, mutated(document, mutate, left)))
            found.setdefault(said.splitlines()[-1], f"seed {seed}, {name}, {list(left)}:\n{differences}\n{said}")
    grown = memory() - before
    none_of([*found.values(), *([f"{grown} bytes of memory are kept"] if grown > MOST_BYTES else [])])


def in_time(document: Any, problem: Callable[[Any], str]) -> str:
    """Return what is wrong with a document, or that it takes too long."""
    began = time.process_time()
    try:
        said = problem(document)
    except Exception:
        return traceback.format_exc()
    took = time.process_time() - began
    return said or (f"it takes {took:.0f} s" if took > MOST_SECONDS else "")


def memory() -> int:
    """Return the most bytes that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def differing(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Yield what differs between two documents, a line for each place."""
    if type(before) is type(after) and isinstance(before, (dict, list)):
        keys = (
            list({**dict.fromkeys(before), **dict.fromkeys(after)}) if isinstance(before, dict) else range(len(after))
        )
        if isinstance(before, list) and len(before) != len(after):
            yield f"  {path}: {before!r:.200} -> {after!r:.200}"
            return
        for key in keys:
            there = isinstance(before, list) or (key in before and key in after)
            if there:
                yield from differing(before[key], after[key], f"{path}[{key!r}]")
            else:
                yield f"  {path}[{key!r:.80}]: " + (
                    f"without {before[key]!r:.200}" if key in before else f"{after[key]!r:.200}"
                )
    elif before != after:
        yield f"  {path}: {before!r:.200} -> {after!r:.200}"
