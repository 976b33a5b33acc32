# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans which driver VFs are bound to: the one of their interfaces, or vfio-pci.

``driver_override`` of a function decides (Documentation/ABI/testing/sysfs-bus-pci); the kernel forgets it with the
function, so the boot unit sets it again.
"""

from __future__ import annotations

from typing import Dict, Optional, Sequence

from ...engine.context import BOUND, Context
from ...engine.steps import (
    BOOT,
    NEEDS_REBOOT,
    NOTHING,
    NOW,
    PLANNED,
    Step,
    Wording,
    as_planned,
    is_executable,
    make_step,
)
from ...facts.host_state import Interface, binds_functions, is_guest_function
from ...facts.system import AMD, INTEL, is_switched_on
from ...facts.users import has_driver, held
from ...spec.arguments import IOMMU_OFF, words_of
from ...spec.functions import VFIO
from ...spec.interface_keys import DRIVER, SETTINGS
from .settings_plan import numbered

# Kernel arguments that are there with the next boot.
_COMING = (PLANNED, NEEDS_REBOOT)

# The driver of each function by number, None if none is bound.
Drivers = Dict[int, Optional[str]]


def plan(context: Context, interface: Interface, earlier: Sequence[Step]) -> list[Step]:
    """Return the step that binds functions, including those that a step of ``earlier`` creates."""
    asked = interface.wanted["vf_driver"]
    if interface.nic is None or asked is None:
        return []
    created = next((s for s in earlier if is_executable(s) and s["id"] == f"vfs:{interface.key}"), None)
    now = _present(context, interface, created)
    bound_already = {
        int(number)
        for step in earlier
        if step["id"].endswith(SETTINGS) and is_executable(step)
        for number, settings in as_planned(step["to"], dict).items()
        if BOUND in settings and asked != VFIO
    }
    wrong = {
        number: driver
        for number, driver in now.items()
        if number not in bound_already and not _is_right(interface, driver, asked, created is not None)
    }
    if not wrong:
        return []
    return [_step(context, interface, wrong, asked, created is not None)]


def unused(context: Context, interface: Interface) -> list[str]:
    """Return a notice if the spec binds functions to vfio-pci on a port without functions."""
    nic, wanted = interface.nic, interface.wanted
    if nic is None or wanted["vf_driver"] != VFIO or wanted["vfs"] is not None or context.removing:
        return []
    target = context.target_of(interface)
    if is_guest_function(nic):
        bind = f"driverctl set-override {nic['address']} {VFIO} binds the VF itself"
        return [f"{target}: vf_driver has no effect, as it is a VF in a guest; next: {bind}"]
    if context.actual.vf_addresses(nic):
        return []
    return [f"{target}: vf_driver has no effect, there are no VFs; next: ask for vfs as well"]


def _present(context: Context, interface: Interface, created: Step | None) -> Drivers:
    if created is not None:
        return dict.fromkeys(range(as_planned(created["to"], int)))
    addresses = context.actual.vf_addresses(interface.nic)
    known = context.actual.nics
    return {number: known[address]["driver"] for number, address in enumerate(addresses) if address in known}


def _is_right(interface: Interface, driver: str | None, asked: str, created: bool) -> bool:
    """Return whether a function has the right driver; a new one gets that of its interface by itself."""
    if driver is None and asked != VFIO:
        return created or not binds_functions(interface.nic)
    return has_driver(driver, asked)


def _step(context: Context, interface: Interface, wrong: Drivers, wanted: str, created: bool) -> Step:
    numbers = sorted(wrong)
    what = "vfio-pci" if wanted == VFIO else "the driver of their interfaces"
    wording: Wording = {
        "target": context.target_of(interface),
        "action": f"bind {numbered(numbers)} to {what}",
        "before": {str(number): wrong[number] for number in numbers},
        "after": dict.fromkeys(map(str, numbers), wanted),
        "reason": f"vf_driver of rdma_fabric_interfaces asks for {wanted}",
    }
    key = f"{interface.key}{DRIVER}"
    if wanted == VFIO and _lacks_iommu(context, interface, created) and _iommu_is_coming(context):
        return make_step(
            "vfs",
            key,
            **wording,
            when=BOOT,
            status=NEEDS_REBOOT,
            detail="vfio-pci needs an IOMMU, which is on after the next boot",
        )
    busy = [] if created else [number for number in numbers if wrong[number] is not None]
    return make_step(
        "vfs",
        key,
        **wording,
        interrupts=f"whatever uses {numbered(busy)}, whose driver changes" if busy else NOTHING,
        undo="removing the VFs ends it" if created else "bind the former drivers",
        when=NOW,
        **context.consent("vf_reset", needed=bool(busy)),
        detail="loads vfio-pci, sets driver_override and binds the VFs again" if wanted == VFIO else "",
        refusal=_refusal(context, interface, wrong, wanted, created),
    )


def _refusal(context: Context, interface: Interface, wrong: Drivers, wanted: str, created: bool) -> str:
    nic = interface.nic
    if nic is None or nic["function"] != "pf":
        return "it is not a PF"
    functions = [] if created else context.actual.vfs_of(nic)
    if wanted == VFIO and _lacks_iommu(context, interface, created):
        way = _way_to_iommu(context)
        return f"no IOMMU is on, and vfio-pci gives nothing away without one: {way}, and reboot"
    refusal = context.uplink_refusal(nic, interface.netdev)
    return refusal or held(context.actual, [vf for number, vf in enumerate(functions) if number in wrong])


def _lacks_iommu(context: Context, interface: Interface, created: bool) -> bool:
    """Return whether a function has no IOMMU group; new ones get groups if their PF has one."""
    functions = [] if created else context.actual.vfs_of(interface.nic)
    physical = [interface.nic] if interface.nic is not None else []
    return not all(function["iommu"] for function in functions or physical)


def _iommu_is_coming(context: Context) -> bool:
    """Return whether the next boot's arguments switch the IOMMU of the firmware on and the running ones do not."""
    system = context.actual.facts["system"]
    shown, running = system["iommu"]["firmware"], words_of(system["cmdline"])
    following = [
        [word for word in running if word not in as_planned(step["from"], list)] + as_planned(step["to"], list)
        for step in context.earlier
        if step["concern"] == "kernel_arguments" and step["status"] in _COMING
    ]
    return not is_switched_on(shown, running) and any(is_switched_on(shown, line) for line in following)


def _way_to_iommu(context: Context) -> str:
    """Return how to switch an IOMMU on. On Arm the firmware's table may describe interrupts only."""
    system = context.actual.facts["system"]
    shown = system["iommu"]["firmware"]
    off = [word for word in words_of(system["cmdline"]) if word in IOMMU_OFF]
    if off:
        return f"take {', '.join(off)} out of the kernel line where it is set"
    if system["machine"] == "aarch64":
        return "switch the SMMU on in the firmware's setup, and see in the kernel's log (arm-smmu) that it is used"
    if shown == AMD:
        return "the kernel uses AMD's by itself, so read in its log (AMD-Vi) why it does not; change that"
    if shown == INTEL:
        return "add rdma_fabric_kernel_arguments: [intel_iommu=on, iommu=pt]"
    return (
        "switch VT-d (Intel) or AMD-Vi (AMD) on in the BIOS, add rdma_fabric_kernel_arguments: [iommu=pt], on Intel "
        "processors intel_iommu=on as well"
    )
