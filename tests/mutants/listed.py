# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of mutants, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Iterator, NamedTuple, Sequence

import yaml

LIST = Path(__file__).with_name("mutants.yml")


class Mutant(NamedTuple):
    """One place of ``file`` that is broken: the text ``find``, which stands there once, becomes ``replace``.

    ``tests`` are the files or test functions that reach the place; one of ``make test`` ``must`` notice.
    """

    name: str
    file: str
    find: str
    replace: str
    tests: Sequence[str]
    must: bool = False


def read() -> list[Mutant]:
    """Return all mutants in their order."""
    return [Mutant(**entry) for entry in yaml.safe_load(LIST.read_text(encoding="utf-8"))]


def mutated(mutant: Mutant, text: str) -> str:
    """Return the text of a mutant's file with the place broken; raises ValueError where it is not there once."""
    before, found, after = text.partition(mutant.find)
    if not found or mutant.find in after:
        raise ValueError(f"{mutant.file} has the place {1 + after.count(mutant.find) if found else 0} times, not once")
    return f"{before}{mutant.replace}{after}"


def stale(mutants: Sequence[Mutant], root: Path) -> Iterator[str]:
    """Yield what no longer fits the checkout: a place that is not there once, a test that is gone."""
    for mutant in mutants:
        try:
            mutated(mutant, (root / mutant.file).read_text(encoding="utf-8"))
        except (OSError, ValueError) as problem:
            yield f"{mutant.name}: {problem}"
        for test in mutant.tests:
            file, *names = test.partition("[")[0].split("::")
            path = root / file
            text = path.read_text(encoding="utf-8") if path.is_file() else ""
            if not path.exists() or any(f"def {name}(" not in text and f"class {name}" not in text for name in names):
                yield f"{mutant.name}: there is no test {test}"
