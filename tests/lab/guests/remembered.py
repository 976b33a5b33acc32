# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was tried of this machine, kept in files until it restarts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def recall(place: Path) -> dict[str, Any]:
    """Return what a file keeps, nothing where it is of another start of this machine, or cut."""
    try:
        known: Any = json.loads(place.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return known if isinstance(known, dict) and known.get("boot") == _boot() else {}


def remember(place: Path, **known: Any) -> dict[str, Any]:
    """Keep and return what is known."""
    place.write_text(json.dumps({"boot": _boot(), **known}), encoding="utf-8")
    return known


def _boot() -> str:
    return BOOT_ID.read_text(encoding="ascii").strip()
