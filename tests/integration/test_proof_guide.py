# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every playbook of the guide to measurements, and every example of its filters, run by ansible-playbook."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.integration import guides
from tools.checkout import CHECKOUT

RECORDINGS = CHECKOUT / "inventories" / "recorded" / "recordings"
GUIDE = guides.guide("guide-proof.md")
BLOCKS = [yaml.safe_load(block)[0] for block in guides.blocks_of(GUIDE)]
FILTERS = ("perftest_result", "bandwidth_verdict", "nccl_test_result", "nccl_environment")
# What a block of the guide has to show, by its name.
SHOWN = {
    "Judge an output of ib_write_bw": "98% is at least the 90% required",
    "Show why a test failed": "start the server side first",
    "Judge an output of all_reduce_perf": "the data went over sockets, not over RDMA",
    "Compute the environment of NCCL": "=mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11",
}


def run(play: dict[str, Any], folder: Path) -> str:
    """Run a play on the controller; return what it showed."""
    return guides.run(yaml.safe_dump([play]), folder, "-e", f"recordings={RECORDINGS}")


@pytest.mark.parametrize("play", BLOCKS, ids=lambda play: play["name"])
def test_a_playbook_of_the_guide_runs(play: dict[str, Any], tmp_path: Path) -> None:
    assert SHOWN[play["name"]] in run(play, tmp_path)


def test_the_guide_holds_no_other_block() -> None:
    assert {play["name"] for play in BLOCKS} == set(SHOWN)
    assert GUIDE.count("```") == 2 * len(BLOCKS)


def test_the_examples_of_the_filters_run(tmp_path: Path) -> None:
    tasks = []
    for name in FILTERS:
        plugin = importlib.import_module(f"ansible_collections.rdma.fabric.plugins.filter.{name}")
        tasks += yaml.safe_load(plugin.EXAMPLES)
    for task in tasks:
        if "rdma.fabric.rdma_info" in task:
            task["rdma.fabric.rdma_info"] = {"recording": str(RECORDINGS / "dgx-h100-01.json.gz")}
    shown = run({"name": "Examples", "hosts": "localhost", "gather_facts": False, "tasks": tasks}, tmp_path)
    for word in ("best_gbps", "98% is at least", "gpu path", "190.87", "NCCL_IB_TC", "mlx5_1 also matches"):
        assert word in shown, word
