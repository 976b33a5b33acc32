# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans kernel arguments: what the next boot gets, and what waits for it."""

from __future__ import annotations

from ...engine.context import ConcernPlan, Context
from ...engine.steps import BOOT, NEEDS_REBOOT, Step, make_step
from ...facts.iommu import INTEL, SWITCHES_INTEL_ON
from ...facts.kernel_arguments import GRUBBY, SYSTEMD_BOOT
from ...spec.arguments import IOMMU_OFF, NETNS_MODES, contains, count, name_of, words_of
from .arguments_files import (
    arguments_of_ours,
    asked_arguments,
    boot_files,
    found,
    missing_arguments,
    next_line,
    own_arguments,
    own_file,
    problem_of,
    wanted_arguments,
)

CONCERN = "kernel_arguments"
PENDING = "reboot"
_TARGET = "kernel command line"
_OF_IOMMU = ("iommu", "intel_iommu", "amd_iommu", "iommu.passthrough", "iommu.strict")
_X86 = ("x86_64", "i686")


def plan(context: Context) -> ConcernPlan:
    """Return refusals of what does not fit, a step that changes the next boot's line, or one that awaits the reboot,
    and what keeps arguments about the IOMMU from having an effect."""
    steps = [_unfit(context, argument) for argument in asked_arguments(context) if problem_of(context, argument)]
    adds, removes = missing_arguments(context), unwanted_arguments(context)
    if adds or removes or context.boot_differs(boot_files(context)):
        steps.append(_change(context, adds, removes))
    else:
        steps += _pending(context)
    return steps, [*_iommu_remarks(context), *_mode_remarks(context)]


def _mode_remarks(context: Context) -> list[str]:
    """Tell that RDMA is in another mode than the one that the kernel was booted with for our sake."""
    wanted, now = context.desired["netns_mode"], context.actual.facts["settings"].get("netns_mode")
    if wanted is None or now in (None, wanted) or not contains(found(context)["running"], NETNS_MODES[wanted]):
        return []
    return [
        f"RDMA is in {now} mode although the kernel was booted with {NETNS_MODES[wanted]}: somebody changed it (rdma "
        f"system set netns {now}); the next boot brings {wanted} mode back"
    ]


def unwanted_arguments(context: Context) -> list[str]:
    """Return the arguments that are ours and that nothing asks for any more."""
    wanted = arguments_of_ours(context)
    return [argument for argument in own_arguments(context) if argument not in wanted]


def _unfit(context: Context, argument: str) -> Step:
    return make_step(
        CONCERN,
        argument,
        target=_TARGET,
        action=f"boot with {argument}",
        before=None,
        after=argument,
        reason=f"rdma_fabric_kernel_arguments asks for {argument}",
        refusal=problem_of(context, argument),
    )


def _change(context: Context, adds: list[str], removes: list[str]) -> Step:
    parts = [f"with {' '.join(adds)}"] if adds else []
    parts += [f"without {' '.join(removes)}"] if removes else []
    action = f"boot {' and '.join(parts)}" if parts else f"write {own_file(context)} as rdma.fabric writes it"
    reason = f"the next boot would not have {' '.join(adds)}" if adds else "nothing asks for them any more"
    if not parts:
        reason = "somebody changed it"
    return make_step(
        CONCERN,
        own_file(context),
        target=_TARGET,
        action=action,
        before=own_arguments(context),
        after=arguments_of_ours(context),
        reason=reason,
        when=BOOT,
        undo=f"write the former arguments and run {how(context)} again",
        detail=f"{how(context)} writes them; they take effect with a reboot",
        refusal=found(context)["cannot"],
    )


def how(context: Context) -> str:
    """Return what writes the next boot's line, for a sentence."""
    loader = found(context)["loader"]
    if loader == GRUBBY:
        return "grubby"
    return "kernel-install" if loader == SYSTEMD_BOOT else (found(context)["update"] or ["update-grub"])[0]


def _pending(context: Context) -> list[Step]:
    """Return a step that only a reboot can do: the next boot's line is right, the running one is not yet."""
    running, following = list(found(context)["running"]), next_line(context)
    adds = [a for a in wanted_arguments(context) if contains(following, a) and not contains(running, a)]
    removes = [a for a in found(context)["removed"] if count(running, a) and not count(following, a)]
    if not adds and not removes:
        return []
    parts = [f"{' '.join(adds)} set"] if adds else []
    parts += [f"{' '.join(removes)} removed"] if removes else []
    return [
        make_step(
            CONCERN,
            PENDING,
            target=_TARGET,
            action=f"reboot into it: {', '.join(parts)} for the next boot",
            before=running,
            after=following,
            reason="the kernel reads its command line only while it boots",
            interrupts="everything on this node",
            when=BOOT,
            status=NEEDS_REBOOT,
        )
    ]


def _iommu_remarks(context: Context) -> list[str]:
    """Return why the IOMMU that the wanted arguments are about is off and stays off, nothing where it is on.

    Sources: Documentation/admin-guide/kernel-parameters.txt (intel_iommu, amd_iommu, iommu), drivers/iommu/intel (it is
    off without intel_iommu=on unless the kernel was built with INTEL_IOMMU_DEFAULT_ON), drivers/iommu/amd (on by
    itself).
    """
    system = context.actual.facts["system"]
    iommu = system["iommu"]
    wanted = [argument for argument in wanted_arguments(context) if name_of(argument) in _OF_IOMMU]
    asking = [argument for argument in wanted if argument not in IOMMU_OFF]
    if iommu["active"] or not asking or system["machine"] not in _X86:
        return []
    named = ", ".join(asking)
    line = words_of(system["cmdline"])
    if not iommu["firmware"]:
        return [
            f"{named} will have no effect: the firmware of this host shows no IOMMU; switch VT-d (Intel) or AMD-Vi "
            "(AMD) on in the BIOS"
        ]
    off = [word for word in line if word in IOMMU_OFF and name_of(word) not in map(name_of, asking)]
    if off:
        return [f"{named} will have no effect while the kernel line has {', '.join(off)}: take it out where it is set"]
    if iommu["firmware"] == INTEL and not set(SWITCHES_INTEL_ON) & {*asking, *line}:
        return [f"{named} will have no effect: this kernel leaves Intel's IOMMU off without intel_iommu=on; add it"]
    return []
