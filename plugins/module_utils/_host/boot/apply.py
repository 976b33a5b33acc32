# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installs, updates and removes the boot unit and the files of network managers.

Each entry of the boot unit is tied to its card. That takes the vital product data of cards, so only a run that writes
the file, and the boot unit itself, read it.

If units form an ordering cycle, systemd drops one of them at boot: ours, the network or the kubelet. ``systemd-analyze
verify`` computes the jobs of a boot without running them and reports cycles. Our unit is its first argument, because
it is not enabled yet and so not part of the boot's target.
"""

from __future__ import annotations

import json
import re
from typing import Sequence

from ..engine.context import Context, Handler
from ..engine.failures import Fault
from ..engine.operations import RELOAD_SECONDS, RELOAD_UNITS, Found, Operation, PutFile, RemoveFile, Run, Work
from ..engine.steps import Step, key_of
from ..facts.same_card import Moved, cards_of, moved_cards
from ..machine.access import Host, HostError
from ..machine.host_files import (
    BOOT_SPEC_FILE,
    CONFIRMED_FILE,
    ENABLED_BY,
    NETPLAN_FILE,
    RESULT_FILE,
    STAGED_FILE,
    UNIT,
    UNIT_FILE,
    mode_of,
)
from ..machine.probe import PCI
from ..machine.program import program_path, program_text
from ..spec.persisted import MAKER, BootSpec, boot_spec_text, cards_in
from .files import manager_files, unit_files
from .persistence import RELOAD, followers, told_to_network_manager

# This reloads the units, too.
_ENABLE = Run(("systemctl", "enable", UNIT), RELOAD_SECONDS)
# The effect of `systemctl disable`, which fails if an interrupted run has already removed the unit.
_DISABLE = RemoveFile(ENABLED_BY)
# At a boot, netplan's generator has put what the file asked for into /run before the boot unit takes the file back.
_GENERATE = Run(("netplan", "generate"))
VERIFY = ("systemd-analyze", "verify", "--man=no", UNIT_FILE, "default.target")
_VERIFY_SECONDS = 60.0
_STARTS, _GOES_ON = "Found ordering cycle", "Found dependency on"
_UNIT_NAME = re.compile(r"([^\s/]+?\.[a-z]+)(?:/[a-z-]+\b|: )")


def work(context: Context, step: Step) -> Work:
    """Return how a manager's file is written, or the boot unit installed, updated or removed."""
    path = key_of(step)
    if not path.startswith("/"):
        # A dropped setting: the unit's own step, which precedes this one, has removed it from the unit's file.
        return Work(())
    if path != UNIT_FILE:
        return _file_work(context, path)
    files = unit_files(context)
    return _install(context, files) if files else removal([*_programs(context), program_path()])


def installation(program: str, programs: list[str], files: dict[str, str]) -> list[Operation]:
    """Return how the boot unit is installed; if interrupted at any point, the unit still names a complete program.

    ``program`` is the path of this release's program, ``programs`` are those on the host.
    """
    do: list[Operation] = [] if program in programs else [PutFile(program, program_text())]
    do += [_boot_spec_file(text) if path == BOOT_SPEC_FILE else PutFile(path, text) for path, text in files.items()]
    do += [FITS, RELOAD_UNITS, _ENABLE]
    do += [RemoveFile(path) for path in programs if path != program]
    return do


def removal(programs: list[str]) -> Work:
    """Return how the boot unit and its files are removed; no process of it runs, so nothing is stopped.

    systemd forgets the unit first. As long as any file is left, the next run repeats the removal. With a program's path
    its directory goes, too, even if the file is gone.
    """
    rest = (BOOT_SPEC_FILE, *programs, RESULT_FILE, CONFIRMED_FILE, STAGED_FILE)
    return Work([_DISABLE, RemoveFile(UNIT_FILE), RELOAD_UNITS, *map(RemoveFile, rest)], verify=_is_gone)


def with_cards(host: Host, text: str) -> str:
    """Return the text of the boot unit's file with the card at each address, or the known card if the slot is empty.

    VFs have no card of their own: those that the boot unit creates follow their PF, and
    others do not exist yet when it runs.
    """
    document = json.loads(text)
    addresses = [entry["pci"] for entry in document["interfaces"] if "pci" in entry and MAKER not in entry]
    physical = [address for address in addresses if not host.exists(f"{PCI}/{address}/physfn")]
    cards = {**cards_in(text), **cards_of(host, physical, {})}
    return boot_spec_text(document["interfaces"], document.get("pcie"), cards)


def of_present_cards(host: Host, boot_spec: BootSpec) -> tuple[BootSpec, dict[str, str]]:
    """Return the entries whose cards are still in place, and a message for each address that has another card now.

    An empty slot counts as moved if its card is elsewhere now: its functions may have become other devices.
    """
    left_out = {each.address: _moved_message(each) for each in moved_cards(host, boot_spec.cards)}
    kept = []
    for entry in boot_spec.desired["interfaces"]:
        address = entry.get("pci") or ""
        if address not in left_out and boot_spec.made.get(address) not in left_out:
            kept.append(entry)
    return boot_spec._replace(desired={**boot_spec.desired, "interfaces": kept}), left_out


def cycle_with(unit: str, text: str) -> list[str]:
    """Return the units of the first ordering cycle with ``unit`` in the output of ``systemd-analyze verify``.

    A cycle has one line that begins it, and further lines. Cycles without ``unit`` are none of our business.
    """
    cycles: list[list[str]] = []
    for line in text.splitlines():
        if _STARTS in line:
            cycles.append([])
        if cycles and (_STARTS in line or _GOES_ON in line):
            cycles[-1] += [name for name in _UNIT_NAME.findall(line) if name not in cycles[-1]]
    return next((names for names in cycles if unit in names), [])


def _file_work(context: Context, path: str) -> Work:
    text = manager_files(context)[path]
    undo = context.boot_undo({path: text})
    followed = followers(context, path)

    def verify(host: Host) -> str:
        return "" if host.read(path) == text else f"{path} has other content"

    do = [PutFile(path, text, mode_of(path)), *told_to_network_manager(followed)]
    undo += [RELOAD] if followed else []
    undo += [_GENERATE] if path == NETPLAN_FILE else []
    return Work(do, undo, verify)


def _install(context: Context, files: dict[str, str]) -> Work:
    undo: list[Operation] = []
    if UNIT_FILE not in context.boot_files:
        undo = [_DISABLE, *(RemoveFile(path) for path in (UNIT_FILE, BOOT_SPEC_FILE, program_path())), RELOAD_UNITS]
    else:
        undo = [_former_unit(context), *context.boot_undo({BOOT_SPEC_FILE: ""}), RELOAD_UNITS]

    def verify(host: Host) -> str:
        if not host.exists(program_path()):
            return f"{program_path()} is missing"
        return "" if host.exists(ENABLED_BY) else f"{UNIT} is not enabled"

    return Work(installation(program_path(), _programs(context), files), undo, verify)


def _former_unit(context: Context) -> Operation:
    """Return how the boot unit gets its former text back.

    If that text names the program of another release, this release's program is removed. The update removes the other
    program last; once that is gone, the unit keeps its new text, because the former one would name a missing program.
    """
    former = PutFile(UNIT_FILE, context.boot_files[UNIT_FILE])
    program, programs = program_path(), _programs(context)
    if program in former.text:
        return former
    added = [] if program in programs else [RemoveFile(program)]
    of_former = [path for path in programs if path in former.text]

    def operations(host: Host) -> list[Operation]:
        return [former, *added] if any(map(host.exists, of_former)) else []

    return Found("restore the former boot unit", operations)


def _boot_spec_file(text: str) -> Operation:
    """Return how the boot unit's entries are written, each with its card."""

    def operations(host: Host) -> list[Operation]:
        return [PutFile(BOOT_SPEC_FILE, with_cards(host, text), mode_of(BOOT_SPEC_FILE))]

    return Found(f"write {BOOT_SPEC_FILE}", operations)


def _programs(context: Context) -> list[str]:
    return context.actual.facts["boot"]["unit"]["programs"]


def _is_gone(host: Host) -> str:
    left = [path for path in (UNIT_FILE, BOOT_SPEC_FILE, ENABLED_BY) if host.exists(path)]
    return f"{', '.join(left)} is still there" if left else ""


def _moved_message(moved: Moved) -> str:
    where = f"is at {moved.now_at} now" if moved.now_at else "was replaced by another one"
    return (
        f"{moved.address}: the card of these settings {where}, so nothing was set for it and its VFs; "
        "next: give the card's present address in rdma_fabric_interfaces, and run again"
    )


def _refuse_cycle(host: Host) -> Sequence[Operation]:
    try:
        text = host.run(VERIFY, _VERIFY_SECONDS).stderr
    except HostError:
        # Without the program, or if it takes too long, nothing is checked.
        return ()
    names = cycle_with(UNIT, text)
    if names:
        raise Fault(
            f"{', '.join(names)} would form an ordering cycle at boot, which systemd breaks by dropping one of them; "
            f"next: remove a Before= or After= of another unit than {UNIT} (systemctl cat shows them), and run again"
        )
    return ()


FITS = Found("check the boot unit for ordering cycles", _refuse_cycle, _VERIFY_SECONDS)


HANDLER = Handler(work)
