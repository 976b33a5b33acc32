# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts whose turn has failed go back to what they were before, and which of them are drained for that."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.tests.unit.test_conditions_of_turns import Task

INCLUDES = {
    "drain.yml": "Drain the node before the rollback if it was spared, or an earlier run was killed",
    "rollback.yml": "Roll back the host after its failed turn",
}
FAILED: dict[str, Any] = {"begun": True, "unfinished": [{"host": "a", "why": "failed: it is not Ready"}]}
DUE: dict[str, Any] = {
    "_rdma_fabric_host_end": {**FAILED, "due": True},
    "_rdma_fabric_host_drain": {"changed": True},
}
# A run that was killed has changed it, and nothing was left for this one but to verify it.
LEFT: dict[str, Any] = {
    "_rdma_fabric_host_end": {**FAILED, "due": False},
    "_rdma_fabric_host_drain": {"skipped": True},
}
# What it got takes effect at a reboot that nobody allowed, so that its pods have stayed.
SPARED: dict[str, Any] = {
    **DUE,
    "_rdma_fabric_host_end": {**FAILED, "due": True, "spared": True},
    "_rdma_fabric_host_drain": {"skipped": True},
}
CORDONED: dict[str, Any] = {**LEFT, "_rdma_fabric_host_given_back": {"failed": True, "cordoned": True}}


def included(file: str, variables: dict[str, Any]) -> bool:
    """Return whether the part of turns that have failed is reached with these variables, and includes another one."""
    parts = (("upgrade", "Roll back a host whose turn failed, and run its hooks"), ("failed", INCLUDES[file]))
    tasks = [Task(f"roles/host/tasks/{part}.yml", name) for part, name in parts]
    around = {name: text for task in tasks for name, text in task.around.items()}
    return all(task.is_done({**around, **variables}) for task in tasks)


@pytest.mark.parametrize(
    ("variables", "drained", "goes_back"),
    [
        (DUE, False, True),
        ({**DUE, "_rdma_fabric_host_end": {"due": True, "unfinished": []}}, False, False),
        ({**DUE, "_rdma_fabric_host_drain": {"failed": True}}, False, False),
        ({**DUE, "_rdma_fabric_host_drain": {"failed": True, "unanswered": False, "gone": False}}, False, False),
        ({**DUE, "_rdma_fabric_host_drain": {"changed": False}}, False, True),
        ({**DUE, "_rdma_fabric_host_end": {**FAILED, "begun": False, "due": True}}, False, False),
        ({**DUE, "_rdma_fabric_host_hook": {"stage": "verified"}}, False, False),
        ({**DUE, "_rdma_fabric_host_hook": {"stage": "failed"}}, False, True),
        ({**DUE, "host_state": "previous"}, False, False),
        ({**DUE, "rdma_fabric_rollback": False}, False, False),
        (SPARED, True, True),
        ({**SPARED, "_rdma_fabric_host_drain": {"failed": True}}, True, False),
        ({**SPARED, "rdma_fabric_rollback": False}, False, False),
        (LEFT, False, False),
        ({**LEFT, "_rdma_fabric_host_given_back": {"failed": True}}, False, False),
        ({**DUE, "_rdma_fabric_host_given_back": {"failed": True, "unanswered": True, "gone": False}}, False, False),
        ({**DUE, "_rdma_fabric_host_given_back": {"failed": True, "unanswered": False, "gone": True}}, False, False),
        ({**DUE, "_rdma_fabric_host_given_back": {"failed": True, "unanswered": False, "gone": False}}, False, True),
        ({**DUE, "_rdma_fabric_host_wire": {"failed": True, "unanswered": True}}, False, False),
        ({**DUE, "_rdma_fabric_host_wire": {"failed": True, "unanswered": False}}, False, True),
        (CORDONED, True, False),
        ({**CORDONED, "_rdma_fabric_host_given_back": {"cordoned": True, "unanswered": True}}, False, False),
        ({**CORDONED, "_rdma_fabric_host_drain": {"changed": False}}, True, True),
        ({**CORDONED, "_rdma_fabric_host_drain": {"failed": True}}, True, False),
        ({**CORDONED, "rdma_fabric_rollback": False}, False, False),
        (
            {**LEFT, "_rdma_fabric_host_ready": {"cordoned": True}, "_rdma_fabric_host_wire": {"failed": True}},
            True,
            False,
        ),
    ],
    ids=[
        "turn",
        "turn that has not failed",
        "drain that has failed",
        "pods have come to its node",
        "no pods have come to its node",
        "failed before it was begun",
        "pods are back",
        "hook of a failed turn has failed",
        "playbook rollback",
        "turn, not wanted",
        "spared, not drained yet",
        "spared, can't be drained",
        "spared, not wanted",
        "killed, nothing was verified",
        "killed, takes pods",
        "turn, API server away",
        "turn, node deleted",
        "turn, node not ready",
        "turn, API server away in the wire test",
        "turn, fails on the wire",
        "killed, not drained yet",
        "killed, API server away",
        "killed, drained",
        "killed, can't be drained",
        "killed, not wanted",
        "killed, fails on the wire",
    ],
)
def test_a_host_that_has_failed_goes_back_once_it_is_drained(
    variables: dict[str, Any], drained: bool, goes_back: bool
) -> None:
    assert (included("drain.yml", variables), included("rollback.yml", variables)) == (drained, goes_back)
