# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs what takes long, says that it does, and ends it when the tool is interrupted, without a traceback."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any, Callable, Iterator, Mapping, NoReturn, Sequence

INTERRUPTED = 130  # what a shell gives for a command that Ctrl-C has ended
PROGRESS_SECONDS = 15.0
ENDING = (signal.SIGINT, signal.SIGTERM)


def to_its_end(main: Callable[[], int]) -> int:
    """Run a tool's main function; return its exit status, or 130 where Ctrl-C or SIGTERM came before its end."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return main()
    except KeyboardInterrupt:
        print("interrupted; what ran was stopped", flush=True)
        return INTERRUPTED


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


class HeldBack:
    """Holds signals that end a program back until they are released."""

    def __init__(self) -> None:
        self._held: list[int] = []
        self._before = {number: signal.signal(number, self._hold) for number in ENDING}

    def _hold(self, number: int, _frame: FrameType | None) -> None:
        self._held.append(number)

    def release(self) -> None:
        """Let signals through again, those that have come as well."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
        if self._held:
            signal.raise_signal(self._held.pop())


@contextmanager
def started(argv: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start a process; when what is done meanwhile is interrupted, it is asked to end and waited for."""
    held = HeldBack()  # a process that is being started could be ended by nobody
    try:
        process = subprocess.Popen(argv, **options)
    except BaseException:
        held.release()
        raise
    with process:
        try:
            held.release()
            yield process
        except BaseException:
            process.terminate()
            process.wait()
            raise


@contextmanager
def ticking(what: Callable[[], str]) -> Iterator[threading.Event]:
    """Say every 15 s what is being waited for; the event that is given, once set, tells that there is news."""
    news, ended = threading.Event(), threading.Event()

    def tick() -> None:
        since = time.monotonic()
        while not ended.is_set():
            if news.wait(PROGRESS_SECONDS):
                news.clear()
                since = time.monotonic()
            else:
                print(f"  ... {what()} ({time.monotonic() - since:.0f} s)", flush=True)

    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    try:
        yield news
    finally:
        ended.set()
        news.set()
        ticker.join()


def run_command(
    argv: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None, *, log: IO[bytes] | None = None
) -> int:
    """Run a command in ``folder``; return its exit status. It is asked to end, and waited for, when this run is.

    With ``log`` it reads nothing and writes there what it would print.
    """
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log} if log else {}
    with started(argv, cwd=folder, env=None if environment is None else dict(environment), **options) as process:
        return process.wait()
