# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the list of mutants."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ansible_collections.rdma.fabric.tests.mutants.listed import Mutant, read, stale
from ansible_collections.rdma.fabric.tests.unit.rules import none_of

CHECKOUT = Path(__file__).resolve().parents[2]


def test_every_mutant_breaks_one_place_that_is_there_and_names_tests_that_are() -> None:
    mutants = read()
    none_of(stale(mutants, CHECKOUT))
    none_of(
        f"{name}: is the name of {count}" for name, count in Counter(each.name for each in mutants).items() if count > 1
    )
    assert len(mutants) >= 60
    assert sum(mutant.must for mutant in mutants) >= 20


def test_a_place_that_is_gone_or_there_twice_and_a_test_that_is_gone_are_told(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("a = 1\nb = 1\n")
    (tmp_path / "test_code.py").write_text("def test_it() -> None: ...\n")
    fits = Mutant("fits", "code.py", "a = 1", "a = 2", ["test_code.py", "test_code.py::test_it[x]"])
    assert list(stale([fits], tmp_path)) == []
    wrong = [
        fits._replace(name="gone", find="c = 1"),
        fits._replace(name="twice", find="= 1"),
        fits._replace(name="elsewhere", file="other.py"),
        fits._replace(name="untested", tests=["test_code.py::test_that", "test_other.py"]),
    ]
    told = list(stale(wrong, tmp_path))
    assert [line.partition(":")[0] for line in told] == ["gone", "twice", "elsewhere", "untested", "untested"]
