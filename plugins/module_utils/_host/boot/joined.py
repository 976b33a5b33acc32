# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes from a host once its node has joined: the unit that an image or a first-boot step has brought."""

from __future__ import annotations

from typing import Any

from ..engine.failures import explain
from ..machine.access import HostError, Machine
from ..machine.host_files import JOIN_ENABLED_BY, JOIN_UNIT_FILE


def remove_join_unit(machine: Machine, *, check: bool) -> dict[str, Any]:
    """Remove the unit and what starts it at boot, that first; return the result of a module."""
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
    """Return whether there is a file or a link, which may lead nowhere."""
    try:
        machine.link(path)
    except HostError:
        return machine.exists(path)
    return True
