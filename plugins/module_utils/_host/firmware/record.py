# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remembers until the next boot which firmware values were set since this one. Pure. Private: it may change."""

from __future__ import annotations

import json
from typing import Dict, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.operations import MARKER

# The next start of the host takes the file away.
SET_SINCE_BOOT = "/run/rdma-fabric/firmware"

# Device -> parameter -> value.
Record = Dict[str, Dict[str, str]]


def record_text(record: Mapping[str, Mapping[str, str]]) -> str:
    """Return the file that tells until the next boot which values were set since this one."""
    return json.dumps({"managed_by": MARKER, "set": record}, indent=1, sort_keys=True) + "\n"


def record_of(text: str | None) -> Record:
    """Return what such a file tells, nothing where there is none or it is broken."""
    try:
        document = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    found = document.get("set") if isinstance(document, dict) else None
    if not isinstance(found, dict):
        return {}
    return {str(device): dict(values) for device, values in found.items() if isinstance(values, dict)}
