# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what the active profiles of TuneD set at each start of it: tuned-main.conf(5), tuned-profiles(7).

By default TuneD applies /run/sysctl.d, /etc/sysctl.d and /etc/sysctl.conf again after its own [sysctl], so ours holds;
with ``reapply_sysctl = 0`` its values do (redhat-performance/tuned, tuned/plugins/plugin_sysctl.py).
"""

from __future__ import annotations

import posixpath
import re
from typing import Iterator

from ..machine.probe import Probe
from .managers import ini

_ENABLED = "/etc/systemd/system/multi-user.target.wants/tuned.service"
_PROFILES = ("/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned")
# How deep profiles include others at most.
_DEEPEST = 8
_OPEN = re.compile(r"^[<>]|\$")
_OFF = ("0", "false", "no", "off")


def read_tuned(probe: Probe, wanted: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield for each section of the type ``wanted`` its file and settings, those of included profiles first.

    Values with variables and functions of TuneD are empty, and those that are only a bound (``>1``).
    """
    if not probe.host.exists(_ENABLED):
        return
    for name in (probe.text("/etc/tuned/active_profile") or "").split():
        yield from _sections(probe, name, wanted, _DEEPEST)


def reapplies_sysctls(probe: Probe) -> bool:
    """Return whether TuneD sets the system's own sysctls after those of its profile."""
    found = ini.settings(probe.content("/etc/tuned/tuned-main.conf") or "")
    return (ini.last(found, "", "reapply_sysctl") or "1").lower() not in _OFF


def _sections(probe: Probe, name: str, wanted: str, depth: int) -> Iterator[tuple[str, dict[str, str]]]:
    path = probe.first(posixpath.join(place, posixpath.basename(name), "tuned.conf") for place in _PROFILES)
    if path is None or not depth:
        return
    for section, settings in ini.sections(probe.content(path) or ""):
        given = {each.key: "" if _OPEN.search(each.value) else each.value for each in settings}
        if section == "main":
            for included in given.get("include", "").replace(",", " ").split():
                yield from _sections(probe, included, wanted, depth - 1)
        elif given.get("type", section) == wanted and given.get("enabled", "1").lower() not in _OFF:
            yield path, given
