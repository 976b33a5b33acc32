# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a batch in check mode says of each cluster object: as wanted or not, and what brought that. Pure."""

from __future__ import annotations

from typing import Any, Collection, Iterable, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import (
    CONFIGURED,
    CREATED,
    DELETED,
    UNCHANGED,
    BatchResult,
    Change,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.differences import differences
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.field_owners import Owner, applied_by_us
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.inventory import recorded_keys
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import Key
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import Json
from ansible_collections.rdma.fabric.plugins.plugin_utils._scrub.shown import shown_change

SAME, DIFFERS, MISSING, LEFT_OVER = "same", "differs", "missing", "left_over"
FAILED, NOT_COMPARED = "failed", "not_compared"
_STATES = {UNCHANGED: SAME, CONFIGURED: DIFFERS, CREATED: MISSING, DELETED: LEFT_OVER}
_DELETED_SINCE = "an earlier run applied it, so it was deleted since"
_NEVER_APPLIED = "no earlier run applied it"
_NO_RECORD = "what earlier runs applied is recorded nowhere, so it was deleted since or is new"
_DROPPED = "an earlier run applied it, and the input no longer asks for it"
_UNRECORDED = "it has the label of the set, but no run has recorded it"
_RECORD_ONLY = "its values match, but not the record of who applied them"


def cluster_part(server: str, wanted: Iterable[Key], result: BatchResult, inventory: Key) -> Json:
    """Return what became of the comparison: the errors that ended it, and every object, also those it did not reach.

    ``wanted`` are the objects of the input, ``inventory`` is where earlier runs recorded theirs.
    """
    changes = {change.key.identity: change for change in result.changes if change.action in _STATES}
    faults = {key.identity: (key, fault) for key, fault in result.failures if key is not None and not fault.fatal}
    recorded = _recorded(changes.get(inventory.identity))
    rows = [_row(change, recorded) for identity, change in changes.items() if identity not in faults]
    rows += [object_row(key, FAILED, str(fault)) for key, fault in faults.values()]
    reached = {*changes, *faults}
    rows += [object_row(key, NOT_COMPARED) for key in wanted if not _is_among(key, reached)]
    errors = [fault for key, fault in result.failures if key is None or fault.fatal]
    return {"server": server, "errors": [error_of(fault) for fault in errors], "objects": rows}


def unread_cluster(server: str, wanted: Iterable[Key], error: Json) -> Json:
    """Return the comparison that did not begin, for want of a server or of waves that fit it."""
    return {"server": server, "errors": [error], "objects": [object_row(key, NOT_COMPARED) for key in wanted]}


def error_of(fault: ApiFault) -> Json:
    """Return an error as plain data."""
    return {"fault": fault.fault.value, "message": fault.message, "next_step": fault.next_step}


def object_row(key: Key, state: str, why: str = "") -> Json:
    """Return one object without differences."""
    return {**key.as_dict(), "state": state, "why": why, "managers": [], "differences": []}


def _is_among(key: Key, identities: Collection[Key]) -> bool:
    """Tell whether an object was reached; the input may leave out the namespace that the batch gave it."""
    with_default = Key(key.api_version, key.kind, key.namespace or "default", key.name)
    return key.identity in identities or with_default.identity in identities


def _recorded(inventory: Change | None) -> set[Key] | None:
    """Return what earlier runs recorded, None without a record."""
    if inventory is None or inventory.before is None:
        return None
    return {key.identity for key in recorded_keys(inventory.before)}


def _row(change: Change, recorded: set[Key] | None) -> Json:
    row = object_row(change.key, _STATES[change.action])
    known = recorded is not None and change.key.identity in recorded
    if change.action == CREATED:
        row["why"] = _NO_RECORD if recorded is None else _DELETED_SINCE if known else _NEVER_APPLIED
    elif change.action == DELETED and change.before is not None:
        row["why"] = _DROPPED if known else _UNRECORDED
        row["managers"] = [owner.as_dict() for owner in applied_by_us(change.before)]
    elif change.action == CONFIGURED and change.before is not None and change.after is not None:
        row["differences"] = [each.as_dict() for each in differences(*shown_change(change.before, change.after))]
        row["why"] = "" if row["differences"] else _RECORD_ONLY
    return row


def name_of(row: Mapping[str, Any]) -> str:
    """Return an object's name as results write it: ``DaemonSet namespace/name``."""
    return str(Key(*(str(row[part]) for part in ("apiVersion", "kind", "namespace", "name"))))


def origin_of(difference: Mapping[str, Any]) -> str:
    """Return what brought the value that was found, in words."""
    who = owners_text(difference["managers"])
    if "found" in difference:
        ours = all(owner["ours"] for owner in difference["managers"])
        return f"{who}, so the input has changed since" if who and ours else who or "no manager is recorded for it"
    if "wanted" in difference:
        return "nobody sets it: it was removed, or is new in the input"
    return f"it matches, but is recorded as set by {who or 'nobody'}"


def owners_text(owners: Sequence[Mapping[str, Any]]) -> str:
    """Return managers with their operations and times, such as ``kubectl-edit, Update, 2026-11-22T10:00:00Z``."""
    return "; ".join(
        str(Owner(owner["manager"], owner["operation"], owner["time"], owner.get("subresource", ""), owner["ours"]))
        for owner in owners
    )
