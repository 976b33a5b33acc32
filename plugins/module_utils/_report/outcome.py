# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of a run in one word, for programs that read its result. Pure."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

FAILED, REFUSED, PENDING, CHANGED, UNCHANGED = "failed", "refused", "pending", "changed", "unchanged"
OUTCOMES = (FAILED, REFUSED, PENDING, CHANGED, UNCHANGED)
_CHANGES = ("created", "configured", "deleted")
_MOST = 10


def outcome_of(report: Mapping[str, Any], unfinished: Sequence[str], *, check: bool) -> str:
    """Return the first of ``OUTCOMES`` that holds for a report of hosts that this run has read (``of_this_run``).

    ``unfinished`` are the hosts that were not brought to the end; one whose plan has refused steps failed for these.
    ``check``: nothing was changed, so what the report calls changed is pending.
    """
    summary = report["summary"]
    steps, objects, waits = summary["steps"], summary["objects"], summary["waits"]
    refusing = {row["name"] for row in report["hosts"] if row["steps"]["refused"]}
    pairs = summary["pairs"] or {}
    if summary["failed"] or pairs.get("fail") or set(unfinished) - refusing or waits["ready"] < waits["total"]:
        return FAILED
    if steps["refused"]:
        return REFUSED
    changes = sum(objects[action] for action in _CHANGES)
    if steps["total"] or objects["rendered"] or (check and changes):
        return PENDING
    return CHANGED if changes or summary["executed"] else UNCHANGED


def refusals(report: Mapping[str, Any]) -> list[str]:
    """Return one line for each refused step with its reason and its hosts, at most ten, and how many there are more."""
    lines = []
    for plan in report["plans"]:
        hosts = named(plan["hosts"])
        for step in plan["steps"]:
            if step["status"] == REFUSED:
                reason = step["detail"] or step["reason"]
                lines.append(f"refused: {hosts}: {step['concern']} {step['target']}: {step['action']} - {reason}")
    more = [f"refused: {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    return [*lines[:_MOST], *more]
