# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installs the boot unit and its files, each entry tied to the card that it is for.

This reads the vital product data of cards: it is for the boot unit, and for a run that writes its file anyway.

Where units wait for one another in a cycle, systemd leaves one of them out at boot: ours, the network or the kubelet.
``systemd-analyze verify`` makes the jobs of a boot without running them, and tells cycles. The unit comes first: it is
not enabled yet, so the boot's own target does not bring it.
"""

from __future__ import annotations

import json
import re
from typing import Sequence

from ..engine.context import Context
from ..engine.failures import Fault
from ..engine.operations import RELOAD_SECONDS, RELOAD_UNITS, Found, Operation, PutFile, RemoveFile, Run, Work
from ..engine.steps import Step, key_of
from ..facts.same_card import Moved, cards_of, moved_cards
from ..machine.access import Host, HostError
from ..machine.host_files import (
    CONFIRMED_FILE,
    ENABLED_BY,
    RESULT_FILE,
    STAGED_FILE,
    UNIT,
    UNIT_FILE,
    WISHES_FILE,
    mode_of,
)
from ..machine.probe import PCI
from ..machine.program import program_path, program_text
from ..spec.persisted import MAKER, Wished, cards_in, wishes_text
from .files import manager_files, unit_files
from .persistence import RELOAD, followers, told_to_network_manager


def with_cards(host: Host, text: str) -> str:
    """Return a file of wishes with the card that is at each of its addresses now, or the known one where there is none.

    Virtual functions have none of their own: those that the wishes make go with their physical one, and others are not
    there yet when the boot unit runs.
    """
    document = json.loads(text)
    addresses = [wish["pci"] for wish in document["interfaces"] if "pci" in wish and MAKER not in wish]
    physical = [address for address in addresses if not host.exists(f"{PCI}/{address}/physfn")]
    cards = {**cards_in(text), **cards_of(host, physical, {})}
    return wishes_text(document["interfaces"], document.get("pcie"), cards)


def of_present_cards(host: Host, wished: Wished) -> tuple[Wished, dict[str, str]]:
    """Return the wishes without those whose address means another card now, and a line for each such address.

    An address with nothing there is among them where the card is found elsewhere: its functions may be other devices.
    """
    left_out = {each.address: _said(each) for each in moved_cards(host, wished.cards)}
    kept = []
    for entry in wished.desired["interfaces"]:
        address = entry.get("pci") or ""
        if address not in left_out and wished.made.get(address) not in left_out:
            kept.append(entry)
    return wished._replace(desired={**wished.desired, "interfaces": kept}), left_out


def _said(moved: Moved) -> str:
    where = f"is at {moved.now_at} now" if moved.now_at else "is gone, and another one is there"
    return (
        f"{moved.address}: the card that settings are kept for {where}, so nothing was set here and for its virtual "
        "functions; next: give the card's present address in rdma_fabric_interfaces, and run again"
    )


_ENABLE = Run(("systemctl", "enable", UNIT), RELOAD_SECONDS)  # which reloads them as well
# What `systemctl disable` does; it refuses to when an interrupted run has removed the unit already.
_DISABLE = RemoveFile(ENABLED_BY)
VERIFY = ("systemd-analyze", "verify", "--man=no", UNIT_FILE, "default.target")
_VERIFY_SECONDS = 60.0
_STARTS, _GOES_ON = "Found ordering cycle", "Found dependency on"
_UNIT_NAME = re.compile(r"([^\s/]+?\.[a-z]+)(?:/[a-z-]+\b|: )")


def work(context: Context, step: Step) -> Work:
    """Return how a manager's file is written, or how the boot unit is installed, updated or removed."""
    path = key_of(step)
    if not path.startswith("/"):
        # The step about the unit, which comes before, has taken it out of the unit's file.
        return Work(())
    if path != UNIT_FILE:
        return _file_work(context, path)
    files = unit_files(context)
    return _install(context, files) if files else removal(_programs(context))


def _file_work(context: Context, path: str) -> Work:
    text = manager_files(context)[path]
    undo = context.boot_undo({path: text})
    followed = followers(context, path)

    def verify(host: Host) -> str:
        return "" if host.read(path) == text else f"{path} holds something else"

    do = [PutFile(path, text, mode_of(path)), *told_to_network_manager(followed)]
    return Work(do, [*undo, *([RELOAD] if followed else [])], verify)


def installation(program: str, programs: list[str], files: dict[str, str]) -> list[Operation]:
    """Return how the boot unit is installed; whatever is interrupted, it names a program that is whole.

    ``program`` is the path of the one that this code makes, ``programs`` are those on the host.
    """
    do: list[Operation] = [] if program in programs else [PutFile(program, program_text())]
    do += [_wishes(text) if path == WISHES_FILE else PutFile(path, text) for path, text in files.items()]
    do += [FITS, RELOAD_UNITS, _ENABLE]
    do += [RemoveFile(path) for path in programs if path != program]
    return do


def _wishes(text: str) -> Operation:
    """Return how the wishes are written, with the cards that they are for."""

    def operations(host: Host) -> list[Operation]:
        return [PutFile(WISHES_FILE, with_cards(host, text), mode_of(WISHES_FILE))]

    return Found(f"write {WISHES_FILE}", operations)


def removal(programs: list[str]) -> Work:
    """Return how everything of the boot unit is removed; it keeps running nothing, so stopping it is not needed.

    systemd forgets the unit before the rest goes: as long as anything is left, the next run does all of it again.
    """
    # The path of this program is among them even when it is gone: its directory goes with it.
    rest = (WISHES_FILE, *programs, program_path(), RESULT_FILE, CONFIRMED_FILE, STAGED_FILE)
    return Work([_DISABLE, RemoveFile(UNIT_FILE), RELOAD_UNITS, *map(RemoveFile, rest)], verify=_is_gone)


def _install(context: Context, files: dict[str, str]) -> Work:
    undo: list[Operation] = []
    if UNIT_FILE not in context.boot_files:
        undo = [_DISABLE, *(RemoveFile(path) for path in (UNIT_FILE, WISHES_FILE, program_path())), RELOAD_UNITS]
    else:
        undo = [_former_unit(context), *context.boot_undo({WISHES_FILE: ""}), RELOAD_UNITS]

    def verify(host: Host) -> str:
        if not host.exists(program_path()):
            return f"{program_path()} is missing"
        return "" if host.exists(ENABLED_BY) else f"{UNIT} is not enabled"

    return Work(installation(program_path(), _programs(context), files), undo, verify)


def _former_unit(context: Context) -> Operation:
    """Return how the boot unit gets its former text, with the program of its release where it names another than this.

    That program is removed last. Once it is gone the unit stays as it is: its former text would name nothing that runs.
    """
    former = PutFile(UNIT_FILE, context.boot_files[UNIT_FILE])
    program, programs = program_path(), _programs(context)
    if program in former.text:
        return former
    added = [] if program in programs else [RemoveFile(program)]
    of_former = [path for path in programs if path in former.text]

    def operations(host: Host) -> list[Operation]:
        return [former, *added] if any(map(host.exists, of_former)) else []

    return Found("bring the former boot unit back", operations)


def _programs(context: Context) -> list[str]:
    return context.actual.facts["boot"]["unit"]["programs"]


def _is_gone(host: Host) -> str:
    left = [path for path in (UNIT_FILE, WISHES_FILE, ENABLED_BY) if host.exists(path)]
    return f"{', '.join(left)} is still there" if left else ""


def cycle_with(unit: str, text: str) -> list[str]:
    """Return the units of the first cycle that ``unit`` is in, of what ``systemd-analyze verify`` prints; else none.

    A cycle begins with a line of its own, and others of it follow. Those that ``unit`` has no part in are the host's.
    """
    found: list[list[str]] = []
    for line in text.splitlines():
        if _STARTS in line:
            found.append([])
        if found and (_STARTS in line or _GOES_ON in line):
            found[-1] += [name for name in _UNIT_NAME.findall(line) if name not in found[-1]]
    return next((names for names in found if unit in names), [])


def _refuse_cycle(host: Host) -> Sequence[Operation]:
    try:
        text = host.run(VERIFY, _VERIFY_SECONDS).stderr
    except HostError:
        # A host without the program, or on which it takes too long, is not judged.
        return ()
    names = cycle_with(UNIT, text)
    if names:
        raise Fault(
            f"{', '.join(names)} would be in an ordering cycle at boot, which systemd breaks by leaving one out; next: "
            f"see their Before= and After= (systemctl cat), take one away that is not of {UNIT}, and run again"
        )
    return ()


FITS = Found("fit the boot unit into the order of the host's units", _refuse_cycle, _VERIFY_SECONDS)
