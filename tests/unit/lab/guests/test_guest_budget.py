# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time that a lab has grows with what the machine is slow at, and with what else it does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.tests.lab.guests import budget, remembered, speed, waiting
from ansible_collections.rdma.fabric.tests.lab.guests.budget import Budget, load
from ansible_collections.rdma.fabric.tests.lab.guests.layout import plan_guests
from ansible_collections.rdma.fabric.tests.lab.guests.qemu import Image
from ansible_collections.rdma.fabric.tests.lab.guests.speed import describe_pace, measure_slowness, pace
from ansible_collections.rdma.fabric.tests.lab.guests.waiting import LabFailed, Watch, wait_for_guests

IMAGE = Image(Path("/cache/image-1"), Path("/cache/qemu-1"))


class Machine:
    """A machine whose time passes and whose load changes as the test has it."""

    def __init__(self) -> None:
        self.now, self.busy = 100.0, 1.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, _seconds: float) -> None:
        self.now += 40

    def budget(self, seconds: float, slowness: float = 1.0) -> Budget:
        return Budget(seconds, slowness, clock=self.monotonic, busy=lambda: self.busy)


def test_an_idle_machine_has_the_time_that_is_given() -> None:
    machine = Machine()
    found = machine.budget(60)
    assert found.left() == 60
    machine.now += 45
    assert (found.left(), found.spent()) == (15, 45)
    machine.now += 20
    assert (found.left(), found.spent()) == (0, 65)


def test_a_slow_machine_has_as_much_longer_and_a_busy_one_as_long_as_it_is_busy() -> None:
    machine = Machine()
    slow = machine.budget(60, 2.0)
    assert slow.left() == 120
    busy = machine.budget(60)
    machine.busy = 6
    assert busy.left() == 360
    machine.now += 180  # 30 of the 60 s
    assert busy.left() == 180
    machine.busy = 1
    assert busy.left() == 30
    machine.now += 15
    assert busy.left() == 15


@pytest.mark.parametrize(("average", "there", "found"), [(0.2, 2, 1.0), (12.0, 2, 6.0), (12.0, 16, 1.0)])
def test_the_load_is_told_by_processors(
    monkeypatch: pytest.MonkeyPatch, average: float, there: int, found: float
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (average, 0.0, 0.0))
    monkeypatch.setattr(budget, "processors", lambda: there)
    assert load() == found


def burn(seconds: float) -> None:
    code = f"import time\nwhile time.process_time() < {seconds}: pass"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_slowness_is_measured_once_for_each_start_of_the_machine_and_counts_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    (tmp_path / "rdma-fabric" / "guests").mkdir(parents=True)
    boot_id = tmp_path / "boot_id"
    boot_id.write_text("one\n", encoding="ascii")
    monkeypatch.setattr(remembered, "BOOT_ID", boot_id)
    monkeypatch.setattr(speed, "REFERENCE_SECONDS", 0.1)
    monkeypatch.setattr(speed, "load", lambda: 1.0)
    trials: list[list[str]] = []

    def trial(argv: list[str], _environment: dict[str, str], _seconds: float) -> bool:
        trials.append(argv)
        burn(0.4)
        return True

    def measured() -> float:
        return measure_slowness(IMAGE, environ, lambda _line: None, trial)

    assert pace(environ) == 1
    assert 4 <= measured() < 12
    assert measured() == pace(environ) > 1
    (argv,) = trials
    assert argv[argv.index("-accel") + 1].startswith("tcg")
    boot_id.write_text("two\n", encoding="ascii")
    assert pace(environ) == 1
    measured()
    assert len(trials) == 2
    (tmp_path / "rdma-fabric" / "guests" / "speed.json").write_text("{truncated", encoding="utf-8")
    assert pace(environ) == 1


def test_a_guest_that_boots_in_no_time_tells_nothing_of_the_speed(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    (tmp_path / "rdma-fabric" / "guests").mkdir(parents=True)

    def never(_argv: list[str], _environment: dict[str, str], _seconds: float) -> bool:
        burn(0.1)
        return False

    assert measure_slowness(IMAGE, environ, lambda _line: None, never) == 1


def test_why_it_takes_longer_is_said_where_it_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    monkeypatch.setattr(os, "getloadavg", lambda: (12.0, 0.0, 0.0))
    for module in (budget, speed):
        monkeypatch.setattr(module, "processors", lambda: 2)
    said = describe_pace(environ)
    assert "about 6.0 times as long" in said
    assert "a load of 12 on 2 processors" in said
    monkeypatch.setattr(os, "getloadavg", lambda: (2.0, 0.0, 0.0))
    assert describe_pace(environ) == ""


def test_a_guest_that_does_not_boot_in_time_is_told_readably_with_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine()
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "rdma-1.console").write_text("\x1b[!p\x1b]104\x07\x1b[?7h\x1b[0;32mLoading\x1b[0m\x00\r\n")
    monkeypatch.setattr(waiting, "time", machine)
    watch = Watch(tmp_path, lambda _line: None, machine.budget(60, 2.0))
    with subprocess.Popen(["sleep", "60"]) as keeper:
        try:
            with pytest.raises(LabFailed) as failure:
                wait_for_guests(plan_guests(1, 1), keeper, watch)
        finally:
            keeper.kill()
    text = str(failure.value)
    assert text.startswith("rdma-1 did not boot within 120 s\n")
    assert "\nLoading\n" in text
    assert "\x1b" not in text and "\x00" not in text
    assert text.splitlines()[-1].startswith("next: run it again, as everything that it needs is in the cache")


def test_a_guest_that_takes_no_ssh_is_told_with_what_ssh_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "rdma-1.console").write_text("rdma-lab: ready\n")
    (tmp_path / "bin").mkdir()
    ssh = tmp_path / "bin" / "ssh"
    ssh.write_text("#!/bin/sh\necho Connection refused >&2\nexit 255\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setattr(waiting, "time", machine)
    watch = Watch(tmp_path, lambda _line: None, machine.budget(60))
    with subprocess.Popen(["sleep", "60"]) as keeper:
        try:
            with pytest.raises(LabFailed, match="takes no ssh connection within 80 s: Connection refused\nnext: run"):
                wait_for_guests(plan_guests(1, 1), keeper, watch)
        finally:
            keeper.kill()
