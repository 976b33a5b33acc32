# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans the names of RDMA devices: a udev rule for every boot, a rename now.

The kernel renames a device that is in use (RDMA_NLDEV_CMD_SET); what was opened stays open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping

from ...engine.context import Context
from ...engine.steps import BOOT, Step, make_step, moment
from ...facts.host_state import Interface
from .files import Files, fate_of_file, rdma_file, rdma_path, reason_of_file, undo_of_file
from .order import Rename, Turn, in_turn, refusals_of

# The suffix of the keys of these steps; the key without it is that of the network interface's step.
SUFFIX = ":rdma"


@dataclass(frozen=True)
class Device:
    """An RDMA device with a name in the spec; ``program`` is the path of iproute2's rdma."""

    interface: Interface
    current: str
    wanted: str
    program: str
    boot_differs: bool

    @property
    def files(self) -> Files:
        """Return the rule that gives the name at boot."""
        return rdma_file(self.interface.key, self.wanted, self.program)


class Devices:
    """All names of RDMA devices in the spec, grouped as ``names.Names`` groups those of interfaces."""

    def __init__(self, context: Context) -> None:
        self.refusals: dict[str, str] = {}
        self.by_current: dict[str, Device] = {}
        self.without_device: list[tuple[Interface, str]] = []
        for interface in context.interfaces:
            if interface.wanted["rdma_name"] is not None:
                self._add(context, interface)
        taken = {device["name"]: str(device["pci"] or device["netdev"]) for device in context.actual.facts["rdma"]}
        self._refuse_held(taken)
        going = [
            device
            for current, device in self.by_current.items()
            if current != device.wanted and current not in self.refusals
        ]
        renames = [Rename(device.interface.key, device.current, device.wanted) for device in going]
        self.turns: list[Turn] = in_turn(renames, taken)
        self.kept = [
            device
            for current, device in self.by_current.items()
            if current == device.wanted and device.boot_differs and current not in self.refusals
        ]

    def _add(self, context: Context, interface: Interface) -> None:
        program = context.actual.facts["naming"]["rdma"]
        # A rule finds a device by its PCI function, which software devices do not have.
        software = {device["name"] for device in context.actual.facts["rdma"] if device["pci"] is None}
        names = [name for name in (interface.nic["rdma"] if interface.nic is not None else []) if name not in software]
        if context.removing and not names:
            # A device that is gone has no name to give back; that of the next one is up to the system.
            return
        if len(names) != 1:
            why = f"it has several RDMA devices: {', '.join(names)}" if names else _no_device(interface)
            self.without_device.append((interface, why))
            return
        wanted = str(interface.wanted["rdma_name"])
        differs = context.boot_differs(rdma_file(interface.key, wanted, program or ""))
        self.by_current[names[0]] = Device(interface, names[0], wanted, program or "", differs)
        if not program:
            self.refusals[names[0]] = "the program rdma is not installed: install iproute2 with it (iproute on RHEL)"

    def _refuse_held(self, taken: Mapping[str, str]) -> None:
        def held(current: str, refusals: Mapping[str, str]) -> str:
            wanted = self.by_current[current].wanted
            leaving = self.by_current.get(wanted)
            stays = leaving is None or leaving.wanted == leaving.current or wanted in refusals
            if wanted == current or wanted not in taken or not stays:
                return ""
            return f"{wanted} is the name of the RDMA device of {taken[wanted]} and stays it"

        self.refusals = refusals_of(self.by_current, self.refusals, held)


def _no_device(interface: Interface) -> str:
    if interface.nic is None:
        return "it has no PCI function, so no rule could find its RDMA device"
    return "it has no RDMA device: its driver has no RDMA, or the module that has it (mlx5_ib) is not loaded"


def plan(context: Context) -> list[Step]:
    """Return a step for each RDMA device whose name, now or at boot, differs from the spec."""
    devices = Devices(context)
    steps = [_rename(context, devices.by_current[turn.rename.current], turn) for turn in devices.turns]
    steps += [_keep(context, device) for device in devices.kept]
    for current, why in sorted(devices.refusals.items()):
        device = devices.by_current[current]
        if current != device.wanted or device.boot_differs:
            steps.append(_refused(context, device.interface, current, why))
    steps += [_refused(context, interface, None, why) for interface, why in devices.without_device]
    return steps


def _reason(interface: Interface, current: str | None) -> str:
    wanted = interface.wanted["rdma_name"]
    return (
        f"the RDMA device at {interface.key} shall be {wanted} at every boot; {current or 'its name'} follows from "
        "driver and order of probing and may change with them"
    )


def _rename(context: Context, device: Device, turn: Turn) -> Step:
    path = rdma_path(device.interface.key)
    return make_step(
        "naming",
        f"{device.interface.key}{SUFFIX}",
        target=context.target_of(device.interface),
        action=f"rename the RDMA device {device.current} to {device.wanted}",
        before=device.current,
        after=device.wanted,
        reason=_reason(device.interface, device.current),
        interrupts=f"what finds {device.current} by its name (NCCL_IB_HCA, UCX_NET_DEVICES); open connections stay",
        undo=f"{undo_of_file(context, path)} and rename {device.wanted} to {device.current}",
        when=moment(now_differs=True, boot_differs=device.boot_differs),
        detail="; ".join((*turn.exchange("devices"), fate_of_file(context, path))),
    )


def _keep(context: Context, device: Device) -> Step:
    path = rdma_path(device.interface.key)
    verb = "leave the name of the RDMA device" if context.removing else "name the RDMA device"
    return make_step(
        "naming",
        f"{device.interface.key}{SUFFIX}",
        target=context.target_of(device.interface),
        action=f"{verb} {device.wanted} {'to the system' if context.removing else 'at every boot'}",
        before=device.current,
        after=device.wanted,
        reason=reason_of_file(context, path, device.wanted),
        undo=undo_of_file(context, path),
        when=BOOT,
        detail=fate_of_file(context, path),
    )


def _refused(context: Context, interface: Interface, current: str | None, why: str) -> Step:
    return make_step(
        "naming",
        f"{interface.key}{SUFFIX}",
        target=context.target_of(interface),
        action=f"rename the RDMA device {current} to {interface.wanted['rdma_name']}"
        if current
        else f"name its RDMA device {interface.wanted['rdma_name']}",
        before=current,
        after=interface.wanted["rdma_name"],
        reason=_reason(interface, current),
        refusal=why,
    )
