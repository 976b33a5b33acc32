# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guards changes of the uplink while a plan is executed: the host reverts them unless they are confirmed."""

from __future__ import annotations

import contextlib
import posixpath
from typing import Callable

from ..boot.apply import installation
from ..boot.files import unit_of
from ..concerns.naming.files import STAMP
from ..concerns.routing.reach import RULES_KEY, rules_of_uplinks, unwanted_rules
from ..engine.concerns import CONCERNS
from ..engine.context import Context
from ..engine.execute import perform
from ..engine.failures import Fault
from ..engine.operations import Work
from ..engine.steps import BOOT, Step, address_of, describe, key_of
from ..machine.access import Clock, HostError, Machine
from ..machine.host_files import GUARD_FILE, PROGRAM_DIRECTORY, REVERTED_FILE, REVERTING_FILE, STAGED_FILE, UNIT_FILE
from ..machine.probe import boot_id, names_at
from ..machine.program import is_program, program_path
from ..spec.host import seconds_after_boot
from ..spec.sysctls import path_below
from .record import Record, extended, followed_by, staged, text_of, with_step
from .revert import Answer, forget_if_gone, read_record, unreported

Launch = Callable[[str, str, str], None]


def revert_report(answer: Answer) -> str:
    """Return the message of the first run after a revert."""
    report = (
        f"{' and '.join(answer.steps)}: this change of the uplink was not confirmed over a new connection in time; "
        "the host has reverted it"
    )
    if answer.problems:
        report += f", except for this: {'; '.join(answer.problems)}"
    return f"{report}; next: find out why the host could not be reached with it, and run again"


def touches_uplink(context: Context, step: Step) -> bool:
    """Return whether a step acts now on what its key names, and that belongs to the uplink, whichever its concern."""
    if step["when"] == BOOT or not CONCERNS[step["concern"]].guarded:
        return False
    actual, key = context.actual, key_of(step)
    if step["concern"] == "routing" and key == RULES_KEY:
        return bool(rules_of_uplinks(context, unwanted_rules(context)))
    if step["concern"] == "sysctl":
        return _is_of_uplink(context, step["target"])
    # A key has a PCI address or a name, with what the step is about before or after it.
    named = (address_of(step), *key.split(":"))
    devices = [(each.nic, each.netdev) for each in context.interfaces if each.key in named]
    reasons = [actual.uplink_reason_with_members(*each) for each in (*devices, (context.nic_of(step), None))]
    return any(reason is not None for reason in reasons)


def _is_of_uplink(context: Context, setting: str) -> bool:
    """Return whether a setting of /proc/sys is one of an interface of the uplink, or of all interfaces."""
    parts = path_below(setting).split("/")
    if len(parts) != 5 or parts[0] != "net":
        return False
    return parts[3] == "all" or context.actual.uplink_of(parts[3]) is not None


def obstacle(machine: Machine, clock: Clock) -> str:
    """Return why nothing may be changed now, empty if it may; a revert is reported once. Raises HostError."""
    reverted = unreported(machine, clock)
    if reverted is not None:
        return revert_report(reverted)
    waiting = read_record(machine, GUARD_FILE)
    if waiting is None:
        return ""
    left = max(1, round(waiting.deadline - clock.now()))
    return (
        f"{' and '.join(waiting.steps)}: this change of the uplink awaits confirmation by the run that made it, for "
        f"{left} seconds at most; nothing was changed; next: run again after that"
    )


class Guard:
    """Records how each uplink change is reverted, before it is made.

    The first step that touches the uplink arms the guard: ``launch`` starts the waiting process, with interpreter,
    program and token. On hosts whose plan leaves the uplink alone, nothing is recorded or started. Whoever removes the
    record acts on it, so the record is created once and then only overwritten; a run that finds it gone ends with a
    Fault.
    """

    def __init__(self, machine: Machine, clock: Clock, launch: Launch, *, token: str, seconds: int) -> None:
        self._machine = machine
        self._clock = clock
        self._launch = launch
        self._token = token
        self._seconds = seconds
        self._record: Record | None = None

    def before(self, context: Context, step: Step, work: Work) -> None:
        """Guard a step before it runs, if it needs that; raises HostError or Fault."""
        touches = touches_uplink(context, step)
        if touches and self._record is None:
            self._record = self._armed(context)
        # What makes a change persistent is reverted too, or the next boot would make the change again.
        if self._record is not None and (touches or CONCERNS[step["concern"]].persists):
            self._keep(with_step(self._record, describe(step), work.undo, self._clock.now()))
        if work.undo_after_boot:
            self._stage(context, step, work)

    def during(self, seconds: float) -> None:
        """Extend the deadline for an operation of at most ``seconds``, so that nothing is reverted while a run works.

        The record is only written if the time gets short; if that fails, the former deadline stands. Raises Fault if
        the changes were reverted meanwhile.
        """
        if self._record is None:
            return
        now = self._clock.now()
        if self._record.deadline < now + seconds + self._seconds / 2:
            with contextlib.suppress(HostError):
                self._keep(extended(self._record, now, seconds))

    def finish(self) -> dict[str, object] | None:
        """Return what a confirmation needs, and extend the deadline; None if nothing was guarded.

        The confirmation itself reports a record that is gone.
        """
        with contextlib.suppress(HostError):
            forget_if_gone(self._machine, self._clock)
        if self._record is None:
            return None
        with contextlib.suppress(HostError, Fault):
            self._keep(extended(self._record, self._clock.now()))
        return {"token": self._token, "seconds": self._seconds, "steps": list(self._record.steps)}

    def _stage(self, context: Context, step: Step, work: Work) -> None:
        """Record how a change at the next boot is reverted; a rebuilt initramfs is only added to such a change."""
        known = read_record(self._machine, STAGED_FILE)
        if key_of(step) == STAMP:
            record = known and followed_by(known, work.undo_after_boot)
        else:
            if known is None:
                self._install(context)
            seconds = seconds_after_boot(self._seconds)
            fresh = Record(self._token, boot_id(self._machine), seconds, 0.0, at_boot=True)
            record = staged(known or fresh, describe(step), work.undo_after_boot)
        if record is not None and record != known:
            self._machine.replace(STAGED_FILE, text_of(record), 0o600)

    def _install(self, context: Context) -> None:
        """Install the program and the boot unit, by which the host reverts changes, even after a reboot."""
        program = program_path()
        files = {} if UNIT_FILE in context.boot_files else {UNIT_FILE: unit_of(context)}
        for operation in installation(program, self._programs(program), files):
            perform(operation, self._machine, self._clock)

    def _armed(self, context: Context) -> Record:
        """Install the program, write the record and start the waiting process; return the record."""
        self._install(context)
        record = Record(self._token, boot_id(self._machine), self._seconds, self._clock.now() + self._seconds)
        self._machine.replace(GUARD_FILE, text_of(record), 0o600)
        self._record = record
        self._launch(context.python, program_path(), self._token)
        return record

    def _programs(self, program: str) -> list[str]:
        """Return this release's program if the host has it; another release's stays until its unit is changed."""
        known = names_at(self._machine, PROGRAM_DIRECTORY)
        return [program] if is_program(program) and posixpath.basename(program) in known else []

    def _keep(self, record: Record) -> None:
        """Overwrite the record; raises Fault if it is gone, even if it disappears at this very moment."""
        if not self._machine.exists(GUARD_FILE):
            raise self._gone()
        self._machine.replace(GUARD_FILE, text_of(record), 0o600)
        if self._is_taken_back():
            self._machine.remove(GUARD_FILE)
            raise self._gone()
        self._record = record

    def _is_taken_back(self) -> bool:
        # In the order of a revert, so that one of them exists at any moment.
        records = (read_record(self._machine, path) for path in (REVERTING_FILE, REVERTED_FILE))
        return any(record is not None and record.token == self._token for record in records)

    def _gone(self) -> Fault:
        if self._is_taken_back():
            what = "the host has reverted its change of the uplink; next: raise rdma_fabric_revert_seconds"
        else:
            what = f"its change of the uplink was confirmed, or {GUARD_FILE} removed; next: find out by whom"
        return Fault(f"while the run was still at work, {what}, and run again")
