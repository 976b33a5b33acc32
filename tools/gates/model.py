# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a gate is and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Callable, Mapping


@dataclass(frozen=True)
class Step:
    """One command of a gate: ``argv`` run in ``folder`` (None: the checkout) with ``environment`` added to ours."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None


def nothing_missing() -> str | None:
    """Say that a gate needs nothing beyond the environment."""
    return None


def no_steps() -> tuple[Step, ...]:
    """Return no command."""
    return ()


@dataclass(frozen=True)
class Gate:
    """A named check.

    ``steps`` is called when the gate starts, and may prepare files; all its commands must end with 0. ``after`` names
    gates that must have passed. ``missing`` returns why this machine cannot run the gate. ``junit`` is where its test
    runner leaves counts. ``forbidden`` are texts that fail the gate when its output holds one, even after 0: a checker
    that says it checked nothing has not passed. ``limit_s`` ends a gate that hangs. One ``on_request`` runs only when
    it is named; one ``alone`` runs when no other does, after them.
    """

    name: str
    about: str
    steps: Callable[[], tuple[Step, ...]]
    after: tuple[str, ...] = ()
    missing: Callable[[], str | None] = nothing_missing
    junit: Path | None = None
    forbidden: tuple[str, ...] = ()
    limit_s: float = 900.0
    on_request: bool = False
    alone: bool = False


class Verdict(Enum):
    """What came of a gate."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Counts:
    """Numbers of tests by verdict."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def sentence(self) -> str:
        """Return the counts the way pytest says them."""
        text = f"{self.passed} passed, {self.failed} failed"
        return f"{text}, {self.skipped} skipped" if self.skipped else text


@dataclass(frozen=True)
class Report:
    """What a test runner says of its tests: the counts, and each failure as ``name: first line of its message``."""

    counts: Counts
    failures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """How one gate ended: its verdict, how long it took, what its tests said, and why when it did not pass."""

    gate: Gate
    verdict: Verdict
    seconds: float = 0.0
    tests: Report | None = None
    reason: str = ""
    log: Path | None = None

    def counts(self) -> Counts:
        """Return the tests this gate ran; a gate that counts none is one test itself."""
        own = Counts(
            passed=int(self.verdict is Verdict.PASSED),
            failed=int(self.verdict is Verdict.FAILED),
            skipped=int(self.verdict is Verdict.SKIPPED),
        )
        if self.tests is None:
            return own
        if self.verdict is Verdict.FAILED and not self.tests.counts.failed:
            return self.tests.counts + own
        return self.tests.counts
