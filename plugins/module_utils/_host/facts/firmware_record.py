# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remembers until the next boot which firmware values were set since this one. Pure."""

from __future__ import annotations

from typing import Dict, Mapping

from ..machine.state_file import BrokenState, StateFile

# The next start of the host takes the file away.
SET_SINCE_BOOT = "/run/rdma-fabric/firmware"
FILE = StateFile(
    SET_SINCE_BOOT,
    "the firmware values that were set since this boot",
    "reboot the host, or remove the file to take the values that the cards show for those of the next boot",
)

# Device -> parameter -> value.
Record = Dict[str, Dict[str, str]]


def record_text(record: Mapping[str, Mapping[str, str]]) -> str:
    """Return the file that tells until the next boot which values were set since this one."""
    return FILE.text({"set": record})


def record_of(text: str | None) -> Record:
    """Return what such a file tells, nothing where there is none or it is broken."""
    try:
        found = FILE.parse(text or "").get("set")
    except BrokenState:
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(device): dict(values) for device, values in found.items() if isinstance(values, dict)}
