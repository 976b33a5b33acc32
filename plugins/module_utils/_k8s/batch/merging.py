# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes exactly the version of an object that a change was made for: what an apply can't do, such as taking away."""

from __future__ import annotations

from typing import Callable

from ..api.answers import checked_object
from ..api.errors import ApiFault, Fault
from ..api.kinds import object_path
from ..api.snapshot import get_object
from ..objects.objects import MANAGER, Json, Key
from .session import Session

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
