# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an earlier manifest, given to kubectl or kubernetes.core, has set on an object, and nobody wants any more. Pure.

A server-side apply takes away only what its own manager had set, so that these fields would stay for ever
(kubernetes/kubernetes#99003). kubectl's own takes those of ``kubectl apply`` over first.
"""

from __future__ import annotations

import copy
import json
from typing import Any, Callable, Iterator, Mapping

from .field_owners import Record, names_item, records_of, taking_over
from .objects import Json
from .projection import is_ours

# kubectl's names for whole manifests, and the server's for all that an object has before its first apply.
MANAGERS = ("kubectl-client-side-apply", "kubectl-create", "kubectl-replace", "before-first-apply")
# These send patches, too: kubectl before 1.20, and the kubernetes client of Python, by which kubernetes.core sends
# manifests. Who has made a custom resource or a ConfigMap has its content as such, beside what is in it.
_KUBECTL = "kubectl"
_CLIENTS, _CONTENT = (_KUBECTL, "OpenAPI-Generator"), {("f:spec",), ("f:data",)}
# kubectl keeps a second copy of the whole object there, as somebody once sent it.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# What is in one, or of the kind that it defines, is of others, too.
_SHARED = ("Namespace", "CustomResourceDefinition")


def is_client_side(entry: Any) -> bool:
    """Tell whether an entry of ``managedFields`` is of a whole manifest, given without server-side apply."""
    if not isinstance(entry, Mapping) or entry.get("operation") != "Update" or entry.get("subresource"):
        return False
    if entry.get("manager") in _CLIENTS:
        return not _CONTENT.isdisjoint(records_of(entry.get("fieldsV1")))
    return entry.get("manager") in MANAGERS


def leftovers(desired: Mapping[str, Any], live: Mapping[str, Any]) -> list[Record]:
    """Return what an earlier manifest has set on a live object that ``desired`` lacks and no other manager has set.

    Where it is known what kubectl was given, the defaults of the server are not among that.
    """
    return _left(desired, live, is_client_side, _last_applied(live))


def kept_by_kubectl(desired: Mapping[str, Any], live: Mapping[str, Any]) -> list[Record]:
    """Return what ``kubectl apply --server-side`` has set on a live object and ``desired`` lacks: that manifest has it.

    Both may be applied side by side, so it stays.
    """
    return _left(desired, live, _is_applied, None)


def _is_applied(entry: Mapping[str, Any]) -> bool:
    is_whole = entry.get("operation") == "Apply" and not entry.get("subresource")
    return is_whole and entry.get("manager") == _KUBECTL


def _left(
    desired: Mapping[str, Any], live: Mapping[str, Any], is_theirs: Callable[[Mapping[str, Any]], bool], given: Any
) -> list[Record]:
    entries = [each for each in live["metadata"].get("managedFields") or [] if isinstance(each, Mapping)]
    theirs = [each for each in entries if is_theirs(each)]
    if not theirs or desired.get("kind") in _SHARED:
        return []
    others = [each for each in entries if each not in theirs and not is_ours(each)]
    claimed = {record for each in others for record in records_of(each.get("fieldsV1"))}
    found = [
        record
        for record in dict.fromkeys(record for each in theirs for record in _places(each.get("fieldsV1")))
        if record not in claimed and not _at(desired, record) and (given is None or _at(given, record))
    ]
    return [record for record in found if not any(record[:end] in found for end in range(1, len(record)))]


def taken_over(live: Mapping[str, Any]) -> Json:
    """Return the JSON merge patch that makes the record of an earlier manifest a part of our own, for this version."""
    metadata = live["metadata"]
    records = taking_over(metadata.get("managedFields") or [], is_client_side, _without_status)
    return {"metadata": {"resourceVersion": metadata.get("resourceVersion"), "managedFields": records}}


def without(body: Json, records: list[Record]) -> Json:
    """Return an object as an apply leaves it that takes these fields away."""
    found = copy.deepcopy(body)
    for record in records:
        _remove(found, record)
    return found


def _without_status(fields: Any) -> Any:
    return {name: below for name, below in fields.items() if name != "f:status"} if isinstance(fields, Mapping) else {}


def _last_applied(live: Mapping[str, Any]) -> Any:
    """Return what kubectl was given last, None where that is not known."""
    try:
        return json.loads((live["metadata"].get("annotations") or {})[LAST_APPLIED])
    except (KeyError, TypeError, ValueError, RecursionError):
        return None


def _places(fields: Any) -> Iterator[Record]:
    """Yield the fields of a record, and the items of its lists; a map is there by what it holds."""
    records = list(records_of(_without_status(fields)))
    holding = {record[:end] for record in records for end in range(1, len(record))}
    for record in records:
        is_map = record in holding and record[-1].startswith("f:")
        if record and not is_map and record[-1] != f"f:{LAST_APPLIED}":
            yield record


def _at(value: Any, record: Record) -> bool:
    """Tell whether an object, as somebody asks for it, has a field."""
    for part in record:
        key = _key(value, part, stored=False)
        if key is None:
            return False
        value = value[key]
    return True


def _key(value: Any, part: str, *, stored: bool) -> Any:
    """Return by what a part of a record is found in a mapping or a list, None where it is not there."""
    if part.startswith("f:"):
        return part[2:] if isinstance(value, Mapping) and part[2:] in value else None
    items = enumerate(value) if isinstance(value, list) else ()
    return next((index for index, item in items if names_item(part, item, index, stored=stored)), None)


def _remove(value: Any, record: Record) -> None:
    """Take away a field, and the maps and lists that hold nothing without it."""
    key = _key(value, record[0], stored=True)
    if key is None:
        return
    if len(record) > 1:
        _remove(value[key], record[1:])
    if len(record) == 1 or value[key] in ({}, []):
        del value[key]
