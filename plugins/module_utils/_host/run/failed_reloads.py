# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that a failed reload by devlink left unusable: they are told, and nothing is tried on them. Pure.

The driver has torn down what it made of the device, and makes it again with the next reload that succeeds. A driver
that repairs its device by itself (health of mlx5) leaves the mark: what has interfaces or RDMA devices is not held
back. Firmware and registers of PCIe are reached without the driver.
"""

from __future__ import annotations

from typing import Iterable

from ..engine.context import Context
from ..engine.steps import NEEDS_CONSENT, NOTHING, PLANNED, Step, refused
from ..facts.shapes import Nic

# What their steps change is the driver's.
_OF_THE_DRIVER = ("vfs", "eswitch", "guids", "mtu", "link", "queues", "qos", "irq_affinity")


def notices(context: Context) -> list[str]:
    """Tell each such device with what to do about it."""
    told = context.actual.facts["eswitch"]
    return [
        f"{context.target_of(interface)}: {_said(interface.nic)}"
        for interface in context.interfaces
        if interface.nic is not None and "reload_failed" in told.get(interface.key, {})
    ]


def refuse_steps(context: Context, planned: Iterable[Step]) -> list[Step]:
    """Return the steps; those that need such a device are refused."""
    found = ((step, _lost_port(context, step)) for step in planned)
    return [step if port is None else _refused(step, port) for step, port in found]


def _lost_port(context: Context, step: Step) -> Nic | None:
    """Return the port that a step needs and that a failed reload took away, None without one."""
    if step["concern"] not in _OF_THE_DRIVER or step["status"] not in (PLANNED, NEEDS_CONSENT):
        return None
    nic = context.nic_of(step)
    port = context.actual.nics.get(nic["pf"] or nic["address"]) if nic is not None else None
    if port is None or "reload_failed" not in context.actual.facts["eswitch"].get(port["address"], {}):
        return None
    return port if _is_torn_down(port) else None


def _is_torn_down(port: Nic) -> bool:
    return not port["netdevs"] and not port["rdma"]


def _refused(step: Step, port: Nic) -> Step:
    return {**refused(step, _said(port)), "consent": None, "interrupts": NOTHING}


def _said(port: Nic) -> str:
    if not _is_torn_down(port):
        return "its last reload by devlink failed, and it came back since; the next one that succeeds ends this notice"
    address = port["address"]
    return (
        f"its last reload by devlink failed, which leaves {address} without interfaces until one succeeds: read the "
        f"kernel's log (dmesg) for the cause, then devlink dev reload pci/{address}, or reboot"
    )
