# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the facts tell of NVLink and of GPUs in parts."""

from __future__ import annotations

from typing import TypedDict


class Service(TypedDict):
    """A unit of systemd: whether it is there, starts at boot, may not start at all, and runs (gpus.py)."""

    installed: bool
    enabled: bool
    masked: bool
    active: bool


class Nvlink(TypedDict):
    """What sets NVLink up between the GPUs of a host or a rack (gpus.py)."""

    switches: list[str]
    managers: list[str]
    service: str | None
    state: Service
    by_container: bool


class MigMode(TypedDict):
    """Whether a GPU is divided, now and after its next reset (gpus.py)."""

    current: bool
    pending: bool
