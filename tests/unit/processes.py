# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that tests start: whether one still runs, however busy the machine is."""

from __future__ import annotations

import time
from pathlib import Path

# Shorter than what tests start to be ended would last.
PATIENCE = 30.0


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:  # also when it ends between open and read
        return False


def is_gone(pid: int) -> bool:
    """Tell whether a process has ended, once it had time to."""
    deadline = time.monotonic() + PATIENCE
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_alive(pid)
