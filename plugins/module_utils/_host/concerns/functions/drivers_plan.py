# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans which driver VFs are bound to: the one of their interfaces, or vfio-pci.

``driver_override`` of a function decides (Documentation/ABI/testing/sysfs-bus-pci); the kernel forgets it with the
function, so the boot unit sets it again.
"""

from __future__ import annotations

from typing import Collection, Dict, Optional, Sequence, Tuple

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
    numbered,
)
from ...facts.host_state import Interface, binds_functions
from ...facts.system import AMD, INTEL, is_switched_on
from ...facts.users import has_driver, held
from ...spec.arguments import IOMMU_OFF, words_of
from ...spec.by_range import VFIO
from ...spec.interface_keys import DRIVER, SETTINGS
from .settings_plan import drivers_asked

# Kernel arguments that are there with the next boot.
_COMING = (PLANNED, NEEDS_REBOOT)

# The driver of each function by number, None if none is bound.
Drivers = Dict[int, Optional[str]]
# The functions to bind: that driver, and the one to have.
Wrong = Dict[int, Tuple[Optional[str], str]]


def plan(context: Context, interface: Interface, earlier: Sequence[Step]) -> list[Step]:
    """Return the step that binds functions, including those that a step of ``earlier`` creates."""
    if interface.nic is None or interface.wanted["vf_driver"] is None:
        return []
    created = next((s for s in earlier if is_executable(s) and s["id"] == f"vfs:{interface.key}"), None)
    now = _present(context, interface, created)
    asked = drivers_asked(context, interface, max(now, default=-1) + 1)
    bound_already = {
        int(number)
        for step in earlier
        if step["id"].endswith(SETTINGS) and is_executable(step)
        for number, settings in as_planned(step["to"], dict).items()
        if BOUND in settings and asked.get(int(number)) != VFIO
    }
    wrong = {
        number: (driver, wanted)
        for number, driver in now.items()
        for wanted in [asked.get(number)]
        if wanted is not None
        and number not in bound_already
        and not _is_right(interface, driver, wanted, created is not None)
    }
    return [_step(context, interface, wrong, created is not None)] if wrong else []


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


def _step(context: Context, interface: Interface, wrong: Wrong, created: bool) -> Step:
    by_driver = {wanted: [n for n in sorted(wrong) if wrong[n][1] == wanted] for _now, wanted in wrong.values()}
    binds = [
        f"{numbered(numbers)} to {VFIO if wanted == VFIO else 'the driver of their interfaces'}"
        for wanted, numbers in sorted(by_driver.items())
    ]
    wording: Wording = {
        "target": context.target_of(interface),
        "action": f"bind {' and '.join(binds)}",
        "before": {str(number): now for number, (now, _wanted) in sorted(wrong.items())},
        "after": {str(number): wanted for number, (_now, wanted) in sorted(wrong.items())},
        "reason": f"vf_driver of rdma_fabric_interfaces asks for {' and '.join(sorted(by_driver))}",
    }
    key, lacks_iommu = f"{interface.key}{DRIVER}", VFIO in by_driver and _lacks_iommu(context, interface, created)
    if lacks_iommu and _iommu_is_coming(context):
        return make_step(
            "vfs",
            key,
            **wording,
            when=BOOT,
            status=NEEDS_REBOOT,
            detail="vfio-pci needs an IOMMU, which is on after the next boot",
        )
    busy = [] if created else [number for number, (now, _wanted) in sorted(wrong.items()) if now is not None]
    return make_step(
        "vfs",
        key,
        **wording,
        interrupts=f"whatever uses {numbered(busy)}, whose driver changes" if busy else NOTHING,
        undo="removing the VFs ends it" if created else "bind the former drivers",
        when=NOW,
        **context.consent("vf_reset", needed=bool(busy)),
        detail="loads vfio-pci, sets driver_override and binds the VFs again" if VFIO in by_driver else "",
        refusal=_refusal(context, interface, () if created else wrong, lacks_iommu),
    )


def _refusal(context: Context, interface: Interface, changed: Collection[int], lacks_iommu: bool) -> str:
    nic = interface.nic
    if nic is None or nic["function"] != "pf":
        return "it is not a PF"
    if lacks_iommu:
        way = _way_to_iommu(context)
        return f"no IOMMU is on, and vfio-pci gives nothing away without one: {way}, and reboot"
    refusal = context.uplink_refusal(nic, interface.netdev)
    functions = enumerate(context.actual.vfs_of(nic))
    return refusal or held(context.actual, [vf for number, vf in functions if number in changed])


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
        return "switch the SMMU on in the firmware's setup (the kernel's log: arm-smmu)"
    if shown == AMD:
        return "the kernel uses AMD's by itself: read in its log (AMD-Vi) why not"
    if shown == INTEL:
        return "add rdma_fabric_kernel_arguments: [intel_iommu=on, iommu=pt]"
    return (
        "switch VT-d (Intel) or AMD-Vi (AMD) on in the BIOS, add rdma_fabric_kernel_arguments: [iommu=pt], on Intel "
        "processors intel_iommu=on as well"
    )
