# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make preview``: the recorded fleet validated, planned, rendered and reported, without a cluster."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tools.artifact import build_and_install
from tools.checkout import BUILD, PROGRAMS, own_environment
from tools.ending import to_its_end
from tools.fleet import INVENTORY
from tools.playbook import PlaybookRun, run_playbook

RUN = "run"


def preview_fleet(folder: Path, collections: Path, *, programs: Path = PROGRAMS) -> PlaybookRun:
    """Preview the recorded fleet into the run directory ``run`` of a folder, which is made anew.

    ``collections`` has this one; ``programs`` are as for ``run_playbook``.
    """
    run_dir = folder / RUN
    # What can't be removed is not writable either, which the playbook refuses by name.
    shutil.rmtree(run_dir, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    variables, environment = {"rdma_fabric_run_dir": str(run_dir)}, own_environment(collections)
    return run_playbook("rdma.fabric.preview", INVENTORY, variables, environment, folder, programs=programs)


def main() -> int:
    """Run the preview; return the exit status."""
    _artifact, collections = build_and_install()
    run = preview_fleet(BUILD / "preview", collections)
    if run.status == 0:
        hosts = len(run.changed) - 1
        print(f"{hosts} recorded hosts previewed in {run.seconds:.0f} s; look at the report, then: make demo")
    return run.status


if __name__ == "__main__":
    sys.exit(to_its_end(main))
