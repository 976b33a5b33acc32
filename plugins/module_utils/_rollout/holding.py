# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes a slot for a node, waits for one that is free, renews it, gives it back or leaves it behind as failed.

The cluster is injected. A look is one LIST of the slots and one of the nodes that an operator upgrades, whatever the
number of nodes; a node itself is read only if its holder has gone silent.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Callable, Mapping, Protocol, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.drain import Unanswered
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.pace import Clock, Pace
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import (
    Keep,
    Slot,
    Stop,
    Take,
    Wait,
    Watch,
    Wish,
    busy_of,
    decide,
    lease_of,
    slots_of,
)

Json = Mapping[str, Any]
_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"
# A slot is renewed by the first look after this share of its duration.
_RENEWED_AFTER = 0.25
_MOST_WRITES = 10


class SlotRefused(Exception):
    """The node may not begin; the text says who has the slots, or which node has to be looked at first."""


class Shelf(Clock, Protocol):
    """The Leases of one group of slots and the nodes. Every request may raise ``Unanswered``."""

    def leases(self) -> Sequence[Json]:
        """Return all Leases of the group."""

    def upgraded_nodes(self) -> Sequence[Json]:
        """Return the nodes that carry an operator's label of upgrades."""

    def is_short(self, node: str) -> bool:
        """Tell whether a node is there and still cordoned with our mark."""

    def write(self, lease: Json) -> Json | None:
        """Create a Lease, or replace the one of its resourceVersion; None when somebody else was faster."""

    def is_dead(self, process: str) -> bool:
        """Tell whether a process is known to have ended; False for one that can't be seen from here."""

    def today(self) -> datetime:
        """Return the time of this machine's calendar, in UTC."""


@dataclass(frozen=True)
class Held:
    """What came of it: the slot, whether it was ``taken`` now, whom it was ``healed`` from, how long it was waited."""

    slot: Slot
    taken: bool
    healed: str = ""
    waited: float = 0.0


@dataclass
class Holding:
    """The slot of one node. ``duration`` is how long it counts unrenewed, in seconds."""

    shelf: Shelf
    wish: Wish
    group: str
    namespace: str
    duration: int
    process: str = ""
    watch: Watch = field(default_factory=Watch)
    _holders: frozenset[tuple[int, str, str]] = frozenset()

    def take(self, limit: float, progress: Callable[[str], None]) -> Held:
        """Return the node's slot; wait for one while they change hands, and ``limit`` seconds longer.

        Raises SlotRefused.
        """
        began = self.shelf.now()
        pace, holders = Pace(self.shelf, limit, progress), self._holders
        while True:
            try:
                move = self.look()
                done = self._done(move, self.shelf.now() - began)
            except Unanswered as err:
                done, move = None, Wait(str(err))
            if done is not None:
                return done
            if self._holders != holders:
                # Others come to their ends, so this node comes nearer to its turn.
                pace, holders = Pace(self.shelf, limit, progress), self._holders
            why = move.why if isinstance(move, Wait) else "another run was faster"
            if pace.is_over():
                raise SlotRefused(f"no slot, and none has changed hands for {pace.waited():.0f} s: {why}")
            pace.wait(partial(_said, self.wish.node, why))

    def look(self) -> Take | Keep | Wait:
        """Return what the node could do now. Raises SlotRefused when no further node may begin."""
        now = self.shelf.now()
        slots = self._slots()
        self._holders = frozenset((slot.index, slot.node, slot.run) for slot in slots)
        over = {slot.index for slot in slots if self._is_over(slot, now)}
        move = decide(self.wish, slots, busy_of(self.shelf.upgraded_nodes()), over, self.shelf.is_short)
        if isinstance(move, Stop):
            raise SlotRefused(f"no further node begins, as one has failed: {move.why}")
        return move

    def held(self, *, any_run: bool = False) -> list[Slot]:
        """Return the slots that the node has in this run, or in any."""
        return [slot for slot in self._slots() if slot.node == self.wish.node and (any_run or self._is_ours(slot))]

    def give_back(self, *, any_run: bool = False) -> list[Slot]:
        """Free the node's slot; return what was freed. Raises SlotRefused."""
        return self._change(lambda slot: Slot(slot.index, live=slot.live), lambda _slot: True, any_run)

    def fail(self, reason: str) -> list[Slot]:
        """Leave the slot behind with what the node failed by: it counts as taken until a run mends the node."""
        return self._change(
            lambda slot: replace(slot, failed=reason, process=""), lambda slot: slot.failed != reason, False
        )

    def _change(self, new: Callable[[Slot], Slot], is_due: Callable[[Slot], bool], any_run: bool) -> list[Slot]:
        """Write what becomes of each slot of the node; look again where the answer was that of another write."""
        written: dict[int, Slot] = {}
        for _attempt in range(_MOST_WRITES):
            due = [slot for slot in self.held(any_run=any_run) if is_due(slot)]
            if not due:
                return list(written.values())
            for slot in due:
                written[slot.index] = slot
                self.shelf.write(lease_of(new(slot), self.group, self.namespace))
        raise SlotRefused(f"its slot was changed by somebody else at each of {_MOST_WRITES} writes; see who does")

    def _slots(self) -> list[Slot]:
        return slots_of(self.shelf.leases(), self.group)

    def _is_ours(self, slot: Slot) -> bool:
        return slot.run == self.wish.run

    def _is_over(self, slot: Slot, now: float) -> bool:
        over = self.watch.is_over(slot, now)
        return bool(slot.node) and not self._is_ours(slot) and (over or self.shelf.is_dead(slot.process))

    def _done(self, move: Take | Keep | Wait, waited: float) -> Held | None:
        """Do what can be done now; None where another look is needed."""
        if isinstance(move, Wait):
            return None
        if isinstance(move, Keep) and not self._is_due(move.slot):
            return Held(move.slot, False, waited=waited)
        mine = Slot(
            move.slot.index,
            node=self.wish.node,
            run=self.wish.run,
            renewed=self.shelf.today().strftime(_TIME),
            duration=self.duration,
            process=self.process,
            live=move.slot.live,
        )
        written = self.shelf.write(lease_of(mine, self.group, self.namespace))
        if written is None:
            return None
        healed = move.healed if isinstance(move, Take) else ""
        return Held(mine, isinstance(move, Take), healed, waited)

    def _is_due(self, slot: Slot) -> bool:
        """Tell whether our own slot has to be renewed, by the calendar that its last renewal was written by."""
        try:
            age = (self.shelf.today() - datetime.strptime(f"{slot.renewed}+0000", f"{_TIME}%z")).total_seconds()
        except ValueError:
            return True
        return not 0 <= age < self.duration * _RENEWED_AFTER


def _said(node: str, why: str) -> str:
    return f"node {node} waits for a slot: {why}"
