# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot unit's program: one file of our own sources that runs without Ansible and without site packages."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.boot import RESULT
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine import program
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import BOOT_SPEC_FILE, RESULT_FILE
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.sweeps import first_of
from ansible_collections.rdma.fabric.tests.unit._host.kernel.on_disk import lay_out

ROOM = "ansible_collections/rdma/fabric/plugins/module_utils/_host"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / Path(program.program_path()).name
    path.write_bytes(program.program_bytes())
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    lay_out(FLEET["egx-01"]().document(), root)
    return root


def run(archive: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program as its unit does, where nothing of this checkout can be imported."""
    argv = [sys.executable, "-I", "-S", str(archive), *arguments]
    return subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=60, cwd="/", env={"PATH": os.defpath}
    )


def result(root: Path) -> dict[str, Any]:
    return RESULT.parse((root / RESULT_FILE[1:]).read_text())


def wish(root: Path, text: str) -> None:
    path = root / BOOT_SPEC_FILE[1:]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_equal_sources_make_equal_bytes_and_their_name(archive: Path) -> None:
    program.members.cache_clear()
    assert program.program_bytes() == archive.read_bytes()
    assert program.is_program(program.program_path())


def test_other_sources_make_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    others = {**program.members(), "__main__.py": b"other"}
    monkeypatch.setattr(program, "members", lambda: others)
    program.program_path.cache_clear()
    other = program.program_path()
    monkeypatch.undo()
    program.program_path.cache_clear()
    assert other != program.program_path()


def test_nothing_in_it_depends_on_the_place_or_the_time_of_making(archive: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        assert {entry.date_time for entry in opened.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.compress_type for entry in opened.infolist()} == {zipfile.ZIP_STORED}
        assert opened.testzip() is None
        names = opened.namelist()
    assert names == sorted(names)
    assert f"{ROOM}/run/at_boot.py" in names
    assert not [name for name in names if "recorded" in name or "plugins/modules/" in name]


def test_its_text_gives_its_bytes_back() -> None:
    assert program.program_text().encode("utf-8", "surrogateescape") == program.program_bytes()


def test_it_is_made_of_an_archive_as_well_as_of_a_directory(archive: Path, tmp_path: Path) -> None:
    """Ansible sends modules and what they import as one archive."""
    code = (
        f"import sys; sys.path.insert(0, {str(archive)!r})\n"
        f"from {ROOM.replace('/', '.')}.machine import program\n"
        "sys.stdout.buffer.write(program.program_bytes())\n"
    )
    argv = [sys.executable, "-I", "-S", "-c", code]
    made = subprocess.run(argv, capture_output=True, check=True, timeout=60, cwd=tmp_path).stdout
    assert made == archive.read_bytes()


def test_a_module_without_source_is_named() -> None:
    with pytest.raises(program.NoSource, match="nowhere has no source"):
        program._source("nowhere")


def test_every_module_it_imports_is_in_it(archive: Path) -> None:
    """A broken closure would only show on a host that starts."""
    with zipfile.ZipFile(io.BytesIO(archive.read_bytes())) as opened:
        names = [name[:-3].replace("/", ".") for name in opened.namelist() if name.endswith(".py")]
    modules = [name for name in names if name.startswith("ansible_collections.") and not name.endswith("__init__")]
    code = f"import sys; sys.path.insert(0, {str(archive)!r})\nimport {', '.join(modules)}"
    argv = [sys.executable, "-I", "-S", "-c", code]
    assert subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60).stderr == ""


def test_without_wishes_it_leaves_the_host_alone(archive: Path, root: Path) -> None:
    done = run(archive, "--root", str(root), "boot")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (result(root)["ok"], result(root)["problems"]) == (True, [])


def test_what_holds_already_is_not_done_again(archive: Path, root: Path) -> None:
    wish(root, '{"format": 1, "interfaces": [{"pci": "0000:37:00.0", "mtu": 1500, "state": "up"}]}')
    done = run(archive, "--root", str(root), "boot")
    assert (done.returncode, done.stderr) == (0, "")
    assert result(root) == {"boot_id": "", "ok": True, "running": False, "executed": [], "problems": []}


def test_what_it_can_not_do_is_in_its_result(archive: Path, root: Path) -> None:
    """A tree has no ip(8) to run."""
    wish(root, '{"format": 1, "interfaces": [{"pci": "0000:37:00.0", "mtu": 9000}]}')
    done = run(archive, "--root", str(root), "boot")
    assert (done.returncode, done.stderr) == (1, "")
    (problem,) = result(root)["problems"]
    assert problem in done.stdout
    assert problem.startswith("planned: mtu 0000:37:00.0 (ens2f0): set the MTU to 9000 (now 1500)")
    assert "next: " in problem


BROKEN = {
    '{"format": 2, "interfaces": []}': "only reads files of format 1",
    "{": "is broken",
    "[]": "only reads files of format 1",
    '{"format": 1, "interfaces": [{"pci": 7}]}': "is broken",
    '{"format": 1, "interfaces": 7}': "is broken",
}


@pytest.mark.parametrize("text", first_of(BROKEN))
def test_a_broken_file_of_wishes_is_told(archive: Path, root: Path, text: str) -> None:
    wish(root, text)
    done = run(archive, "--root", str(root), "boot")
    assert (done.returncode, done.stderr) == (1, "")
    assert BROKEN[text] in result(root)["problems"][0]


@pytest.mark.parametrize("arguments", first_of([("nonsense",), (), ("boot", "now"), ("--root",)]))
def test_misuse_is_answered_by_the_usage(archive: Path, arguments: tuple[str, ...]) -> None:
    done = run(archive, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: ")
