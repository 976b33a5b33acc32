# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the virtual functions that a wish would destroy or bind again. Pure. Private: it may change."""

from __future__ import annotations

from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.actual import Actual, Netdev, Nic
from ansible_collections.rdma.fabric.plugins.module_utils._host.context import Interface
from ansible_collections.rdma.fabric.plugins.module_utils._host.matching import match_interfaces
from ansible_collections.rdma.fabric.plugins.module_utils._host.sriov.settings import (
    differences,
    port_mac,
    wanted_settings,
)

# Wishes that may bind every function again.
_BINDING_AGAIN = ("eswitch_mode", "vf_driver", "vf_guids")


def renewed_functions(desired: Mapping[str, Any], nics: list[Nic], netdevs: list[Netdev]) -> list[Nic]:
    """Return the virtual functions whose users have to be known before a plan is made, in the shape of the facts."""
    if not any((nic["sriov"] or {}).get("enabled") for nic in nics):
        return []
    actual = Actual({"nics": nics, "netdevs": netdevs, "modules": {}, "stack": {}, "uplinks": []})
    interfaces, _unmatched = match_interfaces(desired.get("interfaces") or (), actual)
    return [function for interface in interfaces for function in _renewed(actual, interface)]


def _renewed(actual: Actual, interface: Interface) -> list[Nic]:
    nic = interface.nic
    sriov = (nic or {}).get("sriov") or {}
    enabled = sriov.get("enabled") or 0
    if nic is None or not enabled:
        return []
    functions = actual.vfs_of(nic)
    if interface.wanted.get("vfs") not in (None, enabled) or any(interface.wanted.get(key) for key in _BINDING_AGAIN):
        return functions
    wanted = wanted_settings(interface.wanted, port_mac(nic, interface.netdev), len(functions))
    changes = differences(wanted, sriov.get("settings"))
    return [function for number, function in enumerate(functions) if "mac" in changes.get(number, {})]
