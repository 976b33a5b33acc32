# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on a guest, beside the room of the host, and brings the guest to a wish in processes that it may have killed.

It reads questions from standard input and answers each, a line of JSON for a line: ``{"do": "snapshot"}`` with what
``host_snapshot`` tells; ``{"do": "run", "wish": ..., "state": ..., "kill_before": n}`` with ``steps`` (the ids of those
executed) and ``left`` (of those that the next run would find), or with ``killed``, the step before which SIGKILL came.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._host.access import LiveMachine
from ansible_collections.rdma.fabric.plugins.module_utils._host.clock import SystemClock
from ansible_collections.rdma.fabric.plugins.module_utils._host.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.converge import apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.desired import check_desired
from ansible_collections.rdma.fabric.plugins.module_utils._host.operations import Work
from ansible_collections.rdma.fabric.plugins.module_utils._host.outcome import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import Step

SNAPSHOT = Path(__file__).with_name("host_snapshot.py")


class Killer:
    """Lets so many steps run and kills this process before the next one."""

    def __init__(self, steps: int | None, tell: Any) -> None:
        self._left = steps
        self._tell = tell

    def before(self, _context: Context, step: Step, _work: Work) -> None:
        """Be told of a step that is about to run."""
        if self._left == 0:
            self._tell({"killed": step["id"]})
            os.kill(os.getpid(), signal.SIGKILL)
        if self._left is not None:
            self._left -= 1


def run(question: dict[str, Any], tell: Any) -> None:
    """Apply a wish, or its removal."""
    state = question.get("state", "present")
    task = Run(check=False, diff=False, mode="apply", recorded=False, state=state)
    killer = Killer(question.get("kill_before"), tell)
    outcome = apply(LiveMachine(), check_desired(question["wish"]), task, None, SystemClock(), watch=killer)
    if outcome.get("failed"):
        tell({"error": outcome["msg"]})
        return
    executed = [step["id"] for step in outcome.get("executed", [])]
    tell({"steps": executed, "left": [step["id"] for step in outcome["plan"]["steps"]]})


def in_a_process(question: dict[str, Any]) -> str:
    """Answer in a process of its own, which may end at any moment; what it has said until then counts."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run(question, lambda answer: os.write(writing, json.dumps(answer).encode("ascii")))
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, encoding="ascii") as stream:
        said = stream.read()
    _pid, status = os.waitpid(child, 0)
    return said or json.dumps({"error": f"the run ended with wait status {status}"})


def main() -> None:
    """Answer until the standard input ends."""
    for line in sys.stdin:
        question = json.loads(line)
        if question["do"] == "snapshot":
            argv = [sys.executable, "-I", "-S", str(SNAPSHOT)]
            answer = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
        else:
            answer = in_a_process(question)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
