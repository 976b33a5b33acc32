# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on a guest, beside the room of the host, and brings the guest to a wish in processes that it disturbs.

It reads questions from standard input and answers each, a line of JSON for a line: ``{"do": "snapshot"}`` with what
``host_snapshot`` tells; ``{"do": "run", "wish": ..., "state": ..., "kill_before": n}`` with ``steps`` (the ids of those
executed) and ``left`` (of those that the next run would find), with ``killed``, the step before which SIGKILL came, or
with ``error``. With ``strace`` (its options) a run is traced; ``{"do": "points"}`` then gives the calls by which it
wrote.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.lock import Locked, NoLock, Signature, exclusive
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import Work
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import Step
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import LiveMachine, SystemClock
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.guests.host_snapshot import snapshot
from ansible_collections.rdma.fabric.tests.lab.writing_calls import Point, Traced

LOG = Path(__file__).with_name("strace.log")
# Of what a run opens to write, this keeps nothing.
KEEPS_NOTHING = re.compile(r"/dev/|/proc/(self|\d+)/")


class Killer:
    """Signs the lock as the module does, lets so many steps run and kills this process before the next one."""

    def __init__(self, signature: Signature, steps: int | None, tell: Any) -> None:
        self._signature = signature
        self._left = steps
        self._tell = tell

    def before(self, _context: Context, step: Step, _work: Work) -> None:
        """Be told of a step that is about to run."""
        self._signature.sign()
        if self._left == 0:
            self._tell({"killed": step["id"]})
            os.kill(os.getpid(), signal.SIGKILL)
        if self._left is not None:
            self._left -= 1

    def during(self, _seconds: float) -> None:
        """Be told of an operation, which nothing is made of here."""


def run(question: dict[str, Any], tell: Any) -> int:
    """Apply a wish, or its removal."""
    state = question.get("state", "present")
    task = Run(check=False, diff=False, mode="apply", recorded=False, state=state)
    clock = SystemClock()
    try:
        with exclusive(clock, "a run that is disturbed", signed=False) as signature:
            killer = Killer(signature, question.get("kill_before"), tell)
            outcome = apply(LiveMachine(), check_spec(question["wish"]), task, None, clock, watch=killer)
    except (Locked, NoLock) as error:
        tell({"error": str(error)})
        return 0
    if outcome.get("failed"):
        tell({"error": outcome["msg"]})
        return 0
    executed = [step["id"] for step in outcome.get("executed", [])]
    tell({"steps": executed, "left": [step["id"] for step in outcome["plan"]["steps"]]})
    return 0


def in_a_process(question: dict[str, Any]) -> dict[str, Any]:
    """Answer in a process of its own, which may end at any moment; what it has said until then counts."""
    reading, writing = os.pipe()
    traced = Traced(LOG, lambda: run(question, lambda answer: os.write(writing, json.dumps(answer).encode("ascii"))))
    status = traced.run(tuple(question.get("strace", ())))
    os.close(writing)
    with os.fdopen(reading, encoding="ascii") as stream:
        said = stream.read()
    if said:
        answer: dict[str, Any] = json.loads(said)
        return answer
    return {"killed": ""} if status == -signal.SIGKILL else {"error": f"the run ended with status {status}"}


def points() -> list[Point]:
    """Give the writing calls of the run that was traced last."""
    return Traced(LOG, lambda: 0).points(lambda path: not KEEPS_NOTHING.match(path))


def main() -> None:
    """Answer until the standard input ends."""
    answers: dict[str, Any] = {"snapshot": lambda _question: snapshot(), "run": in_a_process}
    answers["points"] = lambda _question: points()
    for line in sys.stdin:
        question = json.loads(line)
        sys.stdout.write(f"{json.dumps(answers[question['do']](question))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
