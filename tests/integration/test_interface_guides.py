# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks of the guides on names, VFs and RoCE QoS, run as they are printed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.tests.integration import guides
from tools.checkout import CHECKOUT

RECORDED = CHECKOUT / "inventories" / "recorded" / "recordings"
RECORDINGS = [RECORDED / f"{name}.json.gz" for name in ("roce-h100-01", "dgx-h100-01")]
# What each playbook of a guide shows at the end, steps about files of the next boot left aside.
SHOWN = {
    "guide-naming.md": [
        ["rename enp24s0np0 to rail0", "rename enp64s0np0 to rail1"],
        [
            "name its representors rail0_0 and so on whenever they are made",
            "rename enp24s0np0 to rail0",
            "create 2 VFs (now 0)",
            "set the e-switch to switchdev mode (now legacy)",
        ],
    ],
    "guide-vfs.md": [
        [
            "create 4 VFs (now 0)",
            "set mac, trust, spoofchk of VFs 0 to 3",
            "set the MTU to 9000 (now 1500)",
            "set the MTU of its new VFs 0 to 3 to 9000",
        ],
        ["create 2 VFs (now 0)", "set the e-switch to switchdev mode (now legacy)"],
        ["create 4 VFs (now 0)", "set the GUIDs of VFs 0 to 3"],
        [
            "create 2 VFs (now 0)",
            "set mac of VFs 0 to 1",
            "bind VFs 0 to 1 to vfio-pci",
        ],
        ["set NUM_OF_VFS=32 (now 16) in its firmware for the next boot"],
    ],
    "guide-roce-qos.md": [
        [
            "set the owner of DCBX to os (now firmware)",
            "set global pause to rx off tx off (now rx on tx on)",
            "set trust to dscp (now pcp)",
            "set priority flow control to 3 (now off)",
            "set the ToS of RDMA-CM to 106 (now the kernel's own)",
        ],
        [
            "set global pause to rx off tx off (now rx on tx on)",
            "set trust to dscp (now pcp)",
            "set priorities of DSCPs to 0-7 -> 0, 8-15 -> 1, 16-23 -> 2, 24-31 -> 3, 32-39 -> 4, 40-47 -> 5, 48 -> 7, "
            "49-55 -> 6, 56-63 -> 7 (now 0-7 -> 0, 8-15 -> 1, 16-23 -> 2, 24-31 -> 3, 32-39 -> 4, 40-47 -> 5, "
            "48-55 -> 6, 56-63 -> 7)",
            "set priority flow control to 3 (now off)",
            "set ECN to rp 1 2 3 4 5 6 7, np 1 2 3 4 5 6 7 (now rp 0 1 2 3 4 5 6 7, np 0 1 2 3 4 5 6 7)",
            "set the priority of congestion notifications to 7 (now 6)",
            "set the traffic class of all queue pairs to 106 (now none)",
        ],
    ],
}
PLAYBOOKS = [(guide, number) for guide, shown in SHOWN.items() for number in range(len(shown))]


def playbooks_of(guide: str) -> list[str]:
    return [block for block in guides.blocks_of(guides.guide(guide)) if block.startswith("- name:")]


@pytest.mark.parametrize("guide", SHOWN)
def test_every_playbook_of_the_guide_is_run(guide: str) -> None:
    assert len(playbooks_of(guide)) == len(SHOWN[guide])


@pytest.mark.parametrize(("guide", "number"), PLAYBOOKS)
def test_the_playbook_of_the_guide_shows_what_the_guide_says(guide: str, number: int, tmp_path: Path) -> None:
    for recording in RECORDINGS:
        shutil.copy(recording, tmp_path)
    shown = guides.results_of(playbooks_of(guide)[number], tmp_path)[-1]["msg"]
    wanted = SHOWN[guide][number]
    assert [action for action in shown if "boot unit" not in action and "keep" not in action][: len(wanted)] == wanted
