# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of planning or applying one host, as a task returns it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence, TypedDict

from ansible_collections.rdma.fabric.plugins.module_utils._violations import one_line

from ..engine.concerns import ORDER
from ..engine.execution import Execution, Failure
from ..engine.pending_reboot import KERNEL, leads_to_reboot
from ..engine.steps import (
    NEEDS_CONSENT,
    NEEDS_REBOOT,
    PLANNED,
    REFUSED,
    STATUSES,
    Plan,
    Step,
    describe,
    is_executable,
    returned,
)
from ..facts.rdma import Link, links_of
from ..facts.shapes import Facts
from ..spec.host import HostSpec
from .plan import needs_turn
from .sealed import DONE, OTHER, Sealed, Verdict
from .sealed import sentence as sentence_of

APPLY = "apply"
# A port of 400 Gb/s trains for half a minute, an InfiniBand one then waits for its subnet manager.
LINK_SECONDS = 120.0
_NOT_STRICT = "set strict: false (for the role host rdma_fabric_host_strict: false)"
ABSENT = "absent"
PREVIOUS = "previous"


class _Executed(TypedDict, total=False):
    executed: int


class Summary(_Executed):
    """The numbers of one host; ``executed`` is only in those of a run that may change it."""

    steps: int
    planned: int
    needs_consent: int
    refused: int
    needs_reboot: int
    nics: int
    gpus: int
    rails: int
    labels: dict[str, str]
    digest: str


class ExecutedStep(TypedDict):
    """A step that was executed, its printed line, and how long it took."""

    id: str
    line: str
    seconds: float


class FailedStep(TypedDict):
    """What failed and why; without a step it was the bookkeeping before or after the steps."""

    id: str | None
    line: str | None
    error: str
    undone: list[str]
    not_undone: list[str]


class _Sealed(TypedDict):
    state: str
    difference: list[str]


class _Looked(TypedDict):
    """The fields of every result; the module returns ``facts`` as ``as_returned`` converts them."""

    changed: bool
    recorded: bool
    summary: Summary
    facts: Facts
    plan: Plan
    reboot_required: bool
    awaiting_reboot: list[str]


class Outcome(_Looked, total=False):
    """The result of a task about one host."""

    msg: str
    links: list[Link]
    reload_due: bool
    reboot_only: bool
    diff: dict[str, str]
    executed: list[ExecutedStep]
    failed: bool
    failed_step: FailedStep
    not_reached: list[str]
    lost_links: list[str]
    previous_known: bool
    sealed: _Sealed


@dataclass(frozen=True)
class Run:
    """The options of a task: check mode, diff mode, its mode, and whether the host is a recorded one.

    With ``strict``, refused steps fail a run that applies, and steps without consent fail a removal, too.
    ``state`` absent restores the original values, previous the state that the host reached before. A task about some
    of the ``concerns`` leaves the others alone. With ``defers_reload`` the run ends before a reload of the driver,
    which is left to the host's turn. ``sealed`` is the approved plan of the host, ``links`` are its links before,
    which must be up again within ``link_seconds``. With ``reboots`` the host is rebooted after the run if a step
    needs it, and its links are compared then.
    """

    check: bool
    diff: bool
    mode: str
    recorded: bool
    strict: bool = True
    state: str = "present"
    concerns: Sequence[str] = ORDER
    defers_reload: bool = False
    sealed: Sealed | None = None
    links: Sequence[Link] = ()
    link_seconds: float = LINK_SECONDS
    reboots: bool = False

    @property
    def applies(self) -> bool:
        """Return whether the run changes the host."""
        return self.mode == APPLY and not self.recorded and not self.check

    @property
    def removes(self) -> bool:
        """Return whether this is a removal."""
        return self.state == ABSENT

    @property
    def goes_back(self) -> bool:
        """Return whether the host goes back to the state before the spec."""
        return self.state == PREVIOUS


def host_result(desired: HostSpec, facts: Facts, plan: Plan, run: Run) -> Outcome:
    """Return the result of a run that only reads.

    ``changed`` predicts a run with ``mode`` apply, so it is only true in check mode on a live host.
    """
    executable = list(filter(is_executable, plan["steps"]))
    return {
        **_looked(desired, facts, plan, plan, run),
        "changed": bool(executable) and run.check and run.mode == APPLY and not run.recorded,
        "msg": sentence(plan),
        "links": links_of(facts),
        "reload_due": False,
        "reboot_only": not run.reboots and bool(executable) and all(map(leads_to_reboot, executable)),
    }


def _looked(desired: HostSpec, facts: Facts, plan: Plan, left: Plan, run: Run) -> Outcome:
    """Return the fields of every result: ``plan`` is the first plan, ``left`` that of the host as it is now."""
    awaiting = _lines(_steps_with(left, NEEDS_REBOOT))
    outcome: Outcome = {
        "changed": False,
        "recorded": run.recorded,
        "summary": summarize(desired, facts, left),
        "facts": facts,
        "plan": {**left, "steps": list(map(returned, left["steps"]))},
        "reboot_required": bool(awaiting),
        "awaiting_reboot": awaiting,
    }
    if (run.diff or run.mode != APPLY) and (plan["steps"] or plan["notices"]):
        outcome["diff"] = {"prepared": "".join(f"{line}\n" for line in plan_lines(plan))}
    return outcome


def as_it_would_end(outcome: Outcome, run: Run, *, root: bool) -> Outcome:
    """Return the result of check mode, failed if a run would fail for a reason that is known before."""
    if not (run.check and run.mode == APPLY) or run.recorded or outcome.get("failed"):
        return outcome
    reasons = []
    if outcome["changed"] and not root:
        reasons.append("it would change the host, and it needs root for that; next: set ansible_become: true for it")
    refused, waiting = (_steps_with(outcome["plan"], status) for status in (REFUSED, NEEDS_CONSENT))
    if refused and run.strict:
        reasons.append(_refused_sentence(refused, run, "would not come to"))
    if waiting and run.removes and run.strict:
        reasons.append(_kept_sentence(waiting, "would not all be"))
    if not reasons:
        return outcome
    return {**outcome, "failed": True, "msg": f"{outcome['msg']}; a run would fail: {'; '.join(reasons)}"}


def with_previous(outcome: Outcome, run: Run, *, known: bool) -> Outcome:
    """Return the outcome; of a run that goes back, with whether there was a state to go back to."""
    return {**outcome, "previous_known": known} if run.goes_back else outcome


def with_verdict(outcome: Outcome, verdict: Verdict | None) -> Outcome:
    """Return the outcome with the comparison with a sealed plan; another plan fails the task."""
    if verdict is None:
        return outcome
    judged: Outcome = {**outcome, "sealed": {"state": verdict.state, "difference": list(verdict.difference)}}
    if verdict.state == OTHER:
        return {**judged, "changed": False, "failed": True, "msg": sentence_of(verdict)}
    if verdict.state == DONE:
        return {**judged, "msg": f"{outcome['msg']}; nothing is left to do of the sealed plan"}
    return judged


def applied_result(
    desired: HostSpec, facts: Facts, plan: Plan, left: Plan, *, execution: Execution, run: Run
) -> Outcome:
    """Return the result of a run that changes the host: ``plan`` was executed, ``facts`` and ``left`` are from
    reading and planning the host again.

    ``reload_due`` is true if the run leaves a reload of the driver to the host's turn.
    ``failed`` is set if a step failed, and in a strict run if a step is refused or, in a removal, lacks its consent;
    all other steps are done then.
    """
    outcome = _looked(desired, facts, plan, left, run)
    outcome["changed"] = bool(execution.done or (execution.failure and execution.failure.step))
    outcome["summary"]["executed"] = len(execution.done)
    outcome["executed"] = [
        {"id": step["id"], "line": describe(step), "seconds": seconds} for step, seconds in execution.done
    ]
    refused, waiting = (_steps_with(left, status) for status in (REFUSED, NEEDS_CONSENT))
    parts = [_executed_sentence(execution)] if execution.done or execution.failure else []
    if execution.failure is not None:
        outcome["failed"] = True
        outcome["failed_step"] = _failed_step(execution.failure)
        outcome["not_reached"] = _lines(execution.not_reached)
        parts += _failure_sentences(execution)
    else:
        if refused and (run.strict or any(step["id"] == KERNEL for step in refused)):
            outcome["failed"] = True
            parts.append(_refused_sentence(refused, run, "is not in"))
        if waiting and run.removes and run.strict:
            outcome["failed"] = True
            parts.append(_kept_sentence(waiting, "is not all"))
    if execution.failure is None:
        parts.append(f"{'left: ' if execution.done and left['steps'] else ''}{sentence(left)}")
    outcome["reload_due"] = run.defers_reload and needs_turn(left) and "failed" not in outcome
    if outcome["reload_due"]:
        parts.append("what begins with the reload of the driver waits for the turn of this host")
    if outcome["reboot_required"]:
        parts.append("a reboot is needed for part of it to take effect")
    outcome["msg"] = "; ".join(parts)
    return outcome


def _refused_sentence(refused: list[Step], run: Run, verb: str) -> str:
    """Return the sentence about refused steps; only a task about the whole host can go on without them."""
    way = "change the input"
    if set(run.concerns) == set(ORDER):
        way += f", or {_NOT_STRICT} to go on"
    return f"refused, so the host {verb} the desired state ({way}):\n{_listed(refused)}"


def _kept_sentence(waiting: list[Step], verb: str) -> str:
    """Return the sentence about steps of a removal that lack their consent."""
    way = f"give each its consent, or {_NOT_STRICT} to keep that"
    return f"what rdma.fabric has set up {verb} taken back without a consent ({way}):\n{_listed(waiting)}"


def _listed(steps: list[Step]) -> str:
    return "\n".join(f"  - {line}" for line in _lines(steps))


def _steps_with(plan: Plan, status: str) -> list[Step]:
    return [step for step in plan["steps"] if step["status"] == status]


def _executed_sentence(execution: Execution) -> str:
    failed = execution.failure is not None and execution.failure.step is not None
    wanted = len(execution.done) + failed + len(execution.not_reached)
    return f"{len(execution.done)} of {wanted} step{'s' if wanted != 1 else ''} executed"


def _failed_step(failure: Failure) -> FailedStep:
    return {
        "id": failure.step["id"] if failure.step else None,
        "line": describe(failure.step) if failure.step else None,
        "error": failure.error,
        "undone": list(failure.undone),
        "not_undone": list(failure.not_undone),
    }


def _failure_sentences(execution: Execution) -> list[str]:
    failure = execution.failure
    if failure is None:
        return []
    what = describe(failure.step) if failure.step else "keeping what the next run needs to know"
    sentences = [f"failed: {what}: {failure.error}"]
    if failure.undone:
        sentences.append(f"taken back: {', '.join(failure.undone)}")
    if failure.not_undone:
        sentences.append(f"not taken back: {', '.join(failure.not_undone)}")
    if execution.not_reached:
        sentences.append(f"not reached: {len(execution.not_reached)}")
    return sentences


def _lines(steps: list[Step]) -> list[str]:
    return [describe(step) for step in steps]


def sentence(plan: Plan) -> str:
    """Return the plan in one sentence: how many steps, and how many of each status."""
    steps = plan["steps"]
    if not steps:
        return "nothing to do"
    counts = [(sum(step["status"] == status for step in steps), status.replace("_", " ")) for status in STATUSES]
    parts = ", ".join(f"{count} {status}" for count, status in counts if count)
    return f"{len(steps)} step{'s' if len(steps) > 1 else ''}: {parts}"


def plan_lines(plan: Plan) -> list[str]:
    """Return the printed plan: one line per step in the order of execution, then the notices."""
    return [describe(step) for step in plan["steps"]] + [f"notice: {one_line(text)}" for text in plan["notices"]]


def summarize(desired: HostSpec, facts: Facts, plan: Plan) -> Summary:
    """Return the numbers of one host: steps by status, devices, labels of its node, the plan's digest.

    VFs of a PF on the host are not counted as NICs.
    """
    statuses = [step["status"] for step in plan["steps"]]
    return {
        "steps": len(statuses),
        "planned": statuses.count(PLANNED),
        "needs_consent": statuses.count(NEEDS_CONSENT),
        "refused": statuses.count(REFUSED),
        "needs_reboot": statuses.count(NEEDS_REBOOT),
        "nics": sum(not nic["pf"] for nic in facts["nics"]),
        "gpus": len(facts["gpus"]),
        "rails": len(facts["rails"]),
        "labels": {**facts["labels"], **desired["node_labels"]},
        "digest": plan["digest"],
    }
