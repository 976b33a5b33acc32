# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every playbook first looks whether it has what it was asked for: its inventory, its hosts, all of its tasks.

Ansible skips plays without hosts and tasks without the given tags, and ends well. What is looked at is tested with the
actions (tests/unit/plugin_utils/test_run_input.py), and each file here by one playbook in the integration tests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from ansible_collections.rdma.fabric.tests.unit.rules import none_of

PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"
LOOKS = {"parts/preflight.yml", "parts/find.yml"}
# It goes on with an input that is not valid, so it has the plays of parts/preflight.yml with a rescue.
OWN = "support"


def plays_of(path: Path) -> list[dict[str, Any]]:
    plays: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return plays


def test_every_playbook_begins_with_a_look_at_what_it_was_given() -> None:
    found = {path.stem: plays_of(path)[0].get("ansible.builtin.import_playbook") for path in PLAYBOOKS.glob("*.yml")}
    assert found.pop(OWN) is None and len(found) > 10
    none_of(f"{name} begins with {first}" for name, first in found.items() if first not in LOOKS)


def test_every_look_rejects_tags_and_prints_the_result_of_a_run_that_ends_with_it() -> None:
    for name in (*sorted(LOOKS), f"{OWN}.yml"):
        (look,) = plays_of(PLAYBOOKS / name)[0]["tasks"]
        tags = look["block"][-1]["ansible.builtin.import_tasks"]
        assert tags.endswith("tasks/tags.yml"), name
        (said,) = look["always"]
        assert (said["rdma.fabric.fabric_result"]["kind"], said["tags"]) == ("input", "always"), name
