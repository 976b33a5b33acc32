# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts what a playbook run does, host by host, for the benchmark of ``site``."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: rdma_fabric_count
type: aggregate
short_description: Counts task results by host
description:
  - Writes a JSON object to the file that the environment variable E(RDMA_FABRIC_COUNTS) names.
  - It maps every host to the number of results by outcome and action, as C(ok rdma.fabric.rdma_host).
author:
  - The rdma.fabric contributors
"""


class CallbackModule(CallbackBase):
    """Counts results as they come and writes them when the run ends."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "rdma_fabric_count"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, Counter[str]] = {}

    def count(self, outcome: str, result: Any) -> None:
        """Count one result of one host."""
        # Before ansible-core 2.19 both were private.
        task = result.task if hasattr(result, "task") else result._task
        host = result.host if hasattr(result, "host") else result._host
        self.counts.setdefault(host.get_name(), Counter())[f"{outcome} {task.resolved_action or task.action}"] += 1

    def v2_runner_on_ok(self, result: Any) -> None:
        """Count a task that ran."""
        self.count("ok", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Count a task that failed."""
        self.count("failed", result)

    def v2_runner_on_skipped(self, result: Any) -> None:
        """Count a task that was skipped."""
        self.count("skipped", result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Count a host that could not be reached."""
        self.count("unreachable", result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Write the counts."""
        Path(os.environ["RDMA_FABRIC_COUNTS"]).write_text(json.dumps(self.counts), encoding="utf-8")
