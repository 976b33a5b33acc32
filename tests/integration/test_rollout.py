# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Four parallel runs with one limit, and one in each rack: what the benchmark measures with 1,000 nodes, with 40."""

from __future__ import annotations

from pathlib import Path
from typing import Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.domains import alternating
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import STATE_LABEL
from ansible_collections.rdma.fabric.tests.bench.rollout import figures, node_seconds, nodes_in_racks, simulated
from ansible_collections.rdma.fabric.tests.bench.rollout_runs import Rollout, dealt
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import apply_nodes, delete_nodes, kwok_nodes

NODES = 40
RUNS = 4
LIMIT = 5
FORKS = 5


@pytest.fixture
def nodes(control_plane: ControlPlane, namespace: str) -> Iterator[list[str]]:
    names = [f"{namespace}-{number}" for number in range(NODES)]
    apply_nodes(control_plane.api, kwok_nodes(names, {STATE_LABEL: "upgrade-done"}))
    yield names
    delete_nodes(control_plane.api, names)


def test_the_limit_holds_at_every_moment_and_requests_do_not_grow_with_the_time_that_nodes_wait(
    control_plane: ControlPlane, namespace: str, nodes: list[str], tmp_path: Path
) -> None:
    found = {}
    for median in (0.1, 0.5):
        rollout = Rollout(namespace, LIMIT, FORKS, dealt(nodes, node_seconds(NODES, median), RUNS))
        found[median] = figures(rollout, simulated(control_plane, rollout, tmp_path / str(median)))
    assert [each["rollout.over_limit"] for each in found.values()] == [0, 0], found
    # Looking at intervals, a host that waits sends two requests every five seconds at best, and more at first.
    assert all(each["rollout.requests_per_node"] < 25 for each in found.values()), found
    assert found[0.5]["rollout.requests_per_node"] < found[0.1]["rollout.requests_per_node"] + 4, found


def test_no_two_nodes_of_a_rack_are_out_of_service_at_any_moment(
    control_plane: ControlPlane, namespace: str, nodes: list[str], tmp_path: Path
) -> None:
    racks = {name: f"r{number // 5}" for number, name in enumerate(nodes)}
    apply_nodes(control_plane.api, nodes_in_racks(racks))
    # Each run has nodes of every rack.
    runs = dealt(alternating(nodes, racks.__getitem__), node_seconds(NODES, 0.3), RUNS)
    rollout = Rollout(namespace, LIMIT, FORKS, runs, racks)
    found = figures(rollout, simulated(control_plane, rollout, tmp_path))
    assert (found["rollout.over_limit"], found["rollout.over_limit_of_a_rack"]) == (0, 0), found
    assert found["rollout.requests_per_node"] < 40, found
