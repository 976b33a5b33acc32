# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who set a field of a live object, by its ``metadata.managedFields``. Pure.

``projection`` says how ``fieldsV1`` is written. Anything in it that can't be read owns nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import reduce
from typing import Any, Callable, Iterator, Mapping, Sequence, Tuple, Union

from .objects import MANAGER, Json
from .projection import identical, is_ours


class ItemName(str):
    """The name of a list item that is not there, in a path."""


# The names of fields and the numbers of list items that lead to a value.
Step = Union[str, int]
# The same as ``fieldsV1`` writes it.
Record = Tuple[str, ...]


@dataclass(frozen=True)
class Owner:
    """An entry of ``managedFields``: who, how and when."""

    manager: str
    operation: str
    time: str
    subresource: str
    ours: bool

    def as_dict(self) -> Json:
        """Return the entry as plain data."""
        named = {"manager": self.manager, "operation": self.operation, "time": self.time, "ours": self.ours}
        return {**named, "subresource": self.subresource} if self.subresource else named

    def __str__(self) -> str:
        """Return the entry as a person reads it: ``kubectl-edit, Update, 2026-11-22T10:00:00Z``."""
        operation = f"{self.operation} of {self.subresource}" if self.subresource else self.operation
        return ", ".join(part for part in (self.manager, operation, self.time) if part)


def owners_of(live: Mapping[str, Any], path: Sequence[Step]) -> list[Owner]:
    """Return who owns a value of a live object or anything in it, others before this collection."""
    return _sorted(owner for owner, fields in _entries(live) if fields and _holds(fields, live, path))


def owners_of_record(live: Mapping[str, Any], record: Record) -> list[Owner]:
    """Return who owns what is recorded at a place of ``fieldsV1``, or anything in it."""
    return _sorted(owner for owner, fields in _entries(live) if _recorded(fields, record))


def owned_records(live: Mapping[str, Any]) -> set[Record]:
    """Return the places of ``fieldsV1`` that this collection owns."""
    return {record for owner, fields in _entries(live) if owner.ours and fields for record in records_of(fields)}


def taking_over(records: Sequence[Any], is_theirs: Callable[[Any], bool], trimmed: Callable[[Any], Any]) -> list[Any]:
    """Return ``managedFields`` with the records of others as a part of our own, ``trimmed`` to what is to be ours.

    So does ``kubectl apply --server-side`` with what a client-side apply had set (k8s.io/client-go, util/csaupgrade):
    our next apply then changes it, or takes away what is wanted no more. Without a record of our own, the first of
    theirs becomes it. Those of another API version can't be a part, and are dropped: nobody owns what they hold then.
    """
    theirs = [record for record in records if is_theirs(record)]
    ours = [record for record in records if isinstance(record, Mapping) and is_ours(record)]
    own = (ours or theirs)[:1]
    found: list[Any] = []
    for record in records:
        if record in own:
            same = [each for each in theirs if each.get("apiVersion") == record.get("apiVersion")]
            fields = [*(each.get("fieldsV1") for each in ours[:1]), *(trimmed(each.get("fieldsV1")) for each in same)]
            found.append({**record, "manager": MANAGER, "operation": "Apply", "fieldsV1": reduce(_union, fields)})
        elif record not in theirs:
            found.append(record)
    return found


def _union(one: Any, other: Any) -> Any:
    """Return what is in either of two records of fields."""
    if not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        return one if one is not None else other
    return {key: _union(one.get(key), other.get(key)) for key in {**one, **other}}


def path_text(path: Sequence[Step]) -> str:
    """Return a path as results write it: ``spec.template.spec.containers[0].image``."""
    text = ""
    for step in path:
        if isinstance(step, ItemName):
            text += f"[name={step}]"
        elif isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def record_text(record: Record) -> str:
    """Return a place of ``fieldsV1`` as a path, such as ``spec.containers[name=a].image``."""
    text = ""
    for part in record:
        kind, _colon, value = part.partition(":")
        if kind == "f":
            text += f".{value}" if text else value
        elif kind == "k":
            text += f"[{_selector_text(value)}]"
        else:
            text += f"[{value}]"
    return text


def _selector_text(text: str) -> str:
    try:
        keys = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return ",".join(f"{name}={value}" for name, value in keys.items()) if isinstance(keys, Mapping) else text


def applied_by_us(live: Mapping[str, Any]) -> list[Owner]:
    """Return when this collection applied a live object."""
    return _sorted(owner for owner, _fields in _entries(live) if owner.ours)


def _sorted(owners: Iterator[Owner]) -> list[Owner]:
    return sorted(dict.fromkeys(owners), key=lambda owner: (owner.ours, owner.manager, owner.operation, owner.time))


def _entries(live: Mapping[str, Any]) -> Iterator[tuple[Owner, Mapping[str, Any]]]:
    for entry in (live.get("metadata") or {}).get("managedFields") or []:
        fields = entry.get("fieldsV1") if isinstance(entry, Mapping) else None
        if isinstance(fields, Mapping):
            who, how, when, part = (
                str(entry.get(name) or "") for name in ("manager", "operation", "time", "subresource")
            )
            yield Owner(who, how, when, part, is_ours(entry)), fields


def _holds(fields: Any, value: Any, path: Sequence[Step]) -> bool:
    if not isinstance(fields, Mapping):
        return False
    if not path or not fields:
        # An entry without anything below it owns the value as a whole.
        return True
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        below = value.get(step) if isinstance(value, Mapping) else None
        return f"f:{step}" in fields and _holds(fields[f"f:{step}"], below, rest)
    if not isinstance(value, list) or step >= len(value):
        return False
    return any(names_item(part, value[step], step) and _holds(fields[part], value[step], rest) for part in fields)


def names_item(part: str, item: Any, position: int, *, stored: bool = True) -> bool:
    """Tell whether a part of ``fieldsV1`` is about an item of a list; one not ``stored`` may lack a defaulted key."""
    kind, _colon, text = part.partition(":")
    if kind == "i":
        return text == str(position)
    try:
        selector = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if kind == "v":
        return identical(item, selector)
    if kind != "k" or not isinstance(selector, Mapping) or not isinstance(item, Mapping):
        return False
    if not any(name in item for name in selector):
        return False
    return all(identical(item[name], value) if name in item else not stored for name, value in selector.items())


def _recorded(fields: Any, record: Record) -> bool:
    for part in record:
        if not isinstance(fields, Mapping) or part not in fields:
            return False
        fields = fields[part]
    return True


def records_of(fields: Any) -> Iterator[Record]:
    """Yield the places of ``fieldsV1``, with ``.`` those that hold others."""
    below = list(fields.items()) if isinstance(fields, Mapping) else []
    if not below:
        yield ()
    for part, inner in below:
        for rest in records_of(inner):
            yield () if part == "." else (part, *rest)
