# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of an uplink change, which the host reverts unless it is confirmed. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from ..engine.operations import Found, Operation, PutFile, RemoveFile, Run, SetAttribute, SetRegister, WaitFor
from ..machine.host_files import GUARD_FILE, REVERTED_FILE, REVERTING_FILE, STAGED_FILE, StateFile

FILE = StateFile(
    GUARD_FILE,
    "the record of an uplink change, so that the host can't take it back",
    "check the uplink, repair by hand what is wrong, and remove the file",
)
# The record is renamed from one of these to the next. A change at the next boot begins with the first, others with the
# second.
FILES = tuple(FILE._replace(path=path) for path in (STAGED_FILE, GUARD_FILE, REVERTING_FILE, REVERTED_FILE))
_OPERATIONS: dict[str, Any] = {kind.__name__: kind for kind in (PutFile, RemoveFile, Run, SetAttribute, SetRegister)}
# The type of each field of an operation in a record of ours.
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "path": str,
    "text": str,
    "mode": int,
    "timeout": (int, float),
    "argv": list,
    "accepted": list,
    "tolerated": list,
    "address": str,
    "register": str,
    "value": int,
    "mask": int,
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
    """The guarded changes of one run.

    ``deadline`` is in seconds of the host's monotonic clock, valid within the boot ``boot_id``. ``undo`` reverts the
    changes, in this order; ``steps`` are their printed lines. ``problems`` are what a revert could not undo. With
    ``at_boot`` the changes take effect at the next boot, and the time starts then.
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
    """Return the record with one more change, to be reverted first, and with all of its time left.

    Operations that are computed on the host are left out: a revert waits for nothing, and after the step there is
    nothing left to compute (the program of the former boot unit is gone).
    """
    kept = tuple(operation for operation in undo if not isinstance(operation, (Found, WaitFor)))
    steps, operations = (*record.steps, line), (*kept, *record.undo)
    return extended(record._replace(steps=steps, undo=operations), now)


def staged(record: Record, line: str, undo: Sequence[Operation]) -> Record:
    """Return the record with one more change at the next boot, unless it has that change already."""
    operations = tuple(undo)
    if record.undo[: len(operations)] == operations:
        return record
    return record._replace(steps=(*record.steps, line), undo=(*operations, *record.undo))


def followed_by(record: Record, undo: Sequence[Operation]) -> Record:
    """Return the record with operations to run after all of its undo."""
    operations = tuple(undo)
    return (
        record if record.undo[-len(operations) :] == operations else record._replace(undo=(*record.undo, *operations))
    )


def extended(record: Record, now: float, busy: float = 0.0) -> Record:
    """Return the record with all of its time left after ``busy`` seconds, while the run is still at work."""
    return record._replace(deadline=now + busy + record.seconds)


def is_due(record: Record, boot_id: str, now: float) -> bool:
    """Return whether the changes must be reverted: their time is over, or the host has rebooted since."""
    return record.boot_id != boot_id or now >= record.deadline


def text_of(record: Record) -> str:
    """Return the text of the record's file."""
    document = {
        **record._asdict(),
        "undo": [{"do": type(operation).__name__, **operation._asdict()} for operation in record.undo],
    }
    return FILE.text(document)


def parse(text: str) -> Record:
    """Return the record in the text of a file; raises ``BrokenState``."""
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
        raise FILE.broken(f"its operation {entry['do']} has wrong fields")
    operation: Operation = kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in fields.items()})
    return operation
