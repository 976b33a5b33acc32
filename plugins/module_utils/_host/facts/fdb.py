# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads for whom else ports take frames: what pods have on them is not seen from here, its address is.

A macvlan has its port take its address (macvlan_open, drivers/net/macvlan.c), through VLANs as well, in whatever
network namespace it is.
"""

from __future__ import annotations

import re
from typing import Iterable

from ..machine.probe import Probe, objects, parsed
from .shapes import ReadNetdev

FILTERS = ("bridge", "-json", "fdb", "show")
# An address of one station: the lowest bit of its first octet is not set.
_UNICAST = re.compile(r"[0-9a-f][02468ace](:[0-9a-f]{2}){5}")
_MOST = 3


def stations_of_others(probe: Probe, ports: Iterable[str], netdevs: Iterable[ReadNetdev]) -> dict[str, str]:
    """Return the addresses in the filters of Ethernet ports that no interface here has, in words, by the port."""
    known = list(netdevs)
    own = {netdev["mac"] for netdev in known}
    ethernet = {netdev["name"] for netdev in known if netdev["link_type"] == "ether"}.intersection(ports)
    found: dict[str, list[str]] = {}
    for entry in objects(parsed(probe.output(*FILTERS))) if ethernet else []:
        port, address = str(entry.get("ifname")), str(entry.get("mac"))
        if port in ethernet and address not in own and _UNICAST.fullmatch(address):
            found.setdefault(port, []).append(address)
    return {port: _listed(addresses) for port, addresses in found.items()}


def _listed(addresses: list[str]) -> str:
    more = f" and {len(addresses) - _MOST} more" if len(addresses) > _MOST else ""
    return ", ".join(addresses[:_MOST]) + more
