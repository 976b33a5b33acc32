# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is a good answer what was asked for?

A proxy, a login page or a broken aggregated API server can answer 200 with JSON of its own. Whatever is kept of an
answer is checked here first, so that it is neither believed nor ends in a traceback.
"""

from __future__ import annotations

import json
from typing import Any, Mapping, NamedTuple

from ..objects.objects import Json, Key
from .errors import ApiFault, Fault, fault_from_response

_HINT = "check what answers at the server's address: the API server itself, or a proxy before it"
_METADATA_TYPES = {
    "labels": Mapping,
    "annotations": Mapping,
    "managedFields": list,
    "ownerReferences": list,
    "finalizers": list,
}


class Page(NamedTuple):
    """One page of a LIST: its objects, the token of the next page, and the version of the collection."""

    bodies: list[Json]
    token: str
    version: str


def checked_object(body: Json, key: Key, what: str) -> Json:
    """Return the answer about one object. Raises :class:`ApiFault` when it is about something else."""
    problem = _object_problem(body) or _identity_problem(body, key)
    if problem:
        raise _foreign(what, problem)
    return body


def checked_deletion(body: Json, key: Key, what: str) -> Json | None:
    """Return the object that a DELETE left behind until its finalizers are done, None when it is gone."""
    if body.get("kind") == "Status":
        if body.get("status") != "Success":
            raise _foreign(what, f"it is a Status {body.get('status')!r}")
        return None
    live = checked_object(body, key, what)
    return live if live["metadata"].get("finalizers") else None


def checked_page(page: Json, scope: Key, what: str) -> Page:
    """Return what one page of a LIST holds; each object has its apiVersion and kind."""
    metadata, items = page.get("metadata"), page.get("items")
    if not str(page.get("kind", "")).endswith("List"):
        raise _foreign(what, f"its kind is {page.get('kind')!r}, not a list")
    if not isinstance(metadata, (Mapping, type(None))) or not isinstance(items, (list, type(None))):
        raise _foreign(what, "its metadata is not a mapping, or its items are not a list")
    bodies: list[Json] = []
    for body in items or []:
        if isinstance(body, dict):
            body.setdefault("apiVersion", scope.api_version)
            body.setdefault("kind", scope.kind)
        problem = _object_problem(body)
        if not problem and body["kind"] != scope.kind:
            problem = f"it holds a {body['kind']}"
        if problem:
            raise _foreign(what, problem)
        bodies.append(body)
    token = (metadata or {}).get("continue") or ""
    if not isinstance(token, str):
        raise _foreign(what, "its continue token is not text")
    return Page(bodies, token, str((metadata or {}).get("resourceVersion") or ""))


def checked_pods(pods: list[Json], node: str, what: str) -> list[Json]:
    """Return the pods of a node. Raises :class:`ApiFault` when others are among them: who drains would evict those."""
    others = [pod for pod in pods if (pod.get("spec") or {}).get("nodeName") != node]
    if others:
        name = f"{others[0]['metadata'].get('namespace') or ''}/{others[0]['metadata']['name']}"
        raise _foreign(what, f"its field selector was not heeded: pod {name} is not on node {node}")
    return pods


def checked_event(line: bytes, scope: Key, what: str) -> tuple[str, Json]:
    """Return the type and the object of one event of a watch. Raises :class:`ApiFault`, also for the server's own."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict) or not isinstance(event.get("type"), str):
        raise _foreign(what, "it holds something that is no event")
    kind: str = event["type"]
    body: Any = event.get("object")
    if kind == "ERROR":
        status = body if isinstance(body, dict) else {}
        code = status.get("code")
        raise fault_from_response(code if isinstance(code, int) else 500, status, what)
    # A bookmark names a version and no object.
    version_only = kind == "BOOKMARK" and isinstance(body, dict) and isinstance(body.get("metadata"), dict)
    problem = "" if version_only else _object_problem(body)
    if not problem and body.get("kind") != scope.kind:
        problem = f"it holds a {body.get('kind')}"
    if problem:
        raise _foreign(what, problem)
    return kind, body


def checked_resources(body: Json, what: str) -> Json:
    """Return an APIResourceList whose entries have a name, a kind and a scope."""
    entries = body.get("resources")
    if not isinstance(entries, (list, type(None))):
        raise _foreign(what, "its resources are not a list")
    for entry in entries or []:
        texts = isinstance(entry, Mapping) and all(isinstance(entry.get(name), str) for name in ("name", "kind"))
        if not texts or not isinstance(entry.get("namespaced"), bool):
            raise _foreign(what, f"{entry!r:.80} is not a resource")
    return body


def _object_problem(body: Any) -> str:
    """Return why a value is no stored object, or an empty string."""
    if not isinstance(body, dict):
        return f"it holds a {type(body).__name__} instead of an object"
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        return "it has no metadata"
    for name in ("name", "uid"):
        if not isinstance(metadata.get(name), str) or not metadata[name]:
            return f"it has no metadata.{name}"
    for name, kind in _METADATA_TYPES.items():
        if not isinstance(metadata.get(name), (kind, type(None))):
            return f"its metadata.{name} is a {type(metadata[name]).__name__}"
    return ""


def _identity_problem(body: Json, key: Key) -> str:
    """Return which part of an object's name is not the one that was asked for, or an empty string."""
    metadata = body["metadata"]
    group = str(body.get("apiVersion", "")).rpartition("/")[0]
    found = (group, body.get("kind"), metadata.get("namespace") or "", metadata["name"])
    if found == (key.group, key.kind, key.namespace, key.name):
        return ""
    return f"it is about {body.get('kind')} {metadata.get('namespace') or ''}/{metadata['name']}"


def _foreign(what: str, problem: str) -> ApiFault:
    return ApiFault(Fault.SERVER, f"{what}: the answer is not the API server's: {problem}", hint=_HINT)
