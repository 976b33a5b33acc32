# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recorded fleet of this checkout as nodes of the lab's cluster."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tools.checkout import CHECKOUT

INVENTORY = CHECKOUT / "inventories" / "recorded" / "hosts.yml"
RECORDINGS = INVENTORY.parent / "recordings"
SUFFIX = ".json.gz"


def fleet_nodes(collections: Path) -> list[dict[str, Any]]:
    """Return ``[{"name", "labels"}]`` of every recorded host.

    The labels are those that Node Feature Discovery and the kubelet would set, taken from the host's recorded facts:
    KWOK nodes run neither. ``collections`` is where the collection that reads the recordings is installed.
    """
    sys.path.insert(0, str(collections))
    from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather  # noqa: PLC0415 - just installed
    from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import (  # noqa: PLC0415
        RecordedHost,
        load_recording,
    )

    nodes = []
    for path in sorted(RECORDINGS.glob(f"*{SUFFIX}")):
        facts = gather(RecordedHost(load_recording(path.read_bytes())))
        nodes.append({"name": path.name.removesuffix(SUFFIX), "labels": facts["labels"]})
    return nodes


def write_nodes(path: Path, collections: Path) -> int:
    """Write the fleet as the lab reads it; return how many nodes there are."""
    nodes = fleet_nodes(collections)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(nodes, indent=1) + "\n", encoding="utf-8")
    return len(nodes)
