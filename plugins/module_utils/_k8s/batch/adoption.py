# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes over what an operator looked after, each object as it is."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ..api.errors import ApiFault, Fault
from ..api.snapshot import list_objects
from ..objects.inventory import union
from ..objects.objects import MANAGED_BY, SET_LABEL, Item, Json, Key, key_of
from ..objects.operators import STATE_LABEL, adopting, is_of_operator, running, without_operator
from ..objects.projection import is_managed
from .apply import merge, patch
from .ownership import is_adoptable, objects_of_others
from .record import record
from .session import ADOPTED, Change, Session

_DAEMON_SETS = Key("apps/v1", "DaemonSet", "", "")
# With one of these goes everything of its kind, whoever made it.
_DEFINITIONS = Key("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "")
_DEPLOYMENTS = Key("apps/v1", "Deployment", "", "")
_MOST_NAMED = 10


def find_adoptable(session: Session) -> None:
    """Find what is to be taken over, and note an operator that still runs: it would take everything back.

    What else others look after, and what the operator has beside it, stays theirs and is named.
    """
    session.adopting = {}
    for item, live, owner in objects_of_others(session):
        if is_adoptable(live, item.body):
            session.adopting[item.key.identity] = live
        else:
            session.tell(f"left as it is, managed by {owner}", item.key)
    if not session.adopting:
        return
    _say_what_stays(session)
    for name in running(_all_of(session, _DEPLOYMENTS), session.adopting.values()):
        namespace, _slash, deployment = name.partition("/")
        hint = f"stop it: kubectl scale deployment --namespace={namespace} {deployment} --replicas=0"
        message = f"the operator {name} runs and would take back what is adopted"
        session.result.failures.append((None, ApiFault(Fault.CONFLICT, message, hint=hint)))


def adopt_all(session: Session) -> None:
    """Make the objects that were found ours, recorded before. Failures are left in the session's result."""
    adopted = [item for item in session.items if item.key.identity in session.adopting]
    if adopted:
        record(session, union((item.key for item in adopted), session.recorded))
    for item in adopted:
        live = session.adopting[item.key.identity]
        try:
            after = _adopted(session, item, live)
        except ApiFault as fault:
            session.result.failures.append((item.key, fault))
            if fault.fatal:
                return
        else:
            session.result.changes.append(Change(item.key, item.wave, ADOPTED, live, after))


def _adopted(session: Session, item: Item, live: Json) -> Json:
    """Take over one object; whatever ends the run before its last request, the object is the operator's until then."""
    metadata = item.body["metadata"]
    labels = {name: metadata["labels"][name] for name in (MANAGED_BY, SET_LABEL) if name in metadata["labels"]}
    named = {name: metadata[name] for name in ("name", "namespace") if name in metadata}
    body = {name: item.body[name] for name in ("apiVersion", "kind")}
    if not is_managed(live):
        # The record that takes up the operator's. Applied to an object of ours, so little would take away the rest.
        answer = patch(session, replace(item, body={**body, "metadata": {**named, "labels": labels}}))[1]
        live = live if session.request.check else answer
    if session.request.check:
        found = without_operator(live)
        found["metadata"]["labels"] = {**found["metadata"]["labels"], **labels}
        return found
    return merge(
        session,
        item.key,
        live,
        change_of=lambda found: adopting(found, labels),
        is_done=lambda found: not is_of_operator(found),
    )


def _say_what_stays(session: Session) -> None:
    """Name what the operator has beside what is wanted here."""
    wanted = {item.key.identity for item in session.items}
    adopted = [item.key for item in session.items if item.key.identity in session.adopting]
    kinds = {(key.api_version, key.kind) for key in [*adopted, _DAEMON_SETS, _DEFINITIONS]}
    found = [
        key
        for api_version, kind in sorted(kinds)
        for key in map(key_of, _all_of(session, Key(api_version, kind, "", ""), {"labelSelector": STATE_LABEL}))
        if key.identity not in wanted
    ]
    if found:
        session.result.notices.append(
            "not asked for here, so the NVIDIA Network Operator's still, and gone with its custom resources: "
            f"{named([str(key) for key in found], _MOST_NAMED)}"
        )


def _all_of(session: Session, scope: Key, selectors: dict[str, str] | None = None) -> list[Json]:
    resource = session.kinds.find(scope)
    return [] if resource is None else list_objects(session.connection, scope, resource, selectors or {})
