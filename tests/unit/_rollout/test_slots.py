# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which slot a node may take: the limit, other runs, dead ones, failed nodes, and a running operator."""

from __future__ import annotations

from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.limits import limit_of
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import (
    GPU_STATE_LABEL,
    GROUP_LABEL,
    STATE_LABEL,
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
    removable,
    slot_of,
)
from ansible_collections.rdma.fabric.tests.sweeps import examples, first_of, some_of


def request(node: str = "n1", run: str = "r1", limit: int = 2, rollout: tuple[str, ...] = ()) -> SlotRequest:
    return SlotRequest(node, run, limit, frozenset(rollout))


def held(index: int, node: str, run: str = "other", *, failed: str = "", process: str = "") -> Slot:
    return Slot(index, node=node, run=run, renewed="t", duration=60.0, failed=failed, process=process)


def after(
    slots: list[Slot],
    who: SlotRequest | None = None,
    *,
    busy: dict[str, str] | None = None,
    over: tuple[int, ...] = (),
    short: tuple[str, ...] = (),
    gone: tuple[str, ...] = (),
) -> Take | Keep | Wait | Stop:
    return decide(who or request(), slots, busy or {}, over, is_short=short.__contains__, is_gone=gone.__contains__)


class TestLimit:
    @pytest.mark.parametrize(
        ("given", "total", "limit"),
        [
            ("1", 0, 1),
            ("0", 0, 0),
            ("25%", 4, 1),
            ("25%", 5, 2),
            ("1%", 1000, 10),
            ("1%", 7, 1),
            ("25%", 1, 1),
            ("1%", 101, 2),
        ],
    )
    def test_a_share_is_rounded_up(self, given: str, total: int, limit: int) -> None:
        assert limit_of(given, total) == limit

    @pytest.mark.parametrize(
        ("given", "total", "said"),
        [("-1", 3, "neither"), ("half", 3, "neither"), ("0%", 3, "0 means no limit"), ("10%", 0, "of how many")],
    )
    def test_what_is_no_limit_is_refused(self, given: str, total: int, said: str) -> None:
        with pytest.raises(ValueError, match=said):
            limit_of(given, total)


class TestFreeSlots:
    def test_the_lowest_free_slot_is_taken(self) -> None:
        empty = Slot(1, live={"metadata": {"resourceVersion": "9"}})
        move = after([held(0, "n2"), empty, held(2, "n3")], request(limit=3))
        assert move == Take(empty)
        assert isinstance(move, Take)
        assert move.slot.live == empty.live

    def test_no_slot_is_free_at_the_limit_whatever_their_numbers_are(self) -> None:
        move = after([held(3, "n2"), held(7, "n3")])
        assert isinstance(move, Wait)
        assert "2 of 2 slots are taken; by n2 (run other" in move.why
        assert "n3" in move.why

    def test_zero_is_without_limit(self) -> None:
        move = after([held(0, "n2"), held(1, "n3")], request(limit=0))
        assert isinstance(move, Take)
        assert move.slot == Slot(2)

    @pytest.mark.parametrize(
        ("limit", "numbers", "busy", "able"),
        [
            (3, (), 0, [0, 1, 2]),
            (3, (), 1, [0, 1]),
            (3, (1,), 0, [0, 2]),
            (4, (5,), 0, [0, 1, 2]),
            (2, (2,), 0, [0]),
            (3, (7,), 1, [0]),
        ],
    )
    def test_what_would_do_as_well_is_no_more_than_there_is_room_for(
        self, limit: int, numbers: tuple[int, ...], busy: int, able: list[int]
    ) -> None:
        slots = [held(number, f"m{number}") for number in numbers]
        move = after(slots, request(limit=limit), busy={f"b{number}": "drain-required" for number in range(busy)})
        assert isinstance(move, Take)
        assert [slot.index for slot in (move.slot, *move.others)] == able
        assert all(index + sum(number > index for number in numbers) + busy < limit for index in able)

    def test_a_node_that_has_its_slot_keeps_it(self) -> None:
        own = held(1, "n1", "r1")
        assert after([held(0, "n2"), own]) == Keep(own)


class TestOperator:
    def test_nodes_that_the_operator_upgrades_count_once(self) -> None:
        busy = {"n2": "drain-required", "n9": "pod-restart-required"}
        assert after([held(0, "n2")], request(limit=3), busy=busy) == Take(Slot(1))
        full = after([held(0, "n2")], busy=busy)
        assert isinstance(full, Wait)
        assert "operators upgrade n9 (pod-restart-required); one that is gone has left its label" in full.why

    def test_a_node_that_the_operator_upgrades_is_left_to_it(self) -> None:
        move = after([], busy={"n1": "cordon-required"})
        assert isinstance(move, Wait)
        assert move.why.startswith(
            "an operator upgrades this node (cordon-required); one that is gone has left its label"
        )

    def test_states_before_and_after_an_upgrade_take_no_slot(self) -> None:
        states = ["", "upgrade-required", "upgrade-done", "cordon-required", "upgrade-failed", "uncordon-required"]
        nodes = [{"metadata": {"name": f"n{at}", "labels": {STATE_LABEL: name}}} for at, name in enumerate(states)]
        assert set(busy_of([*nodes, {"metadata": {"name": "bare"}}])) == {"n3", "n4", "n5"}

    def test_upgrades_of_the_gpu_driver_count_as_well(self) -> None:
        labels = {STATE_LABEL: "upgrade-done", GPU_STATE_LABEL: "drain-required"}
        both = {STATE_LABEL: "cordon-required", GPU_STATE_LABEL: "cordon-required"}
        nodes = [{"metadata": {"name": "n1", "labels": labels}}, {"metadata": {"name": "n2", "labels": both}}]
        assert busy_of(nodes) == {
            "n1": "the GPU Operator, state drain-required",
            "n2": "the Network Operator, state cordon-required; the GPU Operator, state cordon-required",
        }


class TestDeadRuns:
    def test_a_node_gets_the_slot_that_its_dead_run_held(self) -> None:
        left = held(1, "n1", "dead")
        move = after([held(0, "n2"), left], over=(1,), short=("n1",))
        assert isinstance(move, Take)
        assert (move.slot, "run dead" in move.healed) == (left, True)

    def test_a_node_that_another_run_works_on_is_left_to_it(self) -> None:
        move = after([held(0, "n1", "alive")])
        assert isinstance(move, Wait)
        assert "another run has the slot of this node: n1 (run alive" in move.why

    def test_the_slot_of_a_dead_run_is_free_once_its_node_is_in_service(self) -> None:
        left = held(0, "n2", "dead")
        assert after([left], request(limit=1), over=(0,)) == Take(left)

    def test_a_node_left_out_of_service_counts_and_is_named_first(self) -> None:
        move = after([held(0, "n3"), held(1, "n2", "dead")], over=(1,), short=("n2",))
        assert isinstance(move, Wait)
        assert move.why.startswith("2 of 2 slots are taken; left behind out of service: n2 (run dead")

    def test_only_time_that_the_observer_saw_pass_ends_a_slot(self) -> None:
        watch, slot = Watch(), held(0, "n2")
        assert not watch.is_over(slot, 1000.0)
        assert not watch.is_over(slot, 1059.0)
        renewed = Slot(0, node="n2", run="other", renewed="a time long ago", duration=60.0)
        assert not watch.is_over(renewed, 1061.0)
        assert not watch.is_over(renewed, 1120.0)
        assert watch.is_over(renewed, 1121.0)


class TestFailedNodes:
    def test_a_failed_node_stops_those_not_begun(self) -> None:
        move = after([held(0, "n2", "r1", failed="no links")], request(limit=0, rollout=("n1", "n2")))
        assert isinstance(move, Stop)
        assert "n2 (run r1, failed: no links)" in move.why
        assert isinstance(after([held(0, "n2", "r0", failed="no links")], request(limit=0)), Stop)

    @pytest.mark.parametrize("reason", ["failed: no links", "unreachable: no route"])
    def test_how_it_ended_is_said_once(self, reason: str) -> None:
        assert str(held(0, "n2", "r1", failed=reason)) == f"n2 (run r1, {reason})"

    def test_one_that_was_deleted_since_stops_nobody_in_later_runs(self) -> None:
        failed = held(0, "n2", "r0", failed="no links")
        move = after([failed, held(1, "n3")], gone=("n2",))
        assert move == Take(failed), "its slot is free"
        stopped = after([failed, held(1, "n3", "r0", failed="no power")], gone=("n2",))
        assert isinstance(stopped, Stop)
        assert "n3" in stopped.why and "n2" not in stopped.why
        assert isinstance(after([held(0, "n2", "r1", failed="no links")], gone=("n2",)), Stop), "of this run"

    def test_one_that_this_run_works_on_again_counts_as_taken(self) -> None:
        slots = [held(0, "n2", "r0", failed="no links")]
        both = ("n1", "n2")
        assert isinstance(after(slots, request(limit=1, rollout=both), over=(0,)), Wait)
        assert isinstance(after(slots, request("n2", limit=1, rollout=both)), Take)


def test_a_slot_is_read_as_it_was_written() -> None:
    slot = held(12, "n1.example", "me@controller/7", failed="why", process="boot/1")
    lease = lease_of(slot, "upgrade", "ns")
    assert slot_of(lease, "upgrade") == slot
    assert slot_of(lease, "other") is None
    assert slot_of({"metadata": {"name": "rdma-fabric-slot-upgrade-x"}}, "upgrade") is None
    freed = lease_of(Slot(12, live={"metadata": {"resourceVersion": "5"}}), "upgrade", "ns")
    assert (freed["spec"], freed["metadata"]["resourceVersion"]) == ({}, "5")
    assert slot_of(freed, "upgrade") == Slot(12)


class TestRemoval:
    """What a teardown may delete of the slots."""

    @staticmethod
    def lease(index: int, node: str = "", group: str = "upgrade") -> dict[str, Any]:
        slot = held(index, node) if node else Slot(index)
        return lease_of(slot, group, "ns")

    def test_free_slots_go_the_highest_first_and_nothing_of_a_group_that_is_in_use(self) -> None:
        free = [self.lease(0), self.lease(10), self.lease(2)]
        used = [self.lease(0, group="b"), self.lease(1, "n1", group="b")]
        groups, kept = removable([*free, *used])
        assert [[lease["metadata"]["name"][-2:] for lease in group] for group in groups] == [["10", "-2", "-0"]]
        assert [slot.node for slot in kept] == ["n1"]

    def test_a_lease_that_is_no_slot_is_left_alone(self) -> None:
        other = {"metadata": {"name": "rdma-fabric-slot-upgrade-x", "labels": {GROUP_LABEL: "upgrade"}}}
        assert removable([other]) == ([], [])

    @pytest.mark.parametrize("limit", first_of([1, 2]))
    def test_no_more_nodes_than_allowed_have_slots_whenever_a_teardown_deletes_them(self, limit: int) -> None:
        """Orders of the reads and writes of three nodes and of a teardown, with one that gives its slot back."""
        actors = ["n1"] * 2 + ["n2"] * 3 + ["n3"] * 2 + ["teardown"] * 3
        every = list(orders(actors))
        for order in some_of(every, examples(len(every))):
            most, stored = played(order, limit)
            assert most <= limit, (order, stored)


def orders(actors: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield every order of these moves once."""
    if not actors:
        yield ()
    for actor in sorted(set(actors)):
        rest = list(actors)
        rest.remove(actor)
        for others in orders(rest):
            yield (actor, *others)


def played(order: tuple[str, ...], limit: int) -> tuple[int, dict[int, tuple[int, str]]]:
    """Return how many nodes had slots at most; a move is a read, a write of what was read, or to give a slot back."""
    stored: dict[int, tuple[int, str]] = {0: (1, "")}
    version, most = 1, 0
    holders: set[str] = set()
    plans: dict[str, list[Any]] = {}
    for actor in order:
        version += 1
        if actor == "teardown" and actor not in plans:
            groups = removable([versioned(index, *entry) for index, entry in stored.items()])[0]
            plans[actor] = [lease for group in groups for lease in group]
        elif actor == "teardown":
            lease = plans[actor].pop(0) if plans[actor] else None
            index = -1 if lease is None else int(str(lease["metadata"]["name"])[-1])
            if lease is not None and str(stored.get(index, ("", ""))[0]) == lease["metadata"]["resourceVersion"]:
                del stored[index]
            else:
                plans[actor] = []
        elif actor not in plans:
            slots = [slot_of(versioned(index, *entry), "upgrade") for index, entry in stored.items()]
            plans[actor] = [after([slot for slot in slots if slot], request(actor, limit=limit))]
        elif plans[actor]:
            move = plans[actor].pop()
            if isinstance(move, Take) and is_as_read(move.slot, stored):
                stored[move.slot.index] = (version, actor)
                holders.add(actor)
        else:
            holders.discard(actor)
            stored.update({index: (version, "") for index, entry in stored.items() if entry[1] == actor})
        most = max(most, len(holders))
    return most, stored


def is_as_read(slot: Slot, stored: dict[int, tuple[int, str]]) -> bool:
    """Tell whether a write would be taken; one that replaces a Lease that is gone makes it anew, as the server does."""
    read = (slot.live.get("metadata") or {}).get("resourceVersion")
    now = stored.get(slot.index)
    return now is None or str(now[0]) == read


def versioned(index: int, version: int, node: str) -> dict[str, Any]:
    lease = lease_of(held(index, node) if node else Slot(index), "upgrade", "ns")
    lease["metadata"]["resourceVersion"] = str(version)
    return lease
