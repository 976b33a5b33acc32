# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Confirms a change of a host's uplink over a new connection.

The host takes the change back by itself unless this happens in time, so a controller that dies needs no rescue.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Mapping

from ansible.errors import AnsibleError

CONFIRMED = "confirmed"
REVERTED = "reverted"
REVERTING = "reverting"
UNKNOWN = "unknown"
# The host looks once in half a second, and taking back takes its time.
_REVERT_MARGIN = 60.0
# The longest that one operation on an uplink may take: the host gives it that on top, so that nothing is taken back
# while a run is at work. Making VFs and changing the mode of an e-switch have this limit.
_OPERATION = 120.0
_PAUSE = 3.0

Ask = Callable[[], Mapping[str, Any]]
Look = Callable[[], "Mapping[str, Any] | None"]


def settle(result: dict[str, Any], ask: Ask, reset: Callable[[], None]) -> dict[str, Any]:
    """Return the result of a task, after its change of the uplink was confirmed or found taken back.

    ``reset`` drops the connection, so that ``ask`` makes a new one and returns the module's answer to the token.
    """
    guard = result.get("guard")
    if not guard:
        return result
    end = time.monotonic() + float(guard["seconds"]) + _REVERT_MARGIN
    error = ""
    while True:
        answer, error = _asked(ask, reset, error)
        state = answer.get("state")
        if state == CONFIRMED:
            return {**result, "guard": {**guard, "state": CONFIRMED}}
        if state == REVERTED:
            return _failed(result, answer, _reverted(answer))
        if state == UNKNOWN:
            return _failed(result, {**guard, "state": UNKNOWN}, _forgotten(guard))
        if time.monotonic() >= end:
            sentence = _unfinished(guard) if state == REVERTING else _unknown(guard, error)
            return _failed(result, {**guard, "state": state or "unreachable"}, sentence)
        time.sleep(_PAUSE)


def settle_after_loss(
    lost: AnsibleError, seconds: float, look: Look, ask: Ask, reset: Callable[[], None]
) -> dict[str, Any]:
    """Return the result of a task that lost its connection while it may have changed the uplink.

    ``look`` returns what the host has under guard, over a new connection, and changes nothing. What the task did is not
    known, so nothing is confirmed: the host takes its change back after ``seconds``, and after the limit of the
    operation that ran. Raises ``lost`` where the host has nothing of the task under guard, or can't be reached.
    """
    end = time.monotonic() + _OPERATION + seconds + _REVERT_MARGIN
    while time.monotonic() < end:
        try:
            reset()
            guard = look()
        except AnsibleError:
            guard = {}
        if guard is None:
            break
        if guard.get("state") == REVERTED:
            # It is told once: the next run has nothing to learn.
            answer, _error = _asked(ask, reset, "")
            if answer.get("state") == REVERTED:
                return _failed({"changed": True, "msg": ""}, answer, _reverted(answer))
        time.sleep(_PAUSE)
    raise lost


def _asked(ask: Ask, reset: Callable[[], None], error: str) -> tuple[Mapping[str, Any], str]:
    """Ask once over a new connection; return an empty answer and the error when the host can't be reached."""
    try:
        reset()
        said = ask()
    except AnsibleError as failure:
        return {}, str(failure)
    if "guard" not in said:
        return {}, str(said.get("msg") or error)
    return said["guard"], ""


def _failed(result: dict[str, Any], guard: Mapping[str, Any], sentence: str) -> dict[str, Any]:
    said = f"{result['msg']}; {sentence}" if result.get("failed") else sentence
    return {**result, "failed": True, "msg": said, "guard": dict(guard)}


def _reverted(answer: Mapping[str, Any]) -> str:
    said = (
        f"{' and '.join(answer['steps'])}: the host could not be reached over a new connection with this change of the "
        "uplink, so the host has reverted it"
    )
    if answer.get("problems"):
        said += f", except for this: {'; '.join(answer['problems'])}"
    return f"{said}; next: find out what the change needs of switches, routes or firewalls, and run again"


def _forgotten(guard: Mapping[str, Any]) -> str:
    """Return the sentence for a host that has told before what became of the change, and nobody heard it."""
    return (
        f"{' and '.join(guard['steps'])}: the host no longer guards this change of the uplink, so it was confirmed "
        "or reverted, and the answer that said which was lost; next: run again, or preview the host to see whether the "
        "change is there"
    )


def _unfinished(guard: Mapping[str, Any]) -> str:
    return (
        f"{' and '.join(guard['steps'])}: the host could not be reached in time over a new connection with this change "
        "of the uplink, and is still reverting it; next: run again in a minute, which reports the outcome"
    )


def _unknown(guard: Mapping[str, Any], error: str) -> str:
    why = f" ({error})" if error else ""
    seconds = guard["seconds"]
    return (
        f"{' and '.join(guard['steps'])}: the host could not be queried after this change of the uplink{why}; it "
        f"reverts it on its own {seconds} seconds after the last step, {seconds + _OPERATION:g} at most; next: look at "
        "its console if it stays away"
    )
