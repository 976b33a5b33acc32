# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stops a playbook run where a step of it has ended, so that a test can kill it there."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: rdma_fabric_stop
type: aggregate
short_description: Stops a run at the end of a step
description:
  - Writes host and name of each task that was run to the file that the environment variable E(RDMA_FABRIC_STEPS) names.
  - The process stops itself after as many of them as E(RDMA_FABRIC_STOP_AT) says; never for 0.
author:
  - The rdma.fabric contributors
"""


class CallbackModule(CallbackBase):
    """Counts the results of tasks; those that were skipped have done nothing."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "rdma_fabric_stop"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def step(self, result: Any) -> None:
        """Write down one step, and stop if it is the one."""
        # Before ansible-core 2.19 both were private.
        task = result.task if hasattr(result, "task") else result._task
        host = result.host if hasattr(result, "host") else result._host
        with Path(os.environ["RDMA_FABRIC_STEPS"]).open("a", encoding="utf-8") as steps:
            steps.write(f"{host.get_name()}: {task.get_name()}\n")
        self.seen += 1
        if self.seen == int(os.environ["RDMA_FABRIC_STOP_AT"]):
            os.kill(os.getpid(), signal.SIGSTOP)

    def v2_runner_on_ok(self, result: Any) -> None:
        """Count a task that ran."""
        self.step(result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Count a task that failed."""
        self.step(result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Count a host that could not be reached."""
        self.step(result)
