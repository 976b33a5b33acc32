# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Applies objects wave by wave."""

from __future__ import annotations

from typing import Callable

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ..api.answers import checked_object
from ..api.errors import ApiFault, Fault
from ..api.kinds import object_path
from ..api.snapshot import get_object
from ..objects.changes import is_unchanged, unheld_fields
from ..objects.client_side import is_client_side, kept_by_kubectl, taken_over, without
from ..objects.field_owners import record_text
from ..objects.objects import MANAGER, Item, Json, Key
from .session import CONFIGURED, CREATED, MOST_NAMED, UNCHANGED, Change, Session
from .waiting import wait_for_definitions

CONTENT_TYPE = "application/apply-patch+yaml"
# A CRD that was just established answers 404 for moments more, a new namespace has no service account yet.
_SETTLING_TIME = 20.0
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0
_NO_SERVICE_ACCOUNT = "error looking up service account"
# k8s.io/apiserver, admission/plugin/webhook/errors: a webhook with side effects is not asked in a dry run.
_NO_DRY_RUN = "does not support dry run"
_NOTHING: Json = {"metadata": {}}
_NEW_NAMESPACE = "the namespace {} would be created by this run"


def apply_waves(session: Session) -> None:
    """Apply every item of the session that is not applied yet, in order.

    A wave with failures ends the run after all of its objects were tried; in check mode all waves are tried. Failures
    are left in the session's result, a fault that concerns every request is raised.
    """
    waves: dict[int, list[Item]] = {}
    for item in session.items:
        waves.setdefault(item.position, []).append(item)
    done = {change.key.identity for change in session.result.changes}
    for items in waves.values():
        before = len(session.result.changes)
        for item in items:
            if item.key.identity not in done:
                apply_item(session, item)
                if session.progress_due():
                    session.request.progress(f"{len(session.result.changes)}/{len(session.items)} objects applied")
        if session.result.failures and not session.request.check:
            return
        if not session.request.check:
            wait_for_definitions(session, session.result.changes[before:])


def apply_item(session: Session, item: Item) -> None:
    """Apply one object where it is not provably as desired, and note what became of it."""
    live, left = session.snapshot.find(item.key), session.leftovers(item)
    if left:
        becomes = "removed" if session.request.force_conflicts else "left as they are"
        what = f"set by an earlier manifest with kubectl or kubernetes.core and not in the input, so {becomes}"
        session.tell(f"{what} ({named([record_text(record) for record in left], MOST_NAMED)})", item.key)
        left = left if session.request.force_conflicts else []
    kept = kept_by_kubectl(item.body, session.find(item.key) or _NOTHING)
    if kept:
        what = named([record_text(record) for record in kept], MOST_NAMED)
        step = "next, unless that is meant: take it out of that manifest and apply it again"
        told = "set by kubectl apply --server-side and not in the input, so left as it is"
        session.tell(f"{told} ({what}; {step})", item.key)
    if session.is_as_desired(item.key, item.body):
        session.result.changes.append(Change(item.key, item.wave, UNCHANGED, live, live))
        return
    reason = _why_not_sent(session, item.key) if session.request.check else ""
    if reason:
        _predict(session, item, live, reason)
        return
    try:
        if left and not session.request.check:
            _take_over(session, item.key)
        code, after = patch(session, item)
    except ApiFault as err:
        reason = _why_only_now(session, item, err) if session.request.check else ""
        if reason:
            _predict(session, item, live, reason)
            return
        session.result.failures.append((item.key, err))
        if err.fatal:
            raise
        return
    if left and session.request.check:
        # The dry run knows nothing of records that would be taken over before.
        after = without(after, left)
    _note(session, item, live, after, created=code == 201)


def _take_over(session: Session, key: Key) -> None:
    """Make what an earlier manifest has set a part of our own record, so that our next one takes it away."""
    live = session.find(key)
    if live is not None:
        merge(
            session,
            key,
            live,
            change_of=taken_over,
            is_done=lambda found: not any(map(is_client_side, found["metadata"].get("managedFields") or [])),
        )


def _note(session: Session, item: Item, live: Json | None, after: Json, *, created: bool) -> None:
    """Note an answered PATCH; status 201 says that the object was not there before."""
    action = CONFIGURED
    if created:
        action = CREATED
    elif live is None:
        _say_taken_over(session, item.key)
        if session.request.check:
            live = get_object(session.connection, session.kinds, item.key)
    elif is_unchanged(live, after):
        action = UNCHANGED
        session.restored.append((item.key, unheld_fields(item.body, after)))
    if created and (item.key.group, item.key.kind) == ("", "Namespace"):
        session.new_namespaces.add(item.key.name)
    session.snapshot.put(item.key, after)
    session.result.changes.append(Change(item.key, item.wave, action, None if created else live, after))


def _say_taken_over(session: Session, key: Key) -> None:
    identities = {recorded.identity for recorded in session.recorded}
    if session.request.set_name and key.identity in identities:
        session.tell("without their set label, restored", key)
    elif session.request.set_name:
        session.tell(f"existed before, now part of the set {session.request.set_name}", key)


def patch(session: Session, item: Item) -> tuple[int, Json]:
    """Send the server-side apply of one object, again while the server settles; return (status code, live object)."""
    resource = session.kinds.find(item.key)
    if resource is None:
        raise ApiFault(Fault.NOT_FOUND, f"patch {item.key}: the server does not know the kind {item.key.kind}")
    query = {"fieldManager": MANAGER, "fieldValidation": "Strict"}
    query["force"] = "true" if session.request.force_conflicts else "false"
    if session.request.check:
        query["dryRun"] = "All"
    clock = session.connection.clock
    deadline = clock.now() + _SETTLING_TIME
    pause = _FIRST_PAUSE
    while True:
        try:
            code, after = session.connection.request(
                "patch",
                object_path(item.key, resource),
                what=str(item.key),
                query=query,
                body=item.body,
                content_type=CONTENT_TYPE,
            )
            return code, checked_object(after, item.key, f"patch {item.key}")
        except ApiFault as err:
            final = err.fault is Fault.CONFLICT and "resourceVersion" in item.body["metadata"]
            if final or clock.now() + pause > deadline or not _is_settling(session, item, err):
                raise
        clock.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


def _is_settling(session: Session, item: Item, err: ApiFault) -> bool:
    """Tell whether the same PATCH may succeed in moments."""
    if err.fault is Fault.CONFLICT:
        return not err.has_cause("FieldManagerConflict")
    if session.request.check:
        return False
    if err.fault is Fault.NOT_FOUND:
        # The server takes roles from a cache that learns of a new one in moments.
        return session.crd_changed(item.key) or bool(_new_role(session, item))
    return err.fault is Fault.FORBIDDEN and _NO_SERVICE_ACCOUNT in err.message


def _why_not_sent(session: Session, key: Key) -> str:
    """Return why a dry run of the object can't be asked for yet, or an empty string."""
    if key.namespace in session.new_namespaces:
        return _NEW_NAMESPACE.format(key.namespace)
    if session.crd_changed(key):
        return f"the CustomResourceDefinition of {key.kind} would be created or changed by this run"
    return ""


def _why_only_now(session: Session, item: Item, err: ApiFault) -> str:
    """Return why a dry run fails though the run itself would create what is missing, or an empty string."""
    lacks_namespace = err.fault is Fault.NOT_FOUND and err.details.get("kind") == "namespaces"
    if lacks_namespace and item.key.namespace == session.request.inventory_namespace:
        session.new_namespaces.add(item.key.namespace)
        return _NEW_NAMESPACE.format(item.key.namespace)
    if err.fault is Fault.FORBIDDEN and _NO_SERVICE_ACCOUNT in err.message:
        return "its service account does not exist yet"
    if _NO_DRY_RUN in err.message:
        return "a webhook that judges it takes no dry run"
    role = _new_role(session, item) if err.fault is Fault.NOT_FOUND else ""
    if role:
        return f"the {role} would be created by this run"
    return session.foretold(err)


def _new_role(session: Session, item: Item) -> str:
    """Return the role that a binding names, where this run makes it.

    Who has no right to "bind" it is judged by its rules, so that the server answers 404 while it does not know them.
    """
    reference = item.body.get("roleRef")
    if not isinstance(reference, dict):
        return ""
    wanted = (reference.get("kind"), reference.get("name"))
    made = [change.key for change in session.result.changes if change.action == CREATED]
    return next((str(key) for key in made if (key.kind, key.name) == wanted), "")


def _predict(session: Session, item: Item, live: Json | None, reason: str) -> None:
    session.unvalidated.setdefault(reason, []).append(item.key)
    if live is None and session.request.tolerant:
        # One that has lost its set label is in no LIST.
        live = get_object(session.connection, session.kinds, item.key)
    action = CREATED if live is None else CONFIGURED
    session.result.changes.append(Change(item.key, item.wave, action, live, item.body))


_CONTENT_TYPE = "application/merge-patch+json"
# Controllers write the status of an object all the time, and each time it is another version.
_MOST_VERSIONS = 20


def merge(
    session: Session, key: Key, live: Json, change_of: Callable[[Json], Json], is_done: Callable[[Json], bool]
) -> Json:
    """Send a JSON merge patch, made anew for each version of the object; return the object as it is then.

    ``change_of`` makes the patch of a live object, its ``resourceVersion`` in it. ``is_done`` tells of one that was
    read again whether nothing is left to do, as when an answer was lost. Raises :class:`ApiFault`.
    """
    resource = session.kinds.find(key)
    if resource is None:
        raise ApiFault(Fault.NOT_FOUND, f"patch {key}: the server does not know the kind {key.kind}")
    query = {"fieldManager": MANAGER, **({"dryRun": "All"} if session.request.check else {})}
    for left in reversed(range(_MOST_VERSIONS)):
        try:
            answer = session.connection.request(
                "patch",
                object_path(key, resource),
                what=str(key),
                query=query,
                body=change_of(live),
                content_type=_CONTENT_TYPE,
            )[1]
            return checked_object(answer, key, f"patch {key}")
        except ApiFault as fault:
            found = get_object(session.connection, session.kinds, key) if fault.fault is Fault.CONFLICT else None
            if found is None or not left:
                raise
            if is_done(found):
                return found
            live = found
    return live
