# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reverts unconfirmed changes and takes confirmations, in a process that only a reboot ends.

Whoever renames the record acts on it, so a confirmation and a timeout never both take effect. If the process is killed
while it reverts, the renamed record remains, and the next process reverts all of it again.
"""

from __future__ import annotations

import contextlib
import subprocess
from typing import Any, Callable, ContextManager, NamedTuple

from ..boot.apply import removal
from ..concerns.naming.files import is_naming_file
from ..engine.execute import attempts, perform
from ..engine.failures import problem_of
from ..engine.operations import CommandFailed, PutFile, RemoveFile
from ..engine.ports import NoPort
from ..machine.access import Clock, HostError, Machine
from ..machine.host_files import (
    BOOT_SPEC_FILE,
    CONFIRMED_FILE,
    DEVICES_FILES,
    GUARD_FILE,
    PROGRAM_DIRECTORY,
    PYTHON_OPTIONS,
    REVERTED_FILE,
    REVERTING_FILE,
    STAGED_FILE,
    BrokenState,
)
from ..machine.probe import boot_id, names_at
from ..machine.program import is_program
from .record import Record, is_due, parse, text_of

CONFIRMED = "confirmed"
REVERTED = "reverted"
REVERTING = "reverting"
UNKNOWN = "unknown"
_LOOK_EVERY = 0.5
# A failing disk may answer a later read; a record that stays unreadable can't be confirmed either.
_LOOKS = 10
_SECONDS = 20.0
_TOKEN_LETTERS = 12
Alone = Callable[[], ContextManager[object]]


class Answer(NamedTuple):
    """What became of a guarded change: its state, the printed lines of its steps, and what could not be reverted."""

    state: str
    steps: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def launch(machine: Machine, python: str, program: str, token: str, root: str = "/", *, at_boot: bool = False) -> None:
    """Start ``program guard`` as a unit of its own, outside of the session that this code runs in.

    systemd may end all processes of a session with it (KillUserProcesses= of logind.conf(5)); without systemd a session
    of its own is enough. Raises HostError if neither can be started.

    ``at_boot``: the boot must not wait for the unit, nor the unit for the network.
    """
    command = [python, *PYTHON_OPTIONS, program, "guard"]
    name = f"--unit=rdma-fabric-guard-{token[:_TOKEN_LETTERS]}"
    description = "--description=Takes a change of the uplink back unless it is confirmed (rdma.fabric)"
    early = ["--no-block", "--property=DefaultDependencies=no"] if at_boot else []
    try:
        if machine.run(["systemd-run", "--quiet", "--collect", *early, name, description, *command], _SECONDS).rc == 0:
            return
    except HostError:
        # There is no systemd.
        pass
    _detached(command if root == "/" else [python, *PYTHON_OPTIONS, root + program, "--root", root, "guard"])


def watch(machine: Machine, clock: Clock, alone: Alone = contextlib.nullcontext) -> None:
    """Wait until the record is confirmed or due; revert its changes if due.

    ``alone`` keeps other runs away meanwhile; it must have a time limit, because a host that is cut off can't wait.
    """
    record: Record | None = None
    while True:
        record = _latest(machine, clock, record)
        if record is None:
            return
        if is_due(record, boot_id(machine), clock.now()):
            with alone():
                # A run that is still at work may have extended the deadline.
                if revert_if_due(machine, clock, record):
                    return
        clock.sleep(_LOOK_EVERY)


def revert_if_due(machine: Machine, clock: Clock, known: Record | None = None) -> bool:
    """Revert what is due and what another process did not finish; return whether there was anything.

    ``known`` is the record as the caller has read it before, for the case that its file is unreadable now. Without it
    an unreadable record raises HostError.
    """
    record = read_record(machine, GUARD_FILE) if known is None else _latest(machine, clock, known)
    due = record is not None and is_due(record, boot_id(machine), clock.now())
    if due or read_record(machine, REVERTING_FILE) is not None:
        return revert(machine, clock, record)
    return False


def revert(machine: Machine, clock: Clock, known: Record | None = None) -> bool:
    """Revert the changes, each even if the one before failed; return False if they were confirmed first.

    ``known`` is the record as it was read before, for the case that its file is unreadable now.
    """
    record = _taken_on(machine, known)
    if record is None:
        return False
    failed = [(operation, error) for operation, error in attempts(record.undo, machine, clock) if error is not None]
    if record.boot_id != boot_id(machine):
        failed = [(operation, error) for operation, error in failed if not _is_not_there(error)]
    problems = [problem_of(operation, error) for operation, error in failed]
    machine.replace(REVERTED_FILE, text_of(record._replace(problems=tuple(problems))), 0o600)
    machine.remove(REVERTING_FILE)
    _leave_no_unit(machine, clock)
    return True


def _is_not_there(error: Exception) -> bool:
    """Return whether a device has not appeared yet, or has no such setting: then it has nothing of a former boot."""
    if isinstance(error, HostError):
        return error.code == "ENOENT" and error.path.startswith(("/sys/", "/proc/"))
    return isinstance(error, NoPort)


def begin(machine: Machine, clock: Clock) -> Record | None:
    """Return the record of the changes that take effect at this boot and await confirmation from now on.

    None if nothing was staged, or it was reverted before the boot. Raises HostError.
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
    """Forget the changes staged for the next boot if their files are as before; return whether they are."""
    record = read_record(machine, STAGED_FILE)
    if record is None:
        return False
    # If a file was changed more than once, its last undo has the original state.
    former = {op.path: op for op in record.undo if isinstance(op, (PutFile, RemoveFile)) and is_naming_file(op.path)}
    if not all(_holds(machine, operation) for operation in former.values()):
        return False
    machine.remove(STAGED_FILE)
    _leave_no_unit(machine, clock)
    return True


def confirm(machine: Machine, clock: Clock, token: str) -> Answer:
    """Confirm the change with this token unless it has been reverted already; raises HostError."""
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


def confirm_start(machine: Machine, clock: Clock) -> str:
    """Confirm the changes that took effect at this boot, as a run has reached the host; return a notice or nothing.

    Raises HostError.
    """
    record = read_record(machine, GUARD_FILE)
    if record is None or not record.at_boot or is_due(record, boot_id(machine), clock.now()):
        return ""
    answer = confirm(machine, clock, record.token)
    if answer.state != CONFIRMED:
        return ""
    return f"{' and '.join(answer.steps)}: confirmed, as this run has reached the host after its boot"


def confirmation(machine: Machine, clock: Clock, token: str, *, check: bool) -> dict[str, Any]:
    """Confirm the change with this token; return the result of the task. Raises HostError.

    The task fails unless the change is confirmed, because the deadline is running. ``check``: check mode, which writes
    nothing.
    """
    if check:
        problem = "nothing was confirmed, as check mode writes nothing; next: give the token again without --check"
        return {"changed": False, "failed": True, "msg": problem}
    answer = confirm(machine, clock, token)
    result: dict[str, Any] = {"changed": False, "guard": {**answer._asdict(), "steps": list(answer.steps)}}
    if answer.state == CONFIRMED:
        return {**result, "msg": f"{_lines(answer)}: this change of the uplink is confirmed and stays"}
    problem = _unknown(machine, clock) if answer.state not in (REVERTED, REVERTING) else _taken_back(answer)
    return {**result, "failed": True, "msg": f"not confirmed: {problem}"}


def unreported(machine: Machine, clock: Clock) -> Answer | None:
    """Return the revert that no run has reported yet, and mark it as reported. Raises HostError.

    A revert that is due or was interrupted is finished first.
    """
    revert_if_due(machine, clock)
    done = read_record(machine, REVERTED_FILE)
    if done is None:
        return None
    machine.remove(REVERTED_FILE)
    return Answer(REVERTED, done.steps, done.problems)


def read_record(machine: Machine, path: str) -> Record | None:
    """Return the record in a file, None if there is no file or it holds no record.

    Raises HostError if the file can't be read now: it may hold a record.
    """
    try:
        return parse(machine.read(path))
    except BrokenState:
        return None
    except HostError as error:
        # A file that is longer than any of ours holds no record.
        if error.code in ("ENOENT", "EFBIG"):
            return None
        raise


def _detached(command: list[str]) -> None:
    nowhere = subprocess.DEVNULL
    try:
        # The process must outlive this one, and run_command would wait for it.
        subprocess.Popen(  # pylint: disable=ansible-bad-function
            command, stdin=nowhere, stdout=nowhere, stderr=nowhere, cwd="/", start_new_session=True, close_fds=True
        )
    except OSError as error:
        raise HostError("ENOENT", command[0]) from error


def _latest(machine: Machine, clock: Clock, known: Record | None) -> Record | None:
    """Return the record, ``known`` if the file exists and stays unreadable, None if the file is gone.

    Without ``known`` this retries until the file is readable or gone: giving up would leave the change in place for
    good.
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


def _holds(machine: Machine, former: PutFile | RemoveFile) -> bool:
    if isinstance(former, RemoveFile):
        return not machine.exists(former.path)
    try:
        return machine.read(former.path) == former.text
    except HostError:
        return False


def _taken_on(machine: Machine, known: Record | None) -> Record | None:
    """Return the record that this process reverts, None if it was confirmed first."""
    # Another process may have been killed halfway; its record is reverted again from the start.
    try:
        machine.rename(GUARD_FILE, REVERTING_FILE)
    except HostError as error:
        if error.code != "ENOENT":
            # On a read-only disk nobody can confirm either, and the host must become reachable again.
            return _read_or(machine, GUARD_FILE, known) or _read_or(machine, REVERTING_FILE, known)
    return _read_or(machine, REVERTING_FILE, known)


def _read_or(machine: Machine, path: str, known: Record | None) -> Record | None:
    """Return the record in a file, ``known`` if the file is unreadable; without ``known`` raise the error."""
    try:
        return read_record(machine, path) or (known if machine.exists(path) else None)
    except HostError:
        if known is None:
            raise
        return known


def _leave_no_unit(machine: Machine, clock: Clock) -> None:
    """Remove a boot unit that was only needed to revert the change after a reboot, and what needs its file."""
    if machine.exists(BOOT_SPEC_FILE) or machine.exists(STAGED_FILE):
        return
    names = [f"{PROGRAM_DIRECTORY}/{name}" for name in names_at(machine, PROGRAM_DIRECTORY)]
    programs = [path for path in names if is_program(path)]
    # A unit that remains is harmless; the next run removes it.
    with contextlib.suppress(HostError, CommandFailed):
        for operation in (*map(RemoveFile, DEVICES_FILES), *removal(programs).do):
            perform(operation, machine, clock)


def _taken_back(answer: Answer) -> str:
    if answer.state == REVERTING:
        return f"{_lines(answer)}: the host is reverting this change of the uplink; next: run again in a minute"
    problem = f"{_lines(answer)}: the host has reverted this change of the uplink, as its time was over"
    if answer.problems:
        problem += f", except for this: {'; '.join(answer.problems)}"
    return f"{problem}; next: run again and confirm in time, or raise rdma_fabric_revert_seconds"


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
