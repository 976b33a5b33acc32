# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes a set's inventory to the server."""

from __future__ import annotations

from dataclasses import replace

from ..api.errors import ApiFault, Fault
from ..api.snapshot import get_object
from ..objects.inventory import inventory_body, inventory_key
from ..objects.objects import MANAGED_BY, MANAGER, SET_LABEL, Item, Json, Key
from ..objects.projection import provably_equal
from .apply import apply_item, patch
from .session import CONFIGURED, CREATED, UNCHANGED, Change, Session

WAVE = "inventory"


def record(session: Session, keys: list[Key]) -> None:
    """Make the inventory record ``keys``; its namespace is made first where it is not there yet.

    In check mode the change is noted without a request. Raises :class:`ApiFault`.
    """
    request = session.request
    item = Item(
        inventory_key(request.set_name, request.inventory_namespace),
        WAVE,
        inventory_body(request.set_name, request.inventory_namespace, keys, request.engine or session.engine),
    )
    live = session.snapshot.find(item.key)
    if session.is_as_desired(item.key, item.body):
        if not any(change.key == item.key for change in session.result.changes):
            session.result.changes.append(Change(item.key, WAVE, UNCHANGED, live, live))
        return
    if request.check:
        if live is None:
            _predict_namespace(session)
        _note(session, item.key, live, item.body)
        return
    _apply_namespace_of_the_batch(session)
    try:
        after = _written(session, item, live)
    except ApiFault as err:
        if err.fault is not Fault.NOT_FOUND or err.details.get("kind") != "namespaces":
            raise
        apply_item(session, _namespace(session))
        after = _written(session, item, live)
    session.snapshot.put(item.key, after)
    _note(session, item.key, live, after)


def _written(session: Session, item: Item, live: Json | None) -> Json:
    """Write the inventory over exactly the one that was read last: another run's record must not be lost."""
    if live is None:
        return patch(session, item)[1]
    for last in (False, True):
        metadata = {**item.body["metadata"], "resourceVersion": live["metadata"].get("resourceVersion")}
        try:
            return patch(session, replace(item, body={**item.body, "metadata": metadata}))[1]
        except ApiFault as err:
            if err.fault is not Fault.CONFLICT:
                raise
            fault = err
        found = get_object(session.connection, session.kinds, item.key)
        if found is not None and provably_equal(item.body, found):
            # Our own write came through without its answer.
            return found
        same = found is not None and found["metadata"].get("resourceVersion") == metadata["resourceVersion"]
        if last or not same:
            break
    problem = f"another run has taken over the set {session.request.set_name!r}: {fault.message}"
    raise ApiFault(Fault.LOST, problem)


def make_namespace(session: Session) -> None:
    """Apply the Namespace of the inventory, as the batch wants it where it has one."""
    _apply_namespace_of_the_batch(session)
    key = _namespace(session).key
    if not any(change.key == key for change in session.result.changes):
        apply_item(session, _namespace(session))


def _apply_namespace_of_the_batch(session: Session) -> None:
    """Apply the batch's own Namespace for the inventory now when it is not there: its turn would come too late."""
    wanted = ("", "Namespace", session.request.inventory_namespace)
    for item in session.items:
        is_wanted = (item.key.group, item.key.kind, item.key.name) == wanted
        applied = any(change.key == item.key for change in session.result.changes)
        if is_wanted and not applied and session.snapshot.find(item.key) is None:
            apply_item(session, item)


def _namespace(session: Session) -> Item:
    name = session.request.inventory_namespace
    labels = {MANAGED_BY: MANAGER, SET_LABEL: session.request.set_name}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    return Item(Key("v1", "Namespace", "", name), WAVE, body)


def _predict_namespace(session: Session) -> None:
    """Note the namespace that a run would make for the inventory."""
    item = _namespace(session)
    if any(one.key == item.key for one in session.items):
        return
    if get_object(session.connection, session.kinds, item.key) is None:
        session.result.changes.append(Change(item.key, WAVE, CREATED, None, item.body))


def _note(session: Session, key: Key, before: Json | None, after: Json) -> None:
    """Note the inventory once, however often a run writes it."""
    for index, change in enumerate(session.result.changes):
        if change.key == key:
            action = CONFIGURED if change.action == UNCHANGED else change.action
            session.result.changes[index] = Change(key, WAVE, action, change.before, after)
            return
    action = CREATED if before is None else CONFIGURED
    session.result.changes.append(Change(key, WAVE, action, before, after))
