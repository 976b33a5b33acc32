# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Removes what a set no longer wants."""

from __future__ import annotations

from typing import Iterable, Mapping

from ..api.answers import checked_deletion
from ..api.errors import ApiFault, Fault
from ..api.kinds import CRD_GROUP, CRD_KIND, object_path
from ..api.snapshot import get_object
from ..objects.objects import SET_LABEL, Item, Json, Key
from ..objects.projection import is_managed
from .apply import patch
from .ownership import made_by_others, other_owner
from .session import DELETED, KEPT, RELEASED, Change, Session

WAVE = "prune"


def is_kept_kind(key: Key) -> bool:
    """Tell whether deleting the object would take with it what others made: a Namespace or a CRD."""
    return (key.group, key.kind) in (("", "Namespace"), (CRD_GROUP, CRD_KIND))


def why_kept(key: Key, live: Mapping[str, object], set_name: str, remove_kept: bool) -> str:
    """Return why a live object that the set no longer wants must stay, or an empty string."""
    metadata = live["metadata"]
    labels = metadata.get("labels") or {} if isinstance(metadata, Mapping) else {}
    label = labels.get(SET_LABEL)
    if set_name and label is None:
        return f"the label {SET_LABEL} was removed"
    if set_name and label != set_name:
        return f"the label {SET_LABEL} names the set {label!r}"
    if not is_managed(live):
        return "no field was applied by rdma.fabric"
    owner = other_owner(live)
    if owner:
        return f"managed by {owner}"
    if is_kept_kind(key) and not remove_kept:
        return f"a {key.kind} is never removed unasked, because what others made would go with it"
    return ""


def remove(session: Session, keys: Iterable[Key], *, remove_kept: bool = False) -> list[Key]:
    """Delete the objects in the given order; return those that a later run has to look at again.

    Those are the ones whose deletion failed or waits for finalizers, and the Namespaces and CRDs that stay of the set:
    a Namespace that others have made is left as they have it. Failures are left in the session's result, a fault that
    concerns every request is raised.
    """
    remaining: list[Key] = []
    unserved: dict[tuple[str, str], list[Key]] = {}
    for key in keys:
        live = session.snapshot.find(key)
        if live is None and session.request.set_name:
            live = get_object(session.connection, session.kinds, key)
        if live is None:
            if not session.snapshot.is_served(key):
                unserved.setdefault((key.api_version, key.kind), []).append(key)
            continue
        reason = why_kept(key, live, session.request.set_name, remove_kept)
        if reason and _is_lent(key, live, session.request.set_name):
            if not _give_back(session, key, live):
                remaining.append(key)
        elif reason:
            session.tell(f"kept, {reason}", key)
            session.result.changes.append(Change(key, WAVE, KEPT, live, live))
            if is_kept_kind(key):
                remaining.append(key)
        elif not delete(session, key, live):
            remaining.append(key)
    for (api_version, kind), gone in unserved.items():
        text = f"{kind} of {api_version} is no longer served: {len(gone)} recorded objects of it are taken as gone"
        session.result.notices.append(text)
    return remaining


def _is_lent(key: Key, live: Json, set_name: str) -> bool:
    """Tell whether others have made a Namespace that the set is in: it is theirs, and only labels of it are ours."""
    is_of_set = is_managed(live) and (live["metadata"].get("labels") or {}).get(SET_LABEL) == set_name
    return (
        (key.group, key.kind) == ("", "Namespace") and is_of_set and (made_by_others(live) or bool(other_owner(live)))
    )


def _give_back(session: Session, key: Key, live: Json) -> bool:
    """Take off a Namespace what nobody but this collection has applied; tell whether that was done."""
    metadata = {"name": key.name, "uid": live["metadata"]["uid"]}
    body = {"apiVersion": key.api_version, "kind": key.kind, "metadata": metadata}
    try:
        _code, after = patch(session, Item(key, WAVE, body, 0))
    except ApiFault as err:
        session.result.failures.append((key, err))
        if err.fatal:
            raise
        return False
    session.result.changes.append(Change(key, WAVE, RELEASED, live, after))
    session.tell("kept without the labels of the set, as others have made it", key)
    return True


def delete(session: Session, key: Key, live: Json) -> bool:
    """Delete exactly the object that was read; tell whether it is gone, which finalizers may put off."""
    resource = session.kinds.find(key)
    if resource is None:
        return True
    left: Json | None = live if live["metadata"].get("finalizers") else None
    if not live["metadata"].get("deletionTimestamp"):
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": live["metadata"]["uid"]},
        }
        if session.request.check:
            options["dryRun"] = ["All"]
        try:
            answer = session.connection.request(
                "delete",
                object_path(key, resource),
                what=str(key),
                # The server goes by the body; in the path an audit log shows what was asked.
                query={"dryRun": "All"} if session.request.check else None,
                body=options,
                content_type="application/json",
            )[1]
            left = checked_deletion(answer, key, f"delete {key}")
        except ApiFault as err:
            reason = session.foretold(err)
            if err.fault is not Fault.NOT_FOUND and reason:
                session.unvalidated.setdefault(reason, []).append(key)
            elif err.fault is not Fault.NOT_FOUND:
                session.result.failures.append((key, err))
                if err.fatal:
                    raise
                return False
            left = None
        session.result.changes.append(Change(key, WAVE, DELETED, live, None))
    if left is None or session.request.check:
        return True
    session.snapshot.put(key, left)
    session.going.append(key)
    return False


def say_what_is_going(session: Session) -> None:
    """Name the deleted objects that are still there; the inventory keeps them, so that a later run looks again."""
    for key in session.going:
        metadata = (session.snapshot.find(key) or {}).get("metadata") or {}
        holders = ", ".join(metadata.get("finalizers") or ["none"])
        session.tell(f"deleted as soon as their finalizers are done ({holders})", key)
