# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that fails its upgrade goes back to what it was before, and so does a fleet when it is asked to.

The cluster is a real API server with nodes of KWOK. The hosts are this machine, each with files of its own.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from typing import Any

import pytest

from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.integration.after_site import States
from ansible_collections.rdma.fabric.tests.integration.playbooks import stored_writes
from ansible_collections.rdma.fabric.tests.integration.upgrading import Fleet

OLD, NEW = {"memlock": 65536}, {"memlock": "unlimited"}
ALL_OLD, ALL_NEW = ["65536"] * 2, ["unlimited"] * 2
# A host that goes back has its turn beside one that does not, or before it.
pytestmark = pytest.mark.hosts("one", "two")


@pytest.fixture
def brought(fleet: Fleet, states: States) -> Fleet:
    """A fleet that was brought to a first state."""
    states.give(fleet.hosts.values(), rdma_fabric_limits=OLD)
    assert set(fleet.limits()) == set(ALL_OLD)
    return fleet


def fail_on(fleet: Fleet, name: str, **variables: Any) -> str:
    """Upgrade while a node loses its devices as soon as it is drained; return what the run says."""

    def lose_its_devices() -> None:
        fleet.until(lambda: name in fleet.cordoned())
        fleet.offer(name, 0)

    with_it = threading.Thread(target=lose_its_devices)
    with_it.start()
    try:
        outcome = fleet.run(
            rdma_fabric_limits=NEW, rdma_fabric_canaries=name, rdma_fabric_drain_timeout=6, **variables
        ).refused()
    finally:
        with_it.join()
    return " ".join(outcome.output.split())


def test_a_canary_that_fails_goes_back_and_stays_cordoned_and_the_next_run_upgrades_all(brought: Fleet) -> None:
    said = fail_on(brought, "two")
    assert brought.limits() == ALL_OLD
    assert (brought.cordoned(), brought.holders()) == (["two"], [brought.nodes["two"]])
    (slot,) = brought.slots()
    reason = slot["metadata"]["annotations"]["rdma.fabric/slot-failed"]
    assert "failed: " in reason
    assert reason.endswith("; rolled back to what it was before")
    assert "rolled back to what it was before" in said
    assert reason in brought.node("two")["metadata"]["annotations"]["rdma.fabric/cordon"]
    events = brought.cluster.kubectl("describe", "node", brought.nodes["two"]).partition("\nEvents:")[2]
    assert re.search(rf"Warning +RdmaFabricFailed .*{re.escape(reason[:200])}", events), events
    brought.offer("two", 8)
    brought.run(rdma_fabric_limits=NEW).succeeded()
    assert (brought.limits(), brought.cordoned(), brought.marked(), brought.holders()) == (ALL_NEW, [], [], [])


def test_what_a_killed_run_has_changed_goes_back_where_the_next_one_can_not_verify_it(brought: Fleet) -> None:
    node = brought.nodes["two"]
    with brought.start(rdma_fabric_limits=NEW, rdma_fabric_canaries="two") as process:
        try:
            brought.until(lambda: brought.cordoned() == ["two"])
            brought.offer("two", 0)
            brought.until(lambda: brought.limit("two") == "unlimited")
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    brought.pod(node)
    brought.run(rdma_fabric_limits=NEW, rdma_fabric_drain_timeout=6).refused()
    assert (brought.limits(), brought.cordoned(), brought.holders()) == (ALL_OLD, ["two"], [node])
    assert node not in brought.pods(), "it is drained before it goes back"
    (slot,) = brought.slots()
    assert slot["metadata"]["annotations"]["rdma.fabric/slot-failed"].endswith("; rolled back to what it was before")


@pytest.mark.first
def test_a_fleet_goes_back_node_by_node_and_a_second_run_changes_nothing(brought: Fleet) -> None:
    brought.run("--forks", "2", playbook="site", rdma_fabric_limits=NEW).succeeded()
    assert brought.limits() == ALL_NEW
    mark, version = brought.cluster.audit.mark(), brought.version()
    brought.run("--check", playbook="rollback", rdma_fabric_limits=NEW).succeeded()
    assert (brought.limits(), stored_writes(brought.cluster.audit, mark)) == (ALL_NEW, [])
    mark = brought.cluster.audit.mark()
    brought.run(playbook="rollback", rdma_fabric_limits=NEW).succeeded()
    assert (brought.limits(), brought.most_at_once(version)) == (ALL_OLD, 1)
    assert (brought.cordoned(), brought.marked(), brought.holders()) == ([], [], [])
    assert sorted(name for name, _what in brought.interrupted(mark)[::2]) == ["one", "two"]
    mark = brought.cluster.audit.mark()
    again = brought.run(playbook="rollback", rdma_fabric_limits=NEW).succeeded()
    assert set(again.changed.values()) == {0}
    assert (brought.limits(), brought.interrupted(mark)) == (ALL_OLD, [])


def test_nothing_goes_back_where_that_is_not_wanted_but_by_the_playbook_which_heals_the_node(brought: Fleet) -> None:
    fail_on(brought, "two", rdma_fabric_rollback=False)
    assert brought.limits() == ["65536", "unlimited"]
    (slot,) = brought.slots()
    assert "rolled back" not in slot["metadata"]["annotations"]["rdma.fabric/slot-failed"]
    brought.offer("two", 8)
    brought.run("--limit", "two", playbook="rollback", rdma_fabric_limits=NEW).succeeded()
    assert brought.limits() == ALL_OLD
    assert (brought.cordoned(), brought.marked(), brought.holders()) == ([], [], [])


def test_a_host_whose_links_are_down_after_its_change_goes_back_and_stays_cordoned(brought: Fleet) -> None:
    host = brought.hosts["two"]
    host.put_devices(FLEET["vm-vf-01"]().document())

    def cut_its_links() -> None:
        brought.until(lambda: "two" in brought.cordoned())
        host.set_port(state="1: DOWN", phys_state="2: Polling")

    with_it = threading.Thread(target=cut_its_links)
    with_it.start()
    try:
        outcome = brought.run("--limit", "two", rdma_fabric_limits=NEW, rdma_fabric_link_timeout=2).refused()
    finally:
        with_it.join()
    assert "port 1 of 0000:05:00.0 (enp5s0np0) was up at 400 Gb/s and is DOWN (Polling)" in " ".join(
        outcome.output.split()
    )
    assert (brought.limits(), brought.cordoned()) == (ALL_OLD, ["two"])
    (slot,) = brought.slots()
    assert slot["metadata"]["annotations"]["rdma.fabric/slot-failed"].endswith("; rolled back to what it was before")
