# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the benchmark turns counts into figures."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.tests.bench import kubectl, scale
from ansible_collections.rdma.fabric.tests.bench.failure import BenchmarkFailed
from ansible_collections.rdma.fabric.tests.bench.rollout import figures, history, node_seconds
from ansible_collections.rdma.fabric.tests.bench.rollout_runs import Rollout, dealt
from ansible_collections.rdma.fabric.tests.bench.site import Cost, per_host, slope
from ansible_collections.rdma.fabric.tests.lab.audit import Request, parse_event
from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tests.bench import __main__ as bench
from tests.bench.__main__ import BOUNDS, broken_bounds

STEADY = {"ok ansible.builtin.validate_argument_spec": 1, "ok rdma.fabric.rdma_host": 1}


def test_the_controllers_own_work_is_not_a_hosts() -> None:
    counts = {"localhost": {"ok rdma.fabric.k8s_batch": 1}, "a": STEADY, "b": STEADY}
    assert per_host(counts) == {
        "site.steady.modules_per_host": 1.0,
        "site.steady.skipped_per_host": 0.0,
        "site.steady.tasks_per_host": 2.0,
    }


def test_a_second_module_and_a_skipped_task_show() -> None:
    counts = {"a": {**STEADY, "failed ansible.builtin.command": 1}, "b": {**STEADY, "skipped ansible.builtin.debug": 3}}
    figures = per_host(counts)
    assert figures["site.steady.modules_per_host"] == 1.5
    assert figures["site.steady.skipped_per_host"] == 1.5


def test_a_run_without_hosts_measures_nothing() -> None:
    with pytest.raises(BenchmarkFailed, match="no host"):
        per_host({"localhost": {"ok rdma.fabric.fabric_input": 1}})


def test_growth_is_taken_between_the_smallest_and_the_largest_fleet() -> None:
    assert slope({10: 80_000.0, 100: 81_000.0, 1000: 179_000.0}) == 100.0


def test_a_figure_above_its_bound_is_said_and_one_at_it_is_not() -> None:
    assert broken_bounds(BOUNDS) == []
    told = broken_bounds({name: bound + 1 for name, bound in BOUNDS.items()})
    none_of(name for name, text in zip(BOUNDS, told, strict=True) if name not in text)


@pytest.mark.parametrize(
    ("ratios", "kept", "runs"),
    [
        pytest.param([0.9], 0.9, 1, id="below"),
        pytest.param([1.2, 0.9], 0.9, 2, id="a noisy first"),
        pytest.param([1.2, 1.3, 1.1], 1.1, 3, id="above in each"),
    ],
)
def test_what_is_above_its_bound_is_measured_again_and_the_lowest_counts(
    ratios: list[float], kept: float, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, name = list(ratios), "host.cpu_ratio_to_setup"
    monkeypatch.setattr(bench, "run_part", lambda part: {name: left.pop(0), "host.cpu_seconds": 0.5})
    assert bench.measure("host") == {name: kept, "host.cpu_seconds": 0.5}
    assert len(ratios) - len(left) == runs


def write(second: float, version: int, resource: str, name: str, **spec: Any) -> Request:
    """Return a write that was received and stored at a second after midnight."""
    at = f"2026-01-01T00:00:{second:09.6f}Z"
    metadata = {"name": name, "resourceVersion": str(version)}
    return parse_event(
        {
            "verb": "update",
            "objectRef": {"resource": resource},
            "responseStatus": {"code": 200},
            "responseObject": {"metadata": metadata, "spec": spec},
            "requestReceivedTimestamp": at,
            "stageTimestamp": at,
        }
    )


def taken(second: float, version: int, number: int, node: str) -> Request:
    return write(second, version, "leases", f"rdma-fabric-slot-upgrade-{number}", holderIdentity=f"{node}/run")


def given_back(second: float, version: int, number: int) -> Request:
    return write(second, version, "leases", f"rdma-fabric-slot-upgrade-{number}")


# Two slots, three nodes: slot 0 from 0 to 4, idle until 5, slot 1 from 1 to 9, and slot 0 from 5 to 8.
STORY = [
    taken(0, 1, 0, "a"),
    taken(1, 2, 1, "b"),
    given_back(4, 3, 0),
    taken(5, 4, 0, "c"),
    given_back(8, 5, 0),
    given_back(9, 6, 1),
]
OF_TWO = Rollout("ns", 2, 2, {"r": {"a": 4.0, "b": 8.0, "c": 3.0}})


def test_idle_slots_are_counted_until_the_last_node_has_one() -> None:
    found = figures(OF_TWO, STORY)
    assert found["rollout.idle_share"] == 0.2  # a second at the start and one in between, of two slots for five seconds
    assert (found["rollout.over_limit"], found["rollout.requests_per_node"]) == (0, 2.0)
    assert found["rollout.time_ratio_to_serial"] == round(9 / (8 + 3), 3)


def test_writes_count_in_the_order_in_which_they_were_stored() -> None:
    story = [STORY[0], STORY[1], STORY[3], STORY[2], *STORY[4:]]
    assert figures(OF_TWO, story) == figures(OF_TWO, STORY)


def test_a_slot_or_a_node_above_the_limit_shows() -> None:
    one = Rollout("ns", 1, 2, OF_TWO.runs)
    assert figures(one, STORY)["rollout.over_limit"] == 2
    cordons = [write(2, 7, "nodes", "a", unschedulable=True), write(3, 8, "nodes", "b", unschedulable=True)]
    freed = [write(6, 9, "nodes", "a"), write(6, 10, "nodes", "b")]
    assert [moment.cordoned for moment in history([*STORY, *cordons, *freed])][-4:] == [1, 2, 1, 0]


def test_two_nodes_of_a_rack_show_and_slots_of_racks_are_no_slots_of_all_nodes() -> None:
    def node(version: int, name: str, rack: str, **spec: bool) -> Request:
        written = write(2, version, "nodes", name, **spec)
        written.stored["metadata"]["labels"] = {"example.com/rack": rack}
        return written

    def cordons(racks: dict[str, str]) -> list[Request]:
        first = [node(7 + at, name, rack, unschedulable=True) for at, (name, rack) in enumerate(racks.items())]
        return [*first, *(node(9 + at, name, rack) for at, (name, rack) in enumerate(racks.items()))]

    of_a_rack = write(3, 20, "leases", "rdma-fabric-slot-upgrade-r1-0123abcd-0", holderIdentity="a/run")
    for racks, over in (({"a": "r1", "b": "r1"}, 1), ({"a": "r1", "b": "r2"}, 0)):
        rollout = Rollout("ns", 2, 2, OF_TWO.runs, {**racks, "c": "r3"})
        found = figures(rollout, [*STORY, *cordons(racks), of_a_rack])
        assert (found["rollout.over_limit_of_a_rack"], found["rollout.over_limit"]) == (over, 0)


def test_a_renewal_takes_no_slot_and_a_node_without_one_fails_the_simulation() -> None:
    renewed = taken(2, 7, 1, "b")
    assert sum(moment.took for moment in history([*STORY[:2], renewed])) == 2
    with pytest.raises(BenchmarkFailed, match="2 slots were taken for 3 nodes"):
        figures(OF_TWO, [*STORY[:3], STORY[5]])


def test_times_of_nodes_are_the_same_ones_each_time_and_dealt_evenly() -> None:
    seconds = node_seconds(1000, 4.0)
    assert seconds == node_seconds(1000, 4.0)
    assert 3.8 < sorted(seconds)[500] < 4.2
    runs = dealt([f"n{number}" for number in range(1000)], seconds, 4)
    assert [len(run) for run in runs.values()] == [250] * 4
    assert runs["run-1"]["n1"] == seconds[1]


def test_growth_is_told_beside_that_of_a_play_that_does_nothing() -> None:
    nothing = {100: Cost(3.0, 9.0, 1000), 1000: Cost(21.0, 60.0, 1000), 5000: Cost(101.0, 300.0, 1000)}
    site = {100: Cost(10.0, 20.0, 90_000), 1000: Cost(82.0, 200.0, 99_000), 5000: Cost(500.0, 999.0, 188_000)}
    found = scale.figures(nothing, site, {100: 80_000, 1000: 90_000, 5000: 129_000})
    assert found["scale.cpu_seconds_per_host"] == 0.1
    assert found["scale.cpu_ratio_to_noop"] == 5.0
    assert found["scale.exponent"] == 1.0
    assert found["scale.rss_kib_per_host"] == 10.0
    assert found["scale.largest_process.rss_kib_per_host"] == 20.0
    assert found["scale.seconds.1000"] == 200.0


def test_a_client_is_told_beside_kubectl() -> None:
    found = kubectl.figures({"batch": 1.8, "kubectl": 0.9})
    assert found["kubectl.batch.cpu_ratio"] == 2.0
