# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of upgrade and join are killed at the end of each step and before each request; the next run ends as ever.

Reads are among the requests. What lies between the two halves of a write is in test_upgrade_killed.py.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from ansible_collections.rdma.fabric.tests.integration.after_site import States
from ansible_collections.rdma.fabric.tests.integration.faulty_proxy import FaultyProxy
from ansible_collections.rdma.fabric.tests.integration.joining import TEXT, Joining
from ansible_collections.rdma.fabric.tests.integration.killing import STEP, Killed, Point, chosen
from ansible_collections.rdma.fabric.tests.integration.upgrading import LOOK_SECONDS, Fleet
from ansible_collections.rdma.fabric.tests.lab.nodes import delete_nodes
from ansible_collections.rdma.fabric.tests.sweeps import whole

Record = Callable[[str, object], None]
BROKEN = "two"
# A turn that comes after another one is among what is killed.
HOSTS = ("one", "two")


def wanted(number: int) -> dict[str, Any]:
    """Return what hosts shall be brought to the ``number``-th time, which is another state each time."""
    return {"rdma_fabric_limits": {"memlock": 1000 + number}}


def has(number: int) -> list[str]:
    """Return what the hosts say then."""
    return [str(1000 + number)] * len(HOSTS)


class Sweep:
    """Kills runs at points and keeps what was wrong after the next one."""

    def __init__(self, killed: Killed, name: str, record: Record) -> None:
        self._killed, self._name, self._record = killed, name, record
        self._problems: list[str] = []
        self._points: dict[str, int] = {}

    def kill(self, point: Point, **variables: Any) -> str:
        """Kill a run; return where it was."""
        after = self._killed.at(point, **variables)
        # How often a run that waits asks the API server is not always the same.
        if after or point.kind == STEP:
            self._points[point.kind] = self._points.get(point.kind, 0) + 1
        if not after and point.kind == STEP:
            self._problems.append(f"{point}: the run was not killed")
        return f"{point} (after {after}, {'alone' if point.alone else 'with its tasks'})"

    def look(self, where: str, found: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
        """Note what is not as after a run that was not disturbed."""
        if found != expected:
            self._problems.append(f"{where}: {found}, not {expected}")

    def end(self) -> None:
        """Fail the test with everything that was wrong; the counts go into the results of the tests."""
        for kind, number in self._points.items():
            self._record(f"{self._name} killed at {kind}", number)
        assert self._points
        assert self._problems == []


@pytest.mark.hosts(*HOSTS)
def test_an_upgrade_that_is_killed_is_ended_by_the_next_one(
    fleet: Fleet, tmp_path: Path, record_testsuite_property: Record
) -> None:
    with FaultyProxy(fleet.cluster) as proxy:
        killed = Killed(fleet, proxy, tmp_path)
        sweep = Sweep(killed, "upgrade", record_testsuite_property)
        points = killed.points(**wanted(0))
        # Requests at which it is killed are in test_upgrade_killed.py, too.
        for number, point in enumerate(points if whole() else chosen(points)[:1], 1):
            for node in fleet.nodes.values():
                fleet.pod(node)
            version = fleet.version()
            where = sweep.kill(point, **wanted(number))
            fleet.run(**wanted(number)).succeeded()
            left = (fleet.limits(), fleet.cordoned(), fleet.marked(), fleet.holders(), fleet.pods())
            sweep.look(where, left, (has(number), [], [], [], []))
            # Nobody is taken out of service twice, nor two at once.
            sweep.look(where, (sorted(fleet.taken(version)), fleet.most_at_once(version)), (sorted(HOSTS), 1))
        sweep.end()


@contextmanager
def losing_devices(fleet: Fleet, name: str) -> Iterator[None]:
    """Have a node lose its devices as soon as it is cordoned, by whichever run; at the end it has them again."""
    over = threading.Event()

    def lose() -> None:
        while name not in fleet.cordoned():
            if over.wait(LOOK_SECONDS):
                return
        fleet.offer(name, 0)

    watcher = threading.Thread(target=lose)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        fleet.offer(name, 8)


@pytest.mark.hosts(*HOSTS)
def test_a_turn_that_fails_and_is_killed_is_failed_by_the_next_run_too_and_heals_once_it_is_mended(
    fleet: Fleet, states: States, tmp_path: Path, record_testsuite_property: Record
) -> None:
    """Steps and requests of its drain, change, verification and rollback; a canary, so it is the first of them."""
    how: dict[str, Any] = {"rdma_fabric_canaries": BROKEN, "rdma_fabric_drain_timeout": 3}
    states.give(fleet.hosts.values(), **wanted(0))
    with FaultyProxy(fleet.cluster) as proxy:
        killed = Killed(fleet, proxy, tmp_path)
        sweep = Sweep(killed, "failing turn", record_testsuite_property)
        with losing_devices(fleet, BROKEN):
            points = killed.points(**wanted(1), **how)
        assert (fleet.limits(), fleet.cordoned()) == (has(0), [BROKEN])
        fleet.run(**wanted(1)).succeeded()
        # Each point takes three more runs.
        for number, point in enumerate(points if whole() else chosen(points)[:1], 2):
            with losing_devices(fleet, BROKEN):
                where = sweep.kill(point, **wanted(number), **how)
                sweep.look(where, (fleet.run(**wanted(number), **how).status == 0,), (False,))
                left = (fleet.limits(), fleet.cordoned(), fleet.marked(), fleet.holders())
                sweep.look(where, left, (has(number - 1), [BROKEN], [BROKEN], [fleet.nodes[BROKEN]]))
                for slot in fleet.slots():
                    reason = slot["metadata"]["annotations"].get("rdma.fabric/slot-failed", "")
                    sweep.look(where, (reason.endswith("; rolled back to what it was before"),), (True,))
            fleet.run(**wanted(number)).succeeded()
            mended = (fleet.limits(), fleet.cordoned(), fleet.marked(), fleet.holders())
            sweep.look(where, mended, (has(number), [], [], []))
        sweep.end()


@pytest.mark.hosts(*HOSTS)
def test_nodes_whose_joining_was_killed_join_by_the_next_run(
    fleet_of_new: Joining, tmp_path: Path, record_testsuite_property: Record
) -> None:
    fleet = fleet_of_new
    with FaultyProxy(fleet.cluster) as proxy:
        killed = Killed(fleet, proxy, tmp_path, "join")
        sweep = Sweep(killed, "join", record_testsuite_property)
        fleet.register(*HOSTS)
        points = chosen(killed.points(rdma_fabric_join_taint=TEXT, **wanted(0)))
        for number, point in enumerate(points, 1):
            delete_nodes(fleet.api, fleet.nodes.values())
            fleet.register(*HOSTS)
            where = sweep.kill(point, rdma_fabric_join_taint=TEXT, **wanted(number))
            early = [name for name in fleet.joined() if fleet.limit(name) != has(number)[0]]
            sweep.look(where, (early,), ([],))
            fleet.join(**wanted(number)).succeeded()
            left = (fleet.limits(), fleet.joined(), [fleet.taints(name) for name in HOSTS])
            sweep.look(where, left, (has(number), list(HOSTS), [[], []]))
        sweep.end()
