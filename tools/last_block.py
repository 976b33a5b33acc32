# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last lines of ``make preview`` and ``make demo``: those of every playbook."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from tools.playbook import TITLE

_ENDINGS = "ansible_collections.rdma.fabric.plugins.plugin_utils._endings"
_WIDTH = 79


def last_block(collections: Path, run_dir: Path, counts: str, step: str) -> list[str]:
    """Return the block of the report in ``run_dir``: ``counts`` are added to its own, ``step`` is what comes next.

    ``collections`` is where the collection is installed that makes the block.
    """
    sys.path.insert(0, str(collections))
    endings: Any = importlib.import_module(_ENDINGS)
    page, data = run_dir / "report.html", run_dir / "report.json"
    summary = json.loads(data.read_text(encoding="utf-8"))["summary"]
    registered = {
        "outcome": summary["outcome"],
        "summary": summary,
        "report_html": str(page),
        "report_json": str(data),
    }
    ending = endings.ending_of("report", registered, endings.Run("", False))
    told = ending._replace(counts=f"{ending.counts}; {counts}", step=endings.Step(step))
    return ["", f"{TITLE} ".ljust(_WIDTH, "*"), *endings.block(endings.statistic(told, {}))]
