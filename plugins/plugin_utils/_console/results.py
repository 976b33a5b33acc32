# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run on many hosts prints: equal results in one line, how far a task has come, and the recap. Pure."""

from __future__ import annotations

import re
from typing import Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import counted, natural_key

from .host_names import fold, fold_names, host_list

OK = "ok"
CHANGED = "changed"
SKIPPED = "skipping"
FAILED = "failed"
HOST = "HOST"
_KINDS = (OK, CHANGED, SKIPPED)
_MOST_RANGES = 12
_MOST_TROUBLED = 10
_TROUBLE = ("failures", "unreachable")


class Wording(NamedTuple):
    """What the line of a result says beside its host: its kind, whom it was delegated to, and its item."""

    kind: str
    delegated: str = ""
    item: str = ""


class Held(NamedTuple):
    """A line of a task that its end prints, and the kind of the results in it."""

    kind: str
    line: str


class TaskOnHosts:
    """One task on its hosts: who is at it, who is through, and which of their results are still to be printed."""

    def __init__(self) -> None:
        """Begin with no host."""
        self.running: dict[str, float] = {}  # since when, the first one first
        self.done: set[str] = set()
        self._counts = dict.fromkeys((*_KINDS, FAILED), 0)
        self._began: float | None = None
        self._most_at_once = 0
        self._seconds = 0.0
        self._longest = 0.0
        self._held: dict[Wording, list[str]] = {}
        self._warned: dict[str, list[str]] = {}

    def start(self, host: str, now: float) -> None:
        """Note that the task begins on a host."""
        self.running[host] = now
        self._began = now if self._began is None else self._began
        self._most_at_once = max(self._most_at_once, len(self.running))

    def finish(self, host: str, now: float, kind: str) -> None:
        """Note that the task is through on a host, and what came of it."""
        seconds = now - self.running.pop(host, now)
        self.done.add(host)
        self._counts[kind] += 1
        if kind != SKIPPED:
            self._seconds += seconds
            self._longest = max(self._longest, seconds)

    def hold(self, host: str, wording: Wording) -> None:
        """Keep a result for the end of the task."""
        self._held.setdefault(wording, []).append(host)

    def hold_warning(self, host: str, text: str) -> None:
        """Keep a warning, in its words without the host's name, that was printed for another host."""
        self._warned.setdefault(text, []).append(host)

    def release(self) -> list[Held]:
        """Return the lines of all that was kept, and forget it."""
        held, self._held = self._held, {}
        ordered = sorted(held, key=lambda wording: _KINDS.index(wording.kind))
        return [Held(wording.kind, result_line(wording, held[wording])) for wording in ordered]

    def release_warnings(self) -> list[str]:
        """Return the warnings that were kept, each with the hosts that it is about, and forget them."""
        warned, self._warned = self._warned, {}
        return [f"on {counted(len(hosts), 'more host')}, {_names(hosts)}: {text}" for text, hosts in warned.items()]

    def progress(self, now: float, total: int, *, estimate: bool = True) -> str:
        """Return how far the task has come on its ``total`` hosts, nothing when there is nothing to say.

        Without ``estimate`` the line says nothing of the time that is left: where tasks overtake each other, those that
        are through with one of them tell nothing of it.
        """
        if not self.running or total == 1:
            return ""
        counts = ", ".join(f"{self._counts[kind]:,} {kind}" for kind in (CHANGED, FAILED) if self._counts[kind])
        first, since = next(iter(self.running.items()))
        parts = [
            f"{len(self.done):,} of {total:,} hosts done" + (f" ({counts})" if counts else ""),
            f"{len(self.running):,} running",
            f"longest {first} for {spoken(now - since)}",
        ]
        left = self.time_left(now, total) if estimate else None
        return "  ... " + ", ".join([*parts, *([f"about {spoken(left)} left"] if left is not None else [])])

    def time_left(self, now: float, total: int) -> float | None:
        """Return how many seconds the rest of ``total`` hosts will take, by those that are through.

        None where that is not known: before as many are through as run at once, and when the last ones already take
        longer than any before them.
        """
        samples = len(self.done) - self._counts[SKIPPED]
        waiting = max(total - len(self.done) - len(self.running), 0)
        elapsed = [now - since for since in self.running.values()]
        if samples < max(self._most_at_once, 1) or (not waiting and any(each > self._longest for each in elapsed)):
            return None
        usual, busy = self._seconds / samples, self._seconds + sum(elapsed)
        if not busy or self._began is None:
            return None
        at_once = busy / (now - self._began)
        of_running = [max(usual - each, 0.0) for each in elapsed]
        return max([(waiting * usual + sum(of_running)) / at_once, *of_running, usual if waiting else 0.0])


def result_line(wording: Wording, hosts: Sequence[str]) -> str:
    """Return the line of equal results: of one host as Ansible prints it, of many their number and folded names."""
    if len(hosts) == 1:
        return f"{wording.kind}: [{hosts[0]}{wording.delegated}]{wording.item}"
    return f"{wording.kind}: {counted(len(hosts), 'host')}: {_names(hosts)}{wording.delegated}{wording.item}"


def without_host(text: str, host: str) -> str:
    """Return ``text`` with the name of the host replaced, so that two hosts say the same where they mean the same."""
    return re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", HOST, text)


def recap(stats: Mapping[str, Mapping[str, int]]) -> list[tuple[str, Mapping[str, int]]]:
    """Return the lines of the recap from the counts of each host: names, and counts.

    Hosts with failures and those that could not be reached come first, each by itself where they are few. Others share
    a line with those of equal counts.
    """
    troubled: dict[tuple[int, ...], list[str]] = {}
    fine: dict[tuple[int, ...], list[str]] = {}
    for name in sorted(stats, key=natural_key):
        equal = troubled if any(stats[name][key] for key in _TROUBLE) else fine
        equal.setdefault(tuple(stats[name].values()), []).append(name)
    groups = [*troubled.values()]
    if sum(map(len, groups)) <= _MOST_TROUBLED:
        groups = [[name] for name in sorted((name for group in groups for name in group), key=natural_key)]
    return [(_counted(hosts), stats[hosts[0]]) for hosts in [*groups, *fine.values()]]


def spoken(seconds: float) -> str:
    """Return a time as a person says it: ``42 s``, ``2 min 10 s``, ``1 h 5 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def _names(hosts: Sequence[str]) -> str:
    return host_list(fold(hosts), _MOST_RANGES)


def _counted(hosts: Sequence[str]) -> str:
    names = fold_names(hosts)
    return names if len(hosts) == 1 else f"{names} ({counted(len(hosts), 'host')})"
