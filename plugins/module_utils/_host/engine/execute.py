# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Executes a plan step by step on a machine."""

from __future__ import annotations

import contextlib
from typing import Callable, Iterator, Optional, Sequence

from ..machine.access import Clock, Host, HostError, Machine, encoded
from ..machine.pci_config import LONGEST, offset_of
from ..machine.probe import PCI
from .context import Context, Handler
from .execution import Execution, Failure, Watch
from .failures import NEXT, Fault, explain, in_words, problem_of
from .operations import (
    CommandFailed,
    Each,
    Found,
    Operation,
    PutFile,
    RemoveFile,
    Run,
    SetAttribute,
    SetRegister,
    WaitFor,
    Work,
    limit_of,
)
from .ports import NoPort, fill
from .steps import Plan, Step, is_executable

# The pause before a step is executed again.
_BEFORE_AGAIN = 1.0
# A wait begins with the first interval and doubles it up to the longest.
_FIRST_INTERVAL = 0.05
_LONGEST_INTERVAL = 1.0


HandlerOf = Callable[[str], Optional[Handler]]


class _StepFailed(Exception):
    """Why a step failed, at which operation, and how many operations had an effect."""

    def __init__(self, error: Exception, operation: Operation | None, done: int) -> None:
        self.error = error
        self.operation = operation
        self.done = done
        super().__init__(str(error))


def execute(
    plan: Plan,
    context: Context,
    machine: Machine,
    clock: Clock,
    *,
    handler_of: HandlerOf,
    watch: Watch | None = None,
    before: Callable[[Host, Context, Step], None] = lambda _host, _context, _step: None,
) -> Execution:
    """Execute and verify the executable steps of ``plan`` in order, up to the first failure.

    ``context`` is the one that the plan was made in, with all its steps. Errors of the machine are not raised, but are
    part of the result. ``before`` looks at the host before a step, and raises Fault to prevent it.
    """
    execution = Execution()
    waiting = [step for step in plan["steps"] if is_executable(step)]
    while waiting:
        step = waiting.pop(0)
        started = clock.now()
        handler = handler_of(step["concern"])
        failure = _failure_of(step, context, machine, clock, handler=handler, watch=watch, before=before)
        if failure is not None:
            execution.failure = failure
            execution.not_reached = waiting
            break
        execution.done.append((step, round(clock.now() - started, 3)))
    return execution


def _failure_of(
    step: Step,
    context: Context,
    machine: Machine,
    clock: Clock,
    *,
    handler: Handler | None,
    watch: Watch | None,
    before: Callable[[Host, Context, Step], None],
) -> Failure | None:
    if handler is None:
        return Failure(step, f"this release has no code to execute steps of the concern {step['concern']}")
    work = Work(())
    try:
        before(machine, context, step)
        work = handler.work(context, step)
        if watch is not None:
            watch.before(context, step, work)
        _do(work, machine, clock, watch)
    except _StepFailed as failed:
        error = explain(failed.error, failed.operation, handler.errors)
        where = f"could not {in_words(failed.operation)}: " if failed.operation else ""
        undone, not_undone = _undo(work, machine, clock, watch) if failed.done else ((), ())
        return Failure(step, f"{where}{error}", undone, not_undone)
    except Exception as error:
        # Any exception of a concern's code: the run must still report what it did and what it did not.
        return Failure(step, explain(error, None, handler.errors))
    return None


def _do(work: Work, machine: Machine, clock: Clock, watch: Watch | None) -> None:
    problem = _problem_after(work, machine, clock, watch)
    if problem and work.again:
        clock.sleep(_BEFORE_AGAIN)
        problem = _problem_after(work, machine, clock, watch)
    if problem:
        raise _StepFailed(Fault(f"verification failed: {problem}"), None, len(work.do))


def _problem_after(work: Work, machine: Machine, clock: Clock, watch: Watch | None) -> str:
    """Execute the operations of a step and return the problem that its verification finds; raises _StepFailed."""
    done = 0
    for operation in work.do:
        ready = operation
        try:
            if watch is not None:
                watch.during(limit_of(operation))
            ready = filled(operation, machine)
            perform(ready, machine, clock)
        except Exception as error:
            # Part of it may have had an effect: the first of several operations, or a program that timed out.
            late = isinstance(operation, Found) or (isinstance(error, HostError) and error.code == "ETIMEDOUT")
            raise _StepFailed(error, ready, done + late) from error
        done += 1
    try:
        if watch is not None:
            watch.during(0.0)
        return work.verify(machine)
    except Exception as error:
        raise _StepFailed(error, None, done) from error


def perform(operation: Operation, machine: Machine, clock: Clock) -> None:
    """Execute one operation; raises HostError, CommandFailed or Fault."""
    if isinstance(operation, PutFile):
        if not _holds_already(machine, operation):
            machine.replace(operation.path, operation.text, operation.mode)
    elif isinstance(operation, RemoveFile):
        machine.remove(operation.path)
    elif isinstance(operation, SetAttribute):
        _set_attribute(operation, machine)
    elif isinstance(operation, SetRegister):
        _set_register(operation, machine)
    elif isinstance(operation, Run):
        result = machine.run(operation.argv, operation.timeout)
        if result.rc not in operation.accepted:
            raise CommandFailed(operation.argv, result.rc, result.stderr, result.stdout)
    elif isinstance(operation, Each):
        _do_each(operation, machine, clock)
    elif isinstance(operation, Found):
        for one in operation.operations(machine):
            perform(filled(one, machine), machine, clock)
    else:
        _wait(operation, machine, clock)


def filled(operation: Operation, machine: Machine) -> Operation:
    """Return the operation with its placeholders replaced by present names."""
    if isinstance(operation, Run):
        return operation._replace(argv=tuple(fill(argument, machine) for argument in operation.argv))
    if isinstance(operation, (WaitFor, SetRegister, Each, Found)):
        return operation
    if isinstance(operation, SetAttribute):
        return operation._replace(path=fill(operation.path, machine), text=fill(operation.text, machine))
    return operation._replace(path=fill(operation.path, machine))


def _holds_already(machine: Machine, wanted: PutFile) -> bool:
    """Return whether a file has the wanted text already, as an earlier step that shares it may have written it."""
    try:
        text = encoded(wanted.text)
        return machine.read_bytes(wanted.path, len(text) + 1) == text
    except HostError:
        return False


def _set_attribute(wanted: SetAttribute, machine: Machine) -> None:
    try:
        machine.set_attribute(wanted.path, wanted.text, wanted.timeout)
    except HostError as error:
        if error.code not in wanted.tolerated:
            raise


def _set_register(wanted: SetRegister, machine: Machine) -> None:
    """Set bits of a register; it is not written if it has them already."""
    path = f"{PCI}/{wanted.address}/config"
    config = machine.read_bytes(path, LONGEST)
    offset = offset_of(config, wanted.register)
    if offset is None:
        raise Fault(f"the configuration space of {wanted.address} shows no register {wanted.register}")
    now = int.from_bytes(config[offset : offset + 2], "little")
    changed = now & ~wanted.mask | wanted.value & wanted.mask
    if changed != now:
        machine.write_at(path, offset, changed.to_bytes(2, "little"))


def _do_each(wanted: Each, machine: Machine, clock: Clock) -> None:
    problems: list[str] = []
    missing: set[str] = set()
    for operation, error in attempts(wanted.operations, machine, clock):
        # A missing interface fails every operation on it; report it once.
        if error is None or (isinstance(error, NoPort) and str(error) in missing):
            continue
        if isinstance(error, NoPort):
            missing.add(str(error))
        problems.append(problem_of(operation, error))
    if problems:
        raise Fault(f"{'; '.join(problems)}; {NEXT}{wanted.advice}")


def attempts(
    operations: Sequence[Operation], machine: Machine, clock: Clock
) -> Iterator[tuple[Operation, Exception | None]]:
    """Execute each operation even if others fail; yield it as executed, with its error."""
    for operation in operations:
        ready = operation
        try:
            ready = filled(operation, machine)
            perform(ready, machine, clock)
        except Exception as error:
            yield ready, error
        else:
            yield ready, None


def _wait(wanted: WaitFor, machine: Machine, clock: Clock) -> None:
    end = clock.now() + wanted.seconds
    interval = _FIRST_INTERVAL
    while not _met(wanted, machine):
        left = end - clock.now()
        if left <= 0:
            raise Fault(f"waited {wanted.seconds:g} seconds for {wanted.what}")
        clock.sleep(min(interval, left))
        interval = min(interval * 2, _LONGEST_INTERVAL)


def _met(wanted: WaitFor, machine: Machine) -> bool:
    try:
        return wanted.condition(machine)
    except HostError:
        # The condition may not be readable yet.
        return False


def _undo(work: Work, machine: Machine, clock: Clock, watch: Watch | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Undo a step; each operation is tried even if others fail. Return what was undone, and what could not be."""
    undone: list[str] = []
    not_undone: list[str] = []
    for wanted in work.undo:
        # An error that stops a step must not stop its undo.
        with contextlib.suppress(HostError, Fault):
            if watch is not None:
                watch.during(limit_of(wanted))
        ((operation, error),) = attempts((wanted,), machine, clock)
        if error is None:
            undone.append(in_words(operation))
        else:
            not_undone.append(problem_of(operation, error))
    return tuple(undone), tuple(not_undone)
