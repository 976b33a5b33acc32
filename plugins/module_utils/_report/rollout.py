# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the report says of the hosts that were changed in turn: when each had its slot, and what its turn took. Pure."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Sequence

from .hosts import natural_key

_DIGITS = 1
_OF_A_TURN = ("host", "node", "slot", "domain", "end", "reason", "before", "after", "refusals")


def rollout_section(turns: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the turns of the last run that had some, in the order in which they began; None without any.

    All times are seconds: those of turns (``at``) since the first host waited, those of stages since their turn began.
    """
    if not turns:
        return None
    run = max(turns, key=lambda turn: (turn["began"], turn["host"]))["run"]
    own = sorted(
        (turn for turn in turns if turn["run"] == run), key=lambda turn: (turn["began"], natural_key(turn["host"]))
    )
    start = min(turn["began"] - turn["waited"] for turn in own)
    rows = [_row(turn, start) for turn in own]
    lasts = [row["at"] + row["shown"] for row in rows]
    return {
        "run": run,
        "began": datetime.fromtimestamp(start, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": round(max(lasts), _DIGITS),
        "turns": rows,
    }


def _row(turn: dict[str, Any], start: float) -> dict[str, Any]:
    """Return one turn. ``seconds`` is null for one that has not ended; ``shown`` is how far it is known."""
    stages = [
        {
            "stage": stage["stage"],
            "at": round(stage["at"], _DIGITS),
            "seconds": None if stage["seconds"] is None else round(stage["seconds"], _DIGITS),
            "failed": stage["failed"],
        }
        for stage in turn["stages"]
    ]
    known = max((stage["at"] + (stage["seconds"] or 0.0) for stage in stages), default=0.0)
    took = turn["seconds"]
    stages_took = sum(stage["seconds"] or 0.0 for stage in turn["stages"])
    return {
        **{key: turn[key] for key in _OF_A_TURN},
        "at": round(turn["began"] - start, _DIGITS),
        "waited": round(turn["waited"], _DIGITS),
        "seconds": None if took is None else round(took, _DIGITS),
        "shown": round(known if took is None else took, _DIGITS),
        # Hooks, and what Ansible needs between its tasks.
        "other": None if took is None else round(max(took - stages_took, 0.0), _DIGITS),
        "stages": stages,
    }
