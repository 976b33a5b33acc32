# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs what takes long, says that it does, and ends it when the tool is interrupted, without a traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any, Callable, Iterator, Mapping, NoReturn, Sequence

PROGRESS_SECONDS, GRACE_SECONDS = 15.0, 120.0
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def to_its_end(main: Callable[[], int], *expected: type[Exception]) -> int:
    """Run a tool's main function; return its exit status, 1 where it raised what is ``expected``, which is said.

    A signal interrupts it once, as cleaning up that follows is not cut short; the status is then that of a shell.
    """
    before = _handlers()

    def interrupt(number: int, _frame: FrameType | None) -> NoReturn:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt(number)

    for each in before:
        signal.signal(each, interrupt)
    try:
        return main()
    except KeyboardInterrupt as interruption:
        print("interrupted; what ran was stopped", flush=True)
        return 128 + int(interruption.args[0])
    except expected as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _handlers() -> dict[signal.Signals, Any]:
    """Return what is done at each signal that ends a program, without those that it was told to ignore."""
    return {each: handler for each in ENDING if (handler := signal.getsignal(each)) != signal.SIG_IGN}


@contextmanager
def started(argv: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start a process; when what is done meanwhile is interrupted, it is asked to end and waited for."""
    # A process that is being started could be ended by nobody: signals are held back until it is there.
    held: list[int] = []
    before = _handlers()
    for each in before:
        signal.signal(each, lambda number, _frame: held.append(number))

    def release() -> None:
        while before:
            signal.signal(*before.popitem())
        if held:
            signal.raise_signal(held.pop())

    try:
        with subprocess.Popen(argv, **options) as process:
            try:
                release()
                yield process
            except BaseException:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(GRACE_SECONDS)
                process.kill()
                raise
    finally:
        release()


@contextmanager
def ticking(what: Callable[[], str], every: float = PROGRESS_SECONDS) -> Iterator[threading.Event]:
    """Say every so many seconds what is waited for; the event that is given, once set, tells that there is news."""
    news, ended = threading.Event(), threading.Event()

    def tick() -> None:
        since = time.monotonic()
        while not ended.is_set():
            if news.wait(every):
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
