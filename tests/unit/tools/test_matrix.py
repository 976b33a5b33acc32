# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of releases and Pythons is what was run, and what was run is what the locks hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible import constants

from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools.environment import text_of
from tools.matrix import Cell, counted, failed, load, placed
from tools.releases import CURRENT, OLDEST_OF_HOSTS, RELEASES

JUNIT = '<testsuite tests="5" failures="{failures}" errors="0" skipped="0"></testsuite>'


def test_everything_that_was_run_passed() -> None:
    none_of(failed(load()))


def test_the_releases_that_were_run_are_those_of_the_locks() -> None:
    run = {(row["release"], row["ansible_core"], row["kubernetes_core"]) for row in load()["controllers"]}
    locked = {(each.name, each.ansible_core, each.kubernetes_core) for each in RELEASES}
    assert run == locked, "run: make matrix ONLY=NAME"
    with_sanity = {row["release"] for row in load()["controllers"] if "sanity" in row}
    assert with_sanity == {each.name for each in RELEASES}


def test_hosts_were_run_from_the_oldest_python_on() -> None:
    assert text_of(OLDEST_OF_HOSTS) in [row["python"] for row in load()["hosts"]]


def test_a_release_takes_the_pythons_of_hosts_that_its_ansible_core_seeks() -> None:
    names = [name for name in constants.config.get_config_value("INTERPRETER_PYTHON_FALLBACK") if "." in name]
    assert [f"python{text_of(version)}" for version in reversed(CURRENT.hosts)] == [names[0], names[-1]]


def test_a_row_takes_the_place_of_the_one_before_it() -> None:
    results = {"controllers": [{"release": "old", "python": "3.11", "tests": "1 failed"}], "hosts": []}
    again = Cell("old-3.11", "controllers", {"release": "old", "python": "3.11"}, dict)
    other = Cell("old-3.12", "controllers", {"release": "old", "python": "3.12"}, dict)
    results = placed(placed(results, other, {"tests": "2 passed"}), again, {"tests": "1 passed"})
    assert [(row["python"], row["tests"]) for row in results["controllers"]] == [
        ("3.11", "1 passed"),
        ("3.12", "2 passed"),
    ]


@pytest.mark.parametrize(
    ("failures", "status", "text"),
    [(0, 0, "5 passed"), (2, 1, "3 passed, 2 failed"), (0, 2, "failed"), (None, 1, "failed")],
)
def test_a_row_says_what_became_of_its_tests(failures: int | None, status: int, text: str, tmp_path: Path) -> None:
    if failures is not None:
        (tmp_path / "junit.xml").write_text(JUNIT.format(failures=failures), encoding="utf-8")
    assert counted(tmp_path / "junit.xml", status) == text
    assert bool(failed({"hosts": [{"tests": text}]})) == bool(status)
