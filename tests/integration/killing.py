# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs that are killed: at the end of one of their steps, or at one of their requests to the API server.

A run is killed alone, as by a kernel that is out of memory, so that its tasks run on; or with its tasks, as on a
machine that loses power. By default one point of each kind is taken; ``RDMA_FABRIC_SWEEPS=whole`` takes all of them.
"""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.rdma.fabric.tests.integration.faulty_proxy import FaultyProxy, Plan
from ansible_collections.rdma.fabric.tests.integration.playbooks import LIMIT_SECONDS
from ansible_collections.rdma.fabric.tests.integration.test_playbooks_faults import kubeconfig_for
from ansible_collections.rdma.fabric.tests.integration.upgrading import Fleet
from ansible_collections.rdma.fabric.tests.sweeps import whole

CALLBACKS = Path(__file__).with_name("callback_plugins")
STEP, REQUEST = "the end of step", "request"


@dataclass(frozen=True)
class Point:
    """Where a run is killed; ``number`` counts steps or requests from 1."""

    kind: str
    number: int

    @property
    def alone(self) -> bool:
        """Whether the tasks of the run go on: at every other point."""
        return self.number % 2 == 0

    def __str__(self) -> str:
        return f"{self.kind} {self.number}"


def chosen(points: list[Point]) -> list[Point]:
    """Take all; or, by default, the end of a step, killed alone there, and a request, killed with its tasks."""
    if whole():
        return points
    steps = [point for point in points if point.kind == STEP and point.alone]
    requests = [point for point in points if point.kind == REQUEST and not point.alone]
    return [steps[len(steps) // 2], requests[2 * len(requests) // 3]]


def descendants(process: int) -> list[int]:
    """Return the processes that came from one, whatever their sessions and groups."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(") ")[2].split()[1])
        except OSError:
            continue
        parents.setdefault(parent, []).append(int(stat.parent.name))
    found, left = [], [process]
    while left:
        found += parents.get(left[0], [])
        left += parents.get(left.pop(0), [])
    return found


def kill(process: subprocess.Popen[str], *, alone: bool) -> None:
    """Kill a run, ``alone`` or with its tasks."""
    others = [] if alone else descendants(process.pid)
    for number in (process.pid, *others):
        try:
            os.kill(number, signal.SIGKILL)
        except ProcessLookupError:
            continue


class Killed:
    """Starts runs of a playbook on a fleet through a proxy, and kills them."""

    def __init__(self, fleet: Fleet, proxy: FaultyProxy, folder: Path, playbook: str = "upgrade") -> None:
        self._fleet, self._proxy, self._playbook = fleet, proxy, playbook
        self._kubeconfig = kubeconfig_for(fleet.cluster, folder / "kubeconfig", proxy.url)
        self._steps = folder / "steps"

    def points(self, **variables: Any) -> list[Point]:
        """Let a run come to its end; return the points at which one like it can be killed."""
        plan = Plan()
        self._run(plan, 0, variables)
        steps = [Point(STEP, number) for number in range(1, len(self._ended()) + 1)]
        return steps + [Point(REQUEST, number) for number in range(1, plan.seen + 1)]

    def at(self, point: Point, **variables: Any) -> str:
        """Kill a run at a point; return the last step that had ended, and empty text if it never came there."""
        plan, stop_at = (Plan(), point.number) if point.kind == STEP else (Plan(point.number, "act"), 0)
        status = self._run(plan, stop_at, variables, alone=point.alone)
        return (self._ended() or ["none"])[-1] if status == -signal.SIGKILL else ""

    def _ended(self) -> list[str]:
        return self._steps.read_text(encoding="utf-8").splitlines() if self._steps.exists() else []

    def _run(self, plan: Plan, stop_at: int, variables: dict[str, Any], *, alone: bool = True) -> int:
        self._steps.unlink(missing_ok=True)
        environment = {
            "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
            "ANSIBLE_CALLBACKS_ENABLED": "rdma_fabric_stop",
            "RDMA_FABRIC_STEPS": str(self._steps),
            "RDMA_FABRIC_STOP_AT": str(stop_at),
        }
        how: dict[str, Any] = {"playbook": self._playbook, "environment": environment, **variables}
        with self._fleet.start(self._kubeconfig, **how) as process:
            plan.act = lambda: kill(process, alone=alone)
            self._proxy.follow(plan)
            try:
                self._fleet.until(lambda: has_stopped(process.pid), LIMIT_SECONDS)
            finally:
                kill(process, alone=alone)
        return process.returncode


def has_stopped(process: int) -> bool:
    """Tell whether a child has stopped or ended."""
    return os.waitid(os.P_PID, process, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
