# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans the number of VFs and how each is set up.

The order of writes and the reasons to leave a device alone are the kernel's (Documentation/PCI/pci-iov-howto.rst,
drivers/pci/iov.c): a number other than 0 can only be written over 0, and users do not keep functions from destruction.
"""

from __future__ import annotations

from ...engine.context import ConcernPlan, Context
from ...engine.elsewhere import contested
from ...engine.steps import (
    BOOT,
    NEEDS_REBOOT,
    NOTHING,
    NOW,
    PLANNED,
    Step,
    Wording,
    address_of,
    as_planned,
    is_executable,
    key_of,
    make_step,
    numbered,
)
from ...facts.eswitch import SWITCHDEV, present_mode, vf_lag_refusal
from ...facts.firmware import may_share_firmware
from ...facts.host_state import Interface, Unknown, enabled_functions, is_guest_function, most_functions
from ...facts.shapes import Nic
from ...facts.users import held
from ...spec.by_range import NETDEVICE, VFIO, spans, values_of
from ...spec.interface_keys import KEYS, OF_FUNCTIONS
from ...spec.syntax import MAX_VFS
from . import drivers_plan as drivers
from . import settings_plan as functions
from .settings_plan import leaves_switchdev, must_wake, representors_in_use, switches

_NO_MEMORY = "the BIOS left no memory for its VFs (their BARs have no addresses in its file resource)"
_UNKNOWN = (
    "sriov_numvfs can't be read, so what a change would destroy is not known; next: read the kernel's "
    "log (dmesg), and run again"
)
# Firmware values that are there with the next boot.
_COMING = (PLANNED, NEEDS_REBOOT)


def plan(context: Context) -> ConcernPlan:
    """Return steps for each PF whose VFs differ in number, settings or drivers.

    The boot unit sets the number at boot.
    """
    steps: list[Step] = []
    notices: list[str] = []
    for interface in context.interfaces:
        count_steps, said = _number(context, interface)
        steps += count_steps
        notices += [*said, *_made_anew(context, count_steps)]
        if leaves_switchdev(context.actual, interface) and not any(map(is_executable, count_steps)):
            # In switchdev mode mlx5 does not take all settings: the plan of the e-switch has them after its mode.
            continue
        found, said = set_up(context, interface, count_steps)
        steps += found
        notices += said
    return steps, notices


def set_up(context: Context, interface: Interface, about_number: list[Step]) -> ConcernPlan:
    """Return the steps that set up and bind the functions of a port, including those that a step creates."""
    found, notices = functions.plan(context, interface, about_number)
    bound = drivers.plan(context, interface, [*about_number, *found])
    return [*found, *bound], [*notices, *_unused(context, interface, about_number)]


def _unused(context: Context, interface: Interface, about_number: list[Step]) -> list[str]:
    """Return notices about values for functions that do not exist; those of a port without a number are its own."""
    count = next((as_planned(step["to"], int) for step in about_number if is_executable(step)), interface.functions)
    nic, wanted = interface.nic, interface.wanted
    if context.removing or (not count and wanted["vfs"] is not None):
        return []
    why = f"there are {count} VFs" if count else "there are no VFs; next: ask for vfs as well"
    if nic is not None and is_guest_function(nic):
        bind = f"driverctl set-override {nic['address']} {VFIO} binds the VF itself"
        why = f"as it is a VF in a guest; next: {bind}"
    macs = [settings["mac"] for settings in values_of(wanted["vf_settings"]) if settings and count]
    given = [(key, wanted.get(key)) for key, each in KEYS.items() if each.part == OF_FUNCTIONS]
    target = context.target_of(interface)
    return [
        f"{target}: {key}{f' of {numbered(range(first, last + 1))}' if last < MAX_VFS else ''} has no effect, {why}"
        for key, value in [*given, *(("vf_settings.mac", mac) for mac in macs)]
        for first, last, one in spans(value)
        if first >= count and one not in (None, NETDEVICE)
    ]


def _number(context: Context, interface: Interface) -> tuple[list[Step], list[str]]:
    wanted, nic = interface.wanted["vfs"], interface.nic
    if wanted is None:
        return [], []
    if wanted and nic is not None and is_guest_function(nic):
        skipped = f"{context.target_of(interface)}: vfs {wanted} is skipped: a VF in a guest has no sriov_totalvfs"
        return [], [skipped]
    now = interface.functions
    others = contested(context, interface, "vfs", wanted)
    if wanted != now and isinstance(enabled_functions(nic), Unknown):
        return [_change(context, interface, wanted, now, _UNKNOWN)], []
    if wanted == now and not others:
        return [], []
    if not others and _waits_for_firmware(context, interface, wanted):
        return [_waiting(context, interface, wanted, now)], []
    return [_change(context, interface, wanted, now, others or _refusal(context, interface, wanted))], []


def _made_anew(context: Context, steps: list[Step]) -> list[str]:
    """Return a notice about entries of functions that a step destroys and creates with the driver's defaults."""
    gone = {key_of(step) for step in steps if step["status"] == PLANNED and step["from"]}
    return [
        f"{context.target_of(interface)}: this plan destroys the VFs of {interface.nic['pf']}, with what "
        "this one's own entry sets; the run sets it again last"
        for interface in context.interfaces
        if interface.nic is not None and interface.nic["pf"] in gone and not context.removing
    ]


def _waits_for_firmware(context: Context, interface: Interface, wanted: int) -> bool:
    """Return whether the card offers enough functions once its firmware has the values that this plan sets or awaits.

    One number holds for all functions of a card, those of its other PCI slot included (torvalds/linux,
    drivers/net/ethernet/mellanox/mlx5/core/lib/nv_param.c: ``total_vfs`` of the global class).
    """
    nic = interface.nic
    if nic is None or nic["function"] != "pf" or wanted <= most_functions(nic):
        return False
    steps = [
        step
        for step in context.earlier
        if step["concern"] == "firmware" and may_share_firmware(context.actual, nic["address"], address_of(step))
    ]
    coming = {
        name: value
        for step in steps
        if step["status"] in _COMING
        for name, value in as_planned(step["to"], dict).items()
    }
    return str(coming.get("NUM_OF_VFS", "")).isdecimal() and int(coming["NUM_OF_VFS"]) >= wanted


def _waiting(context: Context, interface: Interface, wanted: int, now: int) -> Step:
    return make_step(
        "vfs",
        interface.key,
        **_wording(context, interface, wanted, now),
        when=BOOT,
        status=NEEDS_REBOOT,
        detail="its firmware offers as many after the next boot",
    )


def _refusal(context: Context, interface: Interface, wanted: int) -> str:
    """Return why the number can't be set; empty if it can."""
    nic = interface.nic
    if nic is None:
        return "it has no PCI function that could have virtual ones"
    problem = _capability_problem(nic, wanted) or vf_lag_refusal(context.actual, context.interfaces, interface)
    problem = problem or context.uplink_refusal(nic, interface.netdev)
    if problem:
        return problem
    if present_mode(context.actual, interface) == SWITCHDEV:
        if interface.wanted["eswitch_mode"] is None or not switches(interface):
            return (
                "its e-switch is in switchdev mode, and a new number removes the representors: say with eswitch_mode "
                "which mode it shall have then"
            )
        used = representors_in_use(context.actual, interface)
        if used:
            return f"{used}, and a new number removes them all; take them out first"
    return held(context.actual, context.actual.vfs_of(nic))


def _capability_problem(nic: Nic, wanted: int) -> str:
    if nic["function"] == "vf":
        return f"it is itself a VF of {nic['pf']}; give vfs to that one"
    total = most_functions(nic)
    if not total:
        return (
            "it offers no SR-IOV: switch it on in its firmware (firmware of this entry: SRIOV_EN true, NUM_OF_VFS "
            f"{wanted}) and in the BIOS"
        )
    if wanted > total:
        return (
            f"it offers at most {total}: raise NUM_OF_VFS in its firmware (firmware of this entry: NUM_OF_VFS "
            f"{wanted}) or lower vfs"
        )
    if not nic["driver"]:
        return "no driver is bound to it, and the driver makes the VFs"
    return _NO_MEMORY if wanted and nic["sriov"] is not None and "unassigned" in nic["sriov"] else ""


def _wording(context: Context, interface: Interface, wanted: int, now: int) -> Wording:
    noun = "VF" if wanted == 1 else "VFs"
    action = f"create {wanted} {noun} (now {now})" if wanted else f"remove the VFs (now {now})"
    return {
        "target": context.target_of(interface),
        "action": action,
        "before": now,
        "after": wanted,
        "reason": f"rdma_fabric_interfaces asks for {wanted} {noun}, the device has {now}",
    }


def _change(context: Context, interface: Interface, wanted: int, now: int, refusal: str) -> Step:
    existing = context.actual.vf_addresses(interface.nic)
    # In legacy mode there is no RoCE bond beside VFs (mlx5 core/lag/lag.c: mlx5_lag_check_prereq).
    lost, bond = _interrupted(interface), context.actual.roce_bond(interface.nic) if wanted else ""
    if bond:
        lost = (
            f"RDMA over {bond}: beside VFs mlx5_core has no RoCE bond, and each port has "
            "an RDMA device of its own; the bond of the interfaces stays"
        )
    if now:
        lost = f"traffic on its {now} VFs, which are destroyed"
        lost += f": {', '.join(existing)}" if existing else ""
    return make_step(
        "vfs",
        interface.key,
        **_wording(context, interface, wanted, now),
        interrupts=lost,
        undo=(
            f"write 0, then {now}: the VFs return without the addresses and settings given to them since"
            if now
            else "write 0 to sriov_numvfs"
        ),
        when=NOW,
        **context.consent("vf_reset", needed=bool(now or bond)),
        detail=_detail(context, interface, wanted, now),
        refusal=refusal,
    )


def _interrupted(interface: Interface) -> str:
    """Return what the first VFs interrupt: igb, for one, restarts the link of the PF."""
    if not interface.is_up:
        return NOTHING
    return f"traffic on {interface.name} for a moment, where the driver restarts the link to make VFs"


def _detail(context: Context, interface: Interface, wanted: int, now: int) -> str:
    if now and wanted:
        how = f"writes 0, waits until the {now} are gone, then writes {wanted} to sriov_numvfs"
    else:
        how = f"writes {wanted} to sriov_numvfs"
    if present_mode(context.actual, interface) == SWITCHDEV:
        how = f"sets the e-switch to legacy mode, {how}"
    if must_wake(interface):
        how = f"brings the port up, as its driver needs, {how}"
    if wanted and interface.nic is not None and interface.nic["link_layer"] == "InfiniBand":
        how += "; InfiniBand VFs stay down until they have GUIDs and the subnet manager allows virtual ports"
    return how
