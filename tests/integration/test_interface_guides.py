# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks of the guides on names and virtual functions, run as they are printed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.tests.integration import guides
from tools.checkout import CHECKOUT

RECORDING = CHECKOUT / "inventories" / "recorded" / "recordings" / "roce-h100-01.json.gz"
SHOWN = {
    "guide-naming.md": ["rename enp24s0np0 to rail0", "rename enp64s0np0 to rail1"],
    "guide-vfs.md": [
        "create 4 virtual functions (now 0)",
        "set mac, trust, spoofchk of virtual functions 0 to 3",
        "set the MTU to 9000 (now 1500)",
        "set the MTU of its 4 new virtual functions to 9000",
    ],
}


def run(guide: str, folder: Path) -> list[dict[str, Any]]:
    """Run the guide's one playbook and return the result of each task."""
    (playbook,) = guides.blocks_of(guides.guide(guide))
    shutil.copy(RECORDING, folder)
    return guides.results_of(playbook, folder)


@pytest.mark.parametrize("guide", SHOWN)
def test_the_playbook_of_the_guide_shows_what_the_guide_says(guide: str, tmp_path: Path) -> None:
    shown = run(guide, tmp_path)[-1]["msg"]
    assert [action for action in shown if "boot unit" not in action and "keep" not in action][
        : len(SHOWN[guide])
    ] == SHOWN[guide]
