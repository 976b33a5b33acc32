# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server in memory: enough of LIST, GET, server-side apply and DELETE to drive the batch's logic.

It keeps fields of several managers only as far as these tests need; what server-side apply really does is tested on the
real server under tests/integration.
"""

from __future__ import annotations

import copy
import json
import re
from typing import Any, Callable
from urllib.parse import parse_qs, urlsplit

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import (
    Clock,
    Connection,
    Lines,
    Patience,
    Reply,
)

PATH = re.compile(
    r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+/[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?(?:/(?P<plural>[^/]+))?(?:/(?P<name>[^/]+))?"
)
KINDS = {
    "configmaps": "ConfigMap",
    "secrets": "Secret",
    "serviceaccounts": "ServiceAccount",
    "namespaces": "Namespace",
    "nodes": "Node",
    "pods": "Pod",
    "events": "Event",
    "daemonsets": "DaemonSet",
    "deployments": "Deployment",
    "clusterroles": "ClusterRole",
    "leases": "Lease",
    "customresourcedefinitions": "CustomResourceDefinition",
    "mutatingwebhookconfigurations": "MutatingWebhookConfiguration",
    "services": "Service",
    "validatingwebhookconfigurations": "ValidatingWebhookConfiguration",
}


class FakeTime:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds

    def clock(self) -> Clock:
        return Clock(lambda: self.seconds, self.sleep)


def failure(code: int, reason: str, message: str, **details: Any) -> Reply:
    status = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}
    return Reply(code, {}, json.dumps(status).encode())


def good(body: Any, code: int = 200) -> Reply:
    return Reply(code, {}, json.dumps(body).encode())


def applied_set(value: Any) -> Any:
    """Return the fieldsV1 of an applied value; lists of named maps are associative, other lists are atomic."""
    if isinstance(value, dict):
        return {f"f:{name}": applied_set(below) for name, below in value.items()}
    if isinstance(value, list) and value and all(isinstance(item, dict) and "name" in item for item in value):
        return {
            f"k:{json.dumps({'name': item['name']}, separators=(',', ':'))}": {".": {}, **applied_set(item)}
            for item in value
        }
    return {}


class FakeServer:
    """A ``Sender``; ``objects`` maps (resource plural, namespace, name) to live objects."""

    def __init__(self, namespaces: tuple[str, ...] = ("default", "ns")) -> None:
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.plurals = dict(KINDS)
        self.unserved: set[str] = set()
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.delete_options: list[dict[str, Any]] = []
        self.intercept: Callable[[int, str, str], Reply | None] = lambda _number, _method, _path: None
        self.after_apply: Callable[[dict[str, Any]], None] = lambda _body: None
        self.on_list: Callable[[str], None] = lambda _plural: None
        self.watched: Callable[[dict[str, str]], Lines | Reply] = lambda _query: failure(
            405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
        )
        self.version = "v1.35.0"
        self.groups: list[str] | None = None
        self.page_size = 500
        self._version = 100
        for name in namespaces:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "status": {"phase": "Active"}}
            self.put("namespaces", body)

    def put(self, plural: str, body: dict[str, Any]) -> dict[str, Any]:
        """Store an object as somebody else would."""
        metadata = body["metadata"]
        self._version += 1
        metadata.setdefault("uid", f"uid-{self._version}")
        metadata["resourceVersion"] = str(self._version)
        self.objects[(plural, metadata.get("namespace", ""), metadata["name"])] = body
        return body

    def send(self, method: str, path: str, body: bytes | None, content_type: str | None) -> Reply:
        """Answer one request."""
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.requests.append((method, parts.path, query))
        intercepted = self.intercept(len(self.requests), method, parts.path)
        if intercepted is not None:
            return intercepted
        itself = self._about_itself(parts.path)
        if itself is not None:
            return itself
        match = PATH.fullmatch(parts.path)
        if match is None or not match["plural"]:
            return self._resource_list(str(match and (match["group"] or match["core"])))
        plural, namespace, name = match["plural"], match["namespace"] or "", match["name"] or ""
        if plural in self.unserved or plural not in self.plurals:
            return failure(404, "NotFound", "the server could not find the requested resource")
        if method == "POST":
            return self._create(plural, namespace, json.loads(body or b"{}"), query)
        data = json.loads(body) if body else {}
        if not name and method == "DELETE":
            return self._delete_all(plural, namespace, query["labelSelector"])
        if not name:
            return self._list(plural, namespace, query)
        if method == "PATCH":
            return self._apply((plural, namespace, name), data, query)
        live = self.objects.get((plural, namespace, name))
        if live is None:
            return failure(404, "NotFound", f'{plural} "{name}" not found', name=name, kind=plural)
        if method == "PUT":
            if data["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"]:
                return failure(409, "Conflict", "the object has been modified")
            data["metadata"]["uid"] = live["metadata"]["uid"]
            return good(self.put(plural, data))
        if method == "DELETE":
            return self._delete((plural, namespace, name), live, data)
        return good(live)

    def _about_itself(self, path: str) -> Reply | None:
        if path == "/version" and self.version:
            return good({"gitVersion": self.version})
        if path == "/apis" and self.groups is None:
            return failure(404, "NotFound", "the server lists no groups")
        versions = [{"groupVersion": group} for group in self.groups or ()]
        return good({"groups": [{"name": "all of them", "versions": versions}]}) if path == "/apis" else None

    def stream(self, path: str, silence: float) -> Lines | Reply:
        """Open a watch; there is none unless a test sets ``watched``."""
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.requests.append(("WATCH", parts.path, query))
        return self.watched(query)

    def _resource_list(self, group: str) -> Reply:
        resources = [
            {"name": plural, "kind": kind, "namespaced": True}
            for plural, kind in self.plurals.items()
            if plural not in KINDS and plural not in self.unserved
        ]
        if not resources:
            return failure(404, "NotFound", f"{group} is not served")
        return good({"kind": "APIResourceList", "resources": [*resources, {**resources[0], "name": "x/status"}]})

    def _list(self, plural: str, namespace: str, query: dict[str, str]) -> Reply:
        self.on_list(plural)
        label = query.get("labelSelector", "")
        found = [
            {name: value for name, value in body.items() if name not in ("apiVersion", "kind")}
            for (kind, place, _name), body in sorted(self.objects.items())
            if kind == plural and namespace in ("", place) and self._matches(body, label)
        ]
        start = int(query.get("continue", "0"))
        end = start + min(self.page_size, int(query.get("limit", "500")))
        metadata = {"resourceVersion": str(self._version)}
        if end < len(found):
            metadata["continue"] = str(end)
        return good(
            {
                "kind": f"{self.plurals[plural]}List",
                "metadata": metadata,
                "items": found[start:end],
            }
        )

    @staticmethod
    def _matches(body: dict[str, Any], selector: str) -> bool:
        labels = body["metadata"].get("labels") or {}
        unwanted = re.findall(r"([^,\s]+) notin \(([^)]*)\)", selector)
        wanted = [term.partition("=") for term in re.sub(r"[^,]+ notin \([^)]*\)", "", selector).split(",") if term]
        return all(
            name in labels and (not equals or labels[name] == value) for name, equals, value in wanted
        ) and not any(labels.get(name) in values.split(",") for name, values in unwanted)

    def _apply(self, place: tuple[str, str, str], body: dict[str, Any], query: dict[str, str]) -> Reply:
        plural, namespace, _name = place
        if namespace and ("namespaces", "", namespace) not in self.objects:
            message = f'namespaces "{namespace}" not found'
            return failure(404, "NotFound", message, name=namespace, kind="namespaces")
        live = self.objects.get(place)
        version = body["metadata"].pop("resourceVersion", None)
        if version is not None and (live is None or version != live["metadata"]["resourceVersion"]):
            return failure(409, "Conflict", "the object has been modified")
        after = copy.deepcopy(live) if live else {}
        kept = after.get("metadata", {})
        others = [entry for entry in kept.get("managedFields", []) if entry["manager"] != query["fieldManager"]]
        recorded = {key: value for key, value in body.items() if key not in ("apiVersion", "kind", "metadata")}
        metadata = {key: value for key, value in body["metadata"].items() if key not in ("name", "namespace")}
        entry = {
            "manager": query["fieldManager"],
            "operation": "Apply",
            "apiVersion": body["apiVersion"],
            "fieldsType": "FieldsV1",
            "fieldsV1": applied_set({**recorded, **({"metadata": metadata} if metadata else {})}),
        }
        result = {**copy.deepcopy(body), "metadata": {**kept, **copy.deepcopy(body["metadata"])}}
        result["metadata"]["managedFields"] = [entry, *others]
        result["metadata"].setdefault("uid", f"uid-{self._version + 1}")
        if "status" in after:
            result["status"] = after["status"]
        if plural == "namespaces":
            result["status"] = {"phase": "Active"}
        changed = live is None or json.dumps(live, sort_keys=True) != json.dumps(result, sort_keys=True)
        if changed and "dryRun" not in query:
            result["metadata"]["generation"] = kept.get("generation", 0) + 1
            self.after_apply(result)
            self.put(plural, result)
        return good(result, 201 if live is None else 200)

    def _create(self, plural: str, namespace: str, body: dict[str, Any], query: dict[str, str]) -> Reply:
        if ("namespaces", "", namespace) not in self.objects:
            message = f'namespaces "{namespace}" not found'
            return failure(404, "NotFound", message, name=namespace, kind="namespaces")
        name = body["metadata"].setdefault("name", f"{body['metadata'].get('generateName')}xyz")
        if (plural, namespace, name) in self.objects:
            return failure(409, "AlreadyExists", "it exists already")
        if "dryRun" in query:
            return good(body, 201)
        return good(self.put(plural, body), 201)

    def _delete(self, place: tuple[str, str, str], live: dict[str, Any], options: dict[str, Any]) -> Reply:
        if place[0] != "leases":
            self.delete_options.append(options)
        wanted = options.get("preconditions", {}).get("uid")
        if wanted != live["metadata"]["uid"]:
            return failure(409, "Conflict", f"the UID in the precondition ({wanted}) does not match")
        if live["metadata"].get("finalizers"):
            going = {**live, "metadata": {**live["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
            return good(self.put(place[0], going) if "dryRun" not in options else going)
        if "dryRun" not in options:
            del self.objects[place]
        return good({"kind": "Status", "status": "Success"})

    def _delete_all(self, plural: str, namespace: str, label: str) -> Reply:
        for place, live in [*self.objects.items()]:
            if place[:2] == (plural, namespace) and self._matches(live, label):
                self._delete(place, live, {"preconditions": {"uid": live["metadata"]["uid"]}})
        return good({"kind": f"{self.plurals[plural]}List", "items": []})

    def written(self) -> list[tuple[str, str]]:
        """Return the requests that may have changed something, but for the Lease of a set."""
        sent = [(method, path) for method, path, query in self.requests if method != "GET" and "dryRun" not in query]
        return [(method, path) for method, path in sent if "/leases" not in path]


def connect(server: FakeServer, time: FakeTime | None = None) -> Connection:
    return Connection(server, clock=(time or FakeTime()).clock(), patience=Patience(chance=lambda: 0.0))


def config_map(name: str, namespace: str = "ns", **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data or {"key": "value"},
    }


def namespace_object(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def daemon_set(name: str, namespace: str = "ns", image: str = "registry.example/plugin:1") -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"nodeSelector": {"nic": "true"}, "containers": [{"name": "plugin", "image": image}]},
    }
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}


def definition(kind: str, plural: str, group: str = "example.com") -> dict[str, Any]:
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    }
