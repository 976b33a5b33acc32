# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our files about limits: for logins, for services, for what starts containers. Pure."""

from __future__ import annotations

from typing import Mapping

from ...engine.context import Context
from ...facts.limits import INFINITY, LIMITS
from ...facts.settings_shapes import ServiceLimits
from ...machine.paths import MANAGER_FILE, MARKER
from ...spec.memory import Limits

LOGIN_FILE = "/etc/security/limits.d/90-rdma-fabric.conf"
"""Read by PAM for every new login."""
_UNIT_FILE = "/etc/systemd/system/{unit}.d/90-rdma-fabric.conf"
_UNTOLD: ServiceLimits = {"systemd": False, "default": {}, "units": {}, "nr_open": None}


def found(context: Context) -> ServiceLimits:
    """Return what the facts tell of limits, nothing for a host that was not asked."""
    return context.actual.facts["settings"].get("limits", _UNTOLD)


def most_files(context: Context) -> int | None:
    """Return how many open files the kernel lets any process have: what is asked of fs.nr_open, else what it is now."""
    asked = context.desired["sysctls"].get("fs.nr_open", "")
    return int(asked) if asked.isdecimal() else found(context)["nr_open"]


def bearable(context: Context) -> Limits:
    """Return what is asked for without a number of files that the kernel denies: PAM would refuse every login.

    torvalds/linux, kernel/sys.c (do_prlimit): EPERM above fs.nr_open, for root as well.
    """
    asked, most = context.desired["limits"], most_files(context)
    too_many = asked["nofile"] is not None and most is not None and asked["nofile"] > most
    return {**asked, "nofile": None} if too_many else asked


def wanted_limits(context: Context) -> dict[str, int | str]:
    """Return the wanted limits in systemd's units: bytes, files, or ``infinity``."""
    asked = bearable(context)
    memlock, nofile = asked["memlock"], asked["nofile"]
    limits: dict[str, int | str] = {}
    if memlock is not None:
        limits["memlock"] = memlock * 1024 if isinstance(memlock, int) else INFINITY
    if nofile is not None:
        limits["nofile"] = nofile
    return limits


def unit_file(unit: str) -> str:
    """Return our drop-in of a unit."""
    return _UNIT_FILE.format(unit=unit)


def boot_files(context: Context) -> dict[str, str]:
    """Return our files, none when no limit is wanted."""
    wanted = wanted_limits(context)
    if not wanted:
        return {}
    files = {LOGIN_FILE: _login_text(bearable(context)), MANAGER_FILE: _text("Manager", "DefaultLimit", wanted)}
    for unit in found(context)["units"]:
        files[unit_file(unit)] = _text("Service", "Limit", wanted)
    return files


def _login_text(limits: Limits) -> str:
    """Return lines for everybody and for root, for whom the line of everybody does not count (limits.conf(5))."""
    lines = [f"{who} - {key} {value}" for key, value in limits.items() if value is not None for who in ("*", "root")]
    return "".join(f"{line}\n" for line in (f"# {MARKER}", *lines))


def _text(section: str, prefix: str, limits: Mapping[str, int | str]) -> str:
    lines = [f"{prefix}{LIMITS[key]}={value}" for key, value in limits.items()]
    return "".join(f"{line}\n" for line in (f"# {MARKER}", f"[{section}]", *lines))
