# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run prints beside Ansible's own lines."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.tests.integration import guides
from ansible_collections.rdma.fabric.tests.integration.playbooks import User
from tools.checkout import PROGRAMS
from tools.fleet import INVENTORY


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


def test_a_run_ends_with_where_its_report_is_and_names_hosts_that_only_an_earlier_one_read(user: User) -> None:
    run_dir = user.here / "rdma-fabric-run"
    place = f'"report: {run_dir / "report.html"}; plans of the hosts: {run_dir / "hosts"}"'
    output = user.run("preview", inventory=INVENTORY).succeeded().output
    assert place in output
    assert "not read in this run" not in output
    output = user.run("preview", "--limit", "localhost,egx*", inventory=INVENTORY).succeeded().output
    assert place in output
    assert "not read in this run: 5 hosts are shown as an earlier one found them: cpu-01 (since " in output


def test_the_output_of_a_json_callback_is_json_and_holds_every_plan(user: User) -> None:
    argv = [str(PROGRAMS / "ansible-playbook"), "rdma.fabric.preview", "-i", str(INVENTORY), "--diff"]
    environment = {**user.environment(None, None), **guides.AS_JSON}
    done = subprocess.run(
        argv, cwd=user.here, env=environment, capture_output=True, text=True, check=True, timeout=guides.SECONDS
    )
    tasks = [task for play in json.loads(done.stdout)["plays"] for task in play["tasks"]]
    plans = {
        host: result["diff"]["prepared"]
        for task in tasks
        for host, result in task["hosts"].items()
        if "prepared" in result.get("diff", {})
    }
    assert "planned: vfs 0000:18:00.0" in plans["roce-h100-01"]
