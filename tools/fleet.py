# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recorded fleet of this checkout: the nodes of its hosts, and ``make preview``, which needs no cluster.

``python -m tools.fleet`` has it validated, planned, rendered and reported.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from tests.lab.nodes import kwok_node
from tools.artifact import build_and_install
from tools.checkout import BUILD, CHECKOUT, PROGRAMS, own_environment
from tools.ending import to_its_end
from tools.playbook import PlaybookRun, run_playbook

INVENTORY = CHECKOUT / "inventories" / "recorded" / "hosts.yml"
RECORDINGS = INVENTORY.parent / "recordings"
SUFFIX = ".json.gz"
RUN = "run"


def fleet_nodes(collections: Path) -> list[dict[str, Any]]:
    """Return the node of every recorded host in the lab's cluster.

    The labels are those that Node Feature Discovery and the kubelet would set, taken from the host's recorded facts:
    KWOK nodes run neither. ``collections`` is where the collection that reads the recordings is installed.
    """
    sys.path.insert(0, str(collections))
    from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather  # noqa: PLC0415 - just installed
    from ansible_collections.rdma.fabric.plugins.module_utils._host.recording import recorded  # noqa: PLC0415

    nodes = []
    for path in sorted(RECORDINGS.glob(f"*{SUFFIX}")):
        facts = gather(recorded.RecordedHost(recorded.load_recording(path.read_bytes())))
        nodes.append(kwok_node(path.name.removesuffix(SUFFIX), facts["labels"]))
    return nodes


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
