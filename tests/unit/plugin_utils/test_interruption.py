# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What would wait for ever ends in its time or at a signal, and the alarm is as it was afterwards."""

from __future__ import annotations

import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.interruption import (
    Interrupted,
    TimedOut,
    interruptible,
    results_of,
    within,
)


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    before = signal.getsignal(signal.SIGALRM)
    yield
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert signal.getsignal(signal.SIGALRM) is before


def test_what_does_not_end_in_its_time_is_ended() -> None:
    with pytest.raises(TimedOut), within(0.05):
        threading.Event().wait(60)


def test_what_ends_in_its_time_is_left_alone() -> None:
    with within(60):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 50


def test_0_is_without_limit() -> None:
    with within(0):
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_a_timeout_of_the_task_itself_goes_on_to_count() -> None:
    before = signal.signal(signal.SIGALRM, lambda *_signal: pytest.fail("it took so long"))
    signal.setitimer(signal.ITIMER_REAL, 30)
    with within(0.01):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 20
    assert signal.getitimer(signal.ITIMER_REAL)[0] > 20
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def is_waiting() -> bool:
    """Tell whether the main thread waits for results."""
    names = []
    frame: FrameType | None = sys._current_frames()[threading.main_thread().ident or 0]
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names[0] == "wait" and "results_of" in names


def test_a_signal_that_does_not_wake_the_main_thread_ends_its_wait_too() -> None:
    """One that comes as that thread begins to wait wakes nobody; nor does, each time, one that another thread takes."""
    stop, ended_by = threading.Event(), []

    def work() -> None:
        while not is_waiting():
            time.sleep(0.01)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        ended_by.append(stop.wait(30))

    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with pytest.raises(Interrupted), interruptible(stop), ThreadPoolExecutor() as pool:
            results_of([pool.submit(work)])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended_by == [True]


def test_results_are_in_order_and_the_first_failure_is_raised() -> None:
    with ThreadPoolExecutor() as pool:
        assert results_of([pool.submit(abs, number) for number in (-3, -1, -2)]) == [3, 1, 2]
        with pytest.raises(ZeroDivisionError):
            results_of([pool.submit(int, "1"), pool.submit(int.__floordiv__, 1, 0), pool.submit(int, "none")])
