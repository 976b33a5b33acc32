# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the turn of a host took, stage by stage. Pure: times come in, a new document comes out.

All times are the controller's: ``now`` is its calendar in seconds since 1970, ``seconds`` what its monotonic clock
counted. A stage without ``seconds`` goes on, or its run was killed in it.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from .objects import Made

FORMAT = "rdma.fabric/turn/v1"
DRAIN, CHANGE, REBOOT, VERIFY, GIVE_BACK, ROLL_BACK = "drain", "change", "reboot", "verify", "give_back", "roll_back"
_DIGITS = 3


def begun(*, host: str, node: str, run: str, slot: str, domain: str, waited: float, now: float) -> Made:
    """Return a turn that has its slot, for which it has ``waited`` so many seconds."""
    return {
        "format": FORMAT,
        "host": host,
        "node": node,
        "run": run,
        "slot": slot,
        "domain": domain,
        "began": round(now, _DIGITS),
        "waited": waited,
        "stages": [],
        "seconds": None,
        "end": "",
        "reason": "",
        "state": None,
        "before": None,
        "after": None,
        "refusals": [],
    }


def opened(turn: Made, stage: str, now: float) -> Made:
    """Return the turn as a stage begins in it; one that was going on, such as a reboot, has ended then."""
    turn = closed(turn, now)
    entry = {"stage": stage, "at": _since(turn, now), "seconds": None, "failed": False}
    return {**turn, "stages": [*turn["stages"], entry]}


def closed(turn: Made, now: float, seconds: float | None = None, *, failed: bool = False) -> Made:
    """Return the turn as its last stage has ended; without ``seconds`` its length is what the calendar says."""
    if not turn["stages"] or turn["stages"][-1]["seconds"] is not None:
        return turn
    last = turn["stages"][-1]
    took = max(_since(turn, now) - last["at"], 0.0) if seconds is None else seconds
    return {**turn, "stages": [*turn["stages"][:-1], {**last, "seconds": round(took, _DIGITS), "failed": failed}]}


def ended(turn: Made, now: float, reason: str = "") -> Made:
    """Return the turn as its slot is released, or left behind for a ``reason``."""
    turn = closed(turn, now, failed=bool(reason))
    return {**turn, "seconds": _since(turn, now), "end": "failed" if reason else "given_back", "reason": reason}


def stage_of_host(turn: Made, state: str) -> str:
    """Return which stage a look at the host is, that brings it to ``state`` where it is not there.

    The first one changes it. After a reboot it is verified; a later one to another state takes the change back.
    """
    stages = turn["stages"]
    if not any(entry["stage"] == CHANGE for entry in stages):
        return CHANGE
    taken_back = any(entry["stage"] == ROLL_BACK for entry in stages)
    if state not in (None, turn["state"]) and not taken_back:
        return ROLL_BACK
    return VERIFY


def versions_of(facts: Mapping[str, Any]) -> Made:
    """Return the versions of driver, kernel and firmware that a host has, by its facts."""
    stack = facts.get("stack") or {}
    firmware = {str(device["firmware"]) for device in facts.get("rdma") or [] if device.get("firmware")}
    return {
        "driver": " ".join(str(stack[key]) for key in ("flavour", "version") if stack.get(key)),
        "kernel": str((facts.get("system") or {}).get("kernel") or ""),
        "firmware": sorted(firmware),
    }


def refusals_of(pods: Sequence[Mapping[str, Any]]) -> list[Made]:
    """Return which pods a drain could not evict at first, what refused it and for how long, the longest first."""
    found = [
        {"pod": f"{pod['namespace']}/{pod['name']}", "why": pod["blocked"], "seconds": pod["refused"]}
        for pod in pods
        if pod.get("refused") is not None
    ]
    return sorted(found, key=lambda entry: -entry["seconds"])


def _since(turn: Made, now: float) -> float:
    return round(max(now - float(turn["began"]), 0.0), _DIGITS)
