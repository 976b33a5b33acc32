# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A playbook is run with exactly the variables that were given, whatever is in a path."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tools.playbook import run_playbook

PROGRAM = """#!/bin/sh
for word in "$@"; do printf '%s\\n' "$word"; done > arguments
echo 'gpu-[01:32] (32 hosts) : ok=3 changed=0 unreachable=0 failed=0'
printf '\\033[0;33mhost\\033[0m : ok=3 changed=2 unreachable=0 failed=0\\n'
"""


def test_a_path_with_a_space_stays_one_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "ansible-playbook"
    program.write_text(PROGRAM, encoding="utf-8")
    program.chmod(0o755)
    folder = tmp_path / "with space"
    folder.mkdir()
    variables = {"rdma_fabric_run_dir": str(folder / "run"), "rdma_fabric_prune": False}
    run = run_playbook("rdma.fabric.site", folder / "hosts.yml", variables, {}, folder, programs=tmp_path)
    given = (folder / "arguments").read_text(encoding="utf-8").splitlines()
    assert given[:4] == ["rdma.fabric.site", "-i", str(folder / "hosts.yml"), "-e"]
    assert json.loads(given[4]) == variables
    assert (run.status, run.changed) == (0, ["host : ok=3 changed=2 unreachable=0 failed=0"])
    first = capsys.readouterr().out.splitlines()[0]
    assert shlex.split(first) == ["$", "ansible-playbook", *given]
