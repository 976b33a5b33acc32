# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of ours about kernel modules."""

from __future__ import annotations

from typing import Iterable

from ...engine.context import Context
from ...machine.paths import MARKER

# Read by systemd-modules-load.service: one name a line, # and ; start comments (modules-load.d(5)).
LOAD_FILE = "/etc/modules-load.d/rdma-fabric.conf"


def kernel_name(name: str) -> str:
    """Return the name as ``/proc/modules`` writes it: modprobe takes - and _ for the same."""
    return name.replace("-", "_")


def wanted_modules(context: Context) -> list[str]:
    """Return the names of the modules that are to be loaded at every boot; what the kernel has built in is left out.

    So is a name that the kernel has no module of, unless the host's own file lists it: another kernel had it.
    """
    listed = listed_modules(context)
    wanted = {kernel_name(name) for name in context.desired["kernel_modules"]} - set(missing_modules(context))
    wanted |= {name for name in missing_modules(context) if name in listed}
    modules = context.actual.modules
    return sorted(name for name in wanted if name not in modules or not modules[name]["builtin"])


def missing_modules(context: Context) -> list[str]:
    """Return the wanted names that the kernel has no module of (modinfo)."""
    wanted = {kernel_name(name) for name in context.desired["kernel_modules"]}
    modules = context.actual.modules
    return sorted(name for name in wanted if name in modules and modules[name].get("missing"))


def listed_modules(context: Context) -> list[str]:
    """Return the names that the host's own file lists now."""
    lines = context.boot_files.get(LOAD_FILE, "").splitlines()
    return [kernel_name(line.strip()) for line in lines if line.strip() and not line.lstrip().startswith(("#", ";"))]


def load_file(names: Iterable[str]) -> str:
    """Return the text of the file that loads the modules at boot."""
    return "".join(f"{line}\n" for line in (f"# {MARKER}", *sorted(names)))


def boot_files(context: Context) -> dict[str, str]:
    """Return the file that loads the wanted modules, none when there are none."""
    names = wanted_modules(context)
    return {LOAD_FILE: load_file(names)} if names else {}
