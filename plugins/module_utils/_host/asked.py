# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the ports that a wish is about before a plan is made. Pure. Private to this collection: it may change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.actual import Actual, Netdev, Nic
from ansible_collections.rdma.fabric.plugins.module_utils._host.context import Interface
from ansible_collections.rdma.fabric.plugins.module_utils._host.matching import match_interfaces
from ansible_collections.rdma.fabric.plugins.module_utils._host.qos.wish import asked


def ports_asked_for(desired: Mapping[str, Any], nics: Sequence[Nic], netdevs: Sequence[Netdev]) -> list[Interface]:
    """Return the physical functions of NVIDIA cards that ``desired`` has an entry for, in order of their addresses.

    ``nics`` and ``netdevs`` are in the shape of the facts, which need not be complete.
    """
    wanted = desired.get("interfaces") or ()
    if not wanted:
        return []
    actual = Actual({"nics": nics, "netdevs": netdevs, "modules": {}, "stack": {}, "uplinks": []})
    interfaces, _unmatched = match_interfaces(wanted, actual)
    cards = {nic["address"] for nic in actual.nvidia_nics() if nic["function"] == "pf"}
    ports = [interface for interface in interfaces if interface.key in cards]
    # What is asked of all interfaces at once is asked of each.
    return [replace(port, wanted={**port.wanted, "qos": asked(desired, port) or None}) for port in ports]
