# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk is full in the middle of an upgrade: its host fails by name, nothing is lost, and the next run heals.

The disks are real ones of a mebibyte. What a full disk does to each write of a host is in test_host_apply_killed.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.tests.integration.own_files import small_disk
from ansible_collections.rdma.fabric.tests.integration.playbooks import LIMIT_SECONDS
from ansible_collections.rdma.fabric.tests.integration.upgrading import LIMITS, Fleet

FIRST = "two"
OLD, NEW = {"memlock": 65536}, {"memlock": "unlimited"}
WHY = "No space left on device (ENOSPC); the file system is full; next: free some space on it and run again"


@pytest.mark.parametrize(("place", "path"), [("etc", LIMITS), ("var/lib", "/var/lib/rdma-fabric/")])
def test_a_host_whose_disk_is_full_keeps_what_it_has_and_its_node_is_left_out_until_there_is_space(
    fleet: Fleet, place: str, path: str
) -> None:
    with fleet.hosts[FIRST].with_small_disk(place) as disk:
        fleet.run("--limit", FIRST, rdma_fabric_limits=OLD).succeeded()
        before = disk.contents()
        disk.fill()
        failed = fleet.run("--limit", FIRST, rdma_fabric_limits=NEW).refused()
        said = failed.failures[FIRST]["msg"]
        assert path in said
        assert WHY in said
        assert disk.contents() == before
        assert fleet.limit(FIRST) == "65536"
        assert (fleet.cordoned(), fleet.holders()) == ([FIRST], [fleet.nodes[FIRST]])
        (slot,) = fleet.slots()
        assert " ".join(said.split())[:200] in slot["metadata"]["annotations"]["rdma.fabric/slot-failed"]
        disk.free()
        fleet.run("--limit", FIRST, rdma_fabric_limits=NEW).succeeded()
        assert fleet.limit(FIRST) == "unlimited"
        assert (fleet.cordoned(), fleet.marked(), fleet.holders()) == ([], [], [])
        fleet.run("--limit", FIRST, playbook="rollback", rdma_fabric_limits=NEW).succeeded()
        assert fleet.limit(FIRST) == "65536"


def test_a_controller_whose_disk_is_full_brings_all_turns_to_their_end_and_names_what_it_could_not_keep(
    fleet: Fleet,
) -> None:
    folder = fleet.user.here / "rdma-fabric-run"
    folder.mkdir()
    with small_disk(folder) as disk:
        with fleet.running("--limit", FIRST, rdma_fabric_limits=NEW) as outcome:
            fleet.until(lambda: fleet.cordoned() == [FIRST], LIMIT_SECONDS)
            with fleet.held_in_its_change(FIRST):
                disk.fill()
            failed = outcome().refused()
        # Long lines are broken at hyphens, too.
        said, full = "".join(failed.output.split()), "No space left on device"
        for told in (
            f"what the turn of {FIRST} took is not kept: {folder / 'turns' / FIRST}.json: {full}",
            f"facts and plan of {FIRST} are not kept: {folder / 'hosts' / FIRST}.json: {full}",
            f"{folder / 'report.json'}: {full}",
        ):
            assert "".join(told.split()) in said
        healthy: Any = ([FIRST], [], [], [])
        assert (fleet.changed(), fleet.cordoned(), fleet.marked(), fleet.holders()) == healthy
        disk.free()
        assert set(fleet.run("--limit", FIRST, rdma_fabric_limits=NEW).succeeded().changed.values()) == {0}
        assert (fleet.changed(), fleet.cordoned(), fleet.marked(), fleet.holders()) == healthy
        assert fleet.user.report()["outcome"] == "unchanged"
