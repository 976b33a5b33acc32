# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests about Leases that several runs share: all of a label, and writes that hold for what was read only."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ..api.answers import checked_object
from ..api.errors import ApiFault, Fault
from ..api.kinds import Resource, collection_path, object_path
from ..api.transport import Connection
from ..api.watch import Watch
from ..objects.objects import Json, Key, key_of

_API_VERSION = "coordination.k8s.io/v1"
_LEASES = Resource("leases", True)


def leases_of(connection: Connection, namespace: str, selector: str) -> Watch:
    """Return what reads and follows the Leases of a namespace that a label selector takes."""
    return Watch(connection, Key(_API_VERSION, "Lease", namespace, ""), _LEASES, {"labelSelector": selector})


def write_lease(connection: Connection, lease: Mapping[str, Any]) -> Json | None:
    """Create a Lease, or replace the one of its resourceVersion; None when it is another by now."""
    metadata = lease["metadata"]
    key = Key(_API_VERSION, "Lease", metadata["namespace"], metadata["name"])
    replaces = "resourceVersion" in metadata
    path = object_path(key, _LEASES) if replaces else collection_path(_API_VERSION, _LEASES, key.namespace)
    verb, gone = ("put", (Fault.CONFLICT, Fault.NOT_FOUND)) if replaces else ("post", (Fault.CONFLICT,))
    query = {"fieldManager": "rdma.fabric"}
    try:
        body = connection.request(verb, path, what=str(key), query=query, body=lease, content_type="application/json")[
            1
        ]
    except ApiFault as fault:
        if fault.fault not in gone:
            raise
        return None
    return checked_object(body, key, f"{verb} {key}")


def delete_lease(connection: Connection, lease: Json, *, dry_run: bool = False) -> bool:
    """Delete a Lease as it was read; tell whether it is gone, which one that was changed since is not."""
    return delete_as_read(connection, lease, _LEASES, by=("uid", "resourceVersion"), dry_run=dry_run)


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
