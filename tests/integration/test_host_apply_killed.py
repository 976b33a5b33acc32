# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module is killed, or refused by the kernel, at every system call by which it writes; the next run gets there.

strace(1) does it: a calm run is recorded, then each of its writing calls is made to fail, or to kill, in its own run.
By default some of the calls are taken, evenly; ``RDMA_FABRIC_EVERY_WRITE=1`` takes all of them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Iterator, NamedTuple

import pytest

from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host.kernel import on_disk
from ansible_collections.rdma.fabric.tests.unit._host.kernel.on_disk import contents, lay_out

EVERY = os.environ.get("RDMA_FABRIC_EVERY_WRITE") == "1"
SAMPLE = 7
FAULTS = ("signal=KILL", "error=ENOSPC", "error=EROFS", "error=EIO")
WRITING = (
    *("openat", "open", "creat", "write", "pwrite64", "writev", "ftruncate", "fsync", "fdatasync", "fchmod", "chmod"),
    *("rename", "renameat", "renameat2", "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat"),
    *("link", "linkat", "symlink", "symlinkat"),
)
# -y tells the paths of descriptors; a system that lacks a call may lack it (?).
STRACE = ("strace", "-f", "-y", "-s", "0", "-o")
# Stops at the traced calls only, which is faster; strace injects no signals then.
FAST = "--seccomp-bpf"
RECORDING = (FAST, "-e", f"trace={','.join(f'?{name}' for name in WRITING)}")
CALL = re.compile(r"^(?P<pid>\d+) +(?P<name>\w+)\((?P<arguments>.*)$")
WISH = {
    "kernel_modules": ["ib_umad", "rdma_ucm"],
    "interfaces": [
        {"pci": "0000:37:00.0", "mtu": 9000, "state": "up"},
        {"pci": "0000:37:00.1", "mtu": 4200, "state": "up"},
    ],
}


class Point(NamedTuple):
    """One call of a calm run: the n-th of its name, and what it does."""

    call: str
    number: int
    what: str


class Host:
    """A recorded host on the disk, and runs of the module on it."""

    def __init__(self, here: Path) -> None:
        self.here = here
        self.template = here / "template"
        (self.template / "root").mkdir(parents=True)
        lay_out(FLEET["egx-01"]().document(), self.template / "root")
        self.root = here / "host" / "root"
        self.log = here / "strace.log"

    def reset(self) -> None:
        shutil.rmtree(self.here / "host", ignore_errors=True)
        subprocess.run(["cp", "-a", str(self.template), str(self.here / "host")], check=True)

    def run(self, *strace: str, check: bool = False) -> dict[str, Any] | None:
        """Run the module; None when it was killed. Nothing it prints is ever a traceback."""
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
        }
        arguments = json.dumps({"desired": WISH, "_ansible_diff": True, "_ansible_check_mode": check})
        command = [sys.executable, "-m", on_disk.__name__, str(self.root), arguments]
        traced = [*STRACE, str(self.log), *strace, *command] if strace else command
        done = subprocess.run(traced, capture_output=True, text=True, check=False, timeout=120, env=environment)
        assert "Traceback" not in done.stderr + done.stdout, done.stderr
        if not done.stdout:
            assert done.returncode != 0
            return None
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def calls(self) -> Iterator[tuple[str, int, str]]:
        """Yield every recorded call of the module's process: name, its number among those of its name, arguments."""
        found: Counter[str] = Counter()
        process = ""
        for line in self.log.read_text().splitlines():
            match = CALL.match(line)
            if match is None:
                continue
            process = process or match["pid"]
            if match["pid"] == process:
                found[match["name"]] += 1
                yield match["name"], found[match["name"]], match["arguments"]

    def points(self) -> list[Point]:
        """Return the calls that write below the host's root."""
        return [
            Point(name, number, arguments)
            for name, number, arguments in self.calls()
            if f"{self.root}/" in arguments
            and (name not in {"open", "openat"} or re.search(r"O_WRONLY|O_RDWR|O_CREAT", arguments))
        ]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    return Host(tmp_path_factory.mktemp("killed"))


@pytest.fixture(scope="module")
def calm(host: Host) -> tuple[list[Point], dict[str, Any]]:
    """The writing calls of an undisturbed run, and what it leaves."""
    host.reset()
    outcome = host.run(*RECORDING)
    assert outcome is not None
    assert not outcome.get("failed"), outcome["msg"]
    points, left = host.points(), contents(host.root)
    again = host.run(*RECORDING)
    assert again is not None
    assert (again["changed"], host.points()) == (False, [])
    return points, left


def chosen(points: list[Point]) -> list[Point]:
    if EVERY or len(points) <= SAMPLE:
        return points
    return [points[index * (len(points) - 1) // (SAMPLE - 1)] for index in range(SAMPLE)]


def test_there_are_calls_to_disturb(calm: tuple[list[Point], dict[str, Any]]) -> None:
    assert {"openat", "write", "fsync", "rename"} <= {point.call for point in calm[0]}
    assert len(calm[0]) > 30


def test_check_mode_has_no_call_that_writes(host: Host) -> None:
    host.reset()
    outcome = host.run(*RECORDING, check=True)
    assert outcome is not None
    assert outcome["changed"]
    assert host.points() == []


@pytest.mark.parametrize("fault", FAULTS)
def test_after_any_disturbance_the_next_run_ends_where_a_calm_one_does(
    host: Host, calm: tuple[list[Point], dict[str, Any]], fault: str
) -> None:
    points, wanted = calm
    for point in chosen(points):
        where = f"{fault} at {point}"
        host.reset()
        names = "openat,open" if point.call in {"open", "openat"} else point.call
        how = () if fault == "signal=KILL" else (FAST,)
        outcome = host.run(*how, "-e", f"trace={names}", "-e", f"inject={point.call}:{fault}:when={point.number}")
        if fault == "signal=KILL":
            assert outcome is None, where
        elif outcome is None or outcome.get("failed"):
            assert outcome is not None and "next: " in outcome["msg"], f"{where}: {outcome}"
        else:
            assert contents(host.root) == wanted, f"{where} was passed over in silence"
        again = host.run()
        assert again is not None and not again.get("failed"), f"{where}: {again}"
        assert contents(host.root) == wanted, where
