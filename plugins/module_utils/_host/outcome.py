# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of planning or applying one host, as a task returns it. Pure. Private: it may change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.actual import Facts
from ansible_collections.rdma.fabric.plugins.module_utils._host.desired import HostDesired
from ansible_collections.rdma.fabric.plugins.module_utils._host.execute import Execution
from ansible_collections.rdma.fabric.plugins.module_utils._host.plan import Plan
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import (
    CONCERNS,
    NEEDS_REBOOT,
    REFUSED,
    STATUSES,
    Step,
    describe,
    is_executable,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.syntax import one_line

Outcome = Dict[str, Any]

APPLY = "apply"
ABSENT = "absent"


@dataclass(frozen=True)
class Run:
    """How the task runs: in check mode or not, with differences or not, its mode, on a recorded host or a live one.

    ``strict`` lets refused steps fail a run that applies; ``state`` absent brings the original values back. A task
    about some of the ``concerns`` only leaves the others alone.
    """

    check: bool
    diff: bool
    mode: str
    recorded: bool
    strict: bool = True
    state: str = "present"
    concerns: Sequence[str] = CONCERNS

    @property
    def applies(self) -> bool:
        """Return whether the run changes the host."""
        return self.mode == APPLY and not self.recorded and not self.check

    @property
    def removes(self) -> bool:
        """Return whether everything of ours is to go."""
        return self.state == ABSENT


def host_outcome(desired: HostDesired, facts: Facts, plan: Plan, run: Run) -> Outcome:
    """Return the result of a run that only looks.

    ``changed`` tells what a run with ``mode`` apply would do, so it is only true in check mode on a live host.
    """
    executable = any(map(is_executable, plan["steps"]))
    outcome: Outcome = {
        "changed": executable and run.check and run.mode == APPLY and not run.recorded,
        "recorded": run.recorded,
        "msg": sentence(plan),
        "summary": summarize(desired, facts, plan),
        "facts": facts,
        "plan": plan,
        **_reboot(plan),
    }
    _add_difference(outcome, plan, run)
    return outcome


def applied_outcome(
    desired: HostDesired, facts: Facts, plan: Plan, left: Plan, *, execution: Execution, run: Run
) -> Outcome:
    """Return the result of a run that changes the host: ``plan`` is the one that ran, ``facts`` and ``left`` are what
    reading and planning the host again gave.

    ``failed`` is set when a step failed, and in a strict run when a step is refused; what could be done is done then.
    """
    outcome: Outcome = {
        "changed": bool(execution.done or (execution.failure and execution.failure.step)),
        "recorded": False,
        "summary": {**summarize(desired, facts, left), "executed": len(execution.done)},
        "facts": facts,
        "plan": left,
        "executed": [
            {"id": step["id"], "line": describe(step), "seconds": seconds} for step, seconds in execution.done
        ],
        **_reboot(left),
    }
    _add_difference(outcome, plan, run)
    refused = [step for step in left["steps"] if step["status"] == REFUSED]
    parts = [_executed_sentence(execution, plan)] if execution.done or execution.failure else []
    if execution.failure is not None:
        outcome.update(failed=True, failed_step=_failed_step(execution), not_reached=_lines(execution.not_reached))
        parts += _failure_sentences(execution)
    elif refused and run.strict:
        outcome["failed"] = True
        parts.append(_refused_sentence(refused, run))
    if execution.failure is None:
        parts.append(f"{'left: ' if execution.done and left['steps'] else ''}{sentence(left)}")
    if outcome["reboot_required"]:
        parts.append("a reboot is needed for part of it to take effect")
    outcome["msg"] = "; ".join(parts)
    return outcome


def _refused_sentence(refused: list[Step], run: Run) -> str:
    """Name the refused steps and the way on; only a task about the whole host may go on without them."""
    way = "change what is asked for"
    if set(run.concerns) == set(CONCERNS):
        way += ", or set strict: false (for the role host rdma_fabric_host_strict: false) to go on"
    lines = "\n".join(f"  - {line}" for line in _lines(refused))
    return f"refused, so the host is not in the desired state ({way}):\n{lines}"


def _executed_sentence(execution: Execution, plan: Plan) -> str:
    wanted = sum(map(is_executable, plan["steps"]))
    return f"{len(execution.done)} of {wanted} step{'s' if wanted != 1 else ''} executed"


def _failed_step(execution: Execution) -> dict[str, Any]:
    failure = execution.failure
    if failure is None:
        return {}
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


def _add_difference(outcome: Outcome, plan: Plan, run: Run) -> None:
    if run.diff and (plan["steps"] or plan["notices"]):
        outcome["diff"] = {"prepared": "".join(f"{line}\n" for line in plan_lines(plan))}


def _reboot(plan: Plan) -> dict[str, Any]:
    """Return whether a reboot is all that is missing for some steps, and the lines of those."""
    awaiting = [describe(step) for step in plan["steps"] if step["status"] == NEEDS_REBOOT]
    return {"reboot_required": bool(awaiting), "awaiting_reboot": awaiting}


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


def summarize(desired: HostDesired, facts: Facts, plan: Plan) -> dict[str, Any]:
    """Return the numbers of one host: steps by status, devices, the labels its node has, the plan's digest.

    NICs are counted without the virtual functions of a physical one that is counted.
    """
    counts = {status: sum(step["status"] == status for step in plan["steps"]) for status in STATUSES}
    return {
        "steps": len(plan["steps"]),
        **counts,
        "nics": sum(not nic["pf"] for nic in facts["nics"]),
        "gpus": len(facts["gpus"]),
        "rails": len(facts["rails"]),
        "labels": {**facts["labels"], **desired["node_labels"]},
        "digest": plan["digest"],
    }
