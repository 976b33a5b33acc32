# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small language for the fields of custom resources: one declaration per field.

``Model.read`` checks a value against the declarations, notes everything that is wrong with path and next step, and
returns what was right. Null counts as absent, as for the API server.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import (
    UNKNOWN_FIELD,
    any_of,
    described,
    hint_of_digits,
    mismatch,
    nearest,
    shown,
)

from .findings import Document, Findings, Place
from .jsontext import Problem
from .names import label_key, label_value
from .quantities import parse_quantity

INT64 = 2**63 - 1
LONGEST_SECONDS = INT64 // 10**9
"""The most whole seconds that a ``time.Duration`` of Go holds, which counts nanoseconds: some 292 years."""
_LEAST = -INT64 - 1
REFUSED, RETIRED = "is refused: ", "is retired: "
"""What a finding about a field that is refused, or retired, begins with."""

_LISTED = 12
_BLANKLESS = re.compile(r"([\w./-]+):([^\s/].*)", re.ASCII)

_WANTED = {
    "text": "text",
    "whole": "a whole number",
    "flag": "true or false",
    "record": "a mapping",
    "mapping": "a mapping",
    "series": "a list",
    "quantity": "a quantity such as 500m or 128Mi",
    "anything": "a value",
}


@dataclass(frozen=True)
class Field:
    """One field: what its value must be, and what this collection does with it.

    ``check`` judges a value of the right type further. ``since`` and ``until`` name the first and the last release of
    the operator that had the field; ``successor`` says what takes the place of a retired one. ``refused`` says why a
    field that is known to upstream is not taken here, and ``step`` what its user does next. ``idle`` says why an
    accepted field has no effect here. ``open``: fields of a record that are not declared are others' and right.
    """

    type: str
    description: str
    required: bool = False
    choices: Sequence[str] = ()
    minimum: int = _LEAST
    maximum: int = INT64
    fewest: int = 0
    fields: Mapping[str, Field] | None = None
    items: Field | None = None
    keys: Callable[[str], Iterable[Problem]] | None = None
    check: Callable[[Any], Iterable[Problem]] | None = None
    since: str = ""
    until: str = ""
    successor: str = ""
    refused: str = ""
    step: str = ""
    idle: str = ""
    open: bool = False


def text(description: str, **rules: Any) -> Field:
    """Declare a string."""
    return Field("text", description, **rules)


def whole(description: str, **rules: Any) -> Field:
    """Declare an integer between ``minimum`` and ``maximum``."""
    return Field("whole", description, **rules)


def flag(description: str, **rules: Any) -> Field:
    """Declare a boolean."""
    return Field("flag", description, **rules)


def record(description: str, fields: Mapping[str, Field], **rules: Any) -> Field:
    """Declare an object with known fields."""
    return Field("record", description, fields=fields, **rules)


def mapping(description: str, items: Field, **rules: Any) -> Field:
    """Declare an object whose keys the user chooses; ``keys`` judges them."""
    return Field("mapping", description, items=items, **rules)


def series(description: str, items: Field, **rules: Any) -> Field:
    """Declare a list with at least ``fewest`` items."""
    return Field("series", description, items=items, **rules)


def quantity(description: str, **rules: Any) -> Field:
    """Declare a Kubernetes quantity, as text or as a number."""
    return Field("quantity", description, **rules)


def label_map(description: str, **rules: Any) -> Field:
    """Declare a mapping of label keys to label values."""
    return mapping(description, text("label value", check=label_value), keys=label_key, **rules)


def annotation_map(description: str, **rules: Any) -> Field:
    """Declare a mapping of annotation keys to any text."""
    return mapping(description, text("annotation"), keys=label_key, **rules)


def refused(field: Field, why: str, step: str) -> Field:
    """Return a field that is known to upstream and not taken here: why, and what its user does next."""
    return replace(field, refused=why, step=step, required=False)


def in_effect(field: Field) -> Field:
    """Return a field of which no part is idle, for where something reads it."""
    fields = None if field.fields is None else {name: in_effect(child) for name, child in field.fields.items()}
    items = None if field.items is None else in_effect(field.items)
    return replace(field, fields=fields, items=items, idle="")


@dataclass(frozen=True)
class Model:
    """The fields of one kind: ``name`` is the kind, ``root`` the record of its ``spec``."""

    name: str
    root: Field

    def read(self, value: Any, place: Place) -> dict[str, Any]:
        """Check ``value``, note what is wrong at ``place`` and return the fields that are right."""
        read = _read(self, self.root, {} if value is None else value, place)
        return read if isinstance(read, dict) else {}

    def read_field(self, name: str, value: Any, place: Place) -> Any:
        """Check the value of one field of the root; return what is right of it, None when nothing is."""
        return _read(self, (self.root.fields or {})[name], value, place)

    def paths_of(self, name: str) -> Sequence[str]:
        """Return where else in the model a field of this name (in any case) stands."""
        return self._index.get(name.lower(), ())

    @cached_property
    def _index(self) -> dict[str, list[str]]:
        """Every current field name in lower case with the paths it stands at."""
        index: dict[str, list[str]] = {}
        for owner, name, field in walk(self.root):
            if not field.until:
                index.setdefault(name.lower(), []).append(f"{owner}.{name}" if owner else name)
        return index


def flaws_of(field: Field, reader: str, value: Any, path: str = "") -> list[Problem]:
    """Return what is wrong with a part, at ``path``, of the JSON that a program reads: ``reader`` in messages."""
    return read_part(field, reader, value, path)[1]


def read_part(field: Field, reader: str, value: Any, path: str = "") -> tuple[Any, list[Problem]]:
    """Return what is right of such a part, and what is wrong with it."""
    findings = Findings()
    # With a line its numbers come from no template.
    read = _read(Model(reader, field), field, value, Place(findings, Document("", value, {(): 1})))
    found = []
    for each in findings.violations:
        where = ".".join(part for part in (path, *each.path.split(" -> ")) if part).replace(".[", "[")
        found.append(Problem(where, each.problem, each.hint))
    return read, found


def walk(field: Field, path: str = "") -> Iterator[tuple[str, str, Field]]:
    """Yield (path of the owner, name, field) of every declared field below a record, list items as ``[]``."""
    for name, child in (field.fields or {}).items():
        yield path, name, child
        yield from walk(child, f"{path}.{name}" if path else name)
    if field.items is not None:
        yield from walk(field.items, f"{path}[]")


def _read(model: Model, field: Field, value: Any, place: Place) -> Any:
    """Return what is right about a value; None when it has the wrong type."""
    if field.refused:
        # An operator's own types write empty ones, as of ``bridge``.
        if value not in ({}, [], ""):
            place.violation(f"{REFUSED}{field.refused}", field.step)
        return None
    if not _has_type(field, value):
        place.violation(mismatch(value, _WANTED[field.type]), _type_hint(field, value, place))
        return None
    if field.until:
        place.notice(f"{RETIRED}{field.until} was the last release of the operator that had it", field.successor)
    if field.idle:
        place.notice("has no effect here", field.idle)
    if field.type == "record":
        value = _read_record(model, field, value, place)
    elif field.type == "mapping":
        value = _read_mapping(model, field, value, place)
    elif field.type == "series":
        value = _read_series(model, field, value, place)
    elif not _judge_scalar(field, value, place):
        return None
    if field.check is not None:
        place.violations(field.check(value))
    return value


def _has_type(field: Field, value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if field.type == "whole":
        return isinstance(value, int) and is_number
    if field.type == "quantity":
        return isinstance(value, str) or is_number
    types = {"text": str, "flag": bool, "record": Mapping, "mapping": Mapping, "series": (list, tuple)}
    return field.type == "anything" or isinstance(value, types[field.type])  # type: ignore[arg-type]  # tuple of types


def _type_hint(field: Field, value: Any, place: Place) -> str:
    """Return how to write a value of the right type."""
    if field.type == "text" and isinstance(value, (bool, int, float)):
        switch = ("off", "on")[bool(value)]
        meant = switch if isinstance(value, bool) and switch in field.choices else shown(value)
        return f'quote it: "{place.written or meant}"'
    if field.type == "text" and isinstance(value, Mapping):
        return "it is JSON as text: put a | after the colon, or quote it"
    digits = hint_of_digits(value, variable=place.document.line(place.path) is None)
    if field.type == "whole" and digits:
        return digits
    if field.type == "flag" and isinstance(value, str) and value.lower() in ("true", "false", "yes", "no"):
        return "without quotes: true or false"
    if field.type == "series" and not isinstance(value, Mapping):
        return f"a list of one is [{shown(value)}]"
    is_unread_mapping = field.type in ("record", "mapping") and isinstance(value, str)
    return (missing_blank(value) if is_unread_mapping else "") or field.description


def missing_blank(value: str) -> str:
    """Return how to fix text that would be a mapping if a blank stood after its colon; empty for other text."""
    match = _BLANKLESS.fullmatch(value)
    return f"put a space after the colon: {match[1]}: {match[2]}" if match else ""


def _judge_scalar(field: Field, value: Any, place: Place) -> bool:
    """Note what is wrong with a scalar of the right type; return whether it is right."""
    if field.choices and value not in field.choices:
        place.violation(mismatch(value, any_of(field.choices)), nearest(str(value), field.choices))
        return False
    if field.type == "whole" and not field.minimum <= value <= field.maximum:
        place.violation(f"is {shown(value)}, out of range", _bounds(field))
        return False
    if field.type == "text" and field.required and not value:
        place.violation("is empty", field.description)
        return False
    if field.type == "quantity":
        try:
            parse_quantity(str(value))
        except (ValueError, ArithmeticError):
            place.violation(mismatch(value, _WANTED["quantity"]))
            return False
    return True


def _bounds(field: Field) -> str:
    """Return between which numbers a value has to be; a bound that any number keeps is left out."""
    if field.maximum == INT64:
        return f"{field.minimum} or more"
    return f"{field.maximum} or less" if field.minimum == _LEAST else f"{field.minimum} to {field.maximum}"


def _read_record(model: Model, field: Field, value: Mapping[str, Any], place: Place) -> dict[str, Any]:
    fields = field.fields or {}
    read: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            place.violation(f"has the key {described(key)}, which is not text", "quote it")
        elif key not in fields and field.open:
            continue
        elif key not in fields:
            _unknown(model, fields, key, place.at(key))
        elif item is not None:
            found = _read(model, fields[key], item, place.at(key))
            if found is not None:
                read[key] = found
    for name, child in fields.items():
        if child.required and value.get(name) is None:
            place.violation(f"lacks `{name}`", child.description)
    return read


def _unknown(model: Model, fields: Mapping[str, Field], key: str, place: Place) -> None:
    """Note an unknown field with the nearest known one, or the place where a field of that name belongs."""
    known = [name for name, field in fields.items() if not field.until]
    hint = nearest(key, fields)
    elsewhere = model.paths_of(key)
    if not hint and elsewhere:
        hint = f"it belongs at {' or '.join(elsewhere[:3])}; look at the indentation"
    if not hint:
        hint = f"known here: {', '.join(known[:_LISTED])}{', ...' if len(known) > _LISTED else ''}"
    place.violation(f"{UNKNOWN_FIELD} in {model.name}", hint)


def _read_mapping(model: Model, field: Field, value: Mapping[str, Any], place: Place) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            place.violation(f"has the key {described(key)}, which is not text", "quote it")
            continue
        if field.keys is not None:
            place.at(key).violations(field.keys(key))
        found = _read(model, field.items, item, place.at(key)) if field.items is not None else item
        if found is not None:
            read[key] = found
    return read


def _read_series(model: Model, field: Field, value: Sequence[Any], place: Place) -> list[Any]:
    if len(value) < field.fewest:
        place.violation("is empty", field.description)
    if field.items is None:
        return list(value)
    found = [_read(model, field.items, item, place.at(index)) for index, item in enumerate(value)]
    return [item for item in found if item is not None]
