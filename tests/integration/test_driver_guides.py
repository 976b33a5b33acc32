# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks of the guides on drivers and GPUDirect, and the modules' examples, run in check mode."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.integration import guides

GUIDES = ("guide-drivers.md", "guide-gpudirect.md")
MODULES = ("mofed_driver", "mofed_driver_info", "nv_peer_mem", "nv_peer_mem_info")


def parsed_blocks(name: str) -> list[Any]:
    return [yaml.safe_load(block) for block in guides.blocks_of(guides.guide(name))]


def plays_of(name: str) -> list[dict[str, Any]]:
    """Return the playbooks of a guide; blocks that hold variables are none."""
    return [play for block in parsed_blocks(name) if isinstance(block, list) for play in block]


def run(tasks: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Run tasks on this machine in check mode; return the result of each."""
    (folder / "GPG-KEY-Mellanox.pub").write_text("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQ\n", encoding="utf-8")
    play = {"name": "Run", "hosts": "localhost", "gather_facts": False, "tasks": tasks}
    return guides.results_of(yaml.safe_dump([play]), folder, "--check")


@pytest.mark.parametrize("guide", GUIDES)
def test_the_playbooks_of_the_guide_run(guide: str, tmp_path: Path) -> None:
    plays = plays_of(guide)
    assert plays
    for play in plays:
        assert all("msg" in result or "summary" in result for result in run(play["tasks"], tmp_path))


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_the_module_run(module: str, tmp_path: Path) -> None:
    plugin = importlib.import_module(f"ansible_collections.rdma.fabric.plugins.modules.{module}")
    results = run(yaml.safe_load(plugin.EXAMPLES), tmp_path)
    assert all("Traceback" not in json.dumps(result) for result in results)


def test_the_settings_of_the_guides_are_accepted() -> None:
    desired = importlib.import_module("ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host")
    (variables,) = [block for block in parsed_blocks("guide-drivers.md") if isinstance(block, dict)]
    found, violations, _notices = desired.parse_host_variables("gpu01", variables)
    assert violations == []
    assert found["driver"]["source"] == "repository" and found["consents"]["driver_reload"] is True
    (variables,) = [block for block in parsed_blocks("guide-gpudirect.md") if isinstance(block, dict)]
    found, violations, _notices = desired.parse_host_variables("gpu01", variables)
    assert violations == []
    assert found["pcie"] == {"acs": "direct", "max_read_request": 4096} and found["consents"]["acs_change"] is True
