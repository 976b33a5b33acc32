# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Removes the join unit, which an image or first-boot step brought, once the node has joined the cluster."""

from __future__ import annotations

from typing import Any

from ..engine.failures import explain
from ..machine.access import HostError, Machine
from ..machine.host_files import JOIN_ENABLED_BY, JOIN_UNIT_FILE


def remove_join_unit(machine: Machine, *, check: bool) -> dict[str, Any]:
    """Remove the link that starts the unit at boot, then the unit; return the module's result."""
    changed = False
    for path in (JOIN_ENABLED_BY, JOIN_UNIT_FILE):
        if not _is_there(machine, path):
            continue
        changed = True
        if check:
            continue
        try:
            machine.remove(path)
        except HostError as error:
            return {"changed": False, "failed": True, "msg": explain(error, None, {})}
    return {"changed": changed}


def _is_there(machine: Machine, path: str) -> bool:
    """Return whether a file or a link, even a dangling one, exists."""
    try:
        machine.link(path)
    except HostError:
        return machine.exists(path)
    return True
