# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cluster shows of one set: its objects, their pods, events and logs, the nodes. For a person far away.

Only reads. One LIST for each kind and namespace, however many objects there are; what can't be read is told, and the
rest goes on. Secrets are never asked for. What is found is not scrubbed yet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Collection, Iterable, Mapping, Sequence, TypeVar

from ..api.errors import ApiFault, Fault
from ..api.kinds import CRD_GROUP, CRD_KIND, EVENTS, PODS, Kinds, Resource
from ..api.snapshot import Snapshot, fetch_group, get_object, list_objects
from ..api.transport import Connection
from ..objects.inventory import UnreadableInventory, inventory_key, recorded_keys, union
from ..objects.objects import DEFAULT_NAMESPACE, SET_LABEL, Json, Key
from ..objects.readiness import is_workload
from .inspected import definition_row, events_about, node_row, pod_row, pods_among, shown
from .nodes import all_nodes
from .pod_logs import MOST_BYTES, logs_of, read_log

_Read = TypeVar("_Read")
_DEFINITIONS = Key(f"{CRD_GROUP}/v1", CRD_KIND, "", "")
# After one of these no other request is answered; an error of the server may be one of a single kubelet.
_HOPELESS = frozenset((Fault.CONFIGURATION, Fault.UNREACHABLE, Fault.TLS, Fault.TIMEOUT, Fault.UNAUTHORIZED))
# One log that the user may not read is like all others.
_HOPELESS_OF_LOGS = _HOPELESS | {Fault.FORBIDDEN, Fault.THROTTLED}


@dataclass(frozen=True)
class Scope:
    """What to look at: objects of the input, the set, its namespace, nodes of hosts by name.

    With ``whole_namespace`` every pod of the namespace counts: an operator that works there made them. ``logs`` is the
    most logs that are read, ``lines`` the most lines of each.
    """

    wanted: Sequence[Key]
    set_name: str
    namespace: str
    nodes: frozenset[str] = frozenset()
    whole_namespace: bool = False
    logs: int = 20
    lines: int = 500


@dataclass
class Inspection:
    """What was found, and what was not read.

    ``documents`` are plain data by their name, ``logs`` text by its path, ``unread`` (what, why), ``left_out`` what
    was left out on purpose.
    """

    documents: dict[str, Any] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    unread: list[tuple[str, str]] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)


def inspect(connection: Connection, scope: Scope) -> Inspection:
    """Read everything that can be read of the set. A server without an answer ends it, and is told once."""
    looking = _Looking(connection, scope)
    try:
        looking.look()
    except ApiFault as fault:
        looking.found.unread.append(("the cluster", str(fault)))
    return looking.found


class _Looking:
    """One inspection."""

    def __init__(self, connection: Connection, scope: Scope) -> None:
        self._connection, self._scope = connection, scope
        self._kinds = Kinds(lambda path: fetch_group(connection, path))
        self.found = Inspection()

    def look(self) -> None:
        """Go through all parts; raises ApiFault where no further request is of use."""
        documents = self.found.documents
        version = self._tried("the version of the API server", self._version)
        documents.update({"version": version} if version is not None else {})
        definitions = self._tried("the definitions of custom resources", self._definitions)
        documents.update({"definitions": definitions} if definitions is not None else {})
        objects = self._objects()
        pods = self._pods(objects)
        documents["pods"] = [pod_row(pod) for pod in pods]
        documents["events"] = self._events(objects, pods)
        names = self._scope.nodes | {str((pod.get("spec") or {}).get("nodeName") or "") for pod in pods} - {""}
        nodes = self._tried("nodes", lambda: all_nodes(self._connection)) or []
        documents["nodes"] = [node_row(node) for node in nodes if node["metadata"]["name"] in names]
        documents["events_of_nodes"] = self._events_of_nodes(names)
        self._logs(pods)

    def _tried(self, what: str, read: Callable[[], _Read]) -> _Read | None:
        """Return what is read, or None and a note; raises ApiFault where the server gives no answer at all."""
        try:
            return read()
        except ApiFault as fault:
            if fault.fault in _HOPELESS:
                raise
            self.found.unread.append((what, str(fault)))
            return None

    def _version(self) -> Json:
        return self._connection.request("get", "/version", what="the version of the server")[1]

    def _definitions(self) -> list[Json]:
        resource = Resource("customresourcedefinitions", False)
        bodies = list_objects(self._connection, _DEFINITIONS, resource, {})
        return [row for row in map(definition_row, bodies) if row]

    def _recorded(self) -> Sequence[Key]:
        """Return what earlier runs have recorded of the set; a record that can't be read is one more thing to tell."""
        key = inventory_key(self._scope.set_name, self._scope.namespace)
        live = self._tried(str(key), lambda: get_object(self._connection, self._kinds, key))
        try:
            return [key, *recorded_keys(live)] if live else []
        except UnreadableInventory as error:
            self.found.unread.append((str(key), str(error)))
            return [key]

    def _objects(self) -> list[Json]:
        """Return the objects of the set, kind by kind."""
        by_kind: dict[tuple[str, str], list[Key]] = {}
        for key in union(self._scope.wanted, self._recorded()):
            by_kind.setdefault((key.group, key.kind), []).append(key)
        found: list[Json] = []
        for (group, kind), keys in sorted(by_kind.items()):
            if kind == "Secret" and not group:
                self.found.left_out.append(("objects of the kind Secret", "they are never read"))
                continue
            found += self._of_kind(kind, keys)
        found.sort(key=_order)
        self.found.documents["objects"] = [shown(body) for body in found]
        return found

    def _of_kind(self, kind: str, keys: Sequence[Key]) -> list[Json]:
        """Return the objects of a kind that belong to the set; those that were listed before a fault count."""
        snapshot = Snapshot(self._connection, self._kinds)
        self._tried(f"objects of the kind {kind}", lambda: snapshot.read_kinds(_placed(keys)))
        return [body for body in snapshot.everything() if self._is_ours(body)]

    def _is_ours(self, body: Json) -> bool:
        return (body["metadata"].get("labels") or {}).get(SET_LABEL) == self._scope.set_name

    def _pods(self, objects: Sequence[Json]) -> list[Json]:
        """Return the pods of workloads of the set: one LIST for each namespace."""
        workloads = [body for body in objects if is_workload(str(body.get("kind")))]
        places = {str(body["metadata"].get("namespace", "")) for body in workloads}
        whole = self._scope.namespace if self._scope.whole_namespace else ""
        found: list[Json] = []
        for place in sorted(places | ({whole} - {""})):
            pods = self._listed("pods", "Pod", PODS, place)
            found += pods if place == whole else pods_among(pods, workloads)
        return sorted(found, key=_order)

    def _events(self, objects: Iterable[Json], pods: Iterable[Json]) -> list[Json]:
        """Return the events about the objects and pods: one LIST for each namespace that has pods or workloads."""
        bodies = [*objects, *pods]
        places = {str(body["metadata"].get("namespace", "")) for body in bodies if _has_events(body)}
        events = [event for place in sorted(places) for event in self._listed("events", "Event", EVENTS, place)]
        uids = {str(body["metadata"].get("uid")) for body in bodies}
        return events_about(events, lambda about: str(about.get("uid")) in uids)

    def _events_of_nodes(self, names: Collection[str]) -> list[Json]:
        """Return the events about nodes, which are in the default namespace, as nodes have none."""
        selector = {"fieldSelector": "involvedObject.kind=Node"}
        events = self._listed("events of nodes", "Event", EVENTS, DEFAULT_NAMESPACE, selector) if names else []
        return events_about(events, lambda about: about.get("kind") == "Node" and about.get("name") in names)

    def _listed(
        self, what: str, kind: str, resource: Resource, place: str, selector: Mapping[str, str] | None = None
    ) -> list[Json]:
        scope = Key("v1", kind, place, "")
        read = self._tried(
            f"{what} in the namespace {place}",
            lambda: list_objects(self._connection, scope, resource, dict(selector or {})),
        )
        return read or []

    def _logs(self, pods: Iterable[Json]) -> None:
        logs = logs_of(pods)
        beyond = len(logs) - self._scope.logs
        if beyond > 0:
            self.found.left_out.append((f"logs of {beyond} further containers", f"{self._scope.logs} at most are read"))
        for number, log in enumerate(logs[: self._scope.logs]):
            try:
                text, cut = read_log(self._connection, log, self._scope.lines)
            except ApiFault as fault:
                self.found.unread.append((str(log), str(fault)))
                if fault.fault not in _HOPELESS_OF_LOGS:
                    continue
                rest = len(logs[: self._scope.logs]) - number - 1
                if rest:
                    self.found.unread.append((f"logs of {rest} further containers", "not tried after that"))
                return
            self.found.logs[log.path] = text
            if cut:
                self.found.left_out.append((f"the beginning of {log}", f"{MOST_BYTES} bytes at most are kept"))


def _placed(keys: Iterable[Key]) -> list[Key]:
    """Return the keys with the namespace that the API server gives those without one."""
    return [Key(key.api_version, key.kind, key.namespace or DEFAULT_NAMESPACE, key.name) for key in keys]


def _has_events(body: Mapping[str, Any]) -> bool:
    kind = str(body.get("kind"))
    return kind == "Pod" or is_workload(kind)


def _order(body: Mapping[str, Any]) -> tuple[str, str, str]:
    metadata = body["metadata"]
    return str(body.get("kind", "")), str(metadata.get("namespace") or ""), str(metadata["name"])
