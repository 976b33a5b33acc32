# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the virtual functions that a wish would destroy or bind again. Pure."""

from __future__ import annotations

from typing import Iterable

from ..spec.functions import VFIO
from .eswitch import present_mode
from .host_state import HostState, settings_of
from .interfaces import Interface
from .netdev import permanent_mac
from .shapes import Nic
from .users import USER_SPACE_DRIVERS
from .vf_guids import device_guid, has_guid, port_guid, wanted_guid
from .vf_settings import BEFORE, differences, former_settings, wanted_settings


def renewed_functions(interfaces: Iterable[Interface], actual: HostState) -> list[Nic]:
    """Return the virtual functions whose users have to be known before a plan is made, in the shape of the facts.

    Of the facts in ``actual`` those of devices, e-switches and GUIDs count. To look for users takes its time, so a
    host that is as it shall be has none of these functions.
    """
    return [function for interface in interfaces for function in _renewed(actual, interface)]


def _renewed(actual: HostState, interface: Interface) -> list[Nic]:
    nic = interface.nic
    enabled = interface.functions
    if nic is None or not enabled:
        return []
    functions = actual.vfs_of(nic)
    mode = interface.wanted["eswitch_mode"]
    if interface.wanted["vfs"] not in (None, enabled) or mode not in (None, present_mode(actual, interface)):
        return functions
    before = interface.wanted.get(BEFORE)
    mac = permanent_mac(interface.netdev) if interface.netdev is not None else None
    given, count = interface.wanted["vf_settings"], len(functions)
    wanted = wanted_settings(given, mac, count) if before is None else former_settings(before, count)
    changes = differences(wanted, settings_of(nic))
    own = port_guid(actual, nic, interface.netdev)
    return [
        function
        for number, function in enumerate(functions)
        if "mac" in changes.get(number, {})
        or (number in changes and function["driver"] in USER_SPACE_DRIVERS)
        or _has_another_driver(function, interface.wanted["vf_driver"])
        or _has_another_guid(actual, interface, function, number, own)
    ]


def _has_another_driver(function: Nic, wanted: str | None) -> bool:
    if wanted is None:
        return False
    return bool(function["driver"] != VFIO if wanted == VFIO else function["driver"] in USER_SPACE_DRIVERS)


def _has_another_guid(actual: HostState, interface: Interface, function: Nic, number: int, own: str | None) -> bool:
    guids = interface.wanted["vf_guids"]
    if not guids:
        return False
    read = actual.facts["guids"].get(interface.key)
    now = read["functions"][number] if read is not None and number < len(read["functions"]) else None
    return not has_guid(now, device_guid(actual, function), wanted_guid(guids, number, own))
