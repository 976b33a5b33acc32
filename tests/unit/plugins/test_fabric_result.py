# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a run as the task leaves it: printed once, as a statistic, and in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible import constants

from ansible_collections.rdma.fabric.plugins.action import fabric_result
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

VALID: dict[str, Any] = {"kind": "input", "result": {"spec": {"hosts": {"a": {}}}}}


@pytest.fixture(autouse=True)
def screen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("ansible.context.CLIARGS", {"args": ("rdma.fabric.preflight",), "check": False})
    monkeypatch.setattr(constants, "DEFAULT_STDOUT_CALLBACK", "default")
    lines: list[str] = []
    monkeypatch.setattr(fabric_result.display, "display", lambda text, **_how: lines.append(text))
    return lines


def test_the_file_is_the_statistic_in_check_mode_too(tmp_path: Path) -> None:
    result = run_action("fabric_result", {**VALID, "run_dir": str(tmp_path / "run")}, check=True)
    found = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))
    assert found == result["statistic"] == result["ansible_stats"]["data"]["rdma_fabric_result"]
    assert (found["result"], found["run_dir"], result["changed"]) == ("valid", str(tmp_path / "run"), False)


def test_a_run_that_goes_on_has_failed_until_it_says_something_else(tmp_path: Path, screen: list[str]) -> None:
    given = {**VALID, "goes_on": True, "run_dir": str(tmp_path)}
    run_action("fabric_result", given)
    begun = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert (begun["result"], begun["counts"], screen) == ("failed", "ended before its report", [])
    run_action("fabric_result", {**given, "result": {"failed": True, "msg": "no"}})
    refused = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert refused["result"] == "refused"
    assert "result:   refused" in screen


def test_a_file_that_cannot_be_written_is_no_other_result(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file", encoding="utf-8")
    result = run_action("fabric_result", {**VALID, "run_dir": str(tmp_path / "run")})
    assert result["statistic"]["result"] == "valid"
    (notice,) = result["notices"]
    assert str(tmp_path / "run") in notice


@pytest.mark.parametrize(
    ("callback", "original", "lines"),
    [
        ("default", None, 4),
        ("rdma.fabric.fleet", None, 0),
        ("awx_display", "rdma.fabric.fleet", 0),
        ("awx_display", "ansible.posix.json", 0),
        ("awx_display", None, 4),
        ("default", "rdma.fabric.fleet", 4),
    ],
)
def test_the_block_is_printed_once_under_a_runner_as_well(
    callback: str, original: str | None, lines: int, screen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """ansible-runner's callback is made from that of its environment (ansible/ansible-runner, awx_display.py)."""
    monkeypatch.setattr(constants, "DEFAULT_STDOUT_CALLBACK", callback)
    monkeypatch.delenv("ORIGINAL_STDOUT_CALLBACK", raising=False)
    if original:
        monkeypatch.setenv("ORIGINAL_STDOUT_CALLBACK", original)
    run_action("fabric_result", VALID)
    assert len(screen) == lines


@pytest.mark.parametrize("prefix", ["awx", "tower"])
def test_in_a_job_the_next_step_is_a_template(prefix: str) -> None:
    task_vars = {f"{prefix}_job_template_name": "Fabric check"}
    failed = {"kind": "input", "result": {"failed": True, "msg": "no"}}
    said = run_action("fabric_result", failed, task_vars=task_vars)["statistic"]["next"]
    assert said == "fix what is named above, then: launch the job template Fabric check again"
