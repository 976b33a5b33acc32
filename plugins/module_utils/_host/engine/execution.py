# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of a plan that was executed, and who is told while it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from .context import Context
from .operations import Work
from .steps import Step, describe


@dataclass(frozen=True)
class Failure:
    """The step that failed, none when it was the bookkeeping before or after them; ``error`` is one line with what,
    where, why and the next step."""

    step: Step | None
    error: str
    undone: tuple[str, ...] = ()
    not_undone: tuple[str, ...] = ()


@dataclass
class Execution:
    """What became of a plan: ``done`` steps with their seconds, the one that failed, those it did not come to."""

    done: list[tuple[Step, float]] = field(default_factory=list)
    failure: Failure | None = None
    not_reached: list[Step] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """Return the executed steps as the printed plan has them, in order."""
        return [describe(step) for step, _seconds in self.done]


class Watch(Protocol):
    """What is told of every step before it runs, and of every operation; HostError and Fault keep it from running."""

    def before(self, context: Context, step: Step, work: Work) -> None:
        """Prepare for a step."""

    def during(self, seconds: float) -> None:
        """Prepare for an operation that may take so long; what a step has done is undone when that fails."""
