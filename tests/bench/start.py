# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures what a run costs before it does anything: a preflight that refuses its input, beside a play without tasks.

Both have the same inventory and settings, and run in turn.
"""

from __future__ import annotations

import os
import statistics
import subprocess
from pathlib import Path
from typing import Any, Mapping

import yaml

from ansible_collections.rdma.fabric.tests.bench.failure import BenchmarkFailed
from tools.artifact import build_and_install
from tools.checkout import PROGRAMS, own_environment

ROUNDS = 9
EMPTY_PLAY: tuple[dict[str, Any], ...] = ({"hosts": "localhost", "gather_facts": False, "tasks": []},)
# One word is misspelt.
INVENTORY: dict[str, Any] = {
    "rdma_fabric": {
        "hosts": {"gpu-01": None, "gpu-02": None},
        "vars": {
            "rdma_fabric_interfaces": [{"pci": "0000:18:00.0", "name": "rail0", "mtu": 9000, "vfs": 4}],
            "rdma_fabric_kernel_module": ["rdma_ucm"],
        },
    },
    "ungrouped": {
        "hosts": {
            "localhost": {
                "ansible_connection": "local",
                "rdma_fabric_macvlan_networks": {"rdma-net": {"master": "rail0", "mode": "bridge", "mtu": 9000}},
            }
        }
    },
}
REFUSED, TASK_FAILED = "result:   refused", 2


def measure(folder: Path) -> dict[str, float]:
    """Return all figures; ``folder`` gets the inventory and what was printed."""
    _artifact, collections = build_and_install()
    folder.mkdir(parents=True)
    (folder / "hosts.yml").write_text(yaml.safe_dump(INVENTORY), encoding="utf-8")
    (folder / "empty.yml").write_text(yaml.safe_dump(list(EMPTY_PLAY)), encoding="utf-8")
    # With Ansible's own output, as most users have it.
    environment = {**own_environment(collections), "ANSIBLE_STDOUT_CALLBACK": "default"}
    empty, refused = [], []
    # The first round fills Python's caches.
    for _round in range(ROUNDS + 1):
        empty.append(cpu_seconds("empty.yml", folder, environment, 0))
        refused.append(cpu_seconds("rdma.fabric.preflight", folder, environment, TASK_FAILED))
        if REFUSED not in (folder / "output.log").read_text(encoding="utf-8"):
            raise BenchmarkFailed(f"the preflight ended otherwise than refused: see {folder / 'output.log'}")
    # The speed of machines drifts: each round compares what ran one after the other.
    pairs = list(zip(empty, refused))[1:]
    return {
        "start.empty_cpu_seconds": round(statistics.median(empty[1:]), 3),
        "start.refused_cpu_seconds_more": round(statistics.median(own - usual for usual, own in pairs), 3),
        "start.refused_cpu_ratio_to_empty": round(statistics.median(own / usual for usual, own in pairs), 3),
    }


def cpu_seconds(playbook: str, folder: Path, environment: Mapping[str, str], status: int) -> float:
    """Run a playbook; return what it took with all its processes. Raises BenchmarkFailed for another status."""
    argv = [str(PROGRAMS / "ansible-playbook"), playbook, "-i", "hosts.yml"]
    with (folder / "output.log").open("wb") as output:
        process = subprocess.Popen(argv, cwd=folder, env=environment, stdout=output, stderr=output)
        _pid, found, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(found)
    if process.returncode != status:
        raise BenchmarkFailed(f"{playbook} ended with {process.returncode}: see {folder / 'output.log'}")
    return usage.ru_utime + usage.ru_stime
