# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks of the guides on drivers and GPUDirect, and the modules' examples, run in check mode."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.checkout import CHECKOUT, COLLECTIONS, PROGRAMS

GUIDES = ("guide-drivers.md", "guide-gpudirect.md")
MODULES = ("mofed_driver", "mofed_driver_info", "nv_peer_mem", "nv_peer_mem_info")


def plays_of(guide: str) -> list[dict[str, Any]]:
    """Return the playbooks of a guide; blocks that hold variables are none."""
    return [play for block in blocks_of(guide) if isinstance(block, list) for play in block]


def blocks_of(guide: str) -> list[Any]:
    text = (CHECKOUT / "docs" / guide).read_text(encoding="utf-8")
    return [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]


def run(tasks: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Run tasks on this machine in check mode; return the result of each."""
    (folder / "GPG-KEY-Mellanox.pub").write_text("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQ\n", encoding="utf-8")
    play = {"name": "Run", "hosts": "localhost", "gather_facts": False, "tasks": tasks}
    (folder / "playbook.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    environment = {
        "PATH": f"{PROGRAMS}{os.pathsep}{os.defpath}",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
    }
    python = f"ansible_python_interpreter={PROGRAMS / 'python'}"
    done = subprocess.run(
        [
            str(PROGRAMS / "ansible-playbook"),
            "playbook.yml",
            "-i",
            "localhost,",
            "-c",
            "local",
            "--check",
            "-e",
            python,
        ],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    output = json.loads("{" + f"\n{done.stdout}".split("\n{\n", 1)[1])
    return [task["hosts"]["localhost"] for task in output["plays"][0]["tasks"]]


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


def test_the_settings_of_the_guide_are_accepted() -> None:
    desired = importlib.import_module("ansible_collections.rdma.fabric.plugins.module_utils._host.desired")
    (variables,) = [block for block in blocks_of("guide-drivers.md") if isinstance(block, dict)]
    found, violations, _notices = desired.parse_host_variables("gpu01", variables)
    assert violations == []
    assert found["driver"]["source"] == "repository" and found["consents"]["driver_reload"] is True
