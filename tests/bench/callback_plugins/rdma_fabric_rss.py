# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps how large the main process of a playbook run became, for the benchmark of scale."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: rdma_fabric_rss
type: aggregate
short_description: Keeps the largest resident memory of the main process
description:
  - Writes it, in KiB, to the file that the environment variable E(RDMA_FABRIC_RSS) names. Workers are not in it.
author:
  - The rdma.fabric contributors
"""


class CallbackModule(CallbackBase):
    """Writes the number when the run ends."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "rdma_fabric_rss"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Write it."""
        kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        Path(os.environ["RDMA_FABRIC_RSS"]).write_text(f"{kib}\n", encoding="ascii")
