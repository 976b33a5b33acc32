# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Puts changes of the uplink under guard while a plan is executed."""

from __future__ import annotations

import contextlib
import posixpath
from typing import Callable

from ..boot.apply import installation
from ..boot.files import unit_of
from ..concerns.naming.files import STAMP
from ..concerns.qos.settings import CUTTING, key_for
from ..concerns.routing.reach import RULES_KEY, rules_of_uplinks, unwanted_rules
from ..engine.context import DRIVER, FUNCTIONS, SETTINGS, Context
from ..engine.execute import perform
from ..engine.failures import Fault
from ..engine.operations import Work
from ..engine.steps import BOOT, Step, describe, key_of
from ..machine.access import Clock, HostError, Machine
from ..machine.host_files import GUARD_FILE, PROGRAM_DIRECTORY, REVERTED_FILE, REVERTING_FILE, STAGED_FILE, UNIT_FILE
from ..machine.probe import boot_id, names_at
from ..machine.program import is_program, program_path
from ..spec.host import seconds_after_boot
from .record import Record, extended, followed_by, staged, text_of, with_step
from .revert import Answer, forget_if_gone, read_record, unreported

Launch = Callable[[str, str, str], None]

# Concerns whose steps change an interface while it carries traffic.
_LIVE = ("naming", "vfs", "eswitch", "guids", "mtu", "link", "queues", "qos", "routing")
# End the keys of steps about a port's virtual functions, which may carry the uplink themselves.
_OF_FUNCTIONS = (FUNCTIONS, SETTINGS, DRIVER)
# What such a change is kept by: taken back as well, or the next start would bring it again.
_KEEPING = ("boot", "leftovers")


def revert_report(answer: Answer) -> str:
    """Return what a run says that learns of a revert."""
    said = (
        f"{' and '.join(answer.steps)}: this change of the uplink was not confirmed over a new connection in time; "
        "the host has reverted it"
    )
    if answer.problems:
        said += f", except for this: {'; '.join(answer.problems)}"
    return f"{said}; next: find out why the host could not be reached with it, and run again"


def touches_uplink(context: Context, step: Step) -> bool:
    """Return whether a step may cut the host off while it runs: it changes an interface of the uplink."""
    if step["concern"] not in _LIVE or step["when"] == BOOT:
        return False
    key = key_of(step)
    if step["concern"] == "routing" and key == RULES_KEY:
        return bool(rules_of_uplinks(context, unwanted_rules(context)))
    for interface in context.interfaces:
        keys = [f"{interface.key}{suffix}" for suffix in _OF_FUNCTIONS]
        keys += [interface.key, *(key_for(setting, interface) for setting in CUTTING)]
        if key in keys and context.actual.uplink_reason_with_members(interface.nic, interface.netdev) is not None:
            return True
    return False


def obstacle(machine: Machine, clock: Clock) -> str:
    """Return why nothing may be changed now, empty when it may; a revert is told once. Raises HostError."""
    told = unreported(machine, clock)
    if told is not None:
        return revert_report(told)
    waiting = read_record(machine, GUARD_FILE)
    if waiting is None:
        return ""
    left = max(1, round(waiting.deadline - clock.now()))
    return (
        f"{' and '.join(waiting.steps)}: this change of the uplink waits for its confirmation by the run that made it, "
        f"for {left} seconds at most; nothing was changed; next: run again after that"
    )


class Guard:
    """Arms before the first step that touches the uplink; from then on each change to take back is added first.

    ``launch`` starts the process that waits, with interpreter, program and token. Nothing of it happens on a host whose
    plan leaves the uplink alone. Whoever takes the record away acts on it, so it is made once and from then on only
    written over; a run that finds it gone ends with a Fault.
    """

    def __init__(self, machine: Machine, clock: Clock, launch: Launch, *, token: str, seconds: int) -> None:
        self._machine = machine
        self._clock = clock
        self._launch = launch
        self._token = token
        self._seconds = seconds
        self._record: Record | None = None

    def before(self, context: Context, step: Step, work: Work) -> None:
        """Put a step under guard before it runs, where it needs one; raises HostError or Fault where that fails."""
        touches = touches_uplink(context, step)
        if touches and self._record is None:
            self._record = self._armed(context)
        if self._record is not None and (touches or step["concern"] in _KEEPING):
            self._keep(with_step(self._record, describe(step), work.undo, self._clock.now()))
        if work.undo_after_boot:
            self._stage(context, step, work)

    def during(self, seconds: float) -> None:
        """Give an operation of at most ``seconds`` its time, so that nothing is taken back while a run is at work.

        The record is only written when the time gets short. Where that fails, what is left of it counts. Raises Fault
        when the changes were taken back meanwhile.
        """
        if self._record is None:
            return
        now = self._clock.now()
        if self._record.deadline < now + seconds + self._seconds / 2:
            with contextlib.suppress(HostError):
                self._keep(extended(self._record, now, seconds))

    def finish(self) -> dict[str, object] | None:
        """Return what a confirmation needs, with all of the time left; None when nothing was put under guard.

        A record that is gone is told by the confirmation.
        """
        with contextlib.suppress(HostError):
            forget_if_gone(self._machine, self._clock)
        if self._record is None:
            return None
        with contextlib.suppress(HostError, Fault):
            self._keep(extended(self._record, self._clock.now()))
        return {"token": self._token, "seconds": self._seconds, "steps": list(self._record.steps)}

    def _stage(self, context: Context, step: Step, work: Work) -> None:
        """Keep what takes a change back that acts at the next boot; a new initramfs only follows such a change."""
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
        """Make sure that the host can take changes back by itself, after a reboot too."""
        program = program_path()
        files = {} if UNIT_FILE in context.boot_files else {UNIT_FILE: unit_of(context)}
        for operation in installation(program, self._programs(program), files):
            perform(operation, self._machine, self._clock)

    def _armed(self, context: Context) -> Record:
        """Prepare the host, and start the process that waits."""
        self._install(context)
        record = Record(self._token, boot_id(self._machine), self._seconds, self._clock.now() + self._seconds)
        self._machine.replace(GUARD_FILE, text_of(record), 0o600)
        self._record = record
        self._launch(context.python, program_path(), self._token)
        return record

    def _programs(self, program: str) -> list[str]:
        """Return this program where the host has it; one of another release stays until its unit is changed."""
        known = names_at(self._machine, PROGRAM_DIRECTORY)
        return [program] if is_program(program) and posixpath.basename(program) in known else []

    def _keep(self, record: Record) -> None:
        """Write over the record; raises Fault when it is gone, even if it went at this very moment."""
        if not self._machine.exists(GUARD_FILE):
            raise self._gone()
        self._machine.replace(GUARD_FILE, text_of(record), 0o600)
        if self._is_taken_back():
            self._machine.remove(GUARD_FILE)
            raise self._gone()
        self._record = record

    def _is_taken_back(self) -> bool:
        # In the order in which a revert goes through them: one of both is always there.
        found = (read_record(self._machine, path) for path in (REVERTING_FILE, REVERTED_FILE))
        return any(record is not None and record.token == self._token for record in found)

    def _gone(self) -> Fault:
        if self._is_taken_back():
            what = "the host has reverted its change of the uplink; next: raise rdma_fabric_revert_seconds"
        else:
            what = f"somebody confirmed its change of the uplink, or removed {GUARD_FILE}; next: find out who did"
        return Fault(f"while the run was still at work, {what}, and run again")
