# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Pythons are found."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Iterator

import pytest

from tools import pythons
from tools.pythons import python_of


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is all of PATH, on a machine with no other Pythons than ours."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    pythons.pythons.cache_clear()
    yield tmp_path
    pythons.pythons.cache_clear()


def program(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]), encoding="utf-8")
    path.chmod(0o755)


def test_pythons_are_found_on_path_and_below_pyenv_the_oldest_first(path: Path) -> None:
    program(path / "python3.77", "echo 3 77 True")
    program(path / "pyenv" / "versions" / "3.6.1" / "bin" / "python3", "echo 3 6 True")
    program(path / "pyenv" / "versions" / "3.77.2" / "bin" / "python3", "echo 3 77 True")
    assert list(pythons.pythons()) == [(3, 6), sys.version_info[:2], (3, 77)]
    assert pythons.pythons()[(3, 77)] == path / "python3.77"


def test_what_only_has_the_name_of_a_python_is_none(path: Path) -> None:
    program(path / "python3.70", "echo 'pyenv: python3.70: command not found' >&2", "exit 127")
    program(path / "python3.71", "echo 3 71 False")  # of a virtual environment
    program(path / "python3.72-config", "echo 3 72 True")
    (path / "python3.73").write_text("", encoding="utf-8")
    assert list(pythons.pythons()) == [sys.version_info[:2]]


def test_the_oldest_or_newest_that_is_there_is_chosen(path: Path) -> None:
    program(path / "python3.77", "echo 3 77 True")
    program(path / "python3.78", "echo 3 78 True")
    assert python_of([(3, 76), (3, 77), (3, 78), (3, 79)], newest=True) == (3, 78)
    assert python_of([(3, 76), (3, 77), (3, 78), (3, 79)], newest=False) == (3, 77)
    assert python_of([(3, 76)], newest=True) is None
