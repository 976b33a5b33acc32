# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is a good answer what was asked for?

A proxy, a login page or a broken aggregated API server can answer 200 with JSON of its own. Whatever is kept of an
answer is checked here first, so that it is neither believed nor ends in a traceback.
"""

from __future__ import annotations

import itertools
import json
import re
from typing import Any, Iterator, Mapping, NamedTuple

from ansible_collections.rdma.fabric.plugins.module_utils._violations import one_line

from ..objects.objects import Json, Key
from ..objects.projection import is_ours
from .errors import ApiFault, Fault, fault_from_response

_HINT = "check what answers at the server's address: the API server itself, or a proxy before it"
# Of each container the type of its values too: later code takes them for what they are.
_METADATA_TYPES: Mapping[str, tuple[type[Any], type[Any]]] = {
    "labels": (dict, str),
    "annotations": (dict, str),
    "managedFields": (list, dict),
    "ownerReferences": (list, dict),
    "finalizers": (list, str),
}
# ``a in (b,c)``, whose name is then no term of equality; of the others ``a`` and ``a=b``, which API servers also take
# with a second equals sign and with blanks.
_SETS = re.compile(r"\([^)]*\)")
_EQUALITY = re.compile(r"([\w./-]+)(?:\s*==?\s*([\w.-]*))?", re.ASCII)


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


def checked_page(page: Json, scope: Key, what: str, selector: str = "") -> Page:
    """Return what one page of a LIST holds; each object has its apiVersion and kind, and the labels it was asked by."""
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
        problem = problem or _unasked_problem(body, selector)
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


def checked_groups(body: Json, what: str) -> frozenset[str]:
    """Return the paths of the group versions of an APIGroupList."""
    groups = body.get("groups")
    lists = (
        [each.get("versions") for each in groups if isinstance(each, Mapping)] if isinstance(groups, list) else [None]
    )
    if not all(isinstance(each, list) for each in lists):
        raise _foreign(what, "its groups are no lists of versions")
    versions = itertools.chain.from_iterable(each or () for each in lists)
    return frozenset(f"/apis/{each.get('groupVersion')}" for each in versions if isinstance(each, Mapping))


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
    if not isinstance(body.get("metadata"), dict):
        return "it has no metadata"
    problem = next(_problems(body["metadata"], body), "")
    return f"{_named(body)} has {problem}" if problem else ""


def _problems(metadata: Json, body: Json) -> Iterator[str]:
    """Yield what of an object is of no type that the API has for it. Null is what was left out, and goes."""
    for name in ("name", "uid"):
        if not isinstance(metadata.get(name), str) or not metadata[name]:
            yield f"no metadata.{name}"
    if not isinstance(metadata.get("namespace"), (str, type(None))):
        yield "a metadata.namespace that is no text"
    for name, (container, part) in _METADATA_TYPES.items():
        value = metadata.get(name)
        if value is None:
            metadata.pop(name, None)
        elif not isinstance(value, container):
            yield f"a metadata.{name} that is a {type(value).__name__}"
        else:
            held = value.values() if isinstance(value, dict) else value
            yield from (f"a metadata.{name} that holds {each!r:.80}" for each in held if not isinstance(each, part))
    for entry in filter(is_ours, metadata.get("managedFields", ())):
        if not _is_tree(entry.get("fieldsV1") or {}):
            yield "a metadata.managedFields whose fieldsV1 are no mappings of mappings"
    for name in ("spec", "status"):
        if not isinstance(body.get(name), (dict, type(None))):
            yield f"a {name} that is a {type(body[name]).__name__}"


def _is_tree(fields: Any) -> bool:
    left = [fields]
    while left:
        each = left.pop()
        if not isinstance(each, dict):
            return False
        left += each.values()
    return True


def _unasked_problem(body: Json, selector: str) -> str:
    """Return which label of a LIST's selector an object lacks, or an empty string; sets are not judged."""
    labels = body["metadata"].get("labels") or {}
    for term in _SETS.sub("()", selector).split(","):
        asked = _EQUALITY.fullmatch(term.strip())
        if asked and (asked[1] not in labels or (asked[2] is not None and labels[asked[1]] != asked[2])):
            return f"its label selector was not heeded: {_named(body)} has no label {asked[0]}"
    return ""


def _named(body: Json) -> str:
    """Return what a message calls an object that may lack any part of its name."""
    metadata = body["metadata"]
    place = "/".join(str(metadata[name]) for name in ("namespace", "name") if metadata.get(name))
    return one_line(f"{body.get('kind')!s:.80} {place:.300}".strip())


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
