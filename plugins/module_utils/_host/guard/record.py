# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of the uplink that is taken back unless it is confirmed: the record of one. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from ..engine.operations import Found, Operation, PutFile, RemoveFile, Run, SetAttribute, WaitFor
from ..machine.host_files import GUARD_FILE, REVERTED_FILE, REVERTING_FILE, STAGED_FILE, StateFile

FILE = StateFile(
    GUARD_FILE,
    "the record of an uplink change, so that the host can't take it back",
    "look at the uplink, bring back by hand what is wrong, and remove the file",
)
# The record of a change at the next boot goes from the first of these names to the next, any other from the second on.
FILES = tuple(FILE._replace(path=path) for path in (STAGED_FILE, GUARD_FILE, REVERTING_FILE, REVERTED_FILE))
_OPERATIONS: dict[str, Any] = {kind.__name__: kind for kind in (PutFile, RemoveFile, SetAttribute, Run)}
# What a record read back must hold of each field of an operation; anything else is no record of ours.
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "path": str,
    "text": str,
    "mode": int,
    "timeout": (int, float),
    "argv": list,
    "accepted": list,
    "tolerated": list,
}
_SHAPES: dict[str, type | tuple[type, ...]] = {
    "token": str,
    "boot_id": str,
    "seconds": int,
    "deadline": (int, float),
    "steps": list,
    "undo": list,
}


class Record(NamedTuple):
    """One guarded change, or several of one run.

    ``deadline`` is in seconds of the host's monotonic clock, which only counts within the boot ``boot_id``. ``undo``
    takes the changes back, in this order; ``steps`` are their printed lines. ``problems`` are what a revert left. Those
    ``at_boot`` act when the host is started next, and the time begins then.
    """

    token: str
    boot_id: str
    seconds: int
    deadline: float
    steps: tuple[str, ...] = ()
    undo: tuple[Operation, ...] = ()
    problems: tuple[str, ...] = ()
    at_boot: bool = False


def with_step(record: Record, line: str, undo: Sequence[Operation], now: float) -> Record:
    """Return the record with one more change; the last change is taken back first, and the time starts anew.

    It holds what can be written down: a revert waits for nothing, and after a step nothing is left to be found (the
    program of the former boot unit is gone).
    """
    kept = tuple(operation for operation in undo if not isinstance(operation, (Found, WaitFor)))
    steps, operations = (*record.steps, line), (*kept, *record.undo)
    return extended(record._replace(steps=steps, undo=operations), now)


def staged(record: Record, line: str, undo: Sequence[Operation]) -> Record:
    """Return the record of changes at the next boot with one more, or as it is where it has this one."""
    operations = tuple(undo)
    if record.undo[: len(operations)] == operations:
        return record
    return record._replace(steps=(*record.steps, line), undo=(*operations, *record.undo))


def followed_by(record: Record, undo: Sequence[Operation]) -> Record:
    """Return the record with operations that come after all that takes its changes back."""
    operations = tuple(undo)
    return (
        record if record.undo[-len(operations) :] == operations else record._replace(undo=(*record.undo, *operations))
    )


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
        "undo": [{"do": type(operation).__name__, **operation._asdict()} for operation in record.undo],
    }
    return FILE.text(document)


def parse(text: str) -> Record:
    """Return the record that a file holds; raises ``BrokenState``."""
    document = FILE.parse(text)
    for key, shape in _SHAPES.items():
        if not isinstance(document.get(key), shape):
            raise FILE.broken(f"it has no usable {key}")
    return Record(
        token=document["token"],
        boot_id=document["boot_id"],
        seconds=document["seconds"],
        deadline=float(document["deadline"]),
        steps=tuple(map(str, document["steps"])),
        undo=tuple(map(_operation, document["undo"])),
        problems=tuple(map(str, document.get("problems") or ())),
        at_boot=document.get("at_boot") is True,
    )


def _operation(entry: object) -> Operation:
    if not isinstance(entry, dict) or entry.get("do") not in _OPERATIONS:
        raise FILE.broken("it has an unknown operation")
    fields = {key: value for key, value in entry.items() if key != "do"}
    kind = _OPERATIONS[entry["do"]]
    if set(fields) != set(kind._fields) or not all(isinstance(fields[key], _FIELDS[key]) for key in fields):
        raise FILE.broken(f"its operation {entry['do']} has other fields than it should")
    operation: Operation = kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in fields.items()})
    return operation
