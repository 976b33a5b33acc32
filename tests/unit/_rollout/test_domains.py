# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slots of failure domains beside those of all nodes: every order of requests, long waits, and what is left behind."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.domains import (
    Slots,
    alternating,
    domain_group,
    domain_of,
)
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.holding import Held, Holding, SlotRefused
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import SlotRequest, group_problem
from ansible_collections.rdma.fabric.tests.unit._rollout.test_holding import (
    DURATION,
    Seat,
    Server,
    Turns,
    every_order,
)


@dataclass
class Cluster:
    """The slots of all nodes and those of each domain."""

    whole: Server = field(default_factory=Server)
    domains: dict[str, Server] = field(default_factory=dict)

    def of(self, domain: str) -> Server:
        return self.domains.setdefault(domain, Server())


def slots(cluster: Cluster, seat: Seat, node: str, domain: str, *, limit: int = 1, run: str = "") -> Slots:
    """Return the slots of a node as ``seat``, a place at those of all nodes, has them; one clock for both."""
    asked = SlotRequest(node, run or f"run of {node}", limit, domain=domain)

    def held(request: SlotRequest, at: Seat, of_domain: str = "") -> Holding:
        return Holding(
            at, request, "upgrade", "ns", DURATION, f"process of {request.run}", of_domain, chance=lambda: 0.0
        )

    def within(name: str, own: int) -> Holding:
        place = OneClock(cluster.of(name), seat.turn, dead=seat.dead, clock=seat)
        return held(SlotRequest(node, asked.run, own), place, name)

    return Slots(held(asked, seat), 1, within)


@dataclass
class OneClock(Seat):
    """A second place of a run: its time is that of the first one."""

    clock: Seat = field(default_factory=lambda: Seat(Server()))

    def today(self) -> datetime:
        return self.clock.today()

    def now(self) -> float:
        return self.clock.now()

    def sleep(self, seconds: float) -> None:
        self.clock.sleep(seconds)


def take(slots_of_node: Slots, within: float = 1.0) -> Held:
    return slots_of_node.take(within, lambda _text: None)


def test_no_order_of_requests_has_two_nodes_of_a_domain_out_or_leaves_a_slot_behind() -> None:
    def play(turns: Turns) -> None:
        cluster, taken = Cluster(), []

        def run(number: int, node: str) -> None:
            own = slots(cluster, Seat(cluster.whole, turns.of(number)), node, "zone=a", limit=2)
            with suppress(SlotRefused):
                take(own)
                taken.append(node)
                own.give_back()

        turns.play([lambda: run(0, "a1"), lambda: run(1, "a2")])
        assert (cluster.of("zone=a").most, cluster.whole.most) == (1, 1), turns.order
        assert taken, turns.order
        assert (cluster.of("zone=a").nodes(), cluster.whole.nodes()) == ([], []), turns.order

    assert every_order(play, most=8) >= 20


def test_two_domains_share_the_limit_of_all_nodes() -> None:
    cluster = Cluster()
    first = slots(cluster, Seat(cluster.whole), "a1", "zone=a")
    assert take(first).taken
    with pytest.raises(SlotRefused, match="by a1"):
        take(slots(cluster, Seat(cluster.whole), "b1", "zone=b"))
    assert cluster.of("zone=b").nodes() == []
    first.give_back()
    assert (cluster.of("zone=a").nodes(), take(slots(cluster, Seat(cluster.whole), "b1", "zone=b")).taken) == ([], True)


def test_the_slot_of_the_domain_is_renewed_while_that_of_all_nodes_is_waited_for() -> None:
    cluster = Cluster(Server(short={"x"}))
    other = slots(cluster, Seat(cluster.whole), "x", "")
    take(other)
    seat = Seat(cluster.whole)
    rival = OneClock(cluster.of("zone=a"), clock=seat)
    watching = Holding(rival, SlotRequest("a2", "rival", 1), "upgrade", "ns", DURATION, chance=lambda: 0.0)
    refusals: list[str] = []

    def look() -> None:
        refusals.append(type(watching.look()).__name__)
        if seat.time > 3 * DURATION:
            other.give_back()

    seat.turn = lambda: look() if cluster.of("zone=a").nodes() else None
    assert take(slots(cluster, seat, "a1", "zone=a"), within=1000.0).taken
    assert seat.time > 3 * DURATION
    assert set(refusals) == {"Wait"}
    assert cluster.of("zone=a").nodes() == ["a1"]


@pytest.mark.parametrize("thief", ["a2", ""])
def test_one_that_has_lost_its_domain_while_it_waited_takes_no_slot(thief: str) -> None:
    cluster = Cluster()
    take(slots(cluster, Seat(cluster.whole), "x", ""))
    seat = Seat(cluster.whole)

    def steal() -> None:
        place = cluster.of("zone=a")
        if place.nodes() == ["a1"]:
            Holding(Seat(place), SlotRequest("a1", "run of a1", 1), "upgrade", "ns", DURATION).give_back()
            if thief:
                other = Holding(Seat(place), SlotRequest(thief, "thief", 1), "upgrade", "ns", DURATION)
                other.take(1.0, lambda _text: None)

    seat.turn = steal
    with pytest.raises(SlotRefused, match="another run took its slot of zone=a meanwhile"):
        take(slots(cluster, seat, "a1", "zone=a"), within=1000.0)
    assert (cluster.whole.nodes(), cluster.of("zone=a").nodes()) == (["x"], [thief] if thief else [])


def test_a_silent_run_on_another_machine_is_waited_for_once_for_both() -> None:
    cluster = Cluster()
    take(slots(cluster, Seat(cluster.whole), "a1", "zone=a", run="dead"))
    seat = Seat(cluster.whole)
    assert take(slots(cluster, seat, "a1", "zone=a", run="next"), within=1000.0).healed
    assert DURATION <= seat.time < DURATION + 10


def test_a_run_without_domains_heals_what_an_earlier_one_has_of_them_and_gives_it_back() -> None:
    cluster = Cluster()
    take(slots(cluster, Seat(cluster.whole), "a1", "zone=a", run="dead"))
    seat = Seat(cluster.whole, dead={"process of dead"})
    own = slots(cluster, seat, "a1", "", run="next")
    assert "run dead" in take(own).healed
    assert [slot.run for slot in cluster.of("zone=a").slots()] == ["next"]
    own.give_back()
    assert (cluster.whole.nodes(), cluster.of("zone=a").nodes()) == ([], [])


def test_a_node_that_failed_in_another_domain_keeps_nobody_there_from_a_turn() -> None:
    cluster = Cluster()
    before = slots(cluster, Seat(cluster.whole), "n", "zone=a", run="r")
    take(before)
    before.fail("no links")
    moved = slots(cluster, Seat(cluster.whole), "n", "zone=b", run="next")
    assert "no links" in take(moved).healed
    assert (cluster.of("zone=a").nodes(), cluster.of("zone=b").nodes()) == ([], ["n"])
    moved.give_back()
    assert take(slots(cluster, Seat(cluster.whole), "a2", "zone=a")).taken


def test_the_slot_of_a_domain_is_freed_and_left_behind_also_where_that_of_all_nodes_was_lost() -> None:
    cluster = Cluster()
    own = slots(cluster, Seat(cluster.whole), "a1", "zone=a", run="r")
    take(own)
    cluster.whole.leases.clear()
    own.give_back()
    assert cluster.of("zone=a").nodes() == []
    take(own)
    cluster.whole.leases.clear()
    own.fail_anew("no links")
    assert [(slot.node, slot.failed) for slot in cluster.of("zone=a").slots()] == [("a1", "no links")]
    assert [(slot.node, slot.failed, slot.domain) for slot in cluster.whole.slots()] == [("a1", "no links", "zone=a")]
    cluster.whole.leases.clear()
    slots(cluster, Seat(cluster.whole), "a1", "zone=a", run="other").give_back()
    assert cluster.of("zone=a").nodes() == ["a1"]
    slots(cluster, Seat(cluster.whole), "a1", "zone=a", run="other").give_back(any_run=True)
    assert cluster.of("zone=a").nodes() == []


def test_a_node_left_out_of_service_does_not_wait_for_one_that_waits_for_it() -> None:
    """The dead run knew no domains, so another node has the only slot of this one's."""
    cluster = Cluster(Server(short={"a1"}))
    take(slots(cluster, Seat(cluster.whole), "a1", "", run="dead"))
    Holding(Seat(cluster.of("zone=a")), SlotRequest("a2", "other", 1), "upgrade", "ns", DURATION).take(
        1.0, lambda _text: None
    )
    seat = Seat(cluster.whole, dead={"process of dead"})
    assert take(slots(cluster, seat, "a1", "zone=a", run="next")).healed
    assert cluster.of("zone=a").nodes() == ["a1", "a2"]


def test_a_node_that_is_back_in_service_waits_for_its_domain_as_others_do() -> None:
    cluster = Cluster()
    take(slots(cluster, Seat(cluster.whole), "a1", "", run="dead"))
    Holding(Seat(cluster.of("zone=a")), SlotRequest("a2", "other", 1), "upgrade", "ns", DURATION).take(
        1.0, lambda _text: None
    )
    with pytest.raises(SlotRefused, match="no slot of zone=a"):
        take(slots(cluster, Seat(cluster.whole, dead={"process of dead"}), "a1", "zone=a", run="next"))
    assert cluster.of("zone=a").most == 1


@pytest.mark.parametrize("left_by", ["dead", "next"])
def test_what_a_node_has_of_its_domain_from_before_stays_where_it_gets_none_of_all_nodes(left_by: str) -> None:
    cluster = Cluster()
    take(slots(cluster, Seat(cluster.whole), "a1", "zone=a", run=left_by))
    cluster.whole.leases.clear()
    other = slots(cluster, Seat(cluster.whole), "x", "")
    take(other)
    seat = Seat(cluster.whole, dead={"process of dead"})
    own = slots(cluster, seat, "a1", "zone=a", run="next")
    with pytest.raises(SlotRefused, match="by x"):
        take(own)
    assert cluster.of("zone=a").nodes() == ["a1"]


def test_what_was_healed_and_how_long_it_was_waited_are_those_of_both() -> None:
    cluster = Cluster(Server(short={"x"}))
    take(slots(cluster, Seat(cluster.whole), "a1", "zone=a", run="dead"))
    cluster.whole.leases.clear()
    other = slots(cluster, Seat(cluster.whole), "x", "")
    take(other)
    seat = Seat(cluster.whole)

    def free_it_later() -> None:
        if seat.time > 2 * DURATION and cluster.whole.nodes() == ["x"]:
            other.give_back()

    seat.turn = free_it_later
    held = take(slots(cluster, seat, "a1", "zone=a", run="next"), within=1000.0)
    assert (held.taken, "run dead" in held.healed) == (True, True)
    assert held.waited == seat.time >= 2 * DURATION


def test_domains_alternate_and_keep_their_order() -> None:
    assert alternating(["a1", "a2", "a3", "b1", "c1", "c2"], lambda node: node[0]) == [
        "a1", "b1", "c1", "a2", "c2", "a3",
    ]  # fmt: skip
    assert alternating(["2", "1", "3"], lambda _node: "") == ["2", "1", "3"]


@pytest.mark.parametrize(
    "value", ["a", "", "Rack_07.Row-3", "x" * 63, "-".join("abcdefghijklmnop"), "--", "under_score_"]
)
def test_each_domain_has_a_group_whose_name_fits_a_label_and_a_lease(value: str) -> None:
    groups = {domain_group("g" * 40, domain_of(key, value)) for key in ("zone", "rack", "example.com/rack")}
    groups |= {domain_group("g" * 40, domain_of("zone", value.swapcase() + "."))}
    assert len(groups) == 4
    assert all(len(group) <= 63 and not group_problem(group[-40:].strip("-")) for group in groups)
    assert all(group.startswith("g" * 40) and "--" not in group for group in groups)
