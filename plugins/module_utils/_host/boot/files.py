# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every file that keeps settings over a reboot: those of the interfaces' managers, the boot unit's. Pure. Private."""

from __future__ import annotations

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.program import program_path
from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.unit import UNIT_FILE, WISHES_FILE, unit_text
from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.wishes import wishes, wishes_text
from ansible_collections.rdma.fabric.plugins.module_utils._host.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.managers.files import files
from ansible_collections.rdma.fabric.plugins.module_utils._host.managers.plan import persistence
from ansible_collections.rdma.fabric.plugins.module_utils._host.managers.routing import kept_routes
from ansible_collections.rdma.fabric.plugins.module_utils._host.pcie.plan import lasting


def boot_files(context: Context) -> dict[str, str]:
    """Return the text of every file by path; the program is not among them, its name tells its content."""
    return {**manager_files(context), **unit_files(context)}


def manager_files(context: Context) -> dict[str, str]:
    """Return the files that managers of interfaces read."""
    return {} if context.removing else files(persistence(context), kept_routes(context))


def unit_files(context: Context) -> dict[str, str]:
    """Return the boot unit and its wishes, none when nothing is left to it."""
    found = [] if context.removing else wishes(context)
    pcie = lasting(context)
    if not found and not pcie:
        return {}
    return {WISHES_FILE: wishes_text(found, pcie), UNIT_FILE: unit_text(python_of(context), program_path())}


def python_of(context: Context) -> str:
    """Return the interpreter of the boot unit; a recording made before there was one has the usual place."""
    return str(context.actual.facts.get("boot", {}).get("python") or "/usr/bin/python3")
