# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the benchmark turns counts into figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.tests.bench.failure import BenchmarkFailed
from ansible_collections.rdma.fabric.tests.bench.site import fleet_inventory, per_host, slope
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
        per_host({"localhost": {"ok rdma.fabric.fabric_spec": 1}})


def test_growth_is_taken_between_the_smallest_and_the_largest_fleet() -> None:
    assert slope({10: 80_000.0, 100: 81_000.0, 1000: 179_000.0}) == 100.0


def test_a_fleet_shares_its_recordings() -> None:
    inventory = fleet_inventory(5, [Path("/r/a.json.gz"), Path("/r/b.json.gz")])
    hosts = inventory["rdma_fabric"]["hosts"]
    assert len(hosts) == 5
    assert {host["rdma_fabric_recorded_host"] for host in hosts.values()} == {"/r/a.json.gz", "/r/b.json.gz"}


@pytest.mark.parametrize("name", BOUNDS)
def test_a_figure_above_its_bound_is_said_and_one_at_it_is_not(name: str) -> None:
    assert broken_bounds({name: BOUNDS[name]}) == []
    (text,) = broken_bounds({name: BOUNDS[name] + 1})
    assert name in text
