# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make molecule``: the molecule scenario on the recorded fleet and a real API server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from tools.artifact import build_and_install
from tools.checkout import BUILD, CHECKOUT, PROGRAMS, own_environment
from tools.fleet import write_nodes

FOLDER = BUILD / "molecule"


def main() -> int:
    """Run ``molecule test`` on a control plane of its own; return the exit status."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    _artifact, collections = build_and_install()
    nodes = FOLDER / "nodes.json"
    write_nodes(nodes, collections)
    environment = {
        **own_environment(collections),
        "NO_COLOR": "1",
        "HOME": os.environ.get("HOME", str(BUILD / "home")),
        "MOLECULE_EPHEMERAL_DIRECTORY": str(FOLDER / "ephemeral"),
    }
    lab = [sys.executable, "-m", "tests.lab", "up", "--dir", str(FOLDER / "cluster"), "--nodes", str(nodes), "--"]
    molecule = [str(PROGRAMS / "molecule"), "test", "--scenario-name", "default"]
    return subprocess.run([*lab, *molecule], cwd=CHECKOUT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
