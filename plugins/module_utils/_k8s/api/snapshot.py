# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is there: one LIST per kind, or one GET per object."""

from __future__ import annotations

from typing import Iterable

from ..objects.objects import SET_LABEL, Json, Key, key_of
from .answers import checked_groups, checked_object, checked_page, checked_resources
from .errors import ApiFault, Fault
from .kinds import Kinds, Resource, collection_path, object_path
from .transport import Connection

PAGE_SIZE = 500
# A LIST whose pages expire again and again is too long for the server's history; it is not asked for for ever.
_MOST_STARTS = 5


def get_object(connection: Connection, kinds: Kinds, key: Key) -> Json | None:
    """Return one live object, or None when it, its namespace or its kind is not there."""
    resource = kinds.find(key)
    if resource is None:
        return None
    try:
        body = connection.request("get", object_path(key, resource), what=str(key))[1]
    except ApiFault as err:
        if err.fault is Fault.NOT_FOUND:
            return None
        raise
    return checked_object(body, key, f"get {key}")


def learn_groups(connection: Connection) -> None:
    """Have :func:`fetch_group` ask for no group that the server lacks: one request for who only looks at many."""
    try:
        body = connection.request("get", "/apis", what="the groups of the server")[1]
    except ApiFault as err:
        if err.fault in (Fault.NOT_FOUND, Fault.FORBIDDEN):
            return
        raise
    connection.groups = checked_groups(body, "get the groups of the server")


def fetch_group(connection: Connection, path: str) -> Json | None:
    """Return the APIResourceList of a group version, or None when the server does not serve it."""
    if connection.groups is not None and path.startswith("/apis/") and path not in connection.groups:
        return None
    try:
        body = connection.request("get", path, what=f"the resources of {path}")[1]
    except ApiFault as err:
        if err.fault is Fault.NOT_FOUND:
            return None
        raise
    return checked_resources(body, f"get the resources of {path}")


class Snapshot:
    """The live objects of all kinds of a run that carry a set label, whichever set it names.

    Asking for every set's objects costs no request more than asking for one set's, and shows objects that another set
    owns before anything is changed.
    """

    def __init__(self, connection: Connection, kinds: Kinds) -> None:
        self._connection = connection
        self._kinds = kinds
        self._objects: dict[Key, Json] = {}
        self._unserved: set[tuple[str, str]] = set()
        self._apart: set[tuple[str, str]] = set()

    def find(self, key: Key) -> Json | None:
        """Return the live object as last read, or None."""
        return self._objects.get(key.identity)

    def is_served(self, key: Key) -> bool:
        """Tell whether the server knew the key's kind when it was listed."""
        return (key.api_version, key.kind) not in self._unserved

    def put(self, key: Key, body: Json | None) -> None:
        """Remember what an answer said about an object; None says that it is gone."""
        if body is None:
            self._objects.pop(key.identity, None)
        else:
            self._objects[key.identity] = body

    def all_of(self, group: str, kind: str) -> list[Json]:
        """Return every object of a kind that was read."""
        return [body for key, body in self._objects.items() if (key.api_version, key.kind) == (group, kind)]

    def everything(self) -> list[Json]:
        """Return every object that was read."""
        return list(self._objects.values())

    def read_each(self, keys: Iterable[Key]) -> None:
        """Read objects one by one: for objects that belong to no set."""
        for key in keys:
            self.put(key, get_object(self._connection, self._kinds, key))

    def read_kinds(self, keys: Iterable[Key]) -> None:
        """List the kinds of the keys, each once: in their namespace when it is a single one, else in all of them.

        A user who may not list a kind in all namespaces has it listed in those of the keys, one after another.
        """
        scopes: dict[tuple[str, str], tuple[str, set[str]]] = {}
        for key in keys:
            scopes.setdefault((key.group, key.kind), (key.api_version, set()))[1].add(key.namespace)
        for (group, kind), (api_version, namespaces) in scopes.items():
            if not self._listed_at_once(group, kind, api_version, namespaces):
                for namespace in sorted(namespaces):
                    self._list(Key(api_version, kind, namespace, ""))

    def _listed_at_once(self, group: str, kind: str, api_version: str, namespaces: set[str]) -> bool:
        """List a kind in all namespaces where that is of use and allowed, and tell so; a refusal counts for the run."""
        if len(namespaces) == 1 or (group, kind) in self._apart:
            return False
        try:
            self._list(Key(api_version, kind, "", ""))
        except ApiFault as err:
            if err.fault is not Fault.FORBIDDEN or "" in namespaces:
                raise
            self._apart.add((group, kind))
            return False
        return True

    def _list(self, scope: Key) -> None:
        resource = self._kinds.find(scope)
        if resource is None:
            self._forget(scope)
            self._unserved.add((scope.api_version, scope.kind))
            return
        try:
            bodies = list_objects(self._connection, scope, resource, {"labelSelector": SET_LABEL})
        except ApiFault as err:
            if err.fault is not Fault.NOT_FOUND:
                raise
            self._forget(scope)
            self._unserved.add((scope.api_version, scope.kind))
            return
        # Only now: what an earlier LIST showed is still the best there is when this one gets no answer.
        self._forget(scope)
        for body in bodies:
            self.put(key_of(body), body)

    def _forget(self, scope: Key) -> None:
        for key in list(self._objects):
            same_kind = (key.api_version, key.kind) == (scope.group, scope.kind)
            if same_kind and scope.namespace in ("", key.namespace):
                del self._objects[key]


def list_objects(connection: Connection, scope: Key, resource: Resource, selectors: dict[str, str]) -> list[Json]:
    """Return all pages of one LIST, each object with its apiVersion and kind; start anew when the pages expire."""
    return list_versioned(connection, scope, resource, selectors)[0]


def list_versioned(
    connection: Connection, scope: Key, resource: Resource, selectors: dict[str, str]
) -> tuple[list[Json], str]:
    """Return what :func:`list_objects` does, and the one version of the collection that all pages are of.

    Of objects that make a page too large for memory it asks for half as many at a time, from the first one on: the
    rest of a LIST is only promised to who asks for it as before.
    """
    path = collection_path(scope.api_version, resource, scope.namespace)
    where = f" in namespace {scope.namespace}" if scope.namespace else ""
    what = f"{resource.plural}{where}"
    bodies: list[Json] = []
    size, starts = PAGE_SIZE, 1
    query = {**selectors, "limit": str(size)}
    tokens: set[str] = set()
    while True:
        try:
            page = connection.request("list", path, what=what, query=query)[1]
        except ApiFault as err:
            if err.fault is Fault.TOO_LARGE and size > 1:
                size //= 2
            elif err.fault is Fault.GONE and "continue" in query and starts < _MOST_STARTS:
                starts += 1
            else:
                raise
            query = {**selectors, "limit": str(size)}
            bodies, tokens = [], set()
            continue
        found, token, version = checked_page(page, scope, f"list {what}", selectors.get("labelSelector", ""))
        bodies += found
        if not token:
            return bodies, version
        if token in tokens:
            problem = f"list {what}: the pages have no end: the server gives the same continue token again"
            raise ApiFault(Fault.SERVER, problem)
        tokens.add(token)
        query["continue"] = token
