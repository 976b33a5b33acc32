# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the owner of a host lets the vendor's driver service do. Pure.

openibd is a shell script that sources its file. Without ``ONBOOT=yes`` it loads nothing at boot. Without
``ALLOW_STOP=yes``, which is the default, it ends with an error when it shall be stopped, unless ``FORCE_MODE=yes``;
whoever sets that has the root file system behind the driver (wjz304/mlnx-ofed-kernel, ofed_scripts/openibd and
openib.conf at 56bfb0f).
"""

from __future__ import annotations

import re

from ..driver_shapes import Openib

FILE = "/etc/infiniband/openib.conf"
_ASSIGNMENT = re.compile(r"^[ \t]*(?:export[ \t]+)?(ONBOOT|ALLOW_STOP|FORCE_MODE)=([\"']?)(\w{0,16})\2", re.MULTILINE)

UNREAD: Openib = {"onboot": None, "may_stop": None}


def parse(text: str | None) -> Openib:
    """Return what the service's file says; of several assignments the last counts."""
    if text is None:
        return {**UNREAD}
    values = {name: value for name, _quote, value in _ASSIGNMENT.findall(text)}
    may_stop = values.get("ALLOW_STOP", "") in ("", "yes") or values.get("FORCE_MODE") == "yes"
    return {"onboot": values.get("ONBOOT") == "yes", "may_stop": may_stop}


def public_part(text: str) -> str:
    """Return what may be kept of the file, which may have addresses of ports in it, too."""
    return "".join(f"{name}={value}\n" for name, _quote, value in _ASSIGNMENT.findall(text))
