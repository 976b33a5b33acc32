# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets a task that is asked to end clean up first, and ends one that would wait for ever."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import Future, wait
from contextlib import contextmanager
from types import FrameType
from typing import Iterator, Sequence, TypeVar

Result = TypeVar("Result")

LOOK_SECONDS = 1.0


class Interrupted(BaseException):
    """The run was asked to end (SIGTERM, SIGINT); what it made is removed on the way out."""


class TimedOut(BaseException):
    """What was to be done in a time was not."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise TimedOut in the body once so many seconds are over; 0 is without limit.

    A task that has a timeout of Ansible's own keeps to that: both are one alarm of the process.
    """
    if not seconds or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return

    def end(_number: int, _frame: FrameType | None) -> None:
        raise TimedOut()

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def interruptible(stop: threading.Event) -> Iterator[None]:
    """Turn the first SIGTERM or SIGINT into Interrupted, and pass it on once the body has cleaned up.

    Ansible's worker would die of the signal at once, and leave behind what it made.
    """
    received: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        # A second one comes from Ansible's own end of the run: cleaning up goes on.
        if not received:
            received.append(number)
            stop.set()
            raise Interrupted()

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if received:
            os.kill(os.getpid(), received[0])


def results_of(futures: Sequence[Future[Result]]) -> list[Result]:
    """Return the results of the futures; raise what the first one that failed raised.

    Python handles a signal when its main thread runs on. One that comes just before that thread blocks, or that another
    thread takes, wakes nobody: a wait without end would outlast it.
    """
    results: list[Result] = []
    for future in futures:
        while not future.done():
            wait([future], LOOK_SECONDS)
        results.append(future.result())
    return results
