# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with an input, said so that its author can mend it. Private to this collection: it may change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable


@dataclass(frozen=True)
class Finding:
    """One remark about one place of an input.

    ``source`` is the file, variable or host variable as its author knows it, ``line`` counts from 1 where the source
    has lines, ``path`` leads to the value (``spec.ofedDriver.version``, ``configList[0].resourceName``; empty for the
    whole source), ``problem`` says what is there and why that matters, ``hint`` names the next step or the nearest
    known name.
    """

    source: str
    path: str
    problem: str
    hint: str = ""
    line: int | None = None

    def place(self) -> str:
        """Return ``source:line: path`` with the parts that are known."""
        where = self.source if self.line is None else f"{self.source}:{self.line}"
        return f"{where}: {self.path}" if self.path else where

    def sentence(self) -> str:
        """Return the finding as one line for a person."""
        text = f"{self.place()}: {self.problem}"
        return f"{text} ({self.hint})" if self.hint else text

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as plain data for results and reports."""
        return {
            "source": self.source,
            "line": self.line,
            "path": self.path,
            "problem": self.problem,
            "hint": self.hint,
        }


class Violation(Finding):
    """A finding that forbids the run: nothing is touched while one is open."""


class Notice(Finding):
    """A finding that is only said: a retired field that was translated, a value that deserves a look."""


class InvalidInput(Exception):
    """An input that breaks at least one rule; it carries every violation found, not only the first."""

    def __init__(self, violations: Iterable[Violation]) -> None:
        self.violations: list[Violation] = sorted(violations, key=lambda v: (v.source, v.line or 0, v.path, v.problem))
        super().__init__(report(self.violations))


def report(findings: Iterable[Finding]) -> str:
    """Return all findings as text, one per line, under a line that counts them."""
    lines = [f"  - {finding.sentence()}" for finding in findings]
    noun = "problem" if len(lines) == 1 else "problems"
    return "\n".join([f"{len(lines)} {noun} in the input; nothing was changed:", *lines])
