# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans the names of interfaces and RDMA devices: a file for every boot, a rename now where nothing is cut.

Rules of systemd.link(5) and of the kernel: the first matching file decides, a name in use can't be given again
(EEXIST), and a file that matches by path finds the function whatever address or name it has.
"""

from __future__ import annotations

from typing import Iterable

from ...engine.context import ConcernPlan, Context
from ...engine.steps import BOOT, NOTHING, Step, is_executable, key_of, make_step, moment, removal_step
from ...facts.own_files import naming_line_ends
from ...spec.host import seconds_after_boot
from . import rdma, representors
from .files import (
    RDMA_RULES,
    REPRESENTOR_RULES,
    STAMP,
    digest,
    fate_of_file,
    in_initramfs,
    is_naming_file,
    name_path,
    reason_of_file,
    rebuilds_initramfs,
    stamp_text,
    undo_of_file,
    wanted_files,
)
from .names import Name, Names, leads_back, notice_of_old_name
from .order import Turn


def plan(context: Context) -> ConcernPlan:
    """Return a step for each name that differs from the spec now or at boot, in an order in which names are free."""
    steps, said = representors.plan(context)
    names = context.once(Names)
    steps += [_rename(context, names.by_current[turn.rename.current], turn) for turn in names.turns]
    steps += [_at_boot(context, name) for name in names.staged if name.boot_differs]
    steps += [_keep(context, name) for name in names.kept]
    steps += [_refused(context, names.by_current[current], why) for current, why in sorted(names.refusals.items())]
    lost = sorted(set(names.overruled) - set(names.refusals))
    steps += [_refused(context, names.by_current[current], names.overruled[current], lost=True) for current in lost]
    steps += rdma.plan(context)
    steps += _tidy(context, steps)
    steps += _initramfs(context, steps)
    return steps, [*said, *_notices(context, names), *_initramfs_notices(context, steps)]


def _reason(name: Name) -> str:
    return (
        f"the interface at {name.interface.key} shall be {name.wanted} at every boot; "
        f"{name.current} follows from slot numbering and driver and may change with them"
    )


def _rename(context: Context, name: Name, turn: Turn) -> Step:
    interface = name.interface
    master = name.netdev["master"]
    path = name_path(interface)
    details = [*turn.exchange("interfaces"), fate_of_file(context, path), *_taken_over(name)]
    if master:
        details.append(f"it belongs to {master}: name it there as well")
    return make_step(
        "naming",
        interface.key,
        target=context.target_of(interface),
        action=f"rename {name.current} to {name.wanted}",
        before=name.current,
        after=name.wanted,
        reason=_reason(name),
        interrupts=_interrupts(name),
        undo=f"{undo_of_file(context, path)} and rename {name.wanted} to {name.current}",
        when=moment(now_differs=True, boot_differs=name.boot_differs),
        detail="; ".join(details),
    )


def _interrupts(name: Name) -> str:
    if not name.interface.is_up:
        return NOTHING
    if name.goes_down:
        return (
            f"traffic on {name.current}: kernels before 6.2 rename no interface that is up, so its link goes down for "
            "a moment, and with it go routes over it and its IPv6 addresses"
        )
    return f"what finds {name.current} by its name; its link stays up"


def _taken_over(name: Name) -> list[str]:
    """Return a note about settings copied from another ``.link`` file, as udev uses only ours."""
    if name.replaced is None:
        return []
    lines = [line for line in name.replaced["lines"] if not line.startswith("[")]
    if not lines or not name_path(name.interface).endswith(".link"):
        return []
    return [f"it has {', '.join(lines)} of {name.replaced['file']}, which udev no longer uses for it"]


def _keep(context: Context, name: Name) -> Step:
    """Return the step for a name that is right and that a boot would not give."""
    path, removing = name_path(name.interface), context.removing
    return make_step(
        "naming",
        name.interface.key,
        target=context.target_of(name.interface),
        action=f"leave the name {name.wanted} to the system" if removing else f"name it {name.wanted} at every boot",
        before=name.current,
        after=name.wanted,
        reason=reason_of_file(context, path, name.wanted),
        undo=undo_of_file(context, path),
        when=BOOT,
        detail="; ".join((fate_of_file(context, path), *_taken_over(name))),
    )


def _at_boot(context: Context, name: Name) -> Step:
    interface = name.interface
    path = name_path(interface)
    details = (
        fate_of_file(context, path),
        *_taken_over(name),
        f"it carries the uplink ({name.uplink}), so it is not renamed while the host runs",
        _after_boot(context, name),
    )
    return make_step(
        "naming",
        interface.key,
        target=context.target_of(interface),
        action=f"rename {name.current} to {name.wanted} at the next boot",
        before=name.current,
        after=name.wanted,
        reason=_reason(name),
        undo=f"{undo_of_file(context, path)} before the next boot",
        when=BOOT,
        **context.consent("uplink_change"),
        detail="; ".join(details),
    )


def _after_boot(context: Context, name: Name) -> str:
    """Return a note about how a rename is reverted if it cuts the host off."""
    if not leads_back(context, name):
        return (
            f"the host can't take it back, as no configuration knows {name.current} any more: leave {name.current} "
            f"beside {name.wanted} there until the host has started"
        )
    minutes = seconds_after_boot(context.desired["revert_seconds"]) // 60
    return f"it is reverted {minutes} minutes after that boot unless a run has reached the host by then"


def _refused(context: Context, name: Name, refusal: str, *, lost: bool = False) -> Step:
    """Return the refusal of a rename, or of keeping a name that is right now and that a boot takes away (``lost``)."""
    return make_step(
        "naming",
        f"{name.interface.key}:boot" if lost else name.interface.key,
        target=context.target_of(name.interface),
        action=f"name it {name.wanted} at every boot" if lost else f"rename {name.current} to {name.wanted}",
        before=name.current,
        after=name.wanted,
        reason=_reason(name),
        refusal=refusal,
    )


def _notices(context: Context, names: Names) -> list[str]:
    """Return notices about configuration that also has the old names, and renames that wait for a boot."""
    losing = [names.by_current[turn.rename.current] for turn in names.turns] + names.staged
    left = [(name, notice_of_old_name(context, name)) for name in losing]
    found = [f"{context.target_of(name.interface)}: {said}" for name, said in left if said]
    found += [
        f"{context.target_of(name.interface)}: it is called {name.wanted} from the next boot on"
        for name in names.staged
        if not name.boot_differs
    ]
    programs = [(names.by_current[current].interface, file) for current, file in names.programs.items()]
    found += [
        f"{context.target_of(each)}: {file} has a program name it at each boot, after ours" for each, file in programs
    ]
    return found


def _tidy(context: Context, planned: Iterable[Step]) -> list[Step]:
    """Return a step for each naming file of ours that nothing wants: it has to go before an initramfs is made."""
    wanted = {} if context.removing else wanted_files(context)
    with_own_step = {key_of(step) for step in planned}
    steps = []
    for path in sorted(filter(is_naming_file, context.boot_files)):
        covered = _key_of_file(path) in with_own_step if context.removing else path in wanted
        if not covered:
            steps.append(
                removal_step(
                    "naming",
                    path,
                    reason="rdma.fabric wrote it, and rdma_fabric_interfaces no longer asks for that name",
                    interrupts=_lost_name(context, path),
                )
            )
    return steps


def _lost_name(context: Context, path: str) -> str:
    """Return what the next boot interrupts if a file is removed that gives an interface or RDMA device its name."""
    nic = context.actual.nics.get(_key_of_file(path).partition(rdma.SUFFIX)[0])
    port = context.actual.port_of(nic) if nic is not None else None
    text = context.boot_files[path]
    names = [port["name"]] if port is not None and _names(text, port["name"]) else []
    names += [name for name in (nic["rdma"] if nic is not None else ()) if f'KERNEL!="{name}"' in text]
    return f"what finds {names[0]} by its name, from the next boot on" if names else NOTHING


def _names(text: str, name: str) -> bool:
    return any(line.endswith(naming_line_ends(name)) for line in text.splitlines())


def _key_of_file(path: str) -> str:
    """Return the key of the step about a naming file: its name ends with a PCI address."""
    domain, bus, rest = path.rsplit(".", 1)[0].rsplit("-", 2)
    address = f"{domain.rsplit('-', 1)[-1]}:{bus}:{rest}"
    if path.startswith(RDMA_RULES):
        return f"{address}{rdma.SUFFIX}"
    return f"{address}{representors.SUFFIX}" if path.startswith(REPRESENTOR_RULES) else address


def _initramfs(context: Context, planned: list[Step]) -> list[Step]:
    """Return the step that rebuilds the initramfs when it was made with other naming files."""
    known, initramfs = context.boot_files.get(STAMP), context.actual.facts["naming"]["initramfs"]
    if initramfs is None or not rebuilds_initramfs(context):
        return []
    files = _files_after(context, planned)
    if known == stamp_text(files) or (known is None and not files):
        return []
    program = " ".join(initramfs["update"] or ())
    return [
        make_step(
            "naming",
            STAMP,
            target=initramfs["image"],
            action="rebuild the initramfs",
            before=None if known is None else known.strip().rsplit("\n", 1)[-1],
            after=digest(files) if files else None,
            reason="it may hold network drivers, and it names interfaces by the files that it was made with",
            undo=f"{program} after the files are as they were",
            when=BOOT,
            detail=f"runs {program}, which takes a while; {STAMP} says what it was made with",
        )
    ]


def _files_after(context: Context, planned: Iterable[Step]) -> dict[str, str]:
    """Return the naming files that an initramfs may hold once the executable steps are done."""
    wanted = {} if context.removing else in_initramfs(wanted_files(context))
    files = in_initramfs({path: text for path, text in context.boot_files.items() if is_naming_file(path)})
    done = {key_of(step) for step in planned if is_executable(step)}
    for path in sorted({*files, *wanted}):
        key = _key_of_file(path)
        if path in wanted and key in done:
            files[path] = wanted[path]
        elif path not in wanted and {path, key} & done:
            files.pop(path, None)
    return files


def _initramfs_notices(context: Context, planned: list[Step]) -> list[str]:
    """Return a notice about an image that nothing here may make, where the naming files are about to change."""
    initramfs = context.actual.facts["naming"]["initramfs"]
    if not initramfs or initramfs["update"] or not initramfs["network"] or not any(map(is_executable, planned)):
        return []
    way = "rebuild it with the program that built it"
    if "transactional" in context.actual.facts["system"]:
        way = "it belongs to a read-only snapshot: transactional-update initrd makes the next one, then reboot"
    if context.actual.facts["system"]["ostree"]:
        files = _files_after(context, planned)
        gone = set(in_initramfs(dict.fromkeys(filter(is_naming_file, context.boot_files), ""))) - set(files)
        options = [f"--track={path}" for path in files] + [f"--untrack={path}" for path in sorted(gone)]
        way = f"it belongs to rpm-ostree: rpm-ostree initramfs-etc --force-sync {' '.join(options)}, or a MachineConfig"
    return [f"{initramfs['image']} may name interfaces by older files: {way}"]
