# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the page shows of a rollout: a lane for each host, or of many hosts one for each slot, and a table. Pure.

Places and lengths in a lane are thousandths of the whole rollout.
"""

from __future__ import annotations

import json
from typing import Any, Iterable

from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import counted, natural_key
from ansible_collections.rdma.fabric.plugins.plugin_utils._console.results import spoken

WIDTH = 1000
STAGES = {
    "wait": "waits",
    "drain": "drained",
    "change": "changed",
    "reboot": "rebooted",
    "verify": "verified",
    "give_back": "returned to service",
    "roll_back": "rolled back",
}
ENDS = {"given_back": "returned to service", "failed": "failed", "": "not ended"}
_MOST_LANES = 50
_OPEN_ROWS = 12
_MOST_REFUSALS = 3
_TICKS = 4
# What is narrower can't be seen; of many hosts it would only make the page long.
_NARROWEST = 1.0
_MARK = 4.0
_VERSIONS = ("driver", "kernel", "firmware")


def rollout_view(section: dict[str, Any] | None, most: int) -> dict[str, Any] | None:
    """Return what the template prints of the report's ``rollout``, None without one; at most ``most`` hosts in rows."""
    if section is None:
        return None
    turns, whole = section["turns"], max(float(section["seconds"]), 0.1)
    by_slot = len(turns) > _MOST_LANES
    rows = _rows(turns)
    seen = {stage["stage"] for turn in turns for stage in turn["stages"]} | ({"wait"} if not by_slot else set())
    return {
        "run": section["run"],
        "began": section["began"],
        "took": spoken(section["seconds"]),
        "counts": [(end, words, count) for end, words in ENDS.items() if (count := _ended(turns, end))],
        "by_slot": by_slot,
        "lanes": _lanes_of_slots(turns, whole) if by_slot else [_lane_of_host(turn, whole) for turn in turns],
        "ticks": [spoken(whole * tick / _TICKS) for tick in range(_TICKS + 1)],
        "legend": [(stage, words) for stage, words in STAGES.items() if stage in seen],
        "any_failed": any(stage["failed"] for turn in turns for stage in turn["stages"]),
        "columns": [(stage, words) for stage, words in STAGES.items() if stage == "wait" or stage in seen],
        "rows": rows[:most],
        "open": len(rows) <= _OPEN_ROWS,
        "more": sum(len(row["hosts"]) for row in rows[most:]),
    }


def _ended(turns: list[dict[str, Any]], end: str) -> int:
    return sum(turn["end"] == end for turn in turns)


def _lane_of_host(turn: dict[str, Any], whole: float) -> dict[str, Any]:
    waits = _bar("wait", turn["at"] - turn["waited"], turn["waited"], whole)
    took = "not ended" if turn["seconds"] is None else spoken(turn["seconds"])
    notes = [f"slot {_number(turn['slot'])}", *([turn["domain"]] if turn["domain"] else []), took]
    return {
        "name": turn["host"],
        "note": ", ".join(notes),
        "end": turn["end"],
        "bars": [stretch for stretch in (waits, *_bars(turn, whole)) if stretch["width"] > 0],
        "told": _told([turn]),
    }


def _lanes_of_slots(turns: list[dict[str, Any]], whole: float) -> list[dict[str, Any]]:
    """Return what each slot did over time."""
    slots: dict[str, list[dict[str, Any]]] = {}
    for turn in turns:
        slots.setdefault(turn["slot"], []).append(turn)
    return [
        {
            "name": f"slot {_number(slot)}",
            "note": counted(len(slots[slot]), "host"),
            "end": "failed" if _ended(slots[slot], "failed") else "",
            "bars": [
                stretch for turn in slots[slot] for stretch in _bars(turn, whole) if stretch["width"] >= _NARROWEST
            ],
            "told": _told(slots[slot]),
        }
        for slot in sorted(slots, key=natural_key)
    ]


def _bars(turn: dict[str, Any], whole: float) -> list[dict[str, Any]]:
    """Return the stages of a turn; how long one took that has not ended is not known, so it is only marked."""
    mark = _MARK * whole / WIDTH
    return [
        _bar(
            "failed" if stage["failed"] else stage["stage"],
            turn["at"] + stage["at"],
            mark if stage["seconds"] is None else stage["seconds"],
            whole,
        )
        for stage in turn["stages"]
    ]


def _bar(stage: str, at: float, seconds: float, whole: float) -> dict[str, Any]:
    start = max(at, 0.0) / whole * WIDTH
    return {
        "stage": stage,
        "x": round(start, 1),
        "width": round(min(seconds / whole * WIDTH, max(WIDTH - start, 0.0)), 1),
    }


def _told(turns: Iterable[dict[str, Any]]) -> str:
    """Return what a lane shows, for those who hear it."""
    longest = sorted(turns, key=lambda turn: -turn["shown"])
    said = [f"{turn['host']} {ENDS[turn['end']]} after {spoken(turn['shown'])}" for turn in longest[:3]]
    return "; ".join(said) + (f"; and {len(longest) - 3} more" if len(longest) > 3 else "")


def _rows(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the table: what failed first, equal turns in one."""
    grouped: dict[str, dict[str, Any]] = {}
    for turn in sorted(turns, key=lambda turn: (turn["end"] == "given_back", turn["at"])):
        row = {
            "end": turn["end"] or "open",
            "end_words": ENDS[turn["end"]],
            "times": {"wait": spoken(turn["waited"]), **_times(turn)},
            "total": "" if turn["seconds"] is None else spoken(turn["seconds"]),
            "other": "" if not turn["other"] else spoken(turn["other"]),
            "told": [
                *([turn["reason"]] if turn["reason"] else []),
                *_refusals(turn["refusals"]),
                *_versions(turn["before"], turn["after"]),
            ],
        }
        grouped.setdefault(json.dumps(row, sort_keys=True), {**row, "hosts": []})["hosts"].append(turn["host"])
    return list(grouped.values())


def _times(turn: dict[str, Any]) -> dict[str, str]:
    """Return how long each stage took in all; a host may be verified twice."""
    found: dict[str, float] = {}
    unended = {stage["stage"] for stage in turn["stages"] if stage["seconds"] is None}
    for stage in turn["stages"]:
        found[stage["stage"]] = found.get(stage["stage"], 0.0) + (stage["seconds"] or 0.0)
    return {stage: "not ended" if stage in unended else spoken(seconds) for stage, seconds in found.items()}


def _versions(before: dict[str, Any] | None, after: dict[str, Any] | None) -> list[str]:
    """Return each version that a turn has changed, as it was and is; nothing where one of the two is not known."""
    if before is None or after is None:
        return []
    pairs = [(name, _version(before[name]), _version(after[name])) for name in _VERSIONS]
    return [f"{name} {was or 'none'} \N{RIGHTWARDS ARROW} {now or 'none'}" for name, was, now in pairs if was != now]


def _version(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def _refusals(refusals: list[dict[str, Any]]) -> list[str]:
    said = [f"{each['pod']} refused for {spoken(each['seconds'])}: {each['why']}" for each in refusals]
    more = len(said) - _MOST_REFUSALS
    return [*said[:_MOST_REFUSALS], *([f"and {counted(more, 'more pod')}"] if more > 0 else [])]


def _number(slot: str) -> str:
    """Return the number of a slot by the name of its Lease."""
    return slot.rpartition("-")[2]
