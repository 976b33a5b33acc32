# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts what ``site`` costs per host, and what it costs the controller at 10, 100 and 1000 recorded hosts."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.tests.bench.failure import BenchmarkFailed
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import apply_nodes
from tools.artifact import build_and_install
from tools.checkout import PROGRAMS, own_environment
from tools.ending import ticking
from tools.fleet import INVENTORY, RECORDINGS, SUFFIX, fleet_nodes

SIZES = (10, 100, 1000)
CALLBACKS = Path(__file__).parent / "callback_plugins"
# Reach no host: the price of a role that is not for every host and of its argument specification, not of a host's work.
ON_CONTROLLER = ("ansible.builtin.include_role", "ansible.builtin.validate_argument_spec")
Counts = Mapping[str, Mapping[str, int]]


class Cost(NamedTuple):
    """What a program and its children took: CPU and wall clock in seconds, the largest process in KiB."""

    cpu_seconds: float
    seconds: float
    rss_kib: int


class SiteRun(NamedTuple):
    """One run of ``site``: results by host, the largest process in KiB, and its duration."""

    counts: Counts
    rss_kib: int
    seconds: float


def measure(control_plane: ControlPlane, folder: Path) -> dict[str, float]:
    """Run ``site`` on fleets of every size against one cluster, whose nodes are those of the recorded fleet.

    The first run fills the cluster and is not counted: the others find nothing to do there.
    """
    _artifact, collections = build_and_install()
    apply_nodes(control_plane.api, fleet_nodes(collections))
    environment = control_plane.command_environment(own_environment(collections))
    run_site(folder / "first", SIZES[0], environment)
    runs = {size: run_site(folder / str(size), size, environment) for size in SIZES}
    return {
        **per_host(runs[SIZES[0]].counts),
        "site.rss_kib_per_host": slope({size: float(run.rss_kib) for size, run in runs.items()}),
        **{f"site.rss_kib.{size}": run.rss_kib for size, run in runs.items()},
        **{f"site.seconds.{size}": round(run.seconds, 1) for size, run in runs.items()},
    }


def per_host(counts: Counts) -> dict[str, float]:
    """Return how many modules ran and how many tasks were skipped, per host of the fabric."""
    fleet = {host: results for host, results in counts.items() if host != "localhost"}
    if not fleet:
        raise BenchmarkFailed("no host of the fabric took part in the run")
    totals = {"modules": 0, "skipped": 0, "tasks": 0}
    for results in fleet.values():
        for key, number in results.items():
            outcome, action = key.split(" ", 1)
            totals["tasks"] += number
            totals["skipped"] += number * (outcome == "skipped")
            totals["modules"] += number * (outcome != "skipped" and action not in ON_CONTROLLER)
    return {f"site.steady.{name}_per_host": total / len(fleet) for name, total in totals.items()}


def slope(values: Mapping[int, float], digits: int = 1) -> float:
    """Return the growth per host between the smallest and the largest fleet."""
    smallest, largest = min(values), max(values)
    return round((values[largest] - values[smallest]) / (largest - smallest), digits)


def fleet_inventory(size: int, recordings: Sequence[Path]) -> dict[str, Any]:
    """Return an inventory of ``size`` hosts that share the recordings; each asks for two kernel modules."""
    hosts = {
        f"host-{number:04}": {"rdma_fabric_recording": str(recordings[number % len(recordings)])}
        for number in range(size)
    }
    common = {"rdma_fabric_kernel_modules": ["rdma_ucm", "ib_umad"], "ansible_connection": "local"}
    return {"rdma_fabric": {"hosts": hosts, "vars": common}}


def run_site(folder: Path, size: int, environment: Mapping[str, str]) -> SiteRun:
    """Run ``site`` once on ``size`` hosts; its output goes to a log in ``folder``."""
    folder.mkdir(parents=True)
    inventory, counts, log = folder / "hosts.json", folder / "counts.json", folder / "site.log"
    inventory.write_text(json.dumps(fleet_inventory(size, sorted(RECORDINGS.glob(f"*{SUFFIX}")))), encoding="utf-8")
    manifests = sorted(str(path) for path in (INVENTORY.parent / "manifests").glob("*.yaml"))
    variables = {"rdma_fabric_run_dir": str(folder / "run"), "rdma_fabric_manifests": manifests}
    argv = [str(PROGRAMS / "ansible-playbook"), "rdma.fabric.site", "-i", str(inventory), "-e", json.dumps(variables)]
    counting = {
        "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
        "ANSIBLE_CALLBACKS_ENABLED": "rdma_fabric_count",
        "RDMA_FABRIC_COUNTS": str(counts),
    }
    cost = run_measured(argv, folder, {**environment, **counting}, log, f"site on {size} hosts")
    return SiteRun(json.loads(counts.read_text(encoding="utf-8")), cost.rss_kib, cost.seconds)


def run_measured(argv: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path, what: str) -> Cost:
    """Run a program in ``folder`` to its end and return what it took; its output goes to ``log``."""
    start = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        usage = wait_measured(process, what)
    if process.returncode:
        raise BenchmarkFailed(f"{what} ended with {process.returncode}: see {log}")
    return Cost(usage.ru_utime + usage.ru_stime, time.monotonic() - start, usage.ru_maxrss)


def wait_measured(process: subprocess.Popen[bytes], what: str) -> resource.struct_rusage:
    """Wait for a process and return what it and its children used."""
    with ticking(lambda: what):
        try:
            _pid, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.terminate()
            process.wait()
            raise
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage
