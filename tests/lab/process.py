# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start and end programs of the lab under supervision: each ends with this process, whatever ends this process."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Sequence

SUPERVISOR = Path(__file__).with_name("supervise.py")


def supervised(argv: list[str]) -> list[str]:
    """Give the command that runs ``argv`` under a supervisor owned by this process."""
    # -I -S: nothing of the caller's Python environment may keep the supervisor from running.
    return [sys.executable, "-I", "-S", str(SUPERVISOR), str(os.getpid()), *argv]


def tail(path: Path, lines: int = 20, window: int = 65536) -> str:
    """Give the last ``lines`` lines of a text file, looking at its last ``window`` bytes only."""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - window))
        text = stream.read().decode("utf-8", "replace")
    return "\n".join(text.splitlines()[-lines:])


class Process:
    """One supervised program whose output goes to a log file; ``pass_fds`` are descriptors that it inherits."""

    def __init__(
        self,
        name: str,
        argv: list[str],
        log: Path,
        *,
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._popen = self._start(argv, output, env, cwd, pass_fds)

    @staticmethod
    def _start(
        argv: list[str], output: IO[bytes], env: dict[str, str] | None, cwd: Path | None, pass_fds: Sequence[int]
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            supervised(argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=cwd,
            pass_fds=pass_fds,
            start_new_session=True,  # a terminal's Ctrl-C reaches the owner, which ends its programs in order
        )

    @property
    def supervisor_pid(self) -> int:
        """The process ID of the supervisor; the program is its only child."""
        return self._popen.pid

    def status(self) -> int | None:
        """Give the program's shell status, or None while it runs."""
        return self._popen.poll()

    def wait(self, timeout: float) -> int | None:
        """Wait up to ``timeout`` seconds; give the status, or None when the program still runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._popen.wait(timeout)
        return None

    def terminate(self) -> None:
        """Ask the program to end (SIGTERM to its process group)."""
        self._popen.terminate()

    def kill(self) -> None:
        """End the program at once; the supervisor goes first and the kernel takes the program with it."""
        self._popen.kill()
        self._popen.wait()


def stop_all(processes: list[Process], grace: float) -> list[str]:
    """Ask all processes to end, kill those that have not after ``grace`` seconds; give the names of the killed."""
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + grace
    killed = []
    for process in processes:
        if process.wait(max(0.0, deadline - time.monotonic())) is None:
            process.kill()
            killed.append(process.name)
    return killed
