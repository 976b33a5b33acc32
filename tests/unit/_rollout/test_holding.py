# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slots over time: every order of the requests of several runs, dead runs, clocks that are off, and outages.

The server is in memory and numbers its writes as the real one does. A schedule says whose request comes next, so each
order is tried once and always in the same way.
"""

from __future__ import annotations

import copy
import random
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Mapping, Sequence

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.drain import Unanswered
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.holding import Held, Holding, SlotRefused
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import (
    STATE_LABEL,
    Slot,
    SlotRequest,
    slot_name,
    slot_of,
)
from ansible_collections.rdma.fabric.tests import sweeps

Json = dict[str, Any]
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
DURATION = 60


@dataclass
class Server:
    """Leases with the versions of their writes; ``most`` is how many nodes were ever out of service at once."""

    leases: dict[str, Json] = field(default_factory=dict)
    upgraded: dict[str, str] = field(default_factory=dict)
    short: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    writes: int = 0
    most: int = 0
    history: list[dict[str, Json]] = field(default_factory=lambda: [{}])

    def write(self, lease: Mapping[str, Any]) -> Json | None:
        name = lease["metadata"]["name"]
        found = self.leases.get(name)
        asked = lease["metadata"].get("resourceVersion")
        if (found is None) != (asked is None) or (found and found["metadata"]["resourceVersion"] != asked):
            return None
        self.writes += 1
        self.leases[name] = copy.deepcopy(dict(lease))
        self.leases[name]["metadata"]["resourceVersion"] = str(self.writes)
        self.history.append(copy.deepcopy(self.leases))
        self.most = max(self.most, len(set(self.nodes()) | set(self.upgraded)))
        return copy.deepcopy(self.leases[name])

    def slots(self) -> list[Slot]:
        read = [slot_of(lease, "upgrade") for lease in self.leases.values()]
        return [slot for slot in read if slot is not None]

    def nodes(self) -> list[str]:
        return sorted(slot.node for slot in self.slots() if slot.node)


@dataclass
class Seat:
    """The server as one run sees it: its own clocks, and ``turn`` before each request."""

    server: Server
    turn: Callable[[], None] = lambda: None
    time: float = 0.0
    today_is_off: float = 0.0
    dead: set[str] = field(default_factory=set)
    silent: int = 0
    reads: int = 0
    requests: int = 0
    # Whether this run is told of changes, how many writes it is behind, and which it has been told of.
    follows: bool = False
    behind: int = 0
    at: int = 0
    closed: int = 0

    def _request(self) -> None:
        self.turn()
        self.requests += 1
        if self.silent:
            self.silent -= 1
            raise Unanswered("list leases: connection refused")

    def leases(self) -> Sequence[Json]:
        self._request()
        self.reads += 1
        self.at = len(self.server.history) - 1
        return copy.deepcopy(list(self.server.leases.values()))

    def told(self) -> Sequence[Json] | None:
        if not self.follows:
            return None
        self.turn()
        self.at = max(self.at, len(self.server.history) - 1 - self.behind)
        return copy.deepcopy(list(self.server.history[self.at].values()))

    def close(self) -> None:
        self.closed += 1

    def upgraded_nodes(self) -> Sequence[Json]:
        self._request()
        states = self.server.upgraded.items()
        return [{"metadata": {"name": name, "labels": {STATE_LABEL: state}}} for name, state in states]

    def is_short(self, node: str) -> bool:
        self._request()
        return node in self.server.short

    def is_gone(self, node: str) -> bool:
        self._request()
        return node in self.server.gone

    def write(self, lease: Mapping[str, Any]) -> Mapping[str, Any] | None:
        self._request()
        return self.server.write(lease)

    def is_dead(self, process: str) -> bool:
        return process in self.dead

    def today(self) -> datetime:
        return START + timedelta(seconds=self.time + self.today_is_off)

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


def lease_name(held: Held) -> str:
    """Return the name of the Lease of a slot that was taken."""
    return slot_name("upgrade", held.slot.index)


def holding(seat: Seat, node: str = "n1", run: str = "", limit: int = 1, **request: Any) -> Holding:
    asked = SlotRequest(node, run or f"run of {node}", limit, **request)
    return Holding(seat, asked, "upgrade", "ns", DURATION, process=f"process of {asked.run}", chance=lambda: 0.0)


def take(seat: Seat, node: str = "n1", *, within: float = 1.0, said: list[str] | None = None, **request: Any) -> Held:
    return holding(seat, node, **request).take(within, (said if said is not None else []).append)


def closed_gate() -> threading.Lock:
    """Return a lock that one thread waits at until another one opens it, once."""
    gate = threading.Lock()
    gate.acquire()
    return gate


class Turns:
    """Runs work in threads and lets one request through at a time, in the order of a schedule."""

    def __init__(self, schedule: Sequence[int]) -> None:
        self._schedule = list(schedule)
        self._go: dict[int, threading.Lock] = {}
        self._stopped = closed_gate()
        self._alive: set[int] = set()
        self.order: list[int] = []
        self.choices: list[list[int]] = []

    def of(self, number: int) -> Callable[[], None]:
        go = self._go.setdefault(number, closed_gate())

        def turn() -> None:
            self._stopped.release()
            go.acquire()

        return turn

    def play(self, works: Sequence[Callable[[], None]]) -> None:
        def whole(number: int, work: Callable[[], None]) -> None:
            try:
                work()
            finally:
                self._alive.discard(number)
                self._stopped.release()

        self._alive = set(range(len(works)))
        threads = [threading.Thread(target=whole, args=entry, daemon=True) for entry in enumerate(works)]
        for thread in threads:
            thread.start()
            self._stopped.acquire()
        while self._alive:
            able = sorted(self._alive)
            at = len(self.order)
            chosen = self._schedule[at] if at < len(self._schedule) else able[0]
            self.choices.append(able)
            self.order.append(chosen)
            self._go[chosen].release()
            self._stopped.acquire()
        for thread in threads:
            thread.join()


def every_order(play: Callable[[Turns], None], most: int) -> int:
    """Play each order of requests once, as far as its first ``most`` requests; return how many there were."""
    schedules: list[list[int]] = [[]]
    count = 0
    while schedules:
        schedule = schedules.pop()
        turns = Turns(schedule)
        play(turns)
        count += 1
        for at in range(len(schedule), min(len(turns.order), most)):
            others = [able for able in turns.choices[at] if able != turns.order[at]]
            schedules += [[*turns.order[:at], other] for other in others]
    return count


class TestEveryOrder:
    def test_two_runs_never_take_the_last_slot_both(self) -> None:
        def play(turns: Turns) -> None:
            server, taken = Server(), []

            def run(number: int) -> None:
                with suppress(SlotRefused):
                    taken.append(take(Seat(server, turns.of(number)), f"n{number}").slot.node)

            turns.play([lambda: run(0), lambda: run(1)])
            assert (server.most, len(taken)) == (1, 1), turns.order
            assert server.nodes() == taken, turns.order

        assert every_order(play, most=8) >= 20

    def test_a_slot_that_is_given_back_in_between_is_taken_once_and_the_operators_nodes_count(self) -> None:
        def play(turns: Turns) -> None:
            server = Server(upgraded={"of-the-operator": "drain-required"})
            take(Seat(server), "n0", limit=4, run="r0")
            take(Seat(server), "n1", limit=4, run="r1")

            def give_back_and_take_again() -> None:
                seat = Seat(server, turns.of(0))
                holding(seat, "n0", "r0").give_back()
                again(seat, "n0")

            def again(seat: Seat, node: str) -> None:
                with suppress(SlotRefused):
                    take(seat, node, limit=3, within=0.6)

            turns.play([give_back_and_take_again, lambda: again(Seat(server, turns.of(1)), "n2")])
            assert server.most <= 3, turns.order

        assert every_order(play, most=9) > 50

    def test_of_two_runs_one_heals_what_a_dead_run_left(self) -> None:
        def play(turns: Turns) -> None:
            server, healed = Server(), []
            take(Seat(server), "n1", run="dead")
            server.short.add("n1")

            def run(number: int) -> None:
                seat = Seat(server, turns.of(number), dead={"process of dead"})
                with suppress(SlotRefused):
                    healed.append(take(seat, "n1", run=f"r{number}").healed)

            turns.play([lambda: run(0), lambda: run(1)])
            assert (server.nodes(), len(healed)) == (["n1"], 1), turns.order
            assert "run dead" in healed[0]

        assert every_order(play, most=8) == 6


class TestWhoIsTold:
    """Runs that wait are told of each write, some of them late; nobody is told of what an operator does."""

    @pytest.mark.parametrize("behind", sweeps.first_of([1, 0, 2]))
    @pytest.mark.parametrize("chance", sweeps.first_of([0.99, 0.0]))
    def test_no_order_of_requests_exceeds_the_limit_however_late_a_run_is_told(
        self, behind: int, chance: float
    ) -> None:
        def play(turns: Turns) -> None:
            server, taken = Server(), []
            take(Seat(server), "m0", limit=2, run="r")
            take(Seat(server), "m1", limit=2, run="r")

            def give_back() -> None:
                holding(Seat(server, turns.of(0)), "m0", "r").give_back()

            def run(number: int) -> None:
                seat = Seat(server, turns.of(number), follows=True, behind=behind)
                one = holding(seat, f"n{number}", limit=2)
                one.chance = lambda: chance
                with suppress(SlotRefused):
                    taken.append(one.take(3.0, lambda _text: None).slot.node)

            turns.play([give_back, lambda: run(1), lambda: run(2)])
            assert server.most <= 2, turns.order
            # Who is never told of the last writes may time out.
            assert len(taken) == 1 or (behind and not taken), turns.order
            assert set(taken) <= set(server.nodes()), turns.order

        assert every_order(play, most=6 if sweeps.whole() else 5) > 50

    def test_one_that_waits_asks_for_nothing_until_it_may_take_a_slot(self) -> None:
        server = Server()
        take(Seat(server), "n2")
        seat = Seat(server, follows=True)

        def free_it_later() -> None:
            if seat.time > 30:
                holding(Seat(server), "n2").give_back()

        seat.turn = free_it_later
        held = take(seat, within=1000.0)
        assert held.taken
        # The Leases once, what the operator upgrades, and the write.
        assert (seat.requests, seat.reads) == (3, 1)

    def test_one_that_got_its_slot_or_gave_up_is_told_of_nothing_any_more(self) -> None:
        server = Server()
        seat = Seat(server, follows=True)
        take(seat, "n2")
        assert seat.closed == 1
        with pytest.raises(SlotRefused):
            take(seat, within=20.0)
        assert seat.closed == 2

    def test_an_operator_that_begins_a_node_in_between_is_seen_before_the_take(self) -> None:
        server = Server()
        take(Seat(server), "n2")
        seat = Seat(server, follows=True)

        def swap() -> None:
            if seat.time > 20 and server.nodes():
                server.upgraded["n3"] = "drain-required"
                holding(Seat(server), "n2").give_back()

        seat.turn = swap
        with pytest.raises(SlotRefused, match="operators upgrade n3"):
            take(seat, within=100.0)
        # While nothing but the operator is in the way, it is asked for every half a minute.
        assert seat.requests <= 2 + 100 / 30 + 1
        assert server.most == 1

    def test_one_that_an_operator_keeps_waiting_goes_on_when_it_is_done(self) -> None:
        server = Server(upgraded={"n3": "drain-required"})
        seat = Seat(server, follows=True)

        def be_done() -> None:
            if seat.time > 100:
                server.upgraded.clear()

        seat.turn = be_done
        held = take(seat, within=1000.0)
        assert 100 < held.waited <= 140
        assert seat.requests <= 2 + 140 / 30 + 1

    def test_a_silent_holder_is_over_by_the_clock_of_the_one_who_is_told_and_asked_for_once(self) -> None:
        server = Server()
        take(Seat(server), "n2")
        seat = Seat(server, follows=True)
        assert take(seat, within=1000.0).taken
        assert DURATION <= seat.time < DURATION + 10
        assert seat.reads == 2

    def test_a_renewal_that_nobody_told_of_is_seen_before_the_take(self) -> None:
        server = Server()
        take(Seat(server), "n2")
        seat = Seat(server, follows=True, behind=1000)

        def renew() -> None:
            if seat.time > DURATION:
                take(Seat(server, time=seat.time), "n2")

        seat.turn = renew
        with pytest.raises(SlotRefused, match="by n2"):
            take(seat, within=DURATION + 20.0)
        assert server.nodes() == ["n2"]

    def test_a_node_left_behind_is_looked_at_now_and_then(self) -> None:
        server = Server(short={"n2"})
        take(Seat(server), "n2", run="dead")
        seat = Seat(server, follows=True, dead={"process of dead"})
        with pytest.raises(SlotRefused, match="left behind out of service: n2"):
            take(seat, within=300.0)
        assert seat.requests <= 1 + 300 / 30 + 1

    def test_one_that_is_told_of_nothing_and_loses_again_and_again_asks_for_everything(self) -> None:
        server = Server()
        take(Seat(server), "n2")
        seat = Seat(server, follows=True)

        def free_it_and_be_silent() -> None:
            if seat.time > 5 and not seat.behind:
                again = holding(Seat(server), "n2")
                again.give_back()
                # It is told that the slot is free, and not that it was taken and released once more.
                seat.at, seat.behind = len(server.history) - 1, 1000
                again.take(1.0, lambda _text: None)
                again.give_back()

        seat.turn = free_it_and_be_silent
        assert take(seat, within=1000.0).taken
        assert seat.time < DURATION
        assert seat.reads == 2


class World:
    """One time for many runs, each in a thread, of which one runs at a time: the one that wakes up next."""

    LATENCY = 0.02

    def __init__(self, server: Server, count: int) -> None:
        self.server, self.time = server, 0.0
        self._wakes = dict.fromkeys(range(count), 0.0)
        self._go = [closed_gate() for _run in range(count)]
        # When who follows is told of each write.
        self.told_at = [0.0]

    def play(self, works: Sequence[Callable[[], None]]) -> None:
        def whole(number: int, work: Callable[[], None]) -> None:
            self._go[number].acquire()
            try:
                work()
            finally:
                self._pass_on()

        threads = [threading.Thread(target=whole, args=entry, daemon=True) for entry in enumerate(works)]
        for thread in threads:
            thread.start()
        self._pass_on()
        for thread in threads:
            thread.join()

    def pause(self, number: int, until: float) -> None:
        self._wakes[number] = until
        self._pass_on()
        self._go[number].acquire()

    def _pass_on(self) -> None:
        if self._wakes:
            following = min(self._wakes, key=self._wakes.__getitem__)
            self.time = max(self.time, self._wakes.pop(following))
            self._go[following].release()

    def wrote(self, followers: Sequence[int]) -> None:
        self.told_at += [self.time + self.LATENCY] * (len(self.server.history) - len(self.told_at))
        for number in followers:
            if number in self._wakes:
                self._wakes[number] = min(self._wakes[number], self.time + self.LATENCY)


@dataclass
class Inhabitant(Seat):
    """A run in a world, that is told of each write a moment later."""

    world: World = field(default_factory=lambda: World(Server(), 0))
    number: int = 0
    sleepers: set[int] = field(default_factory=set)

    def _request(self) -> None:
        self.requests += 1
        self.world.pause(self.number, self.world.time + World.LATENCY)

    def write(self, lease: Mapping[str, Any]) -> Mapping[str, Any] | None:
        written = super().write(lease)
        self.world.wrote(sorted(self.sleepers))
        return written

    def told(self) -> Sequence[Json] | None:
        news = [at for at, told in enumerate(self.world.told_at) if told <= self.world.time]
        self.at = max(self.at, news[-1])
        return copy.deepcopy(list(self.server.history[self.at].values()))

    def now(self) -> float:
        return self.world.time

    def sleep(self, seconds: float) -> None:
        later = self.world.told_at[self.at + 1 :]
        self.sleepers.add(self.number)
        self.world.pause(self.number, min([self.world.time + seconds, *later]))
        self.sleepers.discard(self.number)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "limit"), [(8, 1), (40, 1), (40, 8)])
def test_requests_of_many_that_wait_grow_with_them_and_not_with_how_often_slots_change_hands(
    count: int, limit: int
) -> None:
    server = Server()
    world = World(server, count)
    sleepers: set[int] = set()
    seats = [Inhabitant(server, world=world, number=number, sleepers=sleepers) for number in range(count)]
    chance = random.Random(1)  # noqa: S311 - the same numbers each time

    def work(number: int) -> None:
        one = holding(seats[number], f"n{number}", limit=limit)
        one.chance = chance.random
        assert one.take(1000.0, lambda _text: None).taken
        world.pause(number, world.time + 5.0)
        one.give_back()

    world.play([lambda number=number: work(number) for number in range(count)])  # type: ignore[misc]
    assert (server.most, server.nodes()) == (limit, [])
    # Of these, five are for a slot that nobody else wants: two looks, two writes, and one at who has to be freed.
    assert sum(seat.requests for seat in seats) / count < 11, world.time
    # A slot has its next holder within half a second, but for the first ones, which all want at once.
    assert world.time < (count / limit) * (5.0 + 0.5) + 2.0


class TestOneRun:
    def test_a_slot_is_taken_kept_and_given_back_without_being_deleted(self) -> None:
        server = Server()
        first = take(Seat(server))
        assert (first.taken, server.nodes(), server.writes) == (True, ["n1"], 1)
        assert not take(Seat(server)).taken
        assert server.writes == 1
        assert [slot.index for slot in holding(Seat(server)).give_back()] == [0]
        assert (server.nodes(), list(server.leases)) == ([], ["rdma-fabric-slot-upgrade-0"])
        assert holding(Seat(server)).give_back() == []
        assert server.writes == 2

    def test_its_own_slot_is_renewed_when_part_of_its_duration_has_passed_or_the_calendar_was_set_back(self) -> None:
        server = Server()
        take(Seat(server))
        later = take(Seat(server, time=DURATION / 2))
        assert (later.taken, server.writes) == (False, 2)
        take(Seat(server, time=DURATION / 2, today_is_off=-600))
        assert server.writes == 3

    def test_a_slot_that_becomes_free_is_taken_and_the_wait_is_told(self) -> None:
        server = Server()
        said: list[str] = []
        take(Seat(server), "n2")
        seat = Seat(server)

        def free_it_later() -> None:
            if seat.time > 30:
                holding(Seat(server), "n2").give_back()

        seat.turn = free_it_later
        held = take(seat, within=100.0, said=said)
        assert held.waited > 30
        assert said[0].startswith("node n1 waits for a slot: 1 of 1 slots are taken; by n2 (run run of n2")

    def test_one_that_waits_does_so_as_long_as_slots_change_hands(self) -> None:
        server = Server()
        take(Seat(server), "m0")
        seat = Seat(server)

        def pass_it_on() -> None:
            number = int(seat.time // 20)
            if number < 5 and server.nodes() == [f"m{number - 1}"]:
                holding(Seat(server), f"m{number - 1}").give_back()
                take(Seat(server), f"m{number}")

        seat.turn = pass_it_on
        with pytest.raises(SlotRefused, match=r"none has changed hands for 30 s: .* by m4"):
            take(seat, within=30.0)
        assert seat.time > 100

    def test_one_that_waits_in_vain_says_for_whom_and_takes_nothing(self) -> None:
        server = Server()
        take(Seat(server), "n2")
        with pytest.raises(
            SlotRefused, match=r"no slot, and none has changed hands for 1 s: 1 of 1 slots are taken; by n2"
        ):
            take(Seat(server))
        assert server.nodes() == ["n2"]

    def test_how_long_it_was_waited_counts_from_its_own_beginning(self) -> None:
        assert take(Seat(Server(), time=1000.0)).waited == 0.0

    @pytest.mark.parametrize("renewed", ["2026-01-01T00:00:00Z", ""])
    def test_a_slot_whose_renewal_cannot_be_read_is_renewed(self, renewed: str) -> None:
        server = Server()
        (name,) = [lease_name(take(Seat(server)))]
        server.leases[name]["spec"]["renewTime"] = renewed
        assert not take(Seat(server)).taken
        assert server.writes == 2

    def test_its_own_slot_learns_of_the_domain_of_its_node(self) -> None:
        server = Server()
        take(Seat(server))
        take(Seat(server), domain="zone=a")
        assert [slot.domain for slot in server.slots()] == ["zone=a"]

    @pytest.mark.parametrize("name", ["by-hand", "rdma-fabric-slot-another-7"])
    def test_a_lease_that_is_no_slot_takes_none(self, name: str) -> None:
        server = Server()
        server.leases[name] = {"metadata": {"name": name}, "spec": {"holderIdentity": "n2/r"}}
        assert take(Seat(server)).taken

    @pytest.mark.parametrize("chance", [0.0, 0.5, 0.99])
    def test_one_that_was_too_late_chooses_among_the_slots_that_would_do(self, chance: float) -> None:
        server = Server()
        seat = Seat(server)

        def be_faster() -> None:
            # The Leases and what the operator upgrades were read, the write comes next.
            if seat.requests == 2:
                take(Seat(server), "n2", limit=4)

        seat.turn = be_faster
        one = holding(seat, limit=4)
        one.chance = lambda: chance
        held = one.take(10.0, lambda _text: None)
        assert held.slot.index == 1 + int(3 * chance)

    @pytest.mark.parametrize("conflicts", [1, 1000])
    def test_a_slot_that_somebody_writes_to_is_given_back_by_a_later_write(self, conflicts: int) -> None:
        server = Server()
        name = lease_name(take(Seat(server)))
        seat = Seat(server)

        def annotate() -> None:
            if seat.requests % 2 and seat.requests < 2 * conflicts:
                server.write(server.leases[name])

        seat.turn = annotate
        if conflicts == 1:
            assert len(holding(seat).give_back()) == 1
            assert server.nodes() == []
        else:
            with pytest.raises(SlotRefused, match="changed by somebody else at each of 10 writes"):
                holding(seat).give_back()

    def test_looks_do_not_grow_with_the_slots(self) -> None:
        few, many = Server(), Server()
        for server, count in ((few, 1), (many, 40)):
            for number in range(count):
                take(Seat(server), f"m{number}", limit=0)
        seats = Seat(few), Seat(many)
        for seat in seats:
            with pytest.raises(SlotRefused):
                take(seat, within=30.0)
        assert seats[0].reads == seats[1].reads

    def test_an_outage_is_outlasted(self) -> None:
        server = Server()
        assert take(Seat(server, silent=3), within=30.0).taken
        with pytest.raises(SlotRefused, match="connection refused"):
            take(Seat(server, silent=1000), "n2", within=30.0)


class TestDeadRuns:
    @pytest.mark.parametrize("off", [-86400.0, 0.0, 86400.0])
    def test_a_silent_holder_is_waited_for_by_the_clock_of_the_one_who_looks(self, off: float) -> None:
        server = Server()
        take(Seat(server), "n2")
        seat = Seat(server, today_is_off=off)
        assert take(seat, within=1000.0).taken
        assert DURATION <= seat.time < 2 * DURATION

    def test_one_that_renews_keeps_its_slot(self) -> None:
        server = Server()
        take(Seat(server), "n2")
        seat = Seat(server)

        def renew() -> None:
            take(Seat(server, time=seat.time), "n2")

        seat.turn = renew
        with pytest.raises(SlotRefused):
            take(seat, within=5 * DURATION)
        assert server.nodes() == ["n2"]

    def test_a_node_of_the_same_run_keeps_its_slot_however_long_its_turn_takes(self) -> None:
        server = Server()
        take(Seat(server), "n2", run="r")
        seat = Seat(server, dead={"process of r"})
        with pytest.raises(SlotRefused, match="by n2"):
            take(seat, run="r", within=5 * DURATION)

    def test_a_node_that_stays_out_of_service_keeps_its_slot_until_its_own_run_comes(self) -> None:
        server = Server(short={"n2"})
        take(Seat(server), "n2", run="dead")
        with pytest.raises(SlotRefused, match=r"left behind out of service: n2 \(run dead"):
            take(Seat(server), within=5 * DURATION)
        healed = take(Seat(server), "n2", run="next", within=5 * DURATION)
        assert "run dead" in healed.healed
        assert server.most == 1

    def test_a_killed_run_of_the_same_machine_is_not_waited_for(self) -> None:
        server = Server()
        take(Seat(server), "n2", run="dead")
        seat = Seat(server, dead={"process of dead"})
        assert take(seat).taken
        assert seat.time == 0.0


class TestFailedNodes:
    def test_a_failed_node_keeps_its_slot_for_ever_and_stops_the_others(self) -> None:
        server = Server()
        take(Seat(server), "n2", limit=2, run="r")
        assert [slot.node for slot in holding(Seat(server), "n2", "r").fail("no links")] == ["n2"]
        assert holding(Seat(server), "n2", "r").fail("no links") == []
        with pytest.raises(SlotRefused, match=r"as one has failed: n2 \(run r, failed: no links\)"):
            take(Seat(server), "n3", limit=2, run="r", rollout=frozenset({"n2", "n3"}))

    def test_the_run_that_works_on_it_again_clears_it(self) -> None:
        server = Server()
        take(Seat(server), "n2", run="r")
        holding(Seat(server), "n2", "r").fail("no links")
        assert "failed: no links" in take(Seat(server), "n2", run="next").healed
        assert [slot.failed for slot in server.slots()] == [""]

    def test_a_failed_node_that_was_deleted_since_stops_no_later_run(self) -> None:
        server = Server()
        take(Seat(server), "n2", run="r")
        holding(Seat(server), "n2", "r").fail("no links")
        with pytest.raises(SlotRefused, match="as one has failed: n2"):
            take(Seat(server))
        server.gone.add("n2")
        held = take(Seat(server))
        assert (held.healed, server.nodes()) == ("", ["n1"])

    def test_a_run_fails_no_slot_that_another_has_for_the_node(self) -> None:
        server = Server()
        take(Seat(server), "n2", run="next")
        assert holding(Seat(server), "n2", "r").fail("no links") == []
        assert [(slot.run, slot.failed) for slot in server.slots()] == [("next", "")]

    @pytest.mark.parametrize(
        ("thief", "said"),
        [("n3", "it is of n3 (run r3, renewed"), ("", "somebody has given it back"), (None, "its Lease was deleted")],
    )
    def test_a_slot_that_was_lost_is_told_with_who_has_it_and_one_that_fails_has_another(
        self, thief: str | None, said: str
    ) -> None:
        server = Server()
        taken = lease_name(take(Seat(server), "n2", run="r"))
        holding(Seat(server), "n2").give_back(any_run=True)
        if thief:
            take(Seat(server), thief, run="r3")
        elif thief is None:
            server.leases.clear()
        own = holding(Seat(server), "n2", "r")
        assert (own.give_back(), own.fail("no links")) == ([], [])
        assert own.lost(taken).startswith(said)
        (left,) = own.fail_anew("no links")
        assert (left.node, left.failed, server.nodes()) == ("n2", "no links", sorted(filter(None, ["n2", thief])))
        with pytest.raises(SlotRefused, match="as one has failed: n2"):
            take(Seat(server), "n4", limit=9, run="r")
        healed = take(Seat(server), "n2", run="next", rollout=frozenset({"n2"}))
        assert "failed: no links" in healed.healed

    def test_a_slot_that_another_run_has_taken_for_the_same_node_is_that_runs(self) -> None:
        server = Server()
        take(Seat(server), "n2", run="r")
        holding(Seat(server), "n2").give_back(any_run=True)
        take(Seat(server), "n2", run="next")
        assert holding(Seat(server), "n2", "r").fail_anew("no links") == []
        assert [(slot.run, slot.failed) for slot in server.slots()] == [("next", "")]

    def test_any_run_can_give_a_slot_back_where_asked_to(self) -> None:
        server = Server()
        take(Seat(server), "n2", run="r")
        assert holding(Seat(server), "n2", "other").give_back() == []
        assert len(holding(Seat(server), "n2", "other").give_back(any_run=True)) == 1
        assert server.nodes() == []
