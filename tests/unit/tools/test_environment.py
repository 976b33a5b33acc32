# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the environment counts as complete."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tools import environment
from tools.checkout import CHECKOUT
from tools.environment import (
    EnvironmentProblem,
    make_venv,
    missing_stages,
    remembered_python,
    stage_digest,
    stamp_path,
)

DIGESTS = {"run": "run-digest", "test": "test-digest"}


def stamp(venv: Path, **stamps: str) -> Path:
    for stage, digest in stamps.items():
        stamp_path(venv, stage).write_text(digest + "\n", encoding="utf-8")
    return venv


def test_a_complete_environment_needs_nothing(tmp_path: Path) -> None:
    venv = stamp(tmp_path, **DIGESTS)
    assert missing_stages("run", venv, DIGESTS) == (False, [])
    assert missing_stages("test", venv, DIGESTS) == (False, [])


def test_tests_are_added_to_what_runs_already(tmp_path: Path) -> None:
    assert missing_stages("test", stamp(tmp_path, run="run-digest"), DIGESTS) == (False, ["test"])


def test_a_run_needs_no_test_requirements(tmp_path: Path) -> None:
    assert missing_stages("run", stamp(tmp_path, run="run-digest"), DIGESTS) == (False, [])


def test_a_half_made_environment_is_made_afresh(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    assert missing_stages("run", tmp_path, DIGESTS) == (True, ["run"])
    assert missing_stages("test", stamp(tmp_path, test="test-digest"), DIGESTS) == (True, ["run", "test"])


def test_a_stale_lock_starts_afresh_and_one_that_is_not_wanted_does_not(tmp_path: Path) -> None:
    venv = stamp(tmp_path, run="run-digest", test="older")
    assert missing_stages("test", venv, DIGESTS) == (True, ["run", "test"])
    assert missing_stages("run", venv, DIGESTS) == (False, [])
    assert missing_stages("run", stamp(tmp_path, run="older"), DIGESTS) == (True, ["run"])


@pytest.mark.parametrize("change", ["lock", "python", "checkout"])
def test_a_digest_covers_lock_python_and_place(tmp_path: Path, change: str) -> None:
    lock = tmp_path / "run.txt"
    lock.write_text("a==1\n", encoding="utf-8")
    before = stage_digest("run", tmp_path, "3.11.2 /usr", Path("/one"))
    assert stage_digest("run", tmp_path, "3.11.2 /usr", Path("/one")) == before
    if change == "lock":
        lock.write_text("a==2\n", encoding="utf-8")
    base = "3.12.1 /usr" if change == "python" else "3.11.2 /usr"
    place = Path("/two") if change == "checkout" else Path("/one")
    assert stage_digest("run", tmp_path, base, place) != before


def test_the_environment_of_another_place_is_not_removed_through_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = tmp_path / "others"
    others.mkdir()
    monkeypatch.setattr(environment, "VENV", tmp_path / ".venv")
    environment.VENV.symlink_to(others)
    with pytest.raises(EnvironmentProblem, match="remove the link"):
        make_venv()
    assert others.is_dir()


def test_make_keeps_the_python_of_the_environment_that_is_there(tmp_path: Path) -> None:
    shutil.copy(CHECKOUT / "Makefile", tmp_path)

    def python(*arguments: str) -> str:
        argv = ["make", "-n", "--no-print-directory", "env-run", *arguments]
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.split(" tools/environment.py", maxsplit=1)[0]

    assert python() == '"python3"'
    own = tmp_path / "my python"
    own.touch(0o755)
    remembered = remembered_python(tmp_path / ".venv")
    remembered.parent.mkdir()
    remembered.write_text(f"{own}\n", encoding="utf-8")
    assert python() == f'"{own}"'
    assert python("PYTHON=/other") == '"/other"'
    own.unlink()
    assert python() == '"python3"'


def test_what_a_run_as_another_user_made_is_given_back_but_not_what_a_lab_keeps_for_its_guests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ["build/run/report.html", "build/lab/guest/file", ".venv/bin/python"]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    (tmp_path / "build" / "link").symlink_to(tmp_path)
    given: dict[str, tuple[int, int]] = {}
    monkeypatch.setattr(os, "lchown", lambda path, *owner: given.update({str(path.relative_to(tmp_path)): owner}))
    folders = [tmp_path / name for name in environment.MADE]
    found = list(
        environment.given_back([*folders, tmp_path / "none"], (12, 34), os.geteuid(), [tmp_path / "build/lab"])
    )
    everything = {*("build", "build/run", "build/lab", "build/link", ".venv", ".venv/bin"), files[0], files[2]}
    assert set(given) == everything
    assert len(found) == len(given)
    assert set(given.values()) == {(12, 34)}
    assert list(environment.given_back(folders, (12, 34), os.geteuid() + 1)) == []


def test_what_belongs_to_another_user_is_refused_with_how_to_take_it_back(tmp_path: Path) -> None:
    checkout = tmp_path / "with space"
    environment.refuse_files_of_others(checkout, os.geteuid() + 1)
    (checkout / "build" / "lab").mkdir(parents=True)
    environment.refuse_files_of_others(checkout, os.geteuid())
    with pytest.raises(EnvironmentProblem, match=r"build belongs to another user") as refused:
        environment.refuse_files_of_others(checkout, os.geteuid() + 1)
    assert str(refused.value).endswith(f"sudo chown -R {os.geteuid() + 1} '{checkout}/build'")
    environment.refuse_files_of_others(checkout, 0)
