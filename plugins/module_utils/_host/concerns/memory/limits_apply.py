# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes limits of logins and services and lets systemd read them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Mapping

from ...engine.context import Context
from ...engine.operations import RELOAD_UNITS, Operation, Work
from ...engine.steps import Step, key_of
from ...facts.limits import SHOW_DEFAULTS, parse_defaults
from ...machine.access import Host
from .limits_files import boot_files, found, wanted_limits
from .limits_plan import RELOAD

_SHOW_SECONDS = 10.0
ERRORS = MappingProxyType(
    {"ENOENT": "systemctl is missing though systemd runs the host; next: install systemd's package again"}
)


def work(context: Context, step: Step) -> Work:
    """Return how one file is written or removed, or how systemd is told."""
    key = key_of(step)
    if key == RELOAD:
        wanted = wanted_limits(context)
        return Work([RELOAD_UNITS], verify=lambda host: _problem(host, wanted))
    reload: list[Operation] = [RELOAD_UNITS] if found(context)["systemd"] else []
    wanted_files = {} if context.removing else boot_files(context)
    if key not in wanted_files:
        return context.work_of_removal(key, reload)
    return context.work_of_files({key: wanted_files[key]})


def _problem(host: Host, wanted: Mapping[str, object]) -> str:
    result = host.run(SHOW_DEFAULTS, _SHOW_SECONDS)
    now = parse_defaults(result.stdout)
    other = [f"{key} is {now[key]}, not {value}" for key, value in wanted.items() if now[key] not in (None, value)]
    if not other:
        return ""
    return f"{', '.join(other)}; next: look for a later file in /etc/systemd/system.conf.d that sets it, and run again"
