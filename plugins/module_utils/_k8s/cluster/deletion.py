# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Deletes exactly the object that was read."""

from __future__ import annotations

from typing import Any, Sequence

from ..api.errors import ApiFault, Fault
from ..api.kinds import Resource, object_path
from ..api.transport import Connection
from ..objects.objects import Json, key_of


def delete_as_read(
    connection: Connection, body: Json, resource: Resource, *, by: Sequence[str] = ("uid",), dry_run: bool = False
) -> bool:
    """Delete an object as it was read; tell whether it is gone, which another one is not.

    ``by`` are the fields of its metadata that tell it from another one of its name.
    """
    key = key_of(body)
    conditions = {name: body["metadata"][name] for name in by}
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": conditions}
    if dry_run:
        options["dryRun"] = ["All"]
    try:
        connection.request(
            "delete",
            object_path(key, resource),
            what=str(key),
            # The server goes by the body; in the path an audit log shows what was asked.
            query={"dryRun": "All"} if dry_run else None,
            body=options,
            content_type="application/json",
        )
    except ApiFault as fault:
        if fault.fault is Fault.NOT_FOUND:
            return True
        if fault.fault is not Fault.CONFLICT:
            raise
        return False
    return True
