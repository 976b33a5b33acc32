# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process that waits for a confirmation, for real: the host's program, started apart from whoever starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence, cast

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import Operation, PutFile, RemoveFile
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.record import Record, text_of, with_step
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.revert import CONFIRMED, REVERTED, confirm, launch
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import (
    CommandResult,
    HostError,
    LiveMachine,
    SystemClock,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import (
    BOOT_ID,
    GUARD_FILE,
    PYTHON_OPTIONS,
    REVERTED_FILE,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.program import program_path, program_text

TOKEN = "fedcba9876543210"
SECONDS = 2
PATIENCE = 60.0  # on a busy machine a process takes its time
SETTING, KEPT = "/sys/class/net/eno1/mtu", "/etc/netplan/90-rdma-fabric.yaml"
STARTER = """
import sys, time
sys.path[:0] = {path!r}
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import LiveMachine
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.revert import launch
launch(LiveMachine({root!r}), sys.executable, {program!r}, {token!r}, {root!r})
print("started", flush=True)
time.sleep(60)
"""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[LiveMachine]:
    """A host's tree with a changed uplink under guard; whatever still runs on it in the end is a failure."""
    machine = LiveMachine(str(tmp_path))
    machine.replace(program_path(), program_text(), 0o644)
    machine.replace(BOOT_ID, "first\n", 0o444)
    machine.replace(SETTING, "9000\n", 0o644)
    machine.replace(KEPT, "changed\n", 0o600)
    guard(machine, 600)
    yield machine
    left = processes_on(tmp_path)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def guard(machine: LiveMachine, seconds: int) -> None:
    """Put the change under guard until ``seconds`` from now."""
    undo: list[Operation] = [PutFile(SETTING, "1500\n"), RemoveFile(KEPT)]
    record = with_step(Record(TOKEN, "first", seconds, 0.0), "eno1", undo, SystemClock().now())
    machine.replace(GUARD_FILE, text_of(record), 0o600)


def processes_on(root: Path) -> list[int]:
    """The processes that were given ``root`` as the host to work on."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"guard" in words and os.fsencode(root) in words:
            found.append(int(path.parent.name))
    return found


def soon(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def start_and_kill(root: Path) -> None:
    """Start the process as the module does, and end the module's process group as a lost session would at worst."""
    path = [path for path in sys.path if path]
    code = STARTER.format(path=path, root=str(root), program=program_path(), token=TOKEN)
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "started\n"
    finally:
        os.killpg(starter.pid, signal.SIGKILL)
        starter.communicate()
    assert soon(lambda: len(processes_on(root)) == 1)


def test_it_outlives_its_starter_and_takes_back_in_time(machine: LiveMachine, tmp_path: Path) -> None:
    began = time.monotonic()
    guard(machine, SECONDS)
    start_and_kill(tmp_path)
    assert soon(lambda: machine.exists(REVERTED_FILE))
    assert time.monotonic() - began >= SECONDS
    assert soon(lambda: processes_on(tmp_path) == [])
    assert (machine.read(SETTING), machine.exists(KEPT)) == ("1500\n", False)
    answer = confirm(machine, SystemClock(), TOKEN)
    assert (answer.state, answer.steps, answer.problems) == (REVERTED, ("eno1",), ())


def test_it_ends_when_the_change_is_confirmed(machine: LiveMachine, tmp_path: Path) -> None:
    start_and_kill(tmp_path)
    # A tree has no systemctl(1); the unit that it lacks is removed by the next run.
    assert confirm(machine, SystemClock(), TOKEN).state == CONFIRMED
    assert soon(lambda: processes_on(tmp_path) == [])
    assert (machine.read(SETTING), machine.read(KEPT)) == ("9000\n", "changed\n")
    assert not machine.exists(REVERTED_FILE)


def test_when_it_is_killed_the_next_start_of_the_host_takes_back(machine: LiveMachine, tmp_path: Path) -> None:
    start_and_kill(tmp_path)
    for pid in processes_on(tmp_path):
        os.kill(pid, signal.SIGKILL)
    machine.replace(BOOT_ID, "second\n", 0o444)
    argv = [sys.executable, "-I", "-S", f"{tmp_path}{program_path()}", "--root", str(tmp_path), "boot"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "took an unconfirmed change of the uplink back" in done.stdout
    assert machine.read(SETTING) == "1500\n"


class Systemd:
    """A machine whose systemd-run ends with a status, or is not there (None)."""

    def __init__(self, status: int | None) -> None:
        self.status = status
        self.asked: list[list[str]] = []

    def run(self, argv: Sequence[str], _timeout: float) -> CommandResult:
        self.asked.append(list(argv))
        if self.status is None:
            raise HostError("ENOENT", argv[0])
        return CommandResult(self.status, "", "")


GUARD = ["/usr/bin/python3", *PYTHON_OPTIONS, "/program", "guard"]


@pytest.mark.parametrize(("status", "detached"), [(0, []), (1, [GUARD]), (None, [GUARD])])
def test_it_is_started_once_by_systemd_where_that_can_and_else_in_a_session_of_its_own(
    monkeypatch: pytest.MonkeyPatch, status: int | None, detached: list[list[str]]
) -> None:
    systemd, started = Systemd(status), []

    def popen(argv: list[str], **options: Any) -> None:
        assert (options["start_new_session"], options["cwd"]) == (True, "/")
        assert {options[name] for name in ("stdin", "stdout", "stderr")} == {subprocess.DEVNULL}
        started.append(argv)

    monkeypatch.setattr(subprocess, "Popen", popen)
    launch(cast(LiveMachine, systemd), "/usr/bin/python3", "/program", TOKEN)
    (asked,) = systemd.asked
    # A unit that has failed stays in the way of the next one of its name without --collect.
    assert asked[:3] == ["systemd-run", "--quiet", "--collect"]
    assert f"--unit=rdma-fabric-guard-{TOKEN[:12]}" in asked
    assert asked[-len(GUARD) :] == GUARD
    assert started == detached


def test_a_process_that_cannot_be_started_at_all_is_an_error_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def popen(argv: list[str], **_options: Any) -> None:
        raise FileNotFoundError(2, "No such file or directory", argv[0])

    monkeypatch.setattr(subprocess, "Popen", popen)
    with pytest.raises(HostError, match="/usr/bin/python3"):
        launch(cast(LiveMachine, Systemd(None)), "/usr/bin/python3", "/program", TOKEN)
