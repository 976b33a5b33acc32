# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a lab may take to start: one budget, counted as an idle machine of reference would need it."""

from __future__ import annotations

import os
import time
from typing import Callable

# From power-on to a node that is Ready; two guests take 3 minutes on two idle cores.
SECONDS_PER_GUEST = 300.0
SECONDS_PER_RESTORED = 100.0  # one that is restored; two take half a minute


def processors() -> int:
    """Return how many processors there are for this process and what it starts."""
    return len(os.sched_getaffinity(0))


def load() -> float:
    """Return how many programs want a processor for each that there is; at least 1."""
    return max(1.0, os.getloadavg()[0] / processors())


class Budget:
    """Seconds of the idle reference; on a slower or busier machine each of them takes longer.

    ``slowness`` is how many times as much processor time the same takes here; the load is looked at as time goes by.
    """

    def __init__(
        self,
        seconds: float,
        slowness: float = 1.0,
        *,
        clock: Callable[[], float] = time.monotonic,
        busy: Callable[[], float] = load,
    ) -> None:
        self._left = seconds
        self._slowness = slowness
        self._clock = clock
        self._busy = busy
        self._started = self._at = clock()

    def left(self) -> float:
        """Return the seconds that are left on the clock of this machine, at its present pace; 0 when there is none."""
        now, pace = self._clock(), self._slowness * self._busy()
        self._left -= (now - self._at) / pace
        self._at = now
        return max(0.0, self._left * pace)

    def spent(self) -> float:
        """Return the seconds since it began, on the clock of this machine."""
        return self._clock() - self._started


def until(
    condition: Callable[[], bool], seconds: float = 120.0, said: str = "it did not come to that", *, every: float = 0.1
) -> None:
    """Wait for what takes so many seconds at most on an idle machine; on a busy one it has as much longer."""
    budget = Budget(seconds)
    while not condition():
        assert budget.left() > 0, said
        time.sleep(every)
