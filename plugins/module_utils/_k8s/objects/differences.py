# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a live object is not as wanted, field by field, and who brought that. Pure.

The changes are those of a batch in check mode. Most of them hold the server's answer to a dry run; where the server was
not asked or did not judge, they hold the wanted object itself, which says nothing of fields that it leaves out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Iterator, Mapping, Sequence, Tuple

from .changes import clean
from .client_side import MANAGERS
from .field_owners import ItemName, Owner, Step, owned_records, owners_of, owners_of_record, path_text, record_text
from .objects import Json
from .projection import identical

Path = Tuple[Step, ...]

MOST_FIELDS = 100


class _Absent:
    """What stands for a value that is not there: null is one."""


ABSENT: Any = _Absent()


@dataclass(frozen=True)
class Difference:
    """One field: what is wanted and found there, ``ABSENT`` for nothing, and who owns what was found.

    Where neither is given, the value is as wanted, and only who owns the field is not.
    """

    path: str
    wanted: Any
    found: Any
    owners: list[Owner] = field(default_factory=list)

    def as_dict(self) -> Json:
        """Return it as plain data; a value that is not there has no key."""
        values = {
            name: value for name, value in (("wanted", self.wanted), ("found", self.found)) if value is not ABSENT
        }
        return {
            "path": self.path,
            **values,
            "managers": [owner.as_dict() for owner in self.owners],
        }


def differences(found: Json, wanted: Json) -> list[Difference]:
    """Return the fields in which a live object differs, the first 100.

    ``wanted`` is the object as the server would store it, or the one that is asked for, if no server has seen it.
    """
    was_judged = "managedFields" in wanted["metadata"]
    pairs = _different(clean(found), clean(wanted), (), asked=not was_judged)
    listed = [
        Difference(path_text(path), new, old, owners_of(found, path) if old is not ABSENT else [])
        for path, old, new in pairs
        # What the server or a webhook sets by itself while it stores the object is no change that anybody made.
        if (new is not ABSENT and not was_judged) or _is_ours(wanted, path) or _is_ours(found, path, new is ABSENT)
    ]
    if not listed and was_judged:
        lost = sorted(owned_records(wanted) ^ owned_records(found))
        listed = [Difference(record_text(record), ABSENT, ABSENT, owners_of_record(found, record)) for record in lost]
    return listed[:MOST_FIELDS]


def _is_ours(body: Json, path: Path, goes: bool = False) -> bool:
    """Tell whether we have set a value; with one that ``goes``, also whether an earlier manifest has."""
    return any(owner.ours or (goes and owner.manager in MANAGERS) for owner in owners_of(body, path))


def _different(found: Any, wanted: Any, path: Path, *, asked: bool) -> Iterator[tuple[Path, Any, Any]]:
    """Yield each path with the values found and wanted there; ``asked`` says that no server has seen what is wanted."""
    if identical(found, wanted):
        return
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        for name in sorted({*found, *wanted}):
            old, new = found.get(name, ABSENT), wanted.get(name, ABSENT)
            if old is not ABSENT and new is not ABSENT:
                yield from _different(old, new, (*path, name), asked=asked)
            elif new or not asked:
                # Go's omitempty leaves out what is false, 0 or empty.
                yield (*path, name), old, new
    elif isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        for number, (old, new) in enumerate(zip(found, wanted)):
            yield from _different(old, new, (*path, number), asked=asked)
    elif isinstance(found, list) and isinstance(wanted, list) and _are_named(found) and _are_named(wanted):
        yield from _different_items(found, wanted, path, asked=asked)
    else:
        yield path, found, wanted


def _are_named(items: Sequence[Any]) -> bool:
    """Tell whether the items of a list are told apart by their names."""
    names = [item.get("name") if isinstance(item, Mapping) else None for item in items]
    return all(isinstance(name, str) for name in names) and len(set(names)) == len(names)


def _different_items(
    found: Sequence[Any], wanted: Sequence[Any], path: Path, *, asked: bool
) -> Iterator[tuple[Path, Any, Any]]:
    """Compare lists of another length by the names of their items; a missing one stands where it is wanted."""
    old_of = {item["name"]: (number, item) for number, item in enumerate(found)}
    new_of = {item["name"]: (number, item) for number, item in enumerate(wanted)}
    for name, (number, item) in old_of.items():
        if name in new_of:
            yield from _different(item, new_of[name][1], (*path, number), asked=asked)
        else:
            yield (*path, number), item, ABSENT
    for name, (_number, item) in new_of.items():
        if name not in old_of:
            yield (*path, ItemName(name)), ABSENT, item
