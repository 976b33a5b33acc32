# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Switches the mode of e-switches."""

from __future__ import annotations

from types import MappingProxyType

from ...engine.context import Context
from ...engine.operations import Run, Work
from ...engine.ports import port_of
from ...engine.steps import Step, Value, key_of
from ...facts.eswitch import LEGACY, SWITCHDEV, features_command, parse, parse_offload, show_command
from ...machine.access import Host
from ...spec.former import wanted_interface
from ...spec.host import HostSpec
from .eswitch_mode import bind_again, switch_to, unbound_functions
from .eswitch_plan import OFFLOAD, functions_then, mode_then

ERRORS = MappingProxyType(
    {
        "EOPNOTSUPP": (
            "this driver or firmware has no such mode, or the e-switch belongs to the Arm side of a BlueField; next: "
            "update both, put the card in NIC mode, or leave eswitch_mode out"
        ),
        "EINVAL": (
            "the driver does not take the mode now: a function was not ready, is still bound, or the port's bond is "
            "offloaded; next: read the kernel's log (dmesg: mlx5_core), and run again"
        ),
        "EBUSY": (
            "traffic rules (tc, OVS), IPsec or another change of the mode use the e-switch; next: remove the rules and "
            "take representors out of their bridge, and run again"
        ),
        "EPERM": (
            "the host is not allowed to, as with a BlueField that restricts its host, and with Socket Direct, whose "
            "functions share one interface; next: change the mode on the card's Arm side, or leave eswitch_mode out"
        ),
        "ENOMEM": (
            "the firmware has no resources for the representors; next: lower vfs, read the kernel's log (dmesg), and "
            "run again"
        ),
        "Could not change any device features": (
            "the driver does not offload rules now: its firmware or another program forbids it; next: read the "
            "kernel's log (dmesg), and run again, or leave eswitch_mode out"
        ),
        "ENODEV": ("devlink does not know the device: its driver is not loaded; next: load mlx5_core and run again"),
    }
)


def work(context: Context, step: Step) -> Work:
    """Return how an e-switch gets its mode."""
    if key_of(step).endswith(OFFLOAD):
        return _offloading(key_of(step)[: -len(OFFLOAD)], bool(step["to"]))
    address, wanted = key_of(step), str(step["to"])
    interface = context.interface_of(address)
    count = functions_then(context, interface)
    former = mode_then(context, interface)
    if former == wanted:
        return Work(bind_again(context, address, unbound_functions(context.actual, interface)))
    return Work(
        switch_to(context, address, wanted, count),
        switch_to(context, address, former, count),
        lambda host: mode_problem(host, address, wanted),
    )


def _offloading(address: str, wanted: bool) -> Work:
    def verify(host: Host) -> str:
        now = parse_offload(host.run(features_command(port_of(host, address)), 30.0).stdout)
        return "" if now is wanted else f"hw-tc-offload is still {'off' if wanted else 'on'}"

    return Work([_set_offload(address, wanted)], [_set_offload(address, not wanted)], verify)


def _set_offload(address: str, wanted: bool) -> Run:
    return Run(("ethtool", "-K", f"{{port:{address}}}", "hw-tc-offload", "on" if wanted else "off"))


def restore(desired: HostSpec, key: str, original: Value) -> None:
    """Ask for the mode that an e-switch had, and for rules to stay out of the hardware where they did."""
    if key.endswith(OFFLOAD) and isinstance(original, bool):
        wanted_interface(desired, key[: -len(OFFLOAD)])["offload"] = original
    elif original in (LEGACY, SWITCHDEV):
        wanted_interface(desired, key)["eswitch_mode"] = original


def mode_problem(host: Host, address: str, wanted: str) -> str:
    """Return what is wrong about the mode of a port's e-switch, empty when nothing is."""
    now = parse(host.run(show_command(address), 30.0).stdout, address)["mode"]
    return "" if now == wanted else f"the e-switch of {address} is in {now} mode, not {wanted}"
