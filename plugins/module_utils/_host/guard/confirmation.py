# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A confirmation as a task tells it: whatever does not stay fails."""

from __future__ import annotations

from typing import Any

from ..machine.access import Machine
from ..machine.clock import Clock
from ..machine.paths import GUARD_FILE
from .revert import CONFIRMED, REVERTED, REVERTING, Answer, confirm, read_record


def confirmation(machine: Machine, clock: Clock, token: str, *, check: bool) -> dict[str, Any]:
    """Confirm the change with this token; return the result of the task. Raises HostError.

    Anything but a change that stays is a failure, as somebody waits for it while the time runs. ``check``: check mode,
    which writes nothing.
    """
    if check:
        said = "nothing was confirmed, as check mode writes nothing; next: give the token again without --check"
        return {"changed": False, "failed": True, "msg": said}
    answer = confirm(machine, clock, token)
    result: dict[str, Any] = {"changed": False, "guard": {**answer._asdict(), "steps": list(answer.steps)}}
    if answer.state == CONFIRMED:
        return {**result, "msg": f"{_lines(answer)}: this change of the uplink is confirmed and stays"}
    said = _unknown(machine, clock) if answer.state not in (REVERTED, REVERTING) else _taken_back(answer)
    return {**result, "failed": True, "msg": f"not confirmed: {said}"}


def _taken_back(answer: Answer) -> str:
    if answer.state == REVERTING:
        return f"{_lines(answer)}: the host is taking this change of the uplink back; next: run again in a minute"
    said = f"{_lines(answer)}: the host has taken this change of the uplink back, as its time was over"
    if answer.problems:
        said += f", except for this: {'; '.join(answer.problems)}"
    return f"{said}; next: run again and confirm in time, or raise rdma_fabric_revert_seconds"


def _unknown(machine: Machine, clock: Clock) -> str:
    waiting = read_record(machine, GUARD_FILE)
    if waiting is None:
        return (
            "no change of the uplink waits on this host, and none with this token was taken back since the last run; "
            "next: preview the host, which shows whether the change is there"
        )
    left = max(1, round(waiting.deadline - clock.now()))
    what = " and ".join(waiting.steps) or "a change"
    return (
        f"no change has this token, but {what} waits under another one for {left} seconds at most; next: take "
        f"the token from the output of its run, or from {GUARD_FILE} on the host, and confirm again"
    )


def _lines(answer: Answer) -> str:
    return " and ".join(answer.steps)
