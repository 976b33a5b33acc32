# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reverts unconfirmed changes and takes confirmations, in a process that only a reboot ends.

Whoever gives the record another name may act on it: a confirmation and the end of the time never both do, and a record
that is half taken back when its process is killed is found and taken back again.
"""

from __future__ import annotations

import contextlib
import subprocess
from typing import Any, Callable, ContextManager, NamedTuple

from ..boot.apply import removal
from ..concerns.naming.files import is_naming_file
from ..engine.execute import attempts, perform
from ..engine.failures import explain, told
from ..engine.operations import CommandFailed, PutFile, RemoveFile
from ..machine.access import Clock, HostError, Machine
from ..machine.host_files import (
    CONFIRMED_FILE,
    GUARD_FILE,
    PROGRAM_DIRECTORY,
    PYTHON_OPTIONS,
    REVERTED_FILE,
    REVERTING_FILE,
    STAGED_FILE,
    WISHES_FILE,
    BrokenState,
)
from ..machine.probe import boot_id, names_at
from ..machine.program import is_program
from .record import Record, is_due, parse, text_of

_SECONDS = 20.0
_TOKEN_LETTERS = 12


def launch(machine: Machine, python: str, program: str, token: str, root: str = "/", *, at_boot: bool = False) -> None:
    """Start ``program guard`` as a unit of its own, outside of the session that this code runs in.

    systemd ends the processes of a session with it where KillUserProcesses= says so (logind.conf(5)); without systemd a
    session of its own is enough. Raises HostError when neither can be started.

    ``at_boot``: while the host starts nothing may wait for it, and it must not wait for the network.
    """
    command = [python, *PYTHON_OPTIONS, program, "guard"]
    name = f"--unit=rdma-fabric-guard-{token[:_TOKEN_LETTERS]}"
    description = "--description=Takes a change of the uplink back unless it is confirmed (rdma.fabric)"
    early = ["--no-block", "--property=DefaultDependencies=no"] if at_boot else []
    try:
        if machine.run(["systemd-run", "--quiet", "--collect", *early, name, description, *command], _SECONDS).rc == 0:
            return
    except HostError:
        # No systemd here: the plain way is left.
        pass
    _detached(command if root == "/" else [python, *PYTHON_OPTIONS, root + program, "--root", root, "guard"])


def _detached(command: list[str]) -> None:
    nowhere = subprocess.DEVNULL
    try:
        # The process outlives this one on purpose, so nobody waits for it, as run_command would.
        subprocess.Popen(  # pylint: disable=ansible-bad-function
            command, stdin=nowhere, stdout=nowhere, stderr=nowhere, cwd="/", start_new_session=True, close_fds=True
        )
    except OSError as error:
        raise HostError("ENOENT", command[0]) from error


CONFIRMED = "confirmed"
REVERTED = "reverted"
REVERTING = "reverting"
UNKNOWN = "unknown"
_LOOK_EVERY = 0.5
# A failing disk may answer the next time; a record that stays unreadable can't be confirmed either.
_LOOKS = 10

Alone = Callable[[], ContextManager[object]]


class Answer(NamedTuple):
    """What became of a guarded change: its state, the printed lines of its steps, what could not be taken back."""

    state: str
    steps: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def watch(machine: Machine, clock: Clock, alone: Alone = contextlib.nullcontext) -> None:
    """Wait until the record is confirmed or due, and take its changes back in the second case.

    ``alone`` keeps other runs away meanwhile; it must come to an end, as a host that is cut off can't wait.
    """
    record: Record | None = None
    while True:
        record = _latest(machine, clock, record)
        if record is None:
            return
        if is_due(record, boot_id(machine), clock.now()):
            with alone():
                # A run that was still at work may have given itself all of the time again.
                if revert_if_due(machine, clock, record):
                    return
        clock.sleep(_LOOK_EVERY)


def _latest(machine: Machine, clock: Clock, known: Record | None) -> Record | None:
    """Return the record that waits, ``known`` where it is there and does not become readable; None once it is gone.

    Without one that is known it looks until it can read the file or sees it gone: whoever stops waiting for a file that
    can't be read right now leaves the change in place for good.
    """
    looks = 0
    while True:
        try:
            record = read_record(machine, GUARD_FILE)
        except HostError:
            looks += 1
            if known is not None and looks >= _LOOKS:
                return known
            clock.sleep(_LOOK_EVERY)
        else:
            return record or (known if machine.exists(GUARD_FILE) else None)


def revert_if_due(machine: Machine, clock: Clock, known: Record | None = None) -> bool:
    """Take back what is due and what another process did not finish; return whether anything was.

    ``known`` is what the caller has read of the record before: it stands for a record that can't be read any more.
    Without it such a record raises HostError.
    """
    record = read_record(machine, GUARD_FILE) if known is None else _latest(machine, clock, known)
    due = record is not None and is_due(record, boot_id(machine), clock.now())
    if due or read_record(machine, REVERTING_FILE) is not None:
        return revert(machine, clock, record)
    return False


def begin(machine: Machine, clock: Clock) -> Record | None:
    """Return the changes that act at this start of the host and wait for their confirmation from now on.

    None where nothing was staged, or where it was taken back before the start. Raises HostError.
    """
    record = read_record(machine, STAGED_FILE)
    now = boot_id(machine)
    if record is None or record.boot_id == now or forget_if_gone(machine, clock):
        return None
    begun = record._replace(boot_id=now, deadline=clock.now() + record.seconds)
    machine.replace(GUARD_FILE, text_of(begun), 0o600)
    machine.remove(STAGED_FILE)
    return begun


def forget_if_gone(machine: Machine, clock: Clock) -> bool:
    """Forget what is staged for the next boot once its files are as they were before; return whether they are."""
    record = read_record(machine, STAGED_FILE)
    if record is None:
        return False
    # Of several changes of one file the one that is taken back last tells how it was.
    former = {op.path: op for op in record.undo if isinstance(op, (PutFile, RemoveFile)) and is_naming_file(op.path)}
    if not all(_holds(machine, operation) for operation in former.values()):
        return False
    machine.remove(STAGED_FILE)
    _leave_no_unit(machine, clock)
    return True


def _holds(machine: Machine, former: PutFile | RemoveFile) -> bool:
    if isinstance(former, RemoveFile):
        return not machine.exists(former.path)
    try:
        return machine.read(former.path) == former.text
    except HostError:
        return False


def confirm_start(machine: Machine, clock: Clock) -> str:
    """Confirm what acted at the start of the host: a run of this boot has reached it. Return what is to be told.

    Raises HostError.
    """
    record = read_record(machine, GUARD_FILE)
    if record is None or not record.at_boot or is_due(record, boot_id(machine), clock.now()):
        return ""
    answer = confirm(machine, clock, record.token)
    if answer.state != CONFIRMED:
        return ""
    return f"{' and '.join(answer.steps)}: confirmed, as this run has reached the host after its boot"


def revert(machine: Machine, clock: Clock, known: Record | None = None) -> bool:
    """Take the changes back, each whatever became of the one before; return False when somebody confirmed first.

    ``known`` is the record as it was read before, for the case that its file can't be read any more.
    """
    record = _taken_on(machine, known)
    if record is None:
        return False
    problems = [
        f"could not {told(operation)}: {explain(error, operation, {})}"
        for operation, error in attempts(record.undo, machine, clock)
        if error is not None
    ]
    machine.replace(REVERTED_FILE, text_of(record._replace(problems=tuple(problems))), 0o600)
    machine.remove(REVERTING_FILE)
    _leave_no_unit(machine, clock)
    return True


def _taken_on(machine: Machine, known: Record | None) -> Record | None:
    """Return the record of what this process is to take back, None when somebody confirmed it first."""
    # Another process may have been killed half way: what it took on is done again from the start.
    try:
        machine.rename(GUARD_FILE, REVERTING_FILE)
    except HostError as error:
        if error.code != "ENOENT":
            # On a disk that takes no change any more nobody can confirm either, and the host has to be reached again.
            return _read_or(machine, GUARD_FILE, known) or _read_or(machine, REVERTING_FILE, known)
    return _read_or(machine, REVERTING_FILE, known)


def _read_or(machine: Machine, path: str, known: Record | None) -> Record | None:
    """Return the record in a file, ``known`` where that is there and can't be read; without one the error is raised."""
    try:
        return read_record(machine, path) or (known if machine.exists(path) else None)
    except HostError:
        if known is None:
            raise
        return known


def confirm(machine: Machine, clock: Clock, token: str) -> Answer:
    """Confirm the change with this token, unless it has been taken back already; raises HostError."""
    record = read_record(machine, GUARD_FILE)
    if record is not None and record.token == token:
        try:
            machine.rename(GUARD_FILE, CONFIRMED_FILE)
        except HostError as error:
            if error.code != "ENOENT":
                raise
        else:
            machine.remove(CONFIRMED_FILE)
            _leave_no_unit(machine, clock)
            return Answer(CONFIRMED, record.steps)
    running = read_record(machine, REVERTING_FILE)
    if running is not None and running.token == token:
        return Answer(REVERTING, running.steps)
    done = read_record(machine, REVERTED_FILE)
    if done is not None and done.token == token:
        machine.remove(REVERTED_FILE)
        return Answer(REVERTED, done.steps, done.problems)
    return Answer(UNKNOWN)


def unreported(machine: Machine, clock: Clock) -> Answer | None:
    """Return the revert that no run has told of yet, and forget it: it is told now. Raises HostError.

    One that was interrupted, or that nothing was left to do after a reboot, is finished first.
    """
    revert_if_due(machine, clock)
    done = read_record(machine, REVERTED_FILE)
    if done is None:
        return None
    machine.remove(REVERTED_FILE)
    return Answer(REVERTED, done.steps, done.problems)


def read_record(machine: Machine, path: str) -> Record | None:
    """Return the record in a file, None when there is none, or something else that nobody can act on.

    Raises HostError where the file can't be read now: that says nothing about a record being there.
    """
    try:
        return parse(machine.read(path))
    except BrokenState:
        return None
    except HostError as error:
        # What is longer than any file of ours is no record.
        if error.code in ("ENOENT", "EFBIG"):
            return None
        raise


def _leave_no_unit(machine: Machine, clock: Clock) -> None:
    """Remove a boot unit that was only there to take the change back after a reboot."""
    if machine.exists(WISHES_FILE) or machine.exists(STAGED_FILE):
        return
    programs = [f"{PROGRAM_DIRECTORY}/{name}" for name in names_at(machine, PROGRAM_DIRECTORY)]
    # A unit that stays behind does nothing; the next run removes it.
    with contextlib.suppress(HostError, CommandFailed):
        for operation in removal([path for path in programs if is_program(path)]).do:
            perform(operation, machine, clock)


def confirmation(machine: Machine, clock: Clock, token: str, *, check: bool) -> dict[str, Any]:
    """Confirm the change with this token; return the result of the task. Raises HostError.

    Anything but a change that stays is a failure, as somebody waits for it while the time runs. ``check``: check mode,
    which writes nothing.
    """
    if check:
        said = "nothing was confirmed, as check mode writes nothing; next: give the token again without --check"
        return {"changed": False, "failed": True, "msg": said}
    answer = confirm(machine, clock, token)
    result: dict[str, Any] = {"changed": False, "guard": {**answer._asdict(), "steps": list(answer.steps)}}
    if answer.state == CONFIRMED:
        return {**result, "msg": f"{_lines(answer)}: this change of the uplink is confirmed and stays"}
    said = _unknown(machine, clock) if answer.state not in (REVERTED, REVERTING) else _taken_back(answer)
    return {**result, "failed": True, "msg": f"not confirmed: {said}"}


def _taken_back(answer: Answer) -> str:
    if answer.state == REVERTING:
        return f"{_lines(answer)}: the host is taking this change of the uplink back; next: run again in a minute"
    said = f"{_lines(answer)}: the host has reverted this change of the uplink, as its time was over"
    if answer.problems:
        said += f", except for this: {'; '.join(answer.problems)}"
    return f"{said}; next: run again and confirm in time, or raise rdma_fabric_revert_seconds"


def _unknown(machine: Machine, clock: Clock) -> str:
    waiting = read_record(machine, GUARD_FILE)
    if waiting is None:
        return (
            "no change of the uplink waits on this host, and none with this token was reverted since the last run; "
            "next: preview the host, which shows whether the change is there"
        )
    left = max(1, round(waiting.deadline - clock.now()))
    what = " and ".join(waiting.steps) or "a change"
    return (
        f"no change has this token, but {what} waits under another one for {left} seconds at most; next: take "
        f"the token from the output of its run, or from {GUARD_FILE} on the host, and confirm again"
    )


def _lines(answer: Answer) -> str:
    return " and ".join(answer.steps)
