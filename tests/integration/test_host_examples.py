# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples of the modules about hosts, run as they are printed, and what guides ask for in variables."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import parse_host_variables
from ansible_collections.rdma.fabric.tests.integration import guides
from tools.checkout import CHECKOUT
from tools.fleet import RECORDINGS

MODULES = ("rdma_info", "rdma_host", "rdma_record")
# What each task of a module's examples comes to here, where the card that they name is only on recordings.
SHOWN: dict[str, list[str]] = {
    "rdma_info": ['"facts": {', '"msg": [', '"counters": [', '"msg": [', '"recorded": true'],
    "rdma_host": ["0000:18:00.0", "0000:18:00.0", "nothing to do", '"planned": 2'],
    "rdma_record": ['"changed": true', '"changed": true'],
}


def examples_of(module: str) -> list[dict[str, Any]]:
    plugin = importlib.import_module(f"ansible_collections.rdma.fabric.plugins.modules.{module}")
    tasks: list[dict[str, Any]] = yaml.safe_load(plugin.EXAMPLES)
    return tasks


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_the_module_run(module: str, tmp_path: Path) -> None:
    """In check mode, so that this machine stays as it is."""
    (tmp_path / "recordings").mkdir()
    for recording in RECORDINGS.glob("*.json.gz"):
        shutil.copy(recording, tmp_path / "recordings")
    play = {"name": "Run", "hosts": "localhost", "gather_facts": False, "tasks": examples_of(module)}
    # Steps about devices that this machine does not have are refused, which would end a strict run.
    play["module_defaults"] = {"rdma.fabric.rdma_host": {"strict": False}}
    results = guides.results_of(yaml.safe_dump([play]), tmp_path, "--check", "--diff")
    assert len(results) == len(SHOWN[module])
    for result, word in zip(results, SHOWN[module]):
        assert word in json.dumps(result), (word, result)


def test_what_guides_ask_for_in_variables_is_accepted() -> None:
    found = 0
    for path in sorted((CHECKOUT / "docs").glob("*.md")):
        # Those that Ansible computes are run in test_rails.
        texts = [text for text in guides.blocks_of(path.read_text(encoding="utf-8")) if "{{" not in text]
        for block in (document for text in texts for document in yaml.safe_load_all(text)):
            if isinstance(block, dict) and any(str(key).startswith("rdma_fabric_") for key in block):
                _desired, violations, _notices = parse_host_variables("gpu01", block)
                assert violations == [], path.name
                found += 1
    assert found >= 4
