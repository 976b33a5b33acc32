# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What would wait for ever ends in its time, and the alarm is as it was afterwards."""

from __future__ import annotations

import signal
import threading
from typing import Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._interruption import TimedOut, within


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
