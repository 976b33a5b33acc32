# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of the uplink that is taken back unless it is confirmed: the record of one. Pure. Private: it may change."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.operations import (
    Operation,
    PutFile,
    RemoveFile,
    Run,
    SetAttribute,
    WaitFor,
)

FORMAT = 1
_OPERATIONS: dict[str, Any] = {kind.__name__: kind for kind in (PutFile, RemoveFile, SetAttribute, Run)}
# What a record read back must hold of each field of an operation; anything else is no record of ours.
_FIELDS: dict[str, Any] = {
    "path": str,
    "text": str,
    "mode": int,
    "timeout": (int, float),
    "argv": list,
    "accepted": list,
    "tolerated": list,
}
_SHAPES: dict[str, Any] = {
    "token": str,
    "boot_id": str,
    "seconds": int,
    "deadline": (int, float),
    "steps": list,
    "undo": list,
}


class BadRecord(ValueError):
    """A file that should hold a record and holds something else."""


class Record(NamedTuple):
    """One guarded change, or several of one run.

    ``deadline`` is in seconds of the host's monotonic clock, which only counts within the boot ``boot_id``. ``undo``
    takes the changes back, in this order; ``steps`` are their printed lines. ``problems`` are what a revert left.
    """

    token: str
    boot_id: str
    seconds: int
    deadline: float
    steps: tuple[str, ...] = ()
    undo: tuple[Operation, ...] = ()
    problems: tuple[str, ...] = ()


def with_step(record: Record, line: str, undo: Sequence[Operation], now: float) -> Record:
    """Return the record with one more change; the last change is taken back first, and the time starts anew."""
    kept = tuple(operation for operation in undo if not isinstance(operation, WaitFor))
    steps, operations = (*record.steps, line), (*kept, *record.undo)
    return extended(record._replace(steps=steps, undo=operations), now)


def extended(record: Record, now: float, busy: float = 0.0) -> Record:
    """Return the record with all of its time left after ``busy`` seconds: the run that makes the changes is at work."""
    return record._replace(deadline=now + busy + record.seconds)


def is_due(record: Record, boot_id: str, now: float) -> bool:
    """Return whether the changes are to be taken back: their time is over, or the host has started anew since."""
    return record.boot_id != boot_id or now >= record.deadline


def text_of(record: Record) -> str:
    """Return the record as its file holds it."""
    document = {
        **record._asdict(),
        "format": FORMAT,
        "undo": [{"do": type(operation).__name__, **operation._asdict()} for operation in record.undo],
    }
    return json.dumps(document, indent=1, ensure_ascii=True) + "\n"


def parse(text: str) -> Record:
    """Return the record that a file holds; raises ``BadRecord``."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise BadRecord(f"it is no JSON: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BadRecord(f"it is no record of format {FORMAT}")
    for key, shape in _SHAPES.items():
        if not isinstance(document.get(key), shape):
            raise BadRecord(f"it has no usable {key}")
    return Record(
        token=document["token"],
        boot_id=document["boot_id"],
        seconds=document["seconds"],
        deadline=float(document["deadline"]),
        steps=tuple(map(str, document["steps"])),
        undo=tuple(map(_operation, document["undo"])),
        problems=tuple(map(str, document.get("problems") or ())),
    )


def _operation(entry: Any) -> Operation:
    if not isinstance(entry, dict) or entry.get("do") not in _OPERATIONS:
        raise BadRecord("it has an unknown operation")
    fields = {key: value for key, value in entry.items() if key != "do"}
    kind = _OPERATIONS[entry["do"]]
    if set(fields) != set(kind._fields) or not all(isinstance(fields[key], _FIELDS[key]) for key in fields):
        raise BadRecord(f"its operation {entry['do']} has other fields than it should")
    operation: Operation = kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in fields.items()})
    return operation
