# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the files of a task can't be written, check mode fails as the run does, and says so in the same words."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable

import pytest

from ansible_collections.rdma.fabric.plugins.action import rdma_record
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
