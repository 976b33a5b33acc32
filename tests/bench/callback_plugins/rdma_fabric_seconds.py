# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Notes how long each task of a playbook takes, for the benchmark of the batch apply."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: rdma_fabric_seconds
type: aggregate
short_description: Notes how long tasks take
description:
  - Writes a JSON list of C([task name, seconds]) to the file that E(RDMA_FABRIC_SECONDS) names.
author:
  - The rdma.fabric contributors
"""


class CallbackModule(CallbackBase):
    """Takes the time between a task's start and its last result."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "rdma_fabric_seconds"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self.started = 0.0
        self.seconds: list[tuple[str, float]] = []

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        """Start the clock."""
        self.started = time.monotonic()

    def v2_runner_on_ok(self, result: Any) -> None:
        """Stop the clock of a task on its only host."""
        self.seconds.append((result.task.get_name(), time.monotonic() - self.started))

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Write the times."""
        Path(os.environ["RDMA_FABRIC_SECONDS"]).write_text(json.dumps(self.seconds), encoding="utf-8")
