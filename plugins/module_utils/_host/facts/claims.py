# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says which wishes about a device an operator of the cluster manages. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from .devices import MELLANOX
from .owners import ESWITCH, FUNCTIONS, MTU, NIC, NUMBER, PORT_STATES, SRIOV
from .shapes import Facts, Nic

if TYPE_CHECKING:
    from ..spec.interfaces import InterfaceSpec

# What of an entry of rdma_fabric_interfaces each part of a port is.
_Key = Literal["vfs", "eswitch_mode", "mtu", "vf_settings", "vf_driver", "vf_guids", "vf_mtu", "qos", "queues"]
_KEYS: dict[str, tuple[_Key, ...]] = {
    NUMBER: ("vfs",),
    ESWITCH: ("eswitch_mode",),
    MTU: ("mtu",),
    FUNCTIONS: ("vf_settings", "vf_driver", "vf_guids", "vf_mtu"),
}
_OF_THE_NIC: tuple[_Key, ...] = ("qos", "queues")


def sriov_parts(facts: Facts, address: str) -> list[str]:
    """Return what of a port the SR-IOV operator manages: nothing where its files outlived its daemon."""
    seen = facts["owners"].get(SRIOV)
    return [] if seen is None or seen["daemon"] is None else seen["ports"].get(address, [])


def sriov_evidence(facts: Facts, address: str) -> str:
    """Return, for people, what shows that the SR-IOV operator manages a port."""
    daemon = facts["owners"][SRIOV]["daemon"]
    return f"{PORT_STATES}/{address}" + (f", pod {daemon}" if daemon else "")


def nic_daemon(facts: Facts) -> str:
    """Return the pod of NVIDIA's NIC configuration operator on this host, empty where there is none."""
    seen = facts["owners"].get(NIC)
    return (seen["daemon"] if seen is not None else None) or ""


def unowned(facts: Facts, nic: Nic | None, wanted: InterfaceSpec) -> InterfaceSpec:
    """Return a wanted interface without what operators look after: that is theirs to keep over a reboot, too."""
    left: InterfaceSpec = {**wanted}
    for key in owned_keys(facts, nic):
        if key == "qos":
            left[key] = False
        else:
            left[key] = None
    return left


def owned_keys(facts: Facts, nic: Nic | None) -> list[_Key]:
    """Return the keys of a wanted interface that operators look after."""
    if nic is None:
        return []
    found = [key for part in sriov_parts(facts, nic["address"]) for key in _KEYS[part]]
    return [*found, *(_OF_THE_NIC if nic["vendor"] == MELLANOX and nic_daemon(facts) else ())]
