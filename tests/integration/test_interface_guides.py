# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks of the guides on names and virtual functions, run as they are printed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tools.checkout import CHECKOUT, COLLECTIONS, PROGRAMS

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
    text = (CHECKOUT / "docs" / guide).read_text(encoding="utf-8")
    (playbook,) = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (folder / "playbook.yml").write_text(playbook, encoding="utf-8")
    shutil.copy(RECORDING, folder)
    environment = {
        "PATH": f"{PROGRAMS}{os.pathsep}{os.defpath}",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
    }
    argv = [str(PROGRAMS / "ansible-playbook"), "playbook.yml", "-i", "localhost,", "-c", "local"]
    argv += ["-e", f"ansible_python_interpreter={PROGRAMS / 'python'}"]
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (play,) = json.loads(done.stdout[done.stdout.index("{") :])["plays"]
    return [task["hosts"]["localhost"] for task in play["tasks"]]


@pytest.mark.parametrize("guide", SHOWN)
def test_the_playbook_of_the_guide_shows_what_the_guide_says(guide: str, tmp_path: Path) -> None:
    shown = run(guide, tmp_path)[-1]["msg"]
    assert [action for action in shown if "boot unit" not in action and "keep" not in action][
        : len(SHOWN[guide])
    ] == SHOWN[guide]
