# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel arguments: those of the next boot, our file that lists them, and changes that need a reboot."""

from __future__ import annotations

from types import MappingProxyType

from ...engine.context import ConcernPlan, Context, Handler
from ...engine.operations import Operation, PutFile, RemoveFile, Run, Work
from ...engine.steps import BOOT, NEEDS_REBOOT, Step, make_step
from ...facts.kernel_arguments import CMDLINE_FILE, GRUB, GRUBBY, SYSTEMD_BOOT, next_line, told_of
from ...facts.memory import boot_arguments
from ...facts.own_files import DROP_IN, RECORD, REMOVED, drop_in, listed, record
from ...facts.settings_shapes import KernelArguments
from ...facts.system import INTEL, SWITCHES_INTEL_ON
from ...machine.access import Host
from ...machine.probe import Probe
from ...spec.arguments import (
    IOMMU_OFF,
    NETNS_MODES,
    as_listed,
    contains,
    count,
    grouped,
    name_of,
    vendor_problem,
    words_of,
)

CONCERN = "kernel_arguments"
PENDING = "reboot"
_TARGET = "kernel command line"
_OF_IOMMU = ("iommu", "intel_iommu", "amd_iommu", "iommu.passthrough", "iommu.strict")
_X86 = ("x86_64", "i686")
# os-prober looks at every disk.
_SECONDS = 600.0
ERRORS = MappingProxyType(
    {
        "ENOENT": "a file or program of the boot loader is missing; next: install its package again and run again",
        "EROFS": "/boot or /etc is mounted read only; next: mount it writable and run again",
        "ENOSPC": "/boot is full; next: remove old kernels (apt autoremove, dnf remove) and run again",
    }
)


def plan(context: Context) -> ConcernPlan:
    """Return a step that changes the next boot's command line or one that needs the reboot, refusals, and notices."""
    steps = [_unfit(context, argument) for argument in asked_arguments(context) if problem_of(context, argument)]
    adds, removes = missing_arguments(context), unwanted_arguments(context)
    if adds or removes or context.boot_differs(boot_files(context)):
        steps.append(_change(context, adds, removes))
    else:
        steps += _pending(context)
    return steps, [*_iommu_remarks(context), *_mode_remarks(context)]


def _mode_remarks(context: Context) -> list[str]:
    """Return a notice if RDMA is in another mode than that of our kernel argument."""
    wanted, now = context.desired["netns_mode"], context.actual.facts["settings"].get("netns_mode")
    if wanted is None or now in (None, wanted) or not contains(found(context)["running"], NETNS_MODES[wanted]):
        return []
    return [
        f"RDMA is in {now} mode although the kernel was booted with {NETNS_MODES[wanted]}: somebody changed it (rdma "
        f"system set netns {now}); the next boot brings {wanted} mode back"
    ]


def unwanted_arguments(context: Context) -> list[str]:
    """Return our arguments that the spec no longer has."""
    wanted = arguments_of_ours(context)
    return [argument for argument in own_arguments(context) if argument not in wanted]


def _unfit(context: Context, argument: str) -> Step:
    return make_step(
        CONCERN,
        argument,
        target=_TARGET,
        action=f"boot with {argument}",
        after=argument,
        reason=f"rdma_fabric_kernel_arguments asks for {argument}",
        refusal=problem_of(context, argument),
    )


def _change(context: Context, adds: list[str], removes: list[str]) -> Step:
    parts = [f"with {' '.join(adds)}"] if adds else []
    parts += [f"without {' '.join(removes)}"] if removes else []
    action = f"boot {' and '.join(parts)}" if parts else f"write {own_file(context)} as rdma.fabric writes it"
    reason = f"the next boot would not have {' '.join(adds)}" if adds else "the input no longer asks for them"
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
    """Return the name of the program that writes the next boot's command line."""
    loader = found(context)["loader"]
    if loader == GRUBBY:
        return "grubby"
    return "kernel-install" if loader == SYSTEMD_BOOT else (found(context)["update"] or ["update-grub"])[0]


def _pending(context: Context) -> list[Step]:
    """Return a step that needs a reboot if the next boot's command line is right and the running one is not."""
    running, following = list(found(context)["running"]), known_next_line(context)
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
    """Return a notice if arguments of the spec need the IOMMU, and it is off and stays off.

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


def found(context: Context) -> KernelArguments:
    """Return the facts about kernel arguments, empty if they were not read."""
    return told_of(context.actual.facts)


def own_file(context: Context) -> str:
    """Return the file that lists our arguments: a drop-in of GRUB, or a file of their own."""
    return DROP_IN if found(context)["loader"] == GRUB else RECORD


def own_arguments(context: Context) -> list[str]:
    """Return the arguments that our file lists now."""
    return listed(context.boot_files.get(own_file(context), ""))


def wanted_arguments(context: Context) -> list[str]:
    """Return every argument of the spec that fits the host's processor, in order."""
    return [argument for argument in asked_arguments(context) if not problem_of(context, argument)]


def asked_arguments(context: Context) -> list[str]:
    """Return every argument of the spec once, including those of huge pages and of RDMA's mode."""
    mode = context.desired["netns_mode"]
    of_mode = [NETNS_MODES[mode]] if mode else []
    pages = boot_arguments(context.desired, context.actual.facts)
    return as_listed([*context.desired["kernel_arguments"], *of_mode, *pages])


def problem_of(context: Context, argument: str) -> str:
    """Return why an argument has no meaning for this host's processor; empty if it has one."""
    machine = context.actual.facts["system"]["machine"]
    return vendor_problem(argument, machine, found(context)["cpu_vendor"])


def arguments_of_ours(context: Context) -> list[str]:
    """Return the wanted arguments that nobody else sets: only those are written."""
    line = known_next_line(context)
    active = _active(context)
    return [argument for argument in wanted_arguments(context) if count(line, argument) <= int(argument in active)]


def known_next_line(context: Context) -> list[str]:
    """Return the next boot's command line, or the running one if that is unknown."""
    facts = found(context)
    return list(facts["running"] if facts["next"] is None else facts["next"])


def missing_arguments(context: Context) -> list[str]:
    """Return our arguments that the next boot's command line lacks."""
    line = known_next_line(context)
    return [argument for argument in arguments_of_ours(context) if not contains(line, argument)]


def boot_files(context: Context) -> dict[str, str]:
    """Return the file that lists our arguments, none if there are none or they can't be written."""
    arguments = arguments_of_ours(context)
    if not arguments or found(context)["cannot"]:
        return {}
    return {own_file(context): file_text(context, arguments, arguments)}


def file_text(context: Context, arguments: list[str], listing: list[str]) -> str:
    """Return the text of our file; ``listing`` includes arguments that are being removed."""
    return drop_in(arguments, listing) if own_file(context) == DROP_IN else record(listing)


def _active(context: Context) -> list[str]:
    """Return our arguments that are in the boot loader's configuration now, as far as it is known."""
    line = known_next_line(context)
    return [argument for argument in own_arguments(context) if count(line, argument)]


def work(context: Context, _step: Step) -> Work:
    """Return how the next boot's command line is changed.

    Our file lists removed arguments until the boot loader's configuration is regenerated, so that the next run can go
    on if this one is killed.
    """
    before, after = own_arguments(context), arguments_of_ours(context)
    gone = [argument for argument in before if argument not in after]
    path = own_file(context)
    listing = [*after, *gone]
    gone_now = [argument for argument in gone if count(found(context)["running"], argument)]
    noted = list(dict.fromkeys([*found(context)["removed"], *gone_now]))
    do: list[Operation] = [PutFile(path, file_text(context, after, listing))]
    do += [PutFile(REMOVED, record(noted))] if gone and noted else []
    do += _loader_operations(context, after, gone)
    do.append(PutFile(path, file_text(context, after, after)) if after else RemoveFile(path))
    undo: list[Operation] = [PutFile(path, file_text(context, before, listing))]
    undo += _loader_operations(context, before, [argument for argument in after if argument not in before])
    undo.append(PutFile(path, file_text(context, before, before)) if before else RemoveFile(path))
    loader = found(context)["loader"]

    def verify(host: Host) -> str:
        return _problem(next_line(Probe(host), loader), after, [a for a in gone if not _others_have(context, a)])

    return Work(do, undo, verify)


def _loader_operations(context: Context, wanted: list[str], gone: list[str]) -> list[Operation]:
    facts = found(context)
    if facts["loader"] == GRUBBY:
        return _by_grubby(context, wanted, gone)
    if facts["loader"] == SYSTEMD_BOOT:
        installs = [
            Run(("kernel-install", "add", version, image), _SECONDS) for version, image in facts["kernels"].items()
        ]
        return [PutFile(CMDLINE_FILE, _changed_line(facts["line"], wanted, gone)), *installs]
    return [Run(tuple(facts["update"] or ("update-grub",)), _SECONDS)]


def _by_grubby(context: Context, wanted: list[str], gone: list[str]) -> list[Operation]:
    """Return the call of grubby that puts the wanted arguments after those of others with the same names.

    To add an argument, grubby first removes all with its name, whoever set them, and to remove one it removes the first
    that matches (update_args of rhboot/grubby, grubby-bls). So those of others are passed, too.
    """
    others = [word for word in _of_others(context) if name_of(word) in {*map(name_of, _words([*wanted, *gone]))}]
    given = [*others, *wanted]
    kept = {*map(name_of, _words(given))}
    removed = [word for word in _words(gone) if name_of(word) not in kept]
    options = [f"--args={' '.join(given)}"] if given else []
    options += [f"--remove-args={' '.join(removed)}"] if removed else []
    return [Run(("grubby", "--update-kernel=ALL", *options), _SECONDS)] if options else []


def _of_others(context: Context) -> list[str]:
    """Return the words of the next boot's command line without our arguments, which are at its end."""
    arguments = grouped(known_next_line(context))
    for argument in own_arguments(context):
        if argument in arguments:
            del arguments[len(arguments) - 1 - arguments[::-1].index(argument)]
    return _words(arguments)


def _words(arguments: list[str]) -> list[str]:
    return [word for argument in arguments for word in argument.split()]


def _changed_line(line: str, wanted: list[str], gone: list[str]) -> str:
    """Return the text of /etc/kernel/cmdline: its arguments stay, ours are removed and added at the end."""
    kept = [argument for argument in grouped(words_of(line)) if argument not in gone and argument not in wanted]
    return f"{' '.join([*kept, *wanted])}\n"


def _others_have(context: Context, argument: str) -> bool:
    """Return whether somebody else sets the argument too, so that it remains when ours is removed."""
    return count(found(context)["next"] or [], argument) > 1


def _problem(line: list[str] | None, wanted: list[str], gone: list[str]) -> str:
    if line is None:
        return "the boot loader's default entry can't be read back; next: look at its configuration"
    missing = [argument for argument in wanted if not contains(line, argument)]
    left = [argument for argument in gone if contains(line, argument)]
    problems = [f"the default entry lacks {' '.join(missing)}"] if missing else []
    problems += [f"the default entry still has {' '.join(left)}"] if left else []
    if not problems:
        return ""
    return f"{' and '.join(problems)}; next: look for a later file that sets the whole line (/etc/default/grub.d)"


HANDLER = Handler(work, ERRORS)
