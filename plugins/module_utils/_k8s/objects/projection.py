# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is an object provably what was applied?

The server records in ``metadata.managedFields`` which fields a manager applied last (``fieldsV1``). When that record
holds exactly the fields of the desired object, and the live object has the desired values there, an apply would change
nothing. No schema is needed; where the proof fails, one PATCH decides.

The encoding of ``fieldsV1`` is that of sigs.k8s.io/structured-merge-diff (fieldpath/serialize-pe.go): ``f:<name>`` is a
field, ``k:<json>`` a list item by its key fields, ``v:<json>`` an item of a set, ``i:<n>`` an index, ``.`` the value
itself.
"""

from __future__ import annotations

import json
from typing import Any, List, Mapping, Tuple

from .objects import MANAGER

# Fields that name the object: managedFields never records them (apiserver's fieldmanager/stripmeta.go).
_STRIPPED_METADATA = frozenset(
    (
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    )
)

_Recorded = List[Tuple[Any, Any]]


def applied_fields(live: Mapping[str, Any], api_version: str) -> Mapping[str, Any] | None:
    """Return the ``fieldsV1`` of our last apply in this API version, or None when there is not exactly one."""
    entries = [entry for entry in _managed_fields(live) if is_ours(entry)]
    if len(entries) != 1 or entries[0].get("apiVersion") != api_version:
        return None
    fields = entries[0].get("fieldsV1")
    return fields if isinstance(fields, dict) else None


def is_ours(entry: Mapping[str, Any]) -> bool:
    """Tell whether a managedFields entry records an apply of this collection."""
    return entry.get("manager") == MANAGER and entry.get("operation") == "Apply" and not entry.get("subresource")


def is_managed(live: Mapping[str, Any]) -> bool:
    """Tell whether this collection ever applied the object and still owns a field of it."""
    return any(is_ours(entry) for entry in _managed_fields(live))


def _managed_fields(live: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [entry for entry in live["metadata"].get("managedFields") or [] if isinstance(entry, dict)]


def provably_equal(desired: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Tell whether applying ``desired`` would leave ``live`` as it is; False when in doubt."""
    if desired.get("apiVersion") != live.get("apiVersion") or desired.get("kind") != live.get("kind"):
        return False
    fields = applied_fields(live, str(desired["apiVersion"]))
    if fields is None:
        return False
    recorded = {name: value for name, value in desired.items() if name not in ("apiVersion", "kind")}
    metadata = {name: value for name, value in desired["metadata"].items() if name not in _STRIPPED_METADATA}
    del recorded["metadata"]
    if metadata:
        recorded["metadata"] = metadata
    return _same(recorded, live, fields)


def _same(desired: Any, live: Any, fields: Mapping[str, Any]) -> bool:
    children = {path: below for path, below in fields.items() if path != "."} if "." in fields else fields
    if not children:
        return identical(desired, live)
    if isinstance(desired, dict):
        return isinstance(live, dict) and _same_map(desired, live, children)
    if isinstance(desired, list):
        return isinstance(live, list) and _same_list(desired, live, children)
    return False


def _same_map(desired: Mapping[str, Any], live: Mapping[str, Any], children: Mapping[str, Any]) -> bool:
    if len(desired) != len(children):
        return False
    for name, value in desired.items():
        below = children.get(f"f:{name}")
        if below is None:
            return False
        if not (_same(value, live[name], below) if name in live else _is_left_out(value, below)):
            return False
    return True


def _is_left_out(desired: Any, fields: Mapping[str, Any]) -> bool:
    """Tell whether a desired zero value is there though the live object does not show it.

    Go's ``omitempty`` leaves false, 0, "" and empty collections out. Had somebody removed or changed the field since,
    the record would no longer hold it.
    """
    return desired is not None and not desired and not fields


def _same_list(desired: list[Any], live: list[Any], children: Mapping[str, Any]) -> bool:
    """Compare a list whose items have own owners: as many as recorded, each equal, in the desired order."""
    recorded = _recorded_items(children)
    if recorded is None or len(desired) != len(recorded):
        return False
    positions: list[int] = []
    for wanted in desired:
        matches = [entry for entry in recorded if _selected(wanted, entry)]
        if len(matches) != 1:
            return False
        found = [index for index, present in enumerate(live) if _selected(present, matches[0], exact=True)]
        below = matches[0][1]
        if len(found) != 1 or not (below is None or _same(wanted, live[found[0]], below)):
            return False
        recorded.remove(matches[0])
        positions.append(found[0])
    return positions == sorted(positions)


def _recorded_items(children: Mapping[str, Any]) -> _Recorded | None:
    """Return (key fields or value, fields below or None) of each recorded list item; None for an unknown encoding."""
    items: _Recorded = []
    for path, below in children.items():
        kind, _colon, text = path.partition(":")
        if kind not in ("k", "v"):
            return None
        try:
            items.append((json.loads(text), below if kind == "k" else None))
        except (ValueError, RecursionError):
            return None
    return items


def _selected(value: Any, entry: tuple[Any, Any], exact: bool = False) -> bool:
    """Tell whether a list item is the one an entry names; a desired item may leave a defaulted key field out."""
    selector, below = entry
    if below is None:
        return identical(value, selector)
    if not isinstance(value, dict) or not isinstance(selector, dict):
        return False
    compared = selector if exact else [name for name in selector if name in value]
    return all(name in value and identical(value[name], selector[name]) for name in compared)


def identical(one: Any, other: Any) -> bool:
    """Compare two JSON values strictly: ``1``, ``1.0`` and ``true`` are three different ones."""
    if isinstance(one, str) and isinstance(other, str):
        return one == other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(identical(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(identical, one, other))
    return type(one) is type(other) and bool(one == other)
