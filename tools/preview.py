# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make preview``: the recorded fleet validated, planned, rendered and reported, without a cluster."""

from __future__ import annotations

import shutil
import sys
import time

from tools.artifact import build_and_install
from tools.checkout import BUILD, own_environment
from tools.ending import to_its_end
from tools.fleet import INVENTORY
from tools.last_block import last_block
from tools.playbook import run_playbook

NEXT = "look at the report, then: make demo"


def main() -> int:
    """Run the preview; return the exit status."""
    start = time.monotonic()
    folder = BUILD / "preview"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _artifact, collections = build_and_install()
    variables = {"rdma_fabric_run_dir": str(folder / "run")}
    run = run_playbook("rdma.fabric.preview", INVENTORY, variables, own_environment(collections), folder, ending=False)
    if run.status == 0:
        counts = f"{len(run.changed) - 1} recorded hosts previewed in {time.monotonic() - start:.0f} s"
        print("\n".join(last_block(collections, folder / "run", counts, NEXT)))
    return run.status


if __name__ == "__main__":
    sys.exit(to_its_end(main))
