# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module is killed, or refused by the kernel, at every system call by which it writes; the next run gets there.

strace(1) does it: a calm run is recorded, then each of its writing calls is made to fail, or to kill, in its own run.
Attributes of the kernel are written by a child of the module, which is disturbed by the path. By default each host and
each fault is taken once, with some of the calls, evenly and others for each fault; ``RDMA_FABRIC_SWEEPS=whole`` takes
all of them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.lock import LOCK
from ansible_collections.rdma.fabric.tests.lab.writing_calls import FAULTS, KILL, RECORDING, Point, Traced, sample
from ansible_collections.rdma.fabric.tests.sweeps import some_pairs, whole
from ansible_collections.rdma.fabric.tests.unit._host.full_hosts import HOSTS
from ansible_collections.rdma.fabric.tests.unit._host.kernel.on_disk import EXECUTED, contents, put_down, run_module

SAMPLE = 3


class Host:
    """A host on the disk, and runs of the module on it."""

    def __init__(self, name: str, here: Path) -> None:
        self.asked = HOSTS[name]
        self.here = here
        self.template = here / "template"
        (self.template / "root").mkdir(parents=True)
        put_down(self.asked.host(), self.template / "root", {})
        self.root = here / "host" / "root"
        self._check = False
        self._traced = Traced(here / "strace.log", self._module)

    def reset(self) -> None:
        shutil.rmtree(self.here / "host", ignore_errors=True)
        subprocess.run(["cp", "-a", str(self.template), str(self.here / "host")], check=True)

    def run(self, *strace: str, check: bool = False) -> dict[str, Any] | None:
        """Run the module; None when it was killed. Nothing it prints is ever a traceback."""
        self._check = check
        status = self._traced.run(strace)
        told, complaints = [(self.here / name).read_text() for name in ("stdout", "stderr")]
        assert "Traceback" not in complaints + told, complaints
        if not told:
            assert status != 0
            return None
        result: dict[str, Any] = json.loads(told)
        return result

    def points(self) -> list[Point]:
        """Return the calls that write below the host's root or execute a program, each attribute once."""
        executed = str(self.root.parent / EXECUTED)
        return self._traced.points(lambda path: path.startswith(f"{self.root}/") or path == executed)

    def _module(self) -> int:
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(self.here / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        arguments = {"desired": self.asked.wish, "_ansible_diff": True, "_ansible_check_mode": self._check}
        try:
            run_module(str(self.root), arguments)
        except SystemExit as end:
            return int(end.code or 0)
        return 0


class Calm(NamedTuple):
    """A host, the writing calls of an undisturbed run on it, and what that leaves."""

    host: Host
    points: list[Point]
    left: dict[str, Any]
    concerns: set[str]


@pytest.fixture(scope="module")
def calm_on(tmp_path_factory: pytest.TempPathFactory) -> Any:
    @lru_cache(maxsize=None)
    def calm_run(name: str) -> Calm:
        host = Host(name, tmp_path_factory.mktemp(name))
        host.reset()
        outcome = host.run(*RECORDING)
        assert outcome is not None
        assert not outcome.get("failed"), outcome["msg"]
        concerns = {step["id"].partition(":")[0] for step in outcome["executed"]}
        points, left = host.points(), contents(host.root)
        again = host.run(*RECORDING)
        assert again is not None
        assert not again["changed"]
        assert [point for point in host.points() if not point.path.endswith(LOCK)] == []
        return Calm(host, points, left, concerns)

    return calm_run


@pytest.fixture(params=HOSTS)
def calm(request: pytest.FixtureRequest, calm_on: Any) -> Calm:
    found: Calm = calm_on(request.param)
    return found


def test_there_are_calls_to_disturb(calm: Calm) -> None:
    assert {"openat", "write", "fsync", "rename"} <= {point.call for point in calm.points}
    assert calm.concerns == calm.host.asked.concerns
    assert any(point.is_childs for point in calm.points)
    assert any(point.path.endswith(EXECUTED) for point in calm.points)
    assert len(calm.points) > 30


def test_check_mode_has_no_call_that_writes(calm: Calm) -> None:
    calm.host.reset()
    outcome = calm.host.run(*RECORDING, check=True)
    assert outcome is not None
    assert outcome["changed"]
    assert calm.host.points() == []


def problem_after(calm: Calm, point: Point, fault: str) -> str:
    """Disturb a run at one of its calls and run again: what is wrong with either, empty when nothing is."""
    host = calm.host
    host.reset()
    outcome = host.run(*point.disturbed(fault))
    if fault == KILL and not point.is_childs:
        if outcome is not None:
            return "was not killed"
    elif outcome is None or outcome.get("failed"):
        if outcome is None or "next: " not in outcome["msg"]:
            return f"no next step: {outcome}"
    elif contents(host.root) != calm.left:
        return "was passed over in silence"
    again = host.run()
    if again is None or again.get("failed"):
        return f"the next run fails: {again and again['msg']}"
    left = contents(host.root)
    return ", ".join(path for path in sorted({*left, *calm.left}) if left.get(path) != calm.left.get(path))


@pytest.mark.parametrize(("calm", "fault"), some_pairs([*HOSTS], FAULTS), indirect=["calm"])
def test_after_any_disturbance_the_next_run_ends_where_a_calm_one_does(calm: Calm, fault: str) -> None:
    points = calm.points if whole() else sample(calm.points, fault, SAMPLE)
    problems = {f"{fault} at {point}": problem_after(calm, point, fault) for point in points}
    assert points
    assert {where: problem for where, problem in problems.items() if problem} == {}
