# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run that takes hosts in turn prints: one line for each change of a host, with how far all are. Pure.

A line is made of what has happened, by the results of the tasks of a turn; whether a task runs or is skipped is not
known before it ends.
"""

from __future__ import annotations

from typing import Any, Mapping

from .results import FAILED, OK, SKIPPED, TaskOnHosts, spoken

_SLOT, _DRAIN, _HOST, _REBOOT = "node_slot", "node_drain", "rdma_host", "reboot"


class Turns:
    """The turns of ``total`` hosts of one play: who has begun, who is through and how."""

    def __init__(self, total: int) -> None:
        """Begin with no host; nothing tells yet whether the play takes hosts in turn at all."""
        self._total = total
        self._turns = TaskOnHosts()
        self._ends: dict[str, str] = {}
        self._looked_at: set[str] = set()
        self._drained: set[str] = set()

    @property
    def begun(self) -> bool:
        """Whether a host has had a slot."""
        return bool(self._turns.running or self._ends)

    def is_refused(self, host: str, action: str) -> bool:
        """Tell whether a failure of ``action`` is that a host gets no slot: one that has begun has its own already."""
        return action.rpartition(".")[2] == _SLOT and host not in self._turns.running

    def line(self, host: str, action: str, found: Mapping[str, Any], now: float, *, failed: bool = False) -> str:
        """Return what is printed of a result of ``action``, nothing for one that changes nothing of a turn."""
        name = action.rpartition(".")[2]
        words = self._of_slot(host, found, now, failed=failed) if name == _SLOT else ""
        if not failed and host in self._turns.running and not found.get("skipped"):
            # Later looks at the node come from the same action.
            if name == _DRAIN and found.get("cordoned") and found.get("before") and host not in self._drained:
                self._drained.add(host)
                words = "drained"
            elif name == _REBOOT and found.get("rebooted"):
                words = "rebooted"
            elif name == _HOST:
                words = self._of_host(host, found)
        return f"  ... {host} {words}; {self._counts(now)}" if words and self._total > 1 else ""

    def _of_slot(self, host: str, found: Mapping[str, Any], now: float, *, failed: bool) -> str:
        """Note that a turn begins or ends; who was refused a slot has none, and says so by itself."""
        state = found.get("state")
        if failed or state == "failed":
            began = host in self._turns.running
            self._turns.finish(host, now, FAILED if began else SKIPPED)
            self._ends[host] = "failed" if began else "not begun"
            return "failed" if began else ""
        if state == "taken":
            self._turns.start(host, now)
            self._drained.discard(host)
            return f"begins, slot {str(found.get('lease')).rpartition('-')[2]}"
        if state == "given_back" and host in self._turns.running:
            seconds = now - self._turns.running[host]
            self._turns.finish(host, now, OK)
            self._ends[host] = "back"
            return f"back after {spoken(seconds)}"
        return ""

    def _of_host(self, host: str, found: Mapping[str, Any]) -> str:
        words = "changed" if found.get("changed") else "looked at again" if host in self._looked_at else "looked at"
        self._looked_at.add(host)
        return f"{words}, reboots" if found.get("reboot_due") else words

    def _counts(self, now: float) -> str:
        """Return how many are through, run, and are still to begin, and about how long those take."""
        ends = list(self._ends.values())
        said = [f"{ends.count('back'):,} of {self._total:,} back"]
        said += [f"{ends.count(end):,} {end}" for end in ("failed", "not begun") if end in ends]
        left = self._total - len(ends) - len(self._turns.running)
        said += [f"{len(self._turns.running):,} in turn", f"{left:,} to go"]
        seconds = self._turns.time_left(now, self._total)
        return ", ".join([*said, *([f"about {spoken(seconds)} left"] if seconds else [])])
