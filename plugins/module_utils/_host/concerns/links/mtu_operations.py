# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How one interface gets its MTU, and whether it has it."""

from __future__ import annotations

from ...engine.operations import Run
from ...machine.access import Host


def set_mtu(name: str, mtu: int) -> Run:
    """Return how an interface gets its MTU."""
    return Run(("ip", "link", "set", "dev", name, "mtu", str(mtu)))


def differs(host: Host, name: str, wanted: int) -> str:
    """Return what is wrong with the MTU of an interface, empty when it is the wanted one."""
    now = host.read(f"/sys/class/net/{name}/mtu").strip()
    return "" if now == str(wanted) else f"{name} has an MTU of {now}, not {wanted}"
