# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The YAML that guides show, and ansible-playbook run on it as a user would, in an environment of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from ansible_collections.rdma.fabric.tests.integration.playbooks import LEAN
from tools.checkout import CHECKOUT, COLLECTIONS, PROGRAMS

SECONDS = 300
ON_THIS_MACHINE = ("-c", "local", "-e", f"ansible_python_interpreter={PROGRAMS / 'python'}")
AS_JSON = {"ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json"}


def guide(name: str) -> str:
    """Return a guide's text."""
    return (CHECKOUT / "docs" / name).read_text(encoding="utf-8")


def blocks_of(text: str) -> list[str]:
    """Return the YAML blocks of a guide's text, as they are printed."""
    return re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run(playbook: str, folder: Path, *arguments: str, **environment: str) -> str:
    """Run a playbook (its text) in ``folder``, which is also its home; return what it printed. It has to succeed."""
    (folder / "playbook.yml").write_text(playbook, encoding="utf-8")
    done = subprocess.run(
        [str(PROGRAMS / "ansible-playbook"), "playbook.yml", "-i", "localhost,", *arguments],
        cwd=folder,
        env={
            "PATH": f"{PROGRAMS}{os.pathsep}{os.defpath}",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            **LEAN,
            **environment,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout


def results_of(playbook: str, folder: Path, *arguments: str, **environment: str) -> list[dict[str, Any]]:
    """Run a playbook of one play on this machine; return the result of each task."""
    printed = run(playbook, folder, *ON_THIS_MACHINE, *arguments, **AS_JSON, **environment)
    (play,) = json.loads("{" + f"\n{printed}".split("\n{\n", 1)[1])["plays"]
    return [task["hosts"]["localhost"] for task in play["tasks"]]
