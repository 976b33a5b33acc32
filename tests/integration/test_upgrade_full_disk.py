# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk is full in the middle of an upgrade: its host fails by name, nothing is lost, and the next run heals.

The disk is a real one of a mebibyte. What a full disk does to each write of a host is in test_host_apply_killed.py.
"""

from __future__ import annotations

import pytest

from ansible_collections.rdma.fabric.tests.integration.after_site import States
from ansible_collections.rdma.fabric.tests.integration.upgrading import LIMITS, Fleet

FIRST = "two"
OLD, NEW = {"memlock": 65536}, {"memlock": "unlimited"}
WHY = "No space left on device (ENOSPC); the file system is full; next: free some space on it and run again"


@pytest.mark.hosts(FIRST)
def test_a_host_whose_disk_is_full_keeps_what_it_has_and_its_node_is_left_out_until_there_is_space(
    fleet: Fleet, states: States
) -> None:
    with fleet.hosts[FIRST].with_small_disk("etc") as disk:
        states.give(fleet.hosts.values(), rdma_fabric_limits=OLD)
        before = disk.contents()
        disk.fill()
        failed = fleet.run(rdma_fabric_limits=NEW).refused()
        said = failed.failures[FIRST]["msg"]
        assert LIMITS in said
        assert WHY in said
        assert disk.contents() == before
        assert fleet.limits() == ["65536"]
        assert (fleet.cordoned(), fleet.holders()) == ([FIRST], [fleet.nodes[FIRST]])
        (slot,) = fleet.slots()
        assert " ".join(said.split())[:200] in slot["metadata"]["annotations"]["rdma.fabric/slot-failed"]
        disk.free()
        fleet.run(rdma_fabric_limits=NEW).succeeded()
        assert fleet.limits() == ["unlimited"]
        assert (fleet.cordoned(), fleet.marked(), fleet.holders()) == ([], [], [])
