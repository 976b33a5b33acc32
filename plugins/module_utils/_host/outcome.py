# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of planning one host, as a task returns it. Pure. Private to this collection: it may change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict

from ansible_collections.rdma.fabric.plugins.module_utils._host.actual import Facts
from ansible_collections.rdma.fabric.plugins.module_utils._host.desired import HostDesired
from ansible_collections.rdma.fabric.plugins.module_utils._host.plan import Plan
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import STATUSES, describe, is_executable
from ansible_collections.rdma.fabric.plugins.module_utils._host.syntax import one_line

Outcome = Dict[str, Any]

APPLY = "apply"
_REFUSAL = (
    "applying host plans is not part of 0.1.0: this release plans hosts and changes none; run with --check or set "
    "rdma_fabric_host_mode=preview (mode: preview) to go on without the changes"
)


@dataclass(frozen=True)
class Run:
    """How the task runs: in check mode or not, with differences or not, its mode, on a recorded host or a live one."""

    check: bool
    diff: bool
    mode: str
    recorded: bool


def host_outcome(desired: HostDesired, facts: Facts, plan: Plan, run: Run) -> Outcome:
    """Return the task's result; ``failed`` is set when a run would have to apply steps, which this release refuses.

    ``changed`` tells what a run with ``mode`` apply would do, so it is only true in check mode on a live host.
    """
    executable = [step for step in plan["steps"] if is_executable(step)]
    applies = run.mode == APPLY and not run.recorded
    outcome: Outcome = {
        "changed": bool(executable) and run.check and applies,
        "recorded": run.recorded,
        "msg": sentence(plan),
        "summary": summarize(desired, facts, plan),
        "facts": facts,
        "plan": plan,
    }
    if run.diff and (plan["steps"] or plan["notices"]):
        outcome["diff"] = {"prepared": "".join(f"{line}\n" for line in plan_lines(plan))}
    if executable and applies and not run.check:
        steps = "\n".join(f"  - {describe(step)}" for step in executable)
        outcome.update(failed=True, msg=f"{_REFUSAL}. Nothing was changed; not applied:\n{steps}")
    return outcome


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
