# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the files of a task can't be written, check mode fails as the run does, and says so in the same words.

A run directory that can't be written is said with the variable that gives another one.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable

import pytest

from ansible_collections.rdma.fabric.plugins.action import rdma_record
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions import run_dir
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET, RECORDINGS
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import training_cluster
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action


def render(folder: Path, *, check: bool) -> dict[str, Any]:
    return run_action("fabric_render", {"spec": training_cluster(), "output_dir": str(folder)}, check=check)


def discover(folder: Path, *, check: bool) -> dict[str, Any]:
    facts = run_action("rdma_info", {"recording": str(RECORDINGS / "egx-01.json.gz")})["facts"]
    return run_action(
        "fabric_discover", {"hosts": ["egx-01"], "facts": {"egx-01": facts}, "dest": str(folder)}, check=check
    )


def record(folder: Path, *, check: bool) -> dict[str, Any]:
    return run_action("rdma_record", {"dest": str(folder / "node.json")}, check=check)


@pytest.fixture(autouse=True)
def of_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"changed": False, "document": {**FLEET["cpu-01"]().document(), "hostname": "host"}}
    monkeypatch.setattr(rdma_record.ActionModule, "run_module", lambda *_arguments: answer)


@pytest.mark.parametrize("task", [render, discover, record])
def test_a_place_below_a_file(task: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    shown, done = (task(tmp_path / "file" / "folder", check=check) for check in (True, False))
    assert shown["failed"] and done["failed"]
    assert shown["msg"] == done["msg"]
    assert str(tmp_path / "file") in shown["msg"]
    assert task(tmp_path / "folder", check=True)["changed"]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("task", [render, discover, record])
def test_a_place_of_somebody_else(
    task: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The user of the tests may be root, whom no mode keeps away.
    monkeypatch.setattr(os, "access", lambda path, _mode: path != tmp_path)
    shown = task(tmp_path / "a" / "folder", check=True)
    assert (shown["failed"], shown["msg"]) == (True, f"{tmp_path}: Permission denied")


@pytest.mark.parametrize("task", [render, discover, record])
def test_a_project_that_is_mounted_read_only(
    task: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY))
    shown = task(tmp_path / "a" / "folder", check=True)
    assert (shown["failed"], shown["msg"]) == (True, f"{tmp_path}: Read-only file system")


def plan(folder: Path) -> dict[str, Any]:
    recording = str(RECORDINGS / "egx-01.json.gz")
    output = str(folder / "hosts" / "egx-01.json")
    return run_action("rdma_host", {"desired": {}, "recording": recording, "mode": "preview", "output_file": output})


def report(folder: Path) -> dict[str, Any]:
    return run_action("fabric_report", {"run_dir": str(folder), "spec": training_cluster()})


def prove(folder: Path) -> dict[str, Any]:
    return run_action("fabric_verify", {"run_dir": str(folder), "spec": training_cluster(), "kubeconfig": "/none"})


@pytest.mark.parametrize("task", [plan, report, prove])
def test_the_run_directory_in_such_a_project(
    task: Callable[[Path], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    read_only = OSError(errno.EROFS, os.strerror(errno.EROFS), str(tmp_path / "run"))
    monkeypatch.setattr(run_dir, "make_writable_directory", raising(read_only))
    result = task(Path("run"))
    assert result["failed"]
    assert result["msg"] == (
        f"the run directory {tmp_path / 'run'}: Read-only file system (make it writable, or give another one; of "
        "playbooks and roles that is rdma_fabric_run_dir)"
    )


def raising(error: OSError) -> Callable[[Path], None]:
    def refuse(path: Path) -> None:
        assert path.is_absolute()
        raise error

    return refuse
