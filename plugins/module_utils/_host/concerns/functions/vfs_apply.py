# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Creates and removes VFs and sets them up."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Mapping

from ...engine.context import BOUND, Context, Handler
from ...engine.operations import Operation, Run, SetAttribute, WaitFor, Work, set_link
from ...engine.ports import port_of
from ...engine.steps import Step, Value, as_planned, key_of
from ...facts.eswitch import LEGACY, SWITCHDEV, present_mode
from ...facts.functions import NO_ADDRESS, parse_port_settings, show_command
from ...facts.host_state import Interface, binds_functions
from ...facts.users import has_driver
from ...facts.vf_settings import Settings
from ...machine.access import Host, HostError
from ...machine.probe import PCI
from ...spec.by_range import NETDEVICE, VFIO
from ...spec.host import HostSpec, wanted_interface
from ...spec.interface_keys import DRIVER, SETTINGS
from .settings_plan import (
    bind,
    driver_at,
    links,
    must_wake,
    set_mode,
    set_on_port,
    set_up_again,
    settle,
    switch_to,
    unbind,
    wait_for_interfaces,
)

# The write returns when every function is probed, and never when the firmware hangs.
_CREATION_SECONDS = 120.0
_REMOVAL_SECONDS = 60.0
_LINKS_SECONDS = 120.0

ERRORS = MappingProxyType(
    {
        "EBUSY": (
            "the VFs are in use, or something else changes them; next: stop what uses "
            "them (rdma resource show, the pods of this node), see that no SR-IOV operator owns the card, and run again"
        ),
        "ERANGE": ("it is more than sriov_totalvfs; next: raise NUM_OF_VFS in the firmware (mstconfig), or lower vfs"),
        "EINVAL": (
            "the BIOS gave the VFs no memory (BARs), or a rate is above the link's speed "
            "or the link down; next: read the kernel's log (dmesg), switch SR-IOV and Above 4G Decoding on in the "
            "BIOS, or change vf_settings, and run again"
        ),
        "ENOMEM": (
            "the BIOS reserved too little memory for the VFs (dmesg: not enough MMIO resources for SR-IOV); "
            "next: switch SR-IOV, ARI and Above 4G Decoding on in the BIOS, or boot with pci=realloc, and run again"
        ),
        "ENOENT": (
            "no driver is bound that makes VFs, or the firmware has SR-IOV off; "
            "next: load the driver, switch SRIOV_EN on in the firmware (mstconfig) and reboot, and run again"
        ),
        "ENOSPC": (
            "the machine has no interrupts (MSI-X vectors) left for the VFs; next: lower vfs or the "
            "channels of other cards (ethtool -L), and run again"
        ),
        "EIO": (
            "the firmware failed; next: read the kernel's log (dmesg: mlx5_cmd_out_err, syndrome) and "
            "devlink health, reset or update the firmware, and run again"
        ),
        "ETIMEDOUT": (
            "the firmware hangs; next: read devlink health and the kernel's log (dmesg: "
            "device's health compromised), power cycle the machine or update the firmware, and run again"
        ),
        "not found in directory": (
            "this kernel has no vfio-pci; next: install the package with the kernel's additional modules (such as "
            "linux-modules-extra), or use vf_driver netdevice"
        ),
        "EPERM": (
            "the host does not own the card's e-switch (a BlueField in DPU mode, a card of several hosts), or "
            "the module does not run as root; next: set the VFs up on the card's Arm side, or leave vf_settings out"
        ),
        "EOPNOTSUPP": (
            "the driver does not have this setting in this mode of its e-switch; next: leave it out of "
            "vf_settings and run again"
        ),
    }
)
_LOAD_VFIO = Run(("modprobe", VFIO))
# An empty line clears the override.
_NO_OVERRIDE = "\n"


def work(context: Context, step: Step) -> Work:
    """Return how VFs are created, removed or set up."""
    key = key_of(step)
    if key.endswith(SETTINGS):
        return _setting_up(context, key[: -len(SETTINGS)], step)
    if key.endswith(DRIVER):
        return _driving(context, key[: -len(DRIVER)], step)
    return _number(context, key, as_planned(step["from"], int), as_planned(step["to"], int))


def restore(desired: HostSpec, key: str, original: Value) -> None:
    """Add the original number of functions to the spec, and the original settings of those that stay."""
    if key.endswith(SETTINGS):
        if isinstance(original, dict):
            wanted_interface(desired, key[: -len(SETTINGS)])["vf_settings"] = original
    elif key.endswith(DRIVER):
        if isinstance(original, dict):
            former: dict[str, str | None] = {
                number: VFIO if driver == VFIO else NETDEVICE for number, driver in original.items()
            }
            wanted_interface(desired, key[: -len(DRIVER)])["vf_driver"] = former
    elif isinstance(original, int):
        wanted_interface(desired, key)["vfs"] = original


def _number(context: Context, address: str, now: int, wanted: int) -> Work:
    """Return the writes of the number: 0 first (else EBUSY), and never the present one, which some drivers refuse."""
    leaves, interface = _leaves_switchdev(context, address), context.interface_of(address)
    wakes = must_wake(interface)
    do: list[Operation] = [set_link(context.port_name(interface), "up")] if wakes else []
    if leaves:
        # The driver changes the mode while no driver of a function is bound, and makes functions in legacy mode.
        do += [*(unbind(address, number) for number in range(now)), set_mode(address, LEGACY)]
    if now:
        do += _write(address, 0, f"the {now} VFs of {address} to be gone")
    if wanted:
        do += _create(context, address, wanted)
    undo = _write(address, 0, f"the VFs of {address} to be gone")
    if now:
        # Nobody uses them: the run has just made them, or they were still to be removed with consent.
        undo += _create(context, address, now)
    if leaves:
        undo += switch_to(context, address, SWITCHDEV, now)
    undo += [set_link(context.port_name(interface), "down")] if wakes else []
    return Work(do, undo, lambda host: _number_problem(host, address, wanted))


def _leaves_switchdev(context: Context, address: str) -> bool:
    interface = context.interface_of(address)
    return present_mode(context.actual, interface) == SWITCHDEV


def _write(address: str, number: int, what: str) -> list[Operation]:
    seconds = _CREATION_SECONDS if number else _REMOVAL_SECONDS
    return [
        SetAttribute(f"{PCI}/{address}/sriov_numvfs", str(number), seconds),
        WaitFor(what, lambda host: _linked(host, address) == number, _LINKS_SECONDS if number else _REMOVAL_SECONDS),
    ]


def _create(context: Context, address: str, number: int) -> list[Operation]:
    do = _write(address, number, f"{number} VFs of {address}")
    # The first function of its kind has udev load their driver.
    do += settle(context)
    do.append(wait_for_interfaces(address, range(number)))
    return do


def _linked(host: Host, address: str) -> int:
    """Return the number of VFs that are linked in both directions."""
    return sum(host.exists(f"{link}/physfn") for link in links(host, address))


def _number_problem(host: Host, address: str, wanted: int) -> str:
    now = host.read(f"{PCI}/{address}/sriov_numvfs").strip()
    linked = _linked(host, address)
    if now == str(wanted) and linked == wanted:
        return ""
    return f"{address} has {now} VFs, {linked} of them linked, not {wanted}"


def _setting_up(context: Context, address: str, step: Step) -> Work:
    interface = context.interface_of(address)
    binds = binds_functions(interface.nic)
    after: dict[str, Settings] = as_planned(step["to"], dict)
    do, undo, bound = set_up_again(
        address, step, binds, lambda number, settings: set_on_port(address, number, _without_bound(settings))
    )
    if bound:
        do += [*settle(context), wait_for_interfaces(address, bound)]
    wanted = {int(number): _without_bound(settings) for number, settings in after.items()}
    return Work(do, undo, lambda host: _settings_problem(host, interface, wanted, binds))


def _without_bound(settings: Mapping[str, Any]) -> Settings:
    return {key: value for key, value in settings.items() if key != BOUND}


def _settings_problem(host: Host, interface: Interface, wanted: Mapping[int, Settings], binds: bool) -> str:
    """Return which settings do not read back, on the PF or, for an address, on the function itself."""
    result = host.run(show_command(port_of(host, interface.key)), 30.0)
    actual = parse_port_settings(result.stdout).functions or []
    problems = []
    for number, settings in wanted.items():
        now: Mapping[str, object] = actual[number] if number < len(actual) else {}
        wrong = [f"{key} is {now.get(key)}, not {value}" for key, value in settings.items() if now.get(key) != value]
        if not wrong and binds and "mac" in settings:
            wrong = _address_problem(host, f"{PCI}/{interface.key}/virtfn{number}", str(settings["mac"]))
        if wrong:
            problems.append(f"VF {number}: {', '.join(wrong)}")
    return "; ".join(problems)


def _address_problem(host: Host, link: str, mac: str) -> list[str]:
    if mac == NO_ADDRESS:
        # The port gives the function none; its driver makes one up.
        return []
    try:
        names = host.list(f"{link}/net")
    except HostError:
        return []
    addresses = {name: host.read(f"{link}/net/{name}/address").strip() for name in names}
    return [f"its interface {name} has the address {now}" for name, now in addresses.items() if now != mac]


def _driving(context: Context, address: str, step: Step) -> Work:
    """Return how functions are bound to the driver that ``to`` names, and to their former ones on undo."""
    before: dict[str, str | None] = as_planned(step["from"], dict)
    after: dict[str, str] = as_planned(step["to"], dict)
    do: list[Operation] = [_LOAD_VFIO] if VFIO in after.values() else []
    undo: list[Operation] = []
    for text, wanted in after.items():
        number, former = int(text), before.get(text)
        do += _rebind(address, number, wanted)
        undo += _rebind(address, number, VFIO if former == VFIO else NETDEVICE) if former else []
    do += [*settle(context), wait_for_interfaces(address, map(int, after))]
    return Work(do, undo, lambda host: _driver_problem(host, address, {int(text): to for text, to in after.items()}))


def _rebind(address: str, number: int, wanted: str) -> list[Operation]:
    override = f"{PCI}/{address}/virtfn{number}/driver_override"
    text = wanted if wanted == VFIO else _NO_OVERRIDE
    return [unbind(address, number), SetAttribute(override, text), bind(address, number)]


def _driver_problem(host: Host, address: str, wanted: dict[int, str]) -> str:
    problems = []
    for number, driver in wanted.items():
        now = driver_at(host, f"{PCI}/{address}/virtfn{number}")
        if now is None or not has_driver(now, driver):
            problems.append(f"VF {number} is bound to {now or 'no driver'}")
    return ", ".join(problems)


HANDLER = Handler(work, ERRORS, restore, parts=True)
