# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse the settings of the vendor's driver service. Pure.

openibd is a shell script that sources its file. Without ``ONBOOT=yes`` it loads nothing at boot. Without
``ALLOW_STOP=yes``, which is the default, stopping it fails unless ``FORCE_MODE=yes`` is set, as on hosts whose root
file system depends on the driver. With ``RUN_SYSCTL=yes`` its start sets sysctls of its own (wjz304/mlnx-ofed-kernel,
ofed_scripts/openibd and openib.conf at 56bfb0f).
"""

from __future__ import annotations

import re

from .driver_shapes import Openib

FILE = "/etc/infiniband/openib.conf"
SYSCTL_SCRIPT = "/sbin/sysctl_perf_tuning"
_ASSIGNMENT = re.compile(
    r"^[ \t]*(?:export[ \t]+)?(ONBOOT|ALLOW_STOP|FORCE_MODE|RUN_SYSCTL)=([\"']?)(\w{0,16})\2", re.MULTILINE
)
_WRITTEN = re.compile(r"sysctl .*-w ([\w./-]+)=[\"']?([^\"'\n]+)")

UNREAD: Openib = {"onboot": None, "may_stop": None}


def parse(text: str | None) -> Openib:
    """Return the settings in the service's file; the last of several assignments wins."""
    if text is None:
        return {**UNREAD}
    values = {name: value for name, _quote, value in _ASSIGNMENT.findall(text)}
    may_stop = values.get("ALLOW_STOP", "") in ("", "yes") or values.get("FORCE_MODE") == "yes"
    return {"onboot": values.get("ONBOOT") == "yes", "may_stop": may_stop}


def runs_sysctl_script(text: str) -> bool:
    """Return whether the service's start runs its script for sysctls."""
    return {name: value for name, _quote, value in _ASSIGNMENT.findall(text)}.get("RUN_SYSCTL") == "yes"


def written_sysctls(script: str) -> list[tuple[str, str]]:
    """Return the names and values that the service's script for sysctls sets (mlnx-tools, sysctl_perf_tuning)."""
    return _WRITTEN.findall(script)


def public_part(text: str) -> str:
    """Return the part of the file that may be recorded; the rest may include addresses of ports."""
    return "".join(f"{name}={value}\n" for name, _quote, value in _ASSIGNMENT.findall(text))
