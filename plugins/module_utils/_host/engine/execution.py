# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of executing a plan, and the interface of an observer of its steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from .context import Context
from .operations import Work
from .steps import Step, describe


@dataclass(frozen=True)
class Failure:
    """A failed step, or failed bookkeeping if ``step`` is None.

    ``error`` is one line with what, where, why and the next step.
    """

    step: Step | None
    error: str
    undone: tuple[str, ...] = ()
    not_undone: tuple[str, ...] = ()


@dataclass
class Execution:
    """The result of executing a plan: ``done`` steps with their seconds, the failure, and the steps not reached."""

    done: list[tuple[Step, float]] = field(default_factory=list)
    failure: Failure | None = None
    not_reached: list[Step] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """Return the printed lines of the executed steps, in order."""
        return [describe(step) for step, _seconds in self.done]


class Watch(Protocol):
    """An observer, called before every step and operation; it prevents them by raising HostError or Fault."""

    def before(self, context: Context, step: Step, work: Work) -> None:
        """Prepare for a step."""

    def during(self, seconds: float) -> None:
        """Prepare for an operation of at most ``seconds``; the step is undone if that fails."""
