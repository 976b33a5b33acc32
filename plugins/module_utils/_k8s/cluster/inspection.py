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
from ..api.kinds import CRD_GROUP, CRD_KIND, EVENTS, PODS, Kinds, Resource, object_path
from ..api.snapshot import Snapshot, fetch_group, get_object, list_objects
from ..api.transport import Connection
from ..objects.client_side import LAST_APPLIED
from ..objects.inventory import UnreadableInventory, inventory_key, recorded_keys, union
from ..objects.objects import DEFAULT_NAMESPACE, SET_LABEL, Json, Key
from ..objects.readiness import is_ready, is_workload
from .diagnosis import container_statuses, labels_of_pods
from .nodes import all_nodes

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


_OF_METADATA = ("name", "namespace", "labels", "creationTimestamp", "deletionTimestamp", "finalizers")
# machineID, systemUUID and bootID name one machine.
_OF_NODE_INFO = (
    "architecture",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "operatingSystem",
    "osImage",
)
_OF_EVENTS = (
    "type",
    "reason",
    "message",
    "count",
    "series",
    "firstTimestamp",
    "lastTimestamp",
    "eventTime",
    "involvedObject",
    "source",
    "reportingComponent",
)
# Groups of what this collection, the operators that it takes the place of, and their components define.
_GROUPS = (
    "cert-manager.io",
    "cni.cncf.io",
    "mellanox.com",
    "nfd.k8s-sigs.io",
    "nvidia.com",
    "sriovnetwork.openshift.io",
)
_OF_OURS = "rdma.fabric/"


def shown(body: Json) -> Json:
    """Return an object as it is, without what records who set its fields, and without a copy of itself."""
    metadata = {name: value for name, value in body["metadata"].items() if name != "managedFields"}
    annotations = {name: value for name, value in (metadata.get("annotations") or {}).items() if name != LAST_APPLIED}
    if "annotations" in metadata:
        metadata["annotations"] = annotations
    return {**body, "metadata": metadata}


def pods_among(pods: Iterable[Json], workloads: Iterable[Json]) -> list[Json]:
    """Return the pods that a workload of the same namespace selects."""
    selectors: dict[str, list[Mapping[str, str]]] = {}
    for body in workloads:
        labels = labels_of_pods(body)
        if labels:
            selectors.setdefault(str(body["metadata"].get("namespace", "")), []).append(labels)
    return [
        pod
        for pod in pods
        if any(
            labels.items() <= (pod["metadata"].get("labels") or {}).items()
            for labels in selectors.get(str(pod["metadata"].get("namespace", "")), ())
        )
    ]


def pod_row(pod: Json) -> Json:
    """Return where a pod runs and its status, with the last messages of its containers; nothing of its environment."""
    metadata = pod["metadata"]
    owners = [f"{owner.get('kind')} {owner.get('name')}" for owner in metadata.get("ownerReferences") or []]
    return {
        **_kept(metadata, _OF_METADATA),
        "owners": owners,
        "node": str((pod.get("spec") or {}).get("nodeName") or ""),
        "status": pod.get("status") or {},
    }


def node_row(node: Json) -> Json:
    """Return of a node what decides about pods and devices; of its annotations only those of this collection."""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    annotations = metadata.get("annotations") or {}
    return {
        **_kept(metadata, _OF_METADATA),
        "annotations": {name: value for name, value in annotations.items() if name.startswith(_OF_OURS)},
        "unschedulable": bool(spec.get("unschedulable")),
        "taints": spec.get("taints") or [],
        **{name: status.get(name) or {} for name in ("allocatable", "capacity")},
        "conditions": status.get("conditions") or [],
        "info": _kept(status.get("nodeInfo") or {}, _OF_NODE_INFO),
    }


def events_about(events: Iterable[Json], is_meant: Callable[[Mapping[str, Any]], bool]) -> list[Json]:
    """Return the events whose object is meant, the oldest first."""
    kept = [_kept(event, _OF_EVENTS) for event in events if is_meant(event.get("involvedObject") or {})]
    return sorted(kept, key=lambda event: (_time_of(event), str(event.get("reason")), str(event.get("message"))))


def definition_row(body: Json) -> Json | None:
    """Return which versions a definition of a custom resource has, None for one of somebody else's."""
    spec, status = body.get("spec") or {}, body.get("status") or {}
    group = str(spec.get("group", ""))
    if not any(group == known or group.endswith(f".{known}") for known in _GROUPS):
        return None
    return {
        "name": body["metadata"]["name"],
        "labels": body["metadata"].get("labels") or {},
        "versions": [_kept(version, ("name", "served", "storage")) for version in spec.get("versions") or []],
        "stored": status.get("storedVersions") or [],
        "conditions": status.get("conditions") or [],
    }


def _kept(fields: Mapping[str, Any], names: Sequence[str]) -> Json:
    return {name: fields[name] for name in names if fields.get(name) not in (None, "", [], {})}


def _time_of(event: Mapping[str, Any]) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp") or "")


MOST_BYTES = 256 * 1024
"""What is kept of one log, its end."""
# The server counts its limit from the first of the lines that are asked for, and the last ones are the telling ones.
_MOST_ASKED = 4 * MOST_BYTES


@dataclass(frozen=True)
class Log:
    """The log of one container; ``previous`` is that of the one before the last restart."""

    namespace: str
    pod: str
    container: str
    previous: bool
    owner: str = ""

    @property
    def path(self) -> str:
        """Its place in a folder of logs."""
        return f"{self.namespace}/{self.pod}/{self.container}{'.previous' if self.previous else ''}.log"

    def __str__(self) -> str:
        """Its name as a person reads it."""
        return f"the log of {self.namespace}/{self.pod}, container {self.container}"


def logs_of(pods: Iterable[Mapping[str, Any]]) -> list[Log]:
    """Return the logs worth reading of pods: of containers that have run and are not ready.

    The first of each workload come before the second of any, so that a bound leaves none of them out for another.
    """
    ranked: list[tuple[int, Log]] = []
    ranks: dict[str, int] = {}
    for pod in sorted(pods, key=lambda each: (each["metadata"].get("namespace", ""), each["metadata"]["name"])):
        if is_ready(pod) or (pod.get("status") or {}).get("phase") == "Succeeded":
            continue
        for log in _of_pod(pod):
            ranks[log.owner] = ranks.get(log.owner, 0) + 1
            ranked.append((ranks[log.owner], log))
    return [log for _rank, log in sorted(ranked, key=lambda each: each[0])]


def _of_pod(pod: Mapping[str, Any]) -> list[Log]:
    metadata = pod["metadata"]
    namespace, name = str(metadata.get("namespace", "")), str(metadata["name"])
    owners = metadata.get("ownerReferences") or [{}]
    owner = f"{namespace}/{owners[0].get('kind')}/{owners[0].get('name', name)}"
    found = []
    for container in container_statuses(pod):
        state = container.get("state") or {}
        ended_before = bool((container.get("lastState") or {}).get("terminated"))
        # One that waits and has not ended before (its image is missing, say) has said nothing.
        if container.get("ready") or not (ended_before or "running" in state or "terminated" in state):
            continue
        previous = ended_before and "waiting" in state
        found.append(Log(namespace, name, str(container.get("name", "")), previous, owner))
    return found


def read_log(connection: Connection, log: Log, lines: int) -> tuple[str, bool]:
    """Return the last ``lines`` of a log, ``MOST_BYTES`` at most, and whether bytes were cut. Raises ApiFault."""
    path = f"{object_path(Key('v1', 'Pod', log.namespace, log.pod), PODS)}/log"
    query = {"container": log.container, "tailLines": str(lines), "limitBytes": str(_MOST_ASKED), "timestamps": "true"}
    if log.previous:
        query["previous"] = "true"
    data = connection.content(path, what=str(log), query=query)
    if len(data) <= MOST_BYTES:
        return data.decode("utf-8", "replace"), False
    kept = data[-MOST_BYTES:]
    # Half a line says less than it seems to, and half a secret is not known for one.
    return kept.partition(b"\n")[2].decode("utf-8", "replace"), True
