# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the largest MTU that a driver takes, of interfaces whose MTU the spec changes.

Only netlink reports it (IFLA_MAX_MTU, since Linux 4.19); 0 is no limit (dev_validate_mtu, net/core/dev.c).
"""

from __future__ import annotations

from typing import Iterable

from ..machine.probe import Probe
from .functions import shown_port
from .host_state import Interface
from .shapes import ReadNetdev


def details_command(name: str) -> tuple[str, ...]:
    """Return the command that prints an interface with the limit of its driver."""
    return ("ip", "-json", "-details", "link", "show", "dev", name)


def read_max_mtus(probe: Probe, interfaces: Iterable[Interface], netdevs: Iterable[ReadNetdev]) -> None:
    """Add the limit to interfaces whose MTU is to change, and to the members of a bond among them."""
    ports = [(each.netdev, each.wanted["mtu"]) for each in interfaces if each.netdev is not None]
    changing = {netdev["name"] for netdev, wanted in ports if wanted not in (None, netdev["mtu"])}
    names = [each["name"] for each in netdevs if changing.intersection((each["name"], each["master"]))]
    known = {name: shown_port(probe.json(*details_command(name)) or "")[0].get("max_mtu") for name in names}
    for netdev in (*netdevs, *(port for port, _wanted in ports)):
        most = known.get(netdev["name"])
        if isinstance(most, int) and most > 0:
            netdev["max_mtu"] = most
