# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says which wishes about a device an operator of the cluster looks after. Pure."""

from __future__ import annotations

from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.devices import MELLANOX
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.owners import (
    ESWITCH,
    FUNCTIONS,
    MTU,
    NIC,
    NUMBER,
    PORT_STATES,
    SRIOV,
)

# What of an entry of rdma_fabric_interfaces each part of a port is.
_KEYS = {
    NUMBER: ("vfs",),
    ESWITCH: ("eswitch_mode",),
    MTU: ("mtu",),
    FUNCTIONS: ("vf_settings", "vf_driver", "vf_guids", "vf_mtu"),
}


def owners_of(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what was read of operators; a recording made before that was has none."""
    found: Mapping[str, Any] = facts.get("owners") or {}
    return found


def sriov_parts(facts: Mapping[str, Any], address: str) -> list[str]:
    """Return what of a port the SR-IOV operator looks after: nothing where its files outlived its daemon."""
    seen = owners_of(facts).get(SRIOV) or {}
    return [] if seen.get("daemon") is None else list((seen.get("ports") or {}).get(address) or [])


def sriov_evidence(facts: Mapping[str, Any], address: str) -> str:
    """Return, for people, what shows that the SR-IOV operator looks after a port."""
    daemon = owners_of(facts)[SRIOV]["daemon"]
    return f"{PORT_STATES}/{address}" + (f", pod {daemon}" if daemon else "")


def nic_daemon(facts: Mapping[str, Any]) -> str:
    """Return the pod of NVIDIA's NIC configuration operator on this host, empty where there is none."""
    return str((owners_of(facts).get(NIC) or {}).get("daemon") or "")


def unowned(facts: Mapping[str, Any], nic: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a wanted interface without what operators look after: that is theirs to keep over a reboot, too."""
    if nic is None:
        return wanted
    theirs = [key for part in sriov_parts(facts, str(nic["address"])) for key in _KEYS[part]]
    left = {**wanted, **{key: None for key in theirs if key in wanted}}
    if nic["vendor"] == MELLANOX and nic_daemon(facts):
        left.update({key: value for key, value in (("qos", False), ("queues", None)) if key in wanted})
    return left
