# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which calls of the role hold a host to the links that it had when the run began."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible import template
from ansible.parsing.dataloader import DataLoader

from ansible_collections.rdma.fabric.tests.unit.test_variables_read import trusted

MAIN = Path(__file__).resolve().parents[2] / "roles" / "host" / "tasks" / "main.yml"
TURN: dict[str, Any] = {"_rdma_fabric_host_turn": {"links": [{"pci": "0000:18:00.0"}]}}
HELD, FREE = TURN["_rdma_fabric_host_turn"]["links"], "__omit__"


@pytest.mark.parametrize(
    ("variables", "links"),
    [
        (TURN, HELD),
        ({**TURN, "host_state": "previous"}, HELD),
        ({**TURN, "host_state": "previous", "host_rolls_back": True}, FREE),
        ({**TURN, "host_state": "absent"}, FREE),
        ({}, FREE),
    ],
    ids=["upgrade", "rollback", "after a failure", "teardown", "outside of a turn"],
)
def test_links_are_kept_in_a_turn_unless_the_host_is_torn_down_or_rolled_back(
    variables: dict[str, Any], links: Any
) -> None:
    (task,) = yaml.safe_load(MAIN.read_text(encoding="utf-8"))
    text = trusted(task["rdma.fabric.rdma_host"]["links"])
    templar = template.Templar(loader=DataLoader(), variables={**variables, "omit": "__omit__"})
    assert templar.template(text) == links
