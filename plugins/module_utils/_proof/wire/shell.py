# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a command is run in a test pod, as the steps of the proof see it, and what can go wrong. Pure."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ansible_collections.rdma.fabric.plugins.module_utils._violations import one_line

from ..problem import Problem, problem_of


class Output(NamedTuple):
    """What a command that ended left: its exit status and both of its outputs."""

    status: int
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        """Both outputs, as a person at a terminal would have seen them."""
        return "\n".join(part for part in (self.stdout.rstrip("\n"), self.stderr.rstrip("\n")) if part)


class ShellTrouble(Exception):
    """A command that could not be run to its end; ``kind`` is one of TROUBLES."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Shell(Protocol):
    """Runs commands in pods."""

    def run(self, pod: str, argv: list[str], limit: float, stdin: str = "") -> Output:
        """Run ``argv`` in the pod ``namespace/name`` for at most ``limit`` seconds. Raises ShellTrouble."""

    def log(self, pod: str, end: str, limit: float) -> str:
        """Return what the pod's own command has printed, once it has a line ``end`` or after ``limit`` seconds.

        Raises ShellTrouble.
        """


TROUBLES: dict[str, tuple[str, str]] = {
    "pod_gone": (
        "the test pod was deleted while it was needed",
        "find out who deletes pods here (a quota, a descheduler, a person), then run again",
    ),
    "not_running": (
        "the test pod's container does not run: it ended, was evicted, or its node restarted",
        "look at the node and the pod's events, then run again",
    ),
    "no_program": (
        "the test image has no such program",
        "use an image that has sh, sleep, ping, rping and ib_write_bw (rdma_fabric_verify_image)",
    ),
    "forbidden": (
        "this user may not run commands in pods, or read what they print",
        "grant get and create on pods/exec, and get on pods/log, in the namespace of the test pods, then run again",
    ),
    "timed_out": (
        "the command did not end in its time",
        "look at the node's load and the kernel's log; give more time with rdma_fabric_verify_test_timeout",
    ),
    "too_much": ("the command printed without end", "look at the program in the test image"),
    "unreachable": (
        "the API server could not reach the kubelet of the node",
        "check the node, and port 10250 between the control plane and it",
    ),
}


def trouble_problem(trouble: ShellTrouble) -> Problem:
    """Return what a trouble means and what to do about it."""
    return problem_of(one_line(str(trouble)), *TROUBLES[trouble.kind])
