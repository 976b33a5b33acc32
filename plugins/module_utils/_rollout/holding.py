# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes a slot for a node, waits for one that is free, renews it, releases it or leaves it behind as failed.

The cluster is injected. What is free is read from one LIST of the slots; who has to wait is then told of each change,
and asks for nothing until it may take one. The nodes that an operator upgrades are asked for before every take, and now
and then where nothing but them keeps a node waiting. A node itself is read only if its holder has gone silent.

What was told may be of some time ago. That decides wrong in no case that matters: a write holds only for the slot as it
was told, and the numbers of the slots keep the limit (``slots``). Of many that are told of one free slot, each keeps
back for a while of its own, and sees mostly that another one has taken it before it sends a request.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Callable, Mapping, Protocol, Sequence

from .drain import Unanswered
from .objects import Json
from .pace import Clock, Pace, kept_back
from .slots import (
    Keep,
    Slot,
    SlotRequest,
    Stop,
    Take,
    Wait,
    Watch,
    busy_of,
    decide,
    lease_of,
    lowest_free,
    slot_name,
    slot_of,
)

_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"
# A slot is renewed by the first look after this share of its duration.
_RENEWED_AFTER = 0.25
_MOST_WRITES = 10
# What nobody tells is asked for again after this time: whom an operator upgrades, whether a node is still cordoned.
_ASKED_EVERY = 30.0
_LOOKED_EVERY = 2.0
# Who has lost so often to others that it was told nothing of asks for everything again.
_MOST_LOST = 3


class SlotRefused(Exception):
    """The node may not begin; the text says who has the slots, or which node has to be looked at first."""


class Shelf(Clock, Protocol):
    """The Leases of one group of slots and the nodes. Every request may raise ``Unanswered``."""

    def leases(self) -> Sequence[Json]:
        """Return all Leases of the group as they are now."""

    def told(self) -> Sequence[Json] | None:
        """Return all Leases of the group as they were at some moment since, without a request.

        None where they have to be asked for. While they have not, ``sleep`` ends when one of them changes.
        """

    def close(self) -> None:
        """Be told of nothing any more."""

    def upgraded_nodes(self) -> Sequence[Json]:
        """Return the nodes that an operator is upgrading, by its label."""

    def is_short(self, node: str) -> bool:
        """Tell whether a node is there and still cordoned with our mark."""

    def is_gone(self, node: str) -> bool:
        """Tell whether there is no such node."""

    def write(self, lease: Json) -> Json | None:
        """Create a Lease, or replace the one of its resourceVersion; None when somebody else was faster."""

    def is_dead(self, process: str) -> bool:
        """Tell whether a process is known to have ended; False for one that can't be seen from here."""

    def today(self) -> datetime:
        """Return the time of this machine's calendar, in UTC."""


@dataclass(frozen=True)
class Held:
    """What came of it: the slot, whether it was ``taken`` now, whom it was ``healed`` from, how long it was waited.

    ``left_by`` is the run that it was healed from, ``left_in`` the failure domain that the node was in by that run.
    """

    slot: Slot
    taken: bool
    healed: str = ""
    waited: float = 0.0
    left_by: str = ""
    left_in: str = ""


@dataclass
class _Answers:
    """Answers about names; one that is ``kept`` counts for some seconds, another one is asked for each time."""

    ask: Callable[[str], bool]
    kept: bool
    seconds: float
    _at: dict[str, float] = field(default_factory=dict)

    def about(self, name: str, now: float) -> bool:
        """Return what is so by ``now``, monotonic seconds."""
        if now - self._at.get(name, -math.inf) < self.seconds:
            return self.kept
        found = self.ask(name)
        if found is self.kept:
            self._at[name] = now
        return found


@dataclass
class Holding:
    """The slot of one node. ``duration`` is how long it counts unrenewed, in seconds; ``chance`` gives 0 to 1.

    ``of_domain`` is the failure domain that the slots are of, empty where they are those of all nodes.
    """

    shelf: Shelf
    request: SlotRequest
    group: str
    namespace: str
    duration: int
    process: str = ""
    of_domain: str = ""
    chance: Callable[[], float] = random.random
    watch: Watch = field(default_factory=Watch)
    # When this one has written its slot last, by the clock.
    _written_at: float = -math.inf
    _holders: frozenset[tuple[int, str, str]] = frozenset()
    _over: frozenset[int] = frozenset()
    _parsed: dict[tuple[str, str], Slot | None] = field(default_factory=dict)
    # What the operator upgraded when it was asked for last, and when that was.
    _busy: Mapping[str, str] = field(default_factory=dict)
    _busy_at: float = -math.inf
    # When this one takes what is free, by the clock; None while nothing is.
    _turn: float | None = None
    # How often others were faster: in a row, and in all.
    _lost: int = 0
    _losses: int = 0
    _has_rivals: bool = False

    def __post_init__(self) -> None:
        """Nothing is asked yet."""
        self._short = _Answers(self.shelf.is_short, kept=True, seconds=_ASKED_EVERY)
        self._gone = _Answers(self.shelf.is_gone, kept=False, seconds=_ASKED_EVERY)
        self._dead = _Answers(self.shelf.is_dead, kept=False, seconds=_LOOKED_EVERY)

    def take(self, limit: float, progress: Callable[[str], None], meanwhile: Callable[[], None] = lambda: None) -> Held:
        """Return the node's slot; wait for one while they change hands, and ``limit`` seconds longer.

        ``meanwhile`` is called before each wait. Raises SlotRefused.
        """
        began = self.shelf.now()
        pace, holders = Pace(self.shelf, limit, progress), self._holders
        try:
            next_move: Callable[[], Take | Keep | Wait | None] = self.look
            while True:
                try:
                    move = next_move()
                    done = None if move is None else self._done(move, self.shelf.now() - began)
                except Unanswered as err:
                    done, move = None, Wait(str(err))
                if done is not None:
                    return done
                next_move = self._next
                if self._holders != holders:
                    # Others come to their ends, so this node comes nearer to its turn.
                    holders = self._holders
                    pace.renew()
                why = move.why if isinstance(move, Wait) else "others want the free one, too"
                if move is not None and pace.is_over():
                    raise SlotRefused(
                        f"no slot{self._where()}, and none has changed hands for {pace.waited():.0f} s: {why}"
                    )
                meanwhile()
                pace.wait(partial(self._said, why), at_most=self._left())
        finally:
            self.shelf.close()

    def look(self) -> Take | Keep | Wait:
        """Ask for everything; return what the node could do now. Raises SlotRefused when no further node may begin."""
        self._turn, self._lost = None, 0
        leases = self.shelf.leases()
        move = self._decided(leases)
        if not _takes_new(move):
            return move
        self._ask_operator()
        return self._decided(leases)

    def _next(self) -> Take | Keep | Wait | None:
        """Return what the node does now, None while it keeps back. Raises SlotRefused.

        What was just read is acted upon at once; what many were told of is taken by who has kept back long enough.
        """
        told = self.shelf.told() if self._lost < _MOST_LOST else None
        if told is None:
            return self.look()
        self._has_rivals = True
        move, now = self._decided(told), self.shelf.now()
        if not _takes_new(move):
            self._turn, self._lost = None, 0
            return move
        if self._turn is None:
            self._turn = now + kept_back(self.chance(), self._losses)
        if now < self._turn:
            return None
        self._turn = None
        if self._over:
            # That somebody has not renewed is believed only of what was asked for just now.
            return self.look()
        self._ask_operator()
        told = self.shelf.told()
        return self.look() if told is None else self._decided(told)

    def _left(self) -> float:
        return math.inf if self._turn is None else max(self._turn - self.shelf.now(), 0.0)

    def _ask_operator(self) -> None:
        self._busy, self._busy_at = busy_of(self.shelf.upgraded_nodes()), self.shelf.now()

    def _decided(self, leases: Sequence[Json]) -> Take | Keep | Wait:
        now = self.shelf.now()
        slots = self._slots_of(leases)
        self._holders = frozenset((slot.index, slot.node, slot.run) for slot in slots)
        self._over = frozenset(slot.index for slot in slots if self._is_over(slot, now))

        def with_busy(busy: Mapping[str, str]) -> Take | Keep | Wait | Stop:
            short, gone = (partial(answers.about, now=now) for answers in (self._short, self._gone))
            return decide(self.request, slots, busy, self._over, is_short=short, is_gone=gone)

        move = with_busy(self._busy)
        if isinstance(move, Wait) and self._busy and now - self._busy_at >= _ASKED_EVERY:
            # The operator may be done by now: whoever would take a slot if it is asks it before.
            without = with_busy({})
            move = without if isinstance(without, Take) else move
        if isinstance(move, Stop):
            raise SlotRefused(f"no further node begins, as one has failed: {move.why}")
        return move

    def renew(self) -> None:
        """Renew the slot where part of its duration has passed. Raises SlotRefused when the node has lost it."""
        if self.shelf.now() - self._written_at < self.duration * _RENEWED_AFTER:
            return
        try:
            move = self.look()
            if not isinstance(move, Keep):
                raise SlotRefused(f"another run took its slot{self._where()} meanwhile. Run again")
            self._done(move, 0.0)
        except Unanswered:
            # The next time will do: it is early.
            return

    def held(self, *, any_run: bool = False) -> list[Slot]:
        """Return the slots that the node has in this run, or in any."""
        return [slot for slot in self._slots() if slot.node == self.request.node and (any_run or self._is_ours(slot))]

    def give_back(self, *, any_run: bool = False, before: Callable[[Slot], None] = lambda _slot: None) -> list[Slot]:
        """Free the node's slot; return what was freed. ``before`` is called for each. Raises SlotRefused."""
        return self._change(lambda slot: Slot(slot.index, live=slot.live), lambda _slot: True, before, any_run)

    def fail(self, reason: str, *, before: Callable[[Slot], None] = lambda _slot: None) -> list[Slot]:
        """Leave the slot behind with what the node failed by: it counts as taken until a run repairs the node."""
        return self._change(
            lambda slot: replace(slot, failed=reason, process=""), lambda slot: slot.failed != reason, before, False
        )

    def lost(self, lease: str) -> str:
        """Return who has a slot now that this run had taken for the node, and that it has no more."""
        for slot in self._slots():
            if slot_name(self.group, slot.index) == lease:
                return f"it is of {slot} now" if slot.node else "somebody has given it back"
        return "its Lease was deleted"

    def fail_anew(self, reason: str) -> list[Slot]:
        """Leave a slot behind for a node that failed once it had lost its own: others are not to begin either way.

        The node is out of service, so that is no more than what is true, whatever the limit. Another run that has taken
        the slot of this node has taken the node as well.
        """
        for _attempt in range(_MOST_WRITES):
            slots = self._slots()
            if any(slot.node == self.request.node for slot in slots):
                return []
            (free,) = lowest_free(slots, {slot.index for slot in slots if slot.node}, 1)
            mine = replace(self._mine(free), failed=reason, process="")
            if self.shelf.write(lease_of(mine, self.group, self.namespace)) is not None:
                return [mine]
        raise SlotRefused(f"no slot could be left behind for it in {_MOST_WRITES} writes; see who takes them")

    def adopt(self, run: str) -> list[Slot]:
        """Make what a run, of which more was healed for this node, has left here ours; return what it had."""
        return self._change(self._mine, lambda slot: slot.run == run, lambda _slot: None, True)

    def _change(
        self,
        new: Callable[[Slot], Slot],
        is_due: Callable[[Slot], bool],
        before: Callable[[Slot], None],
        any_run: bool,
    ) -> list[Slot]:
        """Write what becomes of each slot of the node; look again where the answer was that of another write."""
        written: dict[int, Slot] = {}
        for _attempt in range(_MOST_WRITES):
            due = [slot for slot in self.held(any_run=any_run) if is_due(slot)]
            for slot in due:
                before(slot)
                written[slot.index] = slot
            answers = [self.shelf.write(lease_of(new(slot), self.group, self.namespace)) for slot in due]
            if None not in answers:
                return list(written.values())
        raise SlotRefused(f"its slot was changed by somebody else at each of {_MOST_WRITES} writes; see who does")

    def _slots(self) -> list[Slot]:
        slots, now = self._slots_of(self.shelf.leases()), self.shelf.now()
        for slot in slots:
            # Who does not renew is watched from the first look on.
            self.watch.is_over(slot, now)
        return slots

    def _slots_of(self, leases: Sequence[Json]) -> list[Slot]:
        """Return all Leases that are slots; of many that are told again and again few have changed."""
        before, self._parsed = self._parsed, {}
        for lease in leases:
            key = str(lease["metadata"]["name"]), str(lease["metadata"].get("resourceVersion"))
            self._parsed[key] = before[key] if key in before else slot_of(lease, self.group)
        return [slot for slot in self._parsed.values() if slot is not None]

    def _is_ours(self, slot: Slot) -> bool:
        return slot.run == self.request.run

    def _is_over(self, slot: Slot, now: float) -> bool:
        over = self.watch.is_over(slot, now)
        return bool(slot.node) and not self._is_ours(slot) and (over or self._dead.about(slot.process, now))

    def _done(self, move: Take | Keep | Wait, waited: float) -> Held | None:
        """Do what can be done now; None where another look is needed."""
        if isinstance(move, Wait):
            return None
        if isinstance(move, Keep) and not self._is_due(move.slot):
            return Held(move.slot, False, waited=waited)
        slot = self._chosen(move) if isinstance(move, Take) else move.slot
        mine = self._mine(slot)
        written = self.shelf.write(lease_of(mine, self.group, self.namespace))
        if written is None:
            # At first all want the lowest one, which says nothing of how many they are.
            self._losses += self._has_rivals
            self._lost, self._has_rivals = self._lost + 1, True
            return None
        self._written_at = self.shelf.now()
        healed = move.healed if isinstance(move, Take) else ""
        left_by, left_in = (slot.run, slot.domain) if healed else ("", "")
        return Held(mine, isinstance(move, Take), healed, waited, left_by=left_by, left_in=left_in)

    def _mine(self, slot: Slot) -> Slot:
        return Slot(
            slot.index,
            node=self.request.node,
            run=self.request.run,
            renewed=self.shelf.today().strftime(_TIME),
            duration=self.duration,
            process=self.process,
            # Who goes on with a slot releases that of its domain as well.
            domain=self.request.domain or (slot.domain if slot.node == self.request.node else ""),
            live=slot.live,
        )

    def _chosen(self, move: Take) -> Slot:
        """Return the slot to write; where several want one now, they choose at random among those that would do."""
        able = (move.slot, *move.others)
        return able[min(int(self.chance() * len(able)), len(able) - 1)] if self._has_rivals else move.slot

    def _is_due(self, slot: Slot) -> bool:
        """Tell whether our own slot has to be renewed, by the calendar that its last renewal was written by."""
        try:
            age = (self.shelf.today() - datetime.strptime(f"{slot.renewed}+0000", f"{_TIME}%z")).total_seconds()
        except ValueError:
            return True
        is_other = self.request.domain not in ("", slot.domain)
        return is_other or not 0 <= age < self.duration * _RENEWED_AFTER

    def _where(self) -> str:
        return f" of {self.of_domain}" if self.of_domain else ""

    def _said(self, why: str) -> str:
        return f"node {self.request.node} waits for a slot{self._where()}: {why}"


def _takes_new(move: Take | Keep | Wait) -> bool:
    """Tell whether a slot is taken that others may want as well."""
    return isinstance(move, Take) and not move.healed
