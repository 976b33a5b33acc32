# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often a node is looked at while something is waited for: at growing intervals, with a word now and then."""

from __future__ import annotations

import math
from typing import Callable, Protocol

_FIRST_INTERVAL = 0.5
_GROWTH = 1.5
_LONGEST_INTERVAL = 5.0
_SAID_EVERY = 10.0
# How long one of several that wait for the same thing keeps back at most, how many of them this is made for, and how
# often the time is doubled for one that comes too late again and again: then news travels slower than it acts.
_LONGEST_BACK = 0.3
_MANY = 200
_MOST_DOUBLED = 2


class Clock(Protocol):
    """Monotonic seconds, and a way to let them pass."""

    def now(self) -> float:
        """Return monotonic seconds."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class Pace:
    """The looks of one wait of ``limit`` seconds (infinite: without limit); ``progress`` gets a line now and then."""

    def __init__(self, clock: Clock, limit: float, progress: Callable[[str], None]) -> None:
        self._clock = clock
        self._limit = limit
        self._progress = progress
        self._interval = _FIRST_INTERVAL
        self.started = self._said = clock.now()

    def renew(self) -> None:
        """Count the limit from now on: what is waited for has come nearer."""
        self.started = self._clock.now()
        self._interval = _FIRST_INTERVAL

    def waited(self) -> float:
        """Return the seconds since the wait began."""
        return self._clock.now() - self.started

    def is_over(self) -> bool:
        """Tell whether the limit has been reached; the last look is made then."""
        return self._left() <= 0

    def wait(self, text: Callable[[], str], at_most: float = math.inf) -> None:
        """Let the time to the next look pass; say what is waited for if nothing was said for a while."""
        if self._clock.now() - self._said >= _SAID_EVERY:
            self._said = self._clock.now()
            self._progress(text())
        # Who keeps back may do so for a moment longer than the limit.
        left = self._left()
        self._clock.sleep(min(self._interval, at_most, left if left > 0 else math.inf))
        self._interval = min(self._interval * _GROWTH, _LONGEST_INTERVAL)

    def _left(self) -> float:
        return self.started + self._limit - self._clock.now()


def kept_back(chance: float, losses: int) -> float:
    """Return how many seconds one of several keeps back before it takes what has become free.

    ``chance`` is 0 to 1; ``losses`` is how often it came too late.

    They know nothing of each other. Short times are rare and long ones frequent, exponentially (as in Sift, Jamieson et
    al. 2003): of a few the first begins late, of many it begins early, and in both cases only few others follow before
    they see that it did.
    """
    longest = _LONGEST_BACK * math.pow(2, min(losses, _MOST_DOUBLED))
    return longest * math.log1p(_MANY * chance) / math.log1p(_MANY)
