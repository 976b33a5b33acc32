# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leaves the objects of a set where they are, as nobody's: for an operator that takes them over."""

from __future__ import annotations

from ..api.errors import ApiFault
from ..api.snapshot import get_object
from ..objects.inventory import inventory_key
from ..objects.objects import MANAGED_BY, MANAGER, SET_LABEL, Json
from ..objects.projection import is_managed, is_ours
from .merging import merge
from .prune import remove
from .session import RELEASED, Change, Session

WAVE = "release"
# k8s.io/apimachinery: an empty list is taken for none given, a list with an empty entry takes all records away.
_NO_RECORDS: list[Json] = [{}]


def release_all(session: Session) -> None:
    """Take label and record of the set off every object, and delete the set's inventory once all are released.

    Failures are left in the session's result. A later run goes on with what the inventory still records.
    """
    set_name = session.request.set_name

    def change_of(live: Json) -> Json:
        return unlabelled(live, set_name)

    def is_done(live: Json) -> bool:
        return not _is_of(live, set_name)

    for key in session.recorded:
        live = session.snapshot.find(key) or get_object(session.connection, session.kinds, key)
        if live is not None and not is_done(live):
            try:
                after = merge(session, key, live, change_of, is_done)
            except ApiFault as fault:
                session.result.failures.append((key, fault))
                if fault.fatal:
                    return
                continue
            session.result.changes.append(Change(key, WAVE, RELEASED, live, after))
    place = inventory_key(set_name, session.request.inventory_namespace)
    if not session.result.failures and session.snapshot.find(place) is not None:
        remove(session, [place])


def unlabelled(live: Json, set_name: str) -> Json:
    """Return the JSON merge patch that leaves this version of an object to nobody. Pure."""
    metadata = live["metadata"]
    labels = metadata.get("labels") or {}
    ours = {MANAGED_BY: MANAGER, SET_LABEL: set_name}
    records = [record for record in metadata.get("managedFields") or [] if not is_ours(record)]
    return {
        "metadata": {
            "resourceVersion": metadata.get("resourceVersion"),
            "labels": {name: None for name, value in ours.items() if labels.get(name) == value},
            "managedFields": records or _NO_RECORDS,
        }
    }


def _is_of(live: Json, set_name: str) -> bool:
    return is_managed(live) and (live["metadata"].get("labels") or {}).get(SET_LABEL) == set_name
