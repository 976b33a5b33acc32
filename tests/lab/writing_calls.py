# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records the system calls by which a process changes files, and lets each of them fail, or kill the process.

strace(1) does both (its option ``inject``). A call is known by its name, its path and its number among the calls of
that name on that path, so what else a process looks at may differ from run to run. Standard library only: booted guests
use it as well.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import select
import signal
import subprocess
import sys
import traceback
from collections import Counter
from pathlib import Path
from typing import Callable, Iterator, NamedTuple, NoReturn

KILL = "signal=KILL"
FAULTS = (KILL, "error=ENOSPC", "error=EROFS", "error=EIO")
WRITING = (
    *("openat", "open", "creat", "write", "pwrite64", "writev", "ftruncate", "fsync", "fdatasync", "fchmod", "chmod"),
    *("rename", "renameat", "renameat2", "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat"),
    *("link", "linkat", "symlink", "symlinkat"),
)
# -y tells the paths of descriptors; a system that lacks a call may lack it (?).
STRACE = ("strace", "-y", "-s", "0", "-o")
RECORDING = ("-f", "-e", f"trace={','.join(f'?{name}' for name in (*WRITING, 'execve'))}")
CALL = re.compile(r"^(?P<pid>\d+) +(?P<name>\w+)\((?P<arguments>.*)$")
# A path is an argument of its own or belongs to a descriptor; the working directory is neither.
PATH = re.compile(r'(?<!AT_FDCWD)[<"](/[^>"]*)[>"]')
TO_WRITE = re.compile(r"O_WRONLY|O_RDWR|O_CREAT")
# So that strace may attach where only parents trace (yama): linux/prctl.h.
PR_SET_PTRACER, PR_SET_PTRACER_ANY = 0x59616D61, ctypes.c_ulong(-1)
SECONDS = 600


class Point(NamedTuple):
    """One call of a calm run: the n-th of its name on a path, by the process itself or by a child of it."""

    call: str
    path: str
    number: int
    is_childs: bool

    def disturbed(self, fault: str) -> list[str]:
        """Return the options of strace that let the call fail, or kill its process."""
        names = "openat,open" if self.call in {"open", "openat"} else self.call
        follow = ["-f"] if self.is_childs else []
        inject = f"inject={self.call}:{fault}:when={self.number}"
        return [*follow, "-P", self.path, "-e", f"trace={names}", "-e", inject]


def sample(points: list[Point], fault: str, count: int) -> list[Point]:
    """Choose ``count`` points that lie evenly, and between those that are chosen for other faults."""
    places = range(FAULTS.index(fault), count * len(FAULTS), len(FAULTS))
    return [points[place * len(points) // (count * len(FAULTS))] for place in places]


class Traced:
    """Runs of one piece of work, each in a process of its own, under strace or not."""

    def __init__(self, log: Path, work: Callable[[], int]) -> None:
        self._log = log
        self._work = work

    def run(self, strace: tuple[str, ...] = ()) -> int:
        """Do the work and give the exit status of its process, negative for the signal that ended it."""
        child = os.fork()
        if child == 0:
            self._be_the_process()
        os.waitpid(child, os.WUNTRACED)
        tracer = self._trace(child, strace) if strace else None
        os.kill(child, signal.SIGCONT)
        status = _end_of(child)
        if tracer is not None:
            tracer.communicate(timeout=SECONDS)
        return status

    def points(self, is_meant: Callable[[str], bool]) -> list[Point]:
        """Return the calls of the recorded run that write to paths that are meant.

        Of children only those count that never became another program: they write the attributes of the kernel.
        """
        found: Counter[tuple[str, str, str]] = Counter()
        points = []
        for process, is_childs, name, arguments in self._calls():
            paths = list(dict.fromkeys(PATH.findall(arguments)))
            found.update((process, name, path) for path in paths)
            is_reading = name in {"open", "openat"} and not TO_WRITE.search(arguments)
            if paths and is_meant(paths[0]) and not is_reading and (name == "write" or not is_childs):
                points.append(Point(name, paths[0], found[process, name, paths[0]], is_childs))
        return list(dict.fromkeys(points))

    def _calls(self) -> Iterator[tuple[str, bool, str, str]]:
        """Yield every recorded call: its process, if that is a child, its name and its arguments."""
        lines = [match for match in map(CALL.match, self._log.read_text().splitlines()) if match is not None]
        programs = {line["pid"] for line in lines if line["name"] == "execve"}
        for line in lines:
            if line["pid"] not in programs:
                yield line["pid"], line["pid"] != lines[0]["pid"], line["name"], line["arguments"]

    def _be_the_process(self) -> NoReturn:
        """Wait until told to go on, and end as the work does."""
        status = 1
        try:
            ctypes.CDLL(None).prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            status = self._work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _trace(self, process: int, options: tuple[str, ...]) -> subprocess.Popen[str]:
        command = [*STRACE, str(self._log), *options, "-p", str(process)]
        tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert tracer.stderr is not None
        # It first says where the paths it was given lead.
        said = list(itertools.takewhile(lambda line: "attached" not in line, tracer.stderr))
        assert tracer.poll() is None, said
        return tracer


def _end_of(child: int) -> int:
    """Wait for a process; one that takes too long is killed."""
    descriptor = os.pidfd_open(child)
    ended, _writable, _failed = select.select([descriptor], [], [], SECONDS)
    os.close(descriptor)
    if not ended:
        os.kill(child, signal.SIGKILL)
    _child, status = os.waitpid(child, 0)
    assert ended, "the work does not end"
    return os.waitstatus_to_exitcode(status)
