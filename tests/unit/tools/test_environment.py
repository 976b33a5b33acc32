# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the environment counts as complete, and how uv finds what pip would."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import environment
from tools.checkout import CHECKOUT
from tools.environment import (
    MADE_WITH,
    STAMP,
    make_environment,
    python_of,
    pythons,
    settings_of_uv,
)


class Made:
    """What uv is told to do, in a checkout of its own."""

    def __init__(self, checkout: Path) -> None:
        self.folder = checkout / ".venv"
        self.told: list[str] = []
        self.fails = False

    def run(self, argv: list[str], **_variables: str) -> None:
        if self.fails:
            raise SystemExit("no index")
        if argv[1] == "venv":
            self.folder.mkdir()
        self.told.append("venv" if argv[1] == "venv" else " ".join(Path(name).stem for name in argv[7:]))

    def make(self, *locks: str, python: str = "/usr/bin/python3.12") -> list[str]:
        self.told.clear()
        make_environment(self.folder, locks, Path(python))
        return list(self.told)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    found = Made(tmp_path)
    for name, value in (("CHECKOUT", tmp_path), ("BUILD", tmp_path / "build"), ("REQUIREMENTS", tmp_path)):
        monkeypatch.setattr(environment, name, value)
    monkeypatch.setattr(environment, "run", found.run)
    monkeypatch.setattr(environment, "uv", lambda: "uv")
    monkeypatch.setattr(environment, "own_settings", dict)
    for name in ("run", "test"):
        (tmp_path / f"{name}.txt").write_text(f"{name}==1\n", encoding="utf-8")
    return found


def test_a_complete_environment_needs_nothing_and_tests_are_added_to_what_runs_already(made: Made) -> None:
    assert made.make("run") == ["venv", "run"]
    assert made.make("run") == []
    assert made.make("run", "test") == ["run test"]
    assert made.make("run", "test") == made.make("run") == []


def test_a_half_made_environment_is_made_afresh(made: Made) -> None:
    made.make("run")
    made.fails = True
    with pytest.raises(SystemExit):
        made.make("run", "test")
    made.fails = False
    assert made.make("run") == ["venv", "run"]


def test_a_stale_lock_is_installed_again_and_one_that_is_not_wanted_is_not(made: Made, tmp_path: Path) -> None:
    made.make("run", "test")
    (tmp_path / "test.txt").write_text("test==2\n", encoding="utf-8")
    assert made.make("run") == []
    assert made.make("run", "test") == ["run test"]
    (tmp_path / "run.txt").write_text("run==2\n", encoding="utf-8")
    assert made.make("run") == ["venv", "run"]


def test_another_python_and_another_place_start_afresh(made: Made, tmp_path: Path) -> None:
    made.make("run")
    assert made.make("run", python="/usr/bin/python3.13") == ["venv", "run"]
    assert (made.folder / MADE_WITH).read_text(encoding="utf-8") == "/usr/bin/python3.13\n"
    made.folder.rename(tmp_path / "moved")
    made.folder = tmp_path / "moved"
    assert made.make("run", python="/usr/bin/python3.13") == ["venv", "run"]


def test_the_environment_of_another_place_is_not_removed_through_a_link(made: Made, tmp_path: Path) -> None:
    others = tmp_path / "others"
    others.mkdir()
    made.folder.symlink_to(others)
    with pytest.raises(SystemExit, match="remove the link"):
        made.make("run")
    assert others.is_dir()
    assert not (others / STAMP).exists()


def test_uv_finds_packages_where_pip_does_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    listed = f":env:.cert='/own.pem'\n:env:.find-links='{tmp_path} /not/there'\nglobal.cert='/other.pem'\n"
    listed += "global.index-url='https://mirror/simple'\nglobal.extra-index-url='\\nhttps://a\\nhttps://b'\n"
    found = settings_of_uv(listed + "global.timeout='60'\n", {"UV_DEFAULT_INDEX": "https://mine"}, own=True)
    found.pop("UV_SYSTEM_CERTS", None)
    assert found == {
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_LINK_MODE": "hardlink",
        "SSL_CERT_FILE": "/own.pem",
        "UV_FIND_LINKS": str(tmp_path),
        "UV_INDEX": "https://a https://b",
    }
    assert settings_of_uv(listed, {}, own=True)["UV_DEFAULT_INDEX"] == "https://mirror/simple"


def test_in_the_checkout_of_somebody_else_no_file_of_our_cache_is_linked() -> None:
    assert settings_of_uv("", {}, own=False)["UV_LINK_MODE"] == "copy"


def test_our_python_is_found_and_the_oldest_or_newest_that_is_there_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sys.version_info[:2] in pythons()
    assert list(pythons()) == sorted(pythons())
    monkeypatch.setattr(environment, "pythons", lambda: {(3, 77): Path(), (3, 78): Path()})
    assert python_of([(3, 76), (3, 77), (3, 78), (3, 79)], newest=True) == (3, 78)
    assert python_of([(3, 76), (3, 77), (3, 78), (3, 79)], newest=False) == (3, 77)
    assert python_of([(3, 76)], newest=True) is None


def test_make_keeps_the_python_of_the_environment_that_is_there(tmp_path: Path) -> None:
    shutil.copy(CHECKOUT / "Makefile", tmp_path)

    def python(*arguments: str) -> str:
        argv = ["make", "-n", "--no-print-directory", "env-run", *arguments]
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.split(" -m tools.environment", maxsplit=1)[0]

    assert python() == '"python3"'
    own = tmp_path / "my python"
    own.touch(0o755)
    remembered = tmp_path / ".venv" / MADE_WITH
    remembered.parent.mkdir()
    remembered.write_text(f"{own}\n", encoding="utf-8")
    assert python() == f'"{own}"'
    assert python("PYTHON=/other") == '"/other"'
    own.unlink()
    assert python() == '"python3"'


def test_what_a_run_as_root_made_is_given_back_but_not_what_a_lab_keeps_for_its_guests(tmp_path: Path) -> None:
    for name in ("build/run/report.html", "build/lab/guest/file", "build/demo/lab/guest/file", ".venv/bin/python"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    (tmp_path / "build" / "link").symlink_to(tmp_path)
    (search,) = re.findall(r"find build \.venv .* -prune", (CHECKOUT / "Makefile").read_text(encoding="utf-8"))
    done = subprocess.run(["sh", "-c", f"{search} -o -print"], cwd=tmp_path, capture_output=True, text=True, check=True)
    found = set(done.stdout.split())
    ours = {"build", "build/run", "build/run/report.html", "build/link", "build/lab", "build/demo", "build/demo/lab"}
    assert found == {*ours, ".venv", ".venv/bin", ".venv/bin/python"}


def test_what_belongs_to_another_user_is_refused_with_how_to_take_it_back(tmp_path: Path) -> None:
    checkout = tmp_path / "with space"
    environment.refuse_files_of_others(checkout, os.geteuid() + 1)
    (checkout / "build" / "lab").mkdir(parents=True)
    environment.refuse_files_of_others(checkout, os.geteuid())
    with pytest.raises(SystemExit, match="files of another user") as refused:
        environment.refuse_files_of_others(checkout, os.geteuid() + 1)
    assert str(refused.value).endswith(f"sudo chown -R {os.geteuid() + 1} '{checkout}/build'")
    environment.refuse_files_of_others(checkout, 0)
