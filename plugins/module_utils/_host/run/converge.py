# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run on one host: read, plan, apply, then read and plan again.

Code for changes is imported where it is needed, because each module is compiled on the host in every run.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Collection, NamedTuple

from ..engine import pending_reboot
from ..engine.concerns import ORDER
from ..engine.context import Context
from ..engine.execution import Execution, Failure, Watch
from ..engine.operations import Operation, PutFile, RemoveFile
from ..engine.steps import NEEDS_CONSENT, PLANNED, REFUSED, Plan, digest, is_executable
from ..facts.boot import RESULT
from ..facts.gather import gather, read_host
from ..facts.own_files import DRIVER_JOURNAL, FIRMWARE_RECORD, PENDING_REBOOT, PENDING_REBOOT_FILE
from ..facts.shapes import Awaited, Facts
from ..guard.record import FILES as OF_GUARD
from ..machine.access import Clock, Host, HostError, Machine, is_temporary
from ..machine.host_files import PROGRAM_DIRECTORY, check
from ..machine.probe import Probe, boot_id, first_pci_address, names_at
from ..spec.host import CONSENTS, HostSpec
from . import baseline, reached
from .baseline import FILE as BASELINE
from .plan import before_turn, plan_with_context, telling_turn, to_set_again
from .reached import FILE as REACHED
from .registry import handler_of
from .result import Outcome, Run, applied_result, host_result, with_previous, with_verdict
from .sealed import OTHER, Verdict, judge

if TYPE_CHECKING:
    from ..facts.same_card import Moved
    from .followed import Followed

# Every file in which a run keeps state for the next one.
STATE_FILES = (BASELINE, REACHED, PENDING_REBOOT, FIRMWARE_RECORD, DRIVER_JOURNAL, RESULT, *OF_GUARD)


class Assessment(NamedTuple):
    """The facts of one reading of a host, and the plan from them.

    A host that ``stays`` should go back to its previous state and has none. In a removal, the values ``kept`` have
    followed their cards.
    """

    spec: HostSpec
    facts: Facts
    plan: Plan
    context: Context
    kept: baseline.Kept
    history: reached.History
    stays: bool


def assess(host: Host, desired: HostSpec, run: Run, address: str | None, *, has_run: bool = False) -> Assessment:
    """Read a host once and make its plan; a ``Host`` can't be changed.

    ``address`` is the one by which Ansible reaches the host. The plan after a run (``has_run``) is not executed.
    Raises ``BrokenState``.
    """
    check(host, STATE_FILES)
    kept, history = baseline.read_kept(host), reached.read_history(host)
    before = reached.previous(history, desired) if run.goes_back else None
    stays = run.goes_back and before is None
    notices = [reached.NOTHING_BEFORE] if stays else []
    moved: list[Moved] = []
    if run.removes:
        kept, moved, notices = _followed(host, kept)
    spec = baseline.removal(desired, baseline.without(kept.settings, moved)) if run.removes else before or desired
    if not run.removes and any(request["functions"] or request["netns_mode"] for request in spec["requests"]):
        from ..facts.requested_functions import with_requests

        # The host must be read to find the ports that policies select; the facts of these ports are read then.
        spec, of_requests = with_requests(spec, gather(host, address))
        notices += of_requests
    modules = [name for request in spec["requests"] for name in request["kernel_modules"]]
    facts, matched = read_host(
        host, address, [*spec["kernel_modules"], *spec.get("unload_modules", []), *modules], spec
    )
    if modules and not run.removes:
        from ..facts.requested_functions import with_modules

        spec = with_modules(spec, facts)
    concerns = () if stays else run.concerns
    plan, context = plan_with_context(spec, facts, concerns, matched)
    if any(step["status"] in (PLANNED, NEEDS_CONSENT) for step in plan["steps"]):
        from .holds import find_users

        if find_users(host, context):
            plan, context = plan_with_context(spec, facts, concerns, matched)
    plan = {**plan, "notices": [*notices, *plan["notices"]]}
    if moved:
        # Values of a card that moved are not restored, so the refusals keep the removal from being complete.
        steps = [*baseline.refusals(kept.settings, moved), *plan["steps"]]
        plan = {**plan, "steps": steps, "digest": digest(steps)}
    awaited, running = facts["boot"]["awaited"], facts["system"]["kernel"]
    missed = "" if run.removes or run.goes_back else pending_reboot.missed_kernel(awaited, running)
    if missed or any(map(pending_reboot.leads_to_reboot, plan["steps"])):
        plan = _with_next_boot(host, plan, context, missed, runs=not has_run)
    if run.defers_reload:
        plan = telling_turn(plan)
    return Assessment(spec, facts, plan, context, kept, history, stays)


def _followed(host: Host, kept: baseline.Kept, asked: Collection[str] = ()) -> Followed:
    """Return the baseline once the values of moved cards have followed them."""
    from ..facts.same_card import changed_cards, place_of
    from .followed import followed

    away = [(each, place_of(host, each.address, each.card)) for each in kept.former]
    return followed(kept.settings, kept.cards, changed_cards(host, kept.cards), asked, away)


def _with_next_boot(host: Host, plan: Plan, context: Context, missed: str, *, runs: bool) -> Plan:
    """Read what the next boot starts, if not known yet, and return the plan with the problems of that boot."""
    from ..facts.gpus import read_modes
    from ..facts.next_boot import next_boot_of
    from .holds import unread
    from .next_boot import hold_reboots

    facts, probe = context.actual.facts, Probe(host)
    if "next_boot" not in facts:
        facts["next_boot"] = next_boot_of(probe, facts)
    modes = read_modes(probe, facts["gpus"]) if facts["gpus"] else {}
    if modes:
        facts["mig_modes"] = modes
    return hold_reboots(plan, context, missed, unread(probe.unreadable()), runs=runs)


def preview(host: Host, desired: HostSpec, run: Run, address: str | None) -> Outcome:
    """Return the outcome of a run that only reads."""
    seen = assess(host, desired, run, address)
    outcome = with_previous(host_result(seen.spec, seen.facts, seen.plan, run), run, known=not seen.stays)
    return with_verdict(outcome, _verdict(seen, run))


def apply(
    machine: Machine,
    desired: HostSpec,
    run: Run,
    address: str | None,
    clock: Clock,
    *,
    watch: Watch | None = None,
) -> Outcome:
    """Bring the host to the spec and return the outcome; a host that matches already is only read.

    A host whose plan is not the sealed one of ``run`` is only read, too. ``watch`` is called before every step.
    """
    seen = assess(machine, desired, run, address)
    verdict = _verdict(seen, run)
    if verdict is not None and verdict.state == OTHER:
        return with_verdict(host_result(seen.spec, seen.facts, seen.plan, run), verdict)
    outcome = _apply(machine, desired, run, address, clock, seen=seen, watch=watch)
    if run.links:
        from .links import with_links

        shut = [port.key for port in seen.context.interfaces if port.wanted.get("state") == "down"]
        outcome = with_links(machine, clock, outcome, run, shut=shut, watch=watch)
    return with_verdict(with_previous(outcome, run, known=not seen.stays), verdict)


def _verdict(seen: Assessment, run: Run) -> Verdict | None:
    return None if run.sealed is None else judge(run.sealed, seen.plan, seen.facts)


def _apply(
    machine: Machine,
    desired: HostSpec,
    run: Run,
    address: str | None,
    clock: Clock,
    *,
    seen: Assessment,
    watch: Watch | None,
) -> Outcome:
    now = before_turn(seen.plan) if run.defers_reload else seen.plan
    if not any(map(is_executable, now["steps"])):
        idle = Execution(failure=None if seen.stays else _save_state(machine, clock, seen, desired, run))
        return applied_result(seen.spec, seen.facts, seen.plan, seen.plan, execution=idle, run=run)
    execution = _keep_driver(machine, clock, seen, now, run) or _execute(machine, clock, seen, now, watch)
    after = assess(machine, desired, run, address, has_run=True)
    executed = [step for step, _seconds in execution.done]
    left = to_set_again(before_turn(after.plan) if run.defers_reload else after.plan, executed)
    if execution.failure is None and any(map(is_executable, left["steps"])):
        # Settings that a driver has lost matched the spec before, so they were not planned.
        execution = _continued(execution, _execute(machine, clock, after, left, watch))
        after = assess(machine, desired, run, address, has_run=True)
    if execution.failure is None:
        execution.failure = _save_state(machine, clock, after, desired, run, changed=True)
    return applied_result(after.spec, after.facts, seen.plan, after.plan, execution=execution, run=run)


def _continued(first: Execution, second: Execution) -> Execution:
    """Return the execution of a plan and of the remaining plan as one."""
    return Execution([*first.done, *second.done], second.failure, second.not_reached)


def _execute(machine: Machine, clock: Clock, seen: Assessment, now: Plan, watch: Watch | None) -> Execution:
    """Execute the executable steps of the plan ``now``."""
    from ..engine.execute import execute

    # The entry point of the boot unit's program: Ansible only sends modules to hosts that something imports.
    from . import at_boot  # noqa: F401 # pylint: disable=unused-import
    from .holds import refuse_newcomers

    steps = [step for step in now["steps"] if is_executable(step)]
    known = seen.kept
    if not seen.context.removing:
        known = _followed(machine, known, {first_pci_address(step["id"]) for step in steps}).kept
    kept = known._replace(settings=baseline.with_steps(known.settings, steps, seen.facts["queues"]))
    failure = None if kept == seen.kept else _keep(machine, clock, kept)
    if failure is not None:
        return Execution(failure=failure, not_reached=steps)
    execution = execute(now, seen.context, machine, clock, handler_of=handler_of, watch=watch, before=refuse_newcomers)
    if execution.failure is not None:
        # Settings that were not reached may have another value when a later run changes them.
        tried = [step for step in steps if step not in execution.not_reached]
        changed = known._replace(settings=baseline.with_steps(known.settings, tried, seen.facts["queues"]))
        if changed != kept:
            _keep(machine, clock, changed)
    return execution


def _keep(machine: Machine, clock: Clock, kept: baseline.Kept) -> Failure | None:
    from ..facts.same_card import cards_of

    kept = kept._replace(cards=cards_of(machine, kept.settings, kept.cards))
    return _put(machine, clock, baseline.PATH, baseline.text_of(kept) if kept.settings or kept.former else None)


def _keep_driver(machine: Machine, clock: Clock, seen: Assessment, now: Plan, run: Run) -> Execution | None:
    """Record whether the host has the inbox driver before it is changed; return the result of the run if that fails."""
    if run.concerns != ORDER:
        return None
    failure = _keep_history(machine, clock, seen.history, reached.having_looked(seen.history, seen.facts))
    if failure is None:
        return None
    return Execution(failure=failure, not_reached=[step for step in now["steps"] if is_executable(step)])


def _keep_history(machine: Machine, clock: Clock, now: reached.History, wanted: reached.History) -> Failure | None:
    if now == wanted:
        return None
    return _put(machine, clock, reached.PATH, reached.text_of(wanted) if wanted else None)


def _save_state(
    machine: Machine, clock: Clock, seen: Assessment, desired: HostSpec, run: Run, *, changed: bool = False
) -> Failure | None:
    """Write the state that the next run needs after a complete run; ``changed``: the run changed something."""
    return (
        _remember(machine, clock, seen, run)
        or _keep_history(machine, clock, seen.history, _history_after(seen, desired, run, changed=changed))
        or _forget(machine, clock, seen, run)
    )


def _history_after(seen: Assessment, desired: HostSpec, run: Run, *, changed: bool) -> reached.History:
    """Return the states to go back to, none for a host that no run has ever changed: nothing is written to it."""
    if run.concerns != ORDER or not _is_reached(seen.plan, run):
        return seen.history
    if run.removes:
        return ()
    if run.goes_back:
        return reached.having_gone_back(seen.history, desired)
    if changed or seen.kept.settings or seen.history or seen.context.boot_files or seen.facts["boot"]["awaited"]:
        return reached.having_reached(seen.history, desired)
    return seen.history


def _is_reached(plan: Plan, run: Run) -> bool:
    """Return whether a plan has only steps that the run may leave: those without consent, or refused ones.

    A host that keeps its driver has not reached the spec's one, and must not go back later to what it never had.
    """
    if any(
        step["consent"] == CONSENTS["driver_upgrade"] or step["id"] == pending_reboot.KERNEL for step in plan["steps"]
    ):
        return False
    left = {step["status"] for step in plan["steps"]}
    return left <= ({NEEDS_CONSENT} if run.strict else {NEEDS_CONSENT, REFUSED})


def _remember(machine: Machine, clock: Clock, seen: Assessment, run: Run) -> Failure | None:
    """Record the steps that need a reboot from now on, none in a removal."""
    known = seen.facts["boot"]["awaited"]
    wanted: dict[str, Awaited] = {}
    if not run.removes:
        kernels = (
            seen.facts["next_boot"]["kernel"] if "next_boot" in seen.facts else None,
            seen.facts["system"]["kernel"],
        )
        kept = {key: entry for key, entry in known.items() if not (run.goes_back and key == pending_reboot.KERNEL)}
        wanted = pending_reboot.pending_after(seen.plan["steps"], kept, run.concerns, boot_id(machine), kernels)
    if wanted == pending_reboot.stored(known):
        return None
    return _put(machine, clock, PENDING_REBOOT_FILE, pending_reboot.text_of(wanted) if wanted else None)


def _forget(machine: Machine, clock: Clock, seen: Assessment, run: Run) -> Failure | None:
    """Remove the baseline once all values are restored, with what killed runs may have left in its directory."""
    if not run.removes or seen.plan["steps"]:
        return None
    paths = [baseline.PATH]
    for directory in (posixpath.dirname(baseline.PATH), PROGRAM_DIRECTORY):
        paths += [f"{directory}/{name}" for name in names_at(machine, directory) if is_temporary(name)]
    return next(filter(None, (_attempt(machine, clock, RemoveFile(path)) for path in paths)), None)


def _put(machine: Machine, clock: Clock, path: str, text: str | None) -> Failure | None:
    """Write a state file, or remove it if there is nothing to keep."""
    return _attempt(machine, clock, RemoveFile(path) if text is None else PutFile(path, text, 0o600))


def _attempt(machine: Machine, clock: Clock, operation: Operation) -> Failure | None:
    from ..engine.execute import perform
    from ..engine.failures import problem_of

    try:
        perform(operation, machine, clock)
    except HostError as error:
        return Failure(None, problem_of(operation, error))
    return None
