# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures what an unchanged host costs beside ``ansible.builtin.setup``: bytes that are sent, and CPU of the target.

Both programs are kept as they are sent, and run in turn from standard input, as pipelining does. The target is this
machine.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.returned import as_returned
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import (
    RecordedHost,
    load_recording,
)
from ansible_collections.rdma.fabric.tests.bench.failure import BenchmarkFailed
from tools.artifact import build_and_install
from tools.checkout import PROGRAMS, own_environment
from tools.fleet import RECORDINGS

ROUNDS = 15
LARGEST = "dgx-h100-01.json.gz"
TASKS: tuple[dict[str, Any], ...] = (
    {"name": "Read the usual facts", "ansible.builtin.setup": {}},
    {
        "name": "Plan a host that asks for two kernel modules",
        "rdma.fabric.rdma_host": {"desired": {"kernel_modules": ["rdma_ucm", "ib_umad"]}, "mode": "preview"},
    },
)


def measure_payload(folder: Path) -> dict[str, float]:
    """Return how much is sent and returned; ``folder`` gets the programs."""
    setup, ours = programs(folder)
    return {
        "host.payload_bytes": ours.stat().st_size,
        "host.payload_ratio_to_setup": round(ours.stat().st_size / setup.stat().st_size, 3),
        "host.facts_kib": round(facts_bytes(RECORDINGS / LARGEST) / 1024, 2),
    }


def measure(folder: Path) -> dict[str, float]:
    """Return what both programs take; ``folder`` gets them."""
    setup, ours = programs(folder)
    seconds: dict[Path, list[float]] = {setup: [], ours: []}
    for _round in range(ROUNDS):
        for program, found in seconds.items():
            found.append(cpu_seconds(program))
    # The speed of machines drifts: each round compares what ran one after the other.
    ratios = [own / usual for usual, own in zip(seconds[setup], seconds[ours])]
    return {
        "host.cpu_seconds": round(statistics.median(seconds[ours]), 3),
        "host.cpu_ratio_to_setup": round(statistics.median(ratios), 3),
    }


def programs(folder: Path) -> tuple[Path, Path]:
    """Run both tasks once; return the programs that were sent for them, in the order of the tasks."""
    _artifact, collections = build_and_install()
    folder.mkdir(parents=True)
    play = {"name": "Keep what is sent", "hosts": "localhost", "gather_facts": False, "tasks": list(TASKS)}
    (folder / "programs.yml").write_text(yaml.safe_dump([play], sort_keys=False), encoding="utf-8")
    argv = [str(PROGRAMS / "ansible-playbook"), "programs.yml", "-i", "localhost,", "-c", "local"]
    argv += ["-e", f"ansible_python_interpreter={sys.executable}"]
    kept = {"ANSIBLE_KEEP_REMOTE_FILES": "1", "ANSIBLE_REMOTE_TMP": str(folder / "sent"), "ANSIBLE_PIPELINING": "0"}
    log = folder / "programs.log"
    with log.open("wb") as output:
        done = subprocess.run(
            argv, cwd=folder, env={**own_environment(collections), **kept}, stdout=output, stderr=output, check=False
        )
    sent = {path.stem: path for path in (folder / "sent").rglob("AnsiballZ_*.py")}
    if done.returncode or set(sent) != {"AnsiballZ_setup", "AnsiballZ_rdma_host"}:
        raise BenchmarkFailed(f"the programs of both modules were not kept: see {log}")
    return sent["AnsiballZ_setup"], sent["AnsiballZ_rdma_host"]


def cpu_seconds(program: Path) -> float:
    """Run a program from standard input; return the seconds of CPU that it and its children took."""
    with program.open("rb") as source:
        process = subprocess.Popen([sys.executable], stdin=source, stdout=subprocess.DEVNULL, cwd="/")
        _pid, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise BenchmarkFailed(f"{program} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def facts_bytes(recording: Path) -> int:
    """Return how many bytes of JSON the facts of a recorded host are."""
    host = RecordedHost(load_recording(recording.read_bytes()))
    return len(json.dumps(as_returned(gather(host)), separators=(",", ":")).encode("utf-8"))
