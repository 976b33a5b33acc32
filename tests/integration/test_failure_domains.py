# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rollouts with failure domains: no two nodes of a rack at once, in parallel runs and after a killed one."""

from __future__ import annotations

import os
import signal
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.tests.integration.playbooks import LIMIT_SECONDS
from ansible_collections.rdma.fabric.tests.integration.upgrading import NAMES, Fleet

RACK = "example.com/rack"
LIMITS: dict[str, Any] = {"rdma_fabric_max_unavailable": "3", "rdma_fabric_failure_domain": RACK}


@pytest.fixture
def racks(fleet: Fleet) -> Iterator[Fleet]:
    """The first two hosts in one rack, the third in another one."""
    fleet.label(RACK, {"one": "r1", "two": "r1", "three": "r2"})
    yield fleet


def is_clean(fleet: Fleet) -> bool:
    left = (fleet.cordoned(), fleet.marked(), fleet.holders())
    assert left == ([], [], []), left
    return fleet.changed() == list(NAMES)


def test_racks_alternate_and_a_killed_run_is_healed_by_parallel_ones_which_never_have_two_nodes_of_a_rack(
    racks: Fleet,
) -> None:
    with racks.start(**LIMITS) as process:
        try:
            racks.until(lambda: len(racks.cordoned()) == 2)
            first = racks.cordoned()
            for name in first:
                racks.hosts[name].switch("hold", on=True)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert first[0] in ("one", "two")
    assert first[1] == "three"
    # Each has a slot of all nodes and one of its rack.
    assert sorted(set(racks.holders())) == sorted(racks.nodes[name] for name in first)
    for name in first:
        racks.hosts[name].switch("hold", on=False)
    version = racks.version()
    with racks.start(limit="one,three", **LIMITS) as other:
        outcome = racks.run("--limit", "two", **LIMITS).succeeded()
        racks.until(lambda: other.poll() is not None, LIMIT_SECONDS)
    assert other.returncode == 0
    assert "one node of each failure domain at once: example.com/rack=r1" in " ".join(outcome.output.split())
    assert is_clean(racks)
    assert racks.most_at_once(version, ("one", "two")) == 1
