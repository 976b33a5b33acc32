# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab ends with the process it was started for, at its time limit, and when it is told to; nothing stays behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, Iterator

import pytest

from ansible_collections.rdma.fabric.tests.lab.guests.lab import CHECKOUT, down, is_held
from ansible_collections.rdma.fabric.tests.lab.guests.reach import LabNotUp, read_state
from ansible_collections.rdma.fabric.tests.lab.guests.saved import SWITCH
from ansible_collections.rdma.fabric.tests.lab.programs import to_standard_error

START_SECONDS = 900.0  # the image may have to be built first
END_SECONDS = 30.0
HOSTS = ("--guests", "1", "--no-cluster")
BOOTING = {**os.environ, SWITCH: "no"}  # a restored guest would be up before anything can happen to its start


def until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.2)


def phase(directory: Path) -> str:
    try:
        return str(read_state(directory)["phase"])
    except LabNotUp:
        return "absent"


def processes(directory: Path) -> list[str]:
    """Give the command lines of all processes that work for a lab in the directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            at_work = (entry / "cwd").resolve() == directory
            command = (entry / "cmdline").read_bytes().decode("utf-8", "replace").replace("\0", " ")
        except OSError:
            continue
        if at_work or str(directory) in command:
            found.append(command)
    return found


@pytest.fixture
def started(capable: None, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start the lab's command line; it and its lab are ended after the test."""
    commands: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "tests.lab.guests", "up", "--dir", str(tmp_path), *HOSTS, *arguments]
        commands.append(subprocess.Popen(argv, cwd=CHECKOUT, env=BOOTING, stderr=(tmp_path / "err").open("wb")))
        return commands[-1]

    yield start
    for command in commands:
        command.kill()
        command.wait()
    down(tmp_path, to_standard_error)


def test_a_killed_start_leaves_nothing_and_the_next_one_works(
    started: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    for _again in range(2):
        command = started()
        until(lambda: phase(tmp_path) == "booting", START_SECONDS)
        assert any("qemu-system" in each for each in processes(tmp_path))
        command.send_signal(signal.SIGKILL)
        command.wait()
        until(lambda: not is_held(tmp_path), END_SECONDS)
        assert processes(tmp_path) == []


def test_a_killed_keeper_takes_its_guests_along_and_the_start_says_so(
    started: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    command = started()
    until(lambda: phase(tmp_path) == "booting", START_SECONDS)
    os.kill(read_state(tmp_path)["holder"], signal.SIGKILL)
    assert command.wait(END_SECONDS) == 1
    assert "keeper ended" in (tmp_path / "err").read_text(encoding="utf-8")
    until(lambda: not is_held(tmp_path), END_SECONDS)
    assert processes(tmp_path) == []


def test_a_guest_that_does_not_boot_in_time_is_shown_with_its_console(
    started: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    command = started("--start-seconds", "1")
    assert command.wait(START_SECONDS) == 1
    text = (tmp_path / "err").read_text(encoding="utf-8")
    # The second is one of an idle machine.
    assert re.search(r"rdma-1 did not boot within \d+ s\n", text)
    assert "next: run it again" in text
    assert processes(tmp_path) == []


def test_a_lab_ends_at_its_time_limit_and_with_its_owner(
    started: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    with subprocess.Popen(["sleep", "3600"]) as owner:
        for arguments, reason in ((("--minutes", "0"), "time limit"), (("--owner", str(owner.pid)), "has ended")):
            command = started(*arguments)
            until(lambda: phase(tmp_path) in ("booting", "ended"), START_SECONDS)
            owner.kill()
            assert command.wait(END_SECONDS) == 1
            until(lambda: not is_held(tmp_path), END_SECONDS)
            assert reason in read_state(tmp_path)["reason"]
            assert processes(tmp_path) == []


def test_two_labs_run_side_by_side(
    started: Callable[..., subprocess.Popen[bytes]], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    started()
    argv = [sys.executable, "-m", "tests.lab.guests", "up", "--dir", str(other), *HOSTS]
    with subprocess.Popen(argv, cwd=CHECKOUT, env=BOOTING) as second:
        try:
            until(lambda: phase(tmp_path) == phase(other) == "booting", START_SECONDS)
            down(other, to_standard_error)
            assert second.wait(END_SECONDS) == 1
            assert processes(other) == []
            assert phase(tmp_path) == "booting"
        finally:
            second.kill()
