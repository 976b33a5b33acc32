# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run prints beside Ansible's own lines."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.tests.integration import guides
from ansible_collections.rdma.fabric.tests.integration.playbooks import User, run_bounded
from tools.checkout import PROGRAMS
from tools.fleet import INVENTORY, RECORDINGS, SUFFIX


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


def test_a_run_ends_with_where_its_report_is_and_names_hosts_that_only_an_earlier_one_read(user: User) -> None:
    run_dir = user.here / "rdma-fabric-run"
    place = f"report:   {run_dir / 'report.html'}\nplans:    {run_dir / 'hosts'}\nnext:     "
    output = user.run("preview", inventory=INVENTORY).succeeded().output
    assert place in output
    assert "\nroce-h100-01: 39 steps\n  planned: " in output, "the plan is what a preview is for"
    assert "not read in this run" not in output
    limited = user.run("preview", "--limit", "roce_h100", inventory=INVENTORY).succeeded()
    assert place in limited.output
    assert "not read in this run: 6 hosts are shown as an earlier one found them: cpu-01 (since " in limited.output
    # The six have refused steps, which are no result of this run.
    assert limited.result["counts"].startswith("1 recorded host planned, ")
    assert (limited.result["result"], limited.result["limit"]) == ("pending", "roce_h100")
    assert user.result() == limited.result


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


def of_a_fleet(folder: Path, size: int, lost: int, wanted: dict[str, Any]) -> tuple[int, list[str]]:
    """Return how ``site --check`` of so many recorded hosts ended, and its lines; ``lost`` of them are not there."""
    user = User(folder / f"{size}-{lost}")
    there, gone = (str(RECORDINGS / f"{name}{SUFFIX}") for name in ("cpu-01", "gone"))
    hosts = {f"gpu-{number:03}": {"rdma_fabric_recording": there if number >= lost else gone} for number in range(size)}
    inventory = user.home / "hosts.json"
    inventory.write_text(json.dumps({"rdma_fabric": {"hosts": hosts, "vars": wanted}}), encoding="utf-8")
    # Lines of progress come by the clock.
    chosen = {"ANSIBLE_STDOUT_CALLBACK": "rdma.fabric.fleet", "RDMA_FABRIC_PROGRESS_SECONDS": "0"}
    status, output = run_bounded(
        [str(PROGRAMS / "ansible-playbook"), "rdma.fabric.site", "-i", str(inventory), "--check", "--diff"],
        user.here,
        {**user.environment(None, None), **chosen},
    )
    return status, output.splitlines()


def test_a_run_of_a_healthy_fleet_is_25_lines_with_the_callback_of_the_collection(tmp_path: Path) -> None:
    status, lines = of_a_fleet(tmp_path, 24, 0, {})
    assert (status, lines.count("result:   unchanged")) == (0, 1)
    quiet = [line for line in lines if not line.startswith("\tRUN: ")]  # the statistic, which tests ask for
    assert len(quiet) <= 25, "\n".join(lines)
    assert not any(line.startswith("TASK [") for line in lines)


def test_the_callback_of_the_collection_folds_hosts_and_names_the_one_that_failed(tmp_path: Path) -> None:
    status, lines = of_a_fleet(tmp_path, 24, 1, {"rdma_fabric_kernel_modules": ["ib_umad"]})
    assert status != 0
    assert len([line for line in lines if line.startswith("fatal: [gpu-000]: FAILED!")]) == 1
    assert "gpu-[001:023] (23 hosts): 1 step" in lines
    below = lines[lines.index(next(filter(is_recap, lines))) + 1 :]
    recap = [line.split(" : ")[0].rstrip() for line in below if " : ok=" in line]
    assert recap == ["gpu-000", "localhost", "gpu-[001:023] (23 hosts)"]
    assert len(lines) < 60, "\n".join(lines)


def test_whose_node_may_be_given_back_is_found_without_a_line_for_each_host(user: User) -> None:
    hosts: dict[str, dict[str, str]] = {f"gpu-{number:02}": {} for number in range(4)}
    of_all = {"rdma_fabric_recording": str(RECORDINGS / f"cpu-01{SUFFIX}"), "rdma_fabric_drain": True}
    inventory = user.home / "hosts.json"
    inventory.write_text(json.dumps({"rdma_fabric": {"hosts": hosts, "vars": of_all}}), encoding="utf-8")
    outcome = user.run("site", "--check", inventory=inventory).succeeded()
    assert outcome.lines_of_hosts("Find the hosts to reload or reboot", hosts) == []
    given_back = outcome.lines_of_hosts("Uncordon the nodes that an earlier run left cordoned", hosts)
    assert given_back == []


def is_recap(line: str) -> bool:
    return line.startswith("PLAY RECAP")
