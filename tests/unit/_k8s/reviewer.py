# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server in memory that knows its user and, by RBAC rules, what the user may do."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Reply
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.preflight.rights import Need, is_granted
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, failure, good

ALL = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
VERBS = {"GET": "get", "PATCH": "patch", "DELETE": "delete", "POST": "create", "PUT": "update"}


def rule(group: str, resources: str, verbs: str, *names: str) -> dict[str, Any]:
    found = {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
    return {**found, "resourceNames": list(names)} if names else found


class Reviewer(FakeServer):
    """``rules`` maps a namespace, or an empty string for the whole cluster, to rules; ``hidden`` are not listed."""

    def __init__(self, rules: dict[str, list[dict[str, Any]]] | None = None, *, user: str = "some") -> None:
        super().__init__()
        self.rules = {"": [ALL]} if rules is None else rules
        self.hidden: list[dict[str, Any]] = []
        self.user = user
        self.complete = True
        self.without: set[str] = set()
        self.reviews: list[str] = []

    def send(self, method: str, path: str, body: bytes | None, content_type: str | None) -> Reply:
        """Answer a review, refuse what the user may not do, and leave the rest to the server."""
        review = json.loads(body) if method == "POST" and body else {}
        kind = str(review.get("kind", ""))
        if kind.startswith("SelfSubject"):
            self.reviews.append(kind)
            if path in self.without:
                return failure(404, "NotFound", "the server could not find the requested resource")
            return good({**review, "status": self._answer(kind, review.get("spec") or {})}, 201)
        return self._refused(method, path) or super().send(method, path, body, content_type)

    def _answer(self, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        if kind == "SelfSubjectReview":
            groups = ["system:unauthenticated" if self.user == "system:anonymous" else "system:authenticated"]
            return {"userInfo": {"username": self.user, "groups": groups}}
        if kind == "SelfSubjectRulesReview":
            place = spec["namespace"]
            listed = [*self.rules.get("", []), *(self.rules.get(place, []) if place else [])]
            return {"resourceRules": listed, "nonResourceRules": [], "incomplete": not self.complete}
        asked = spec["resourceAttributes"]
        parts = [asked["resource"], asked.get("subresource", "")]
        need = Need(asked["group"], "/".join(filter(None, parts)), asked.get("namespace", ""), asked["verb"])
        return {"allowed": self._may(need, "")}

    def _may(self, need: Need, name: str) -> bool:
        there = [*self.rules.get("", []), *self.rules.get(need.namespace or "-", []), *self.hidden]
        return is_granted(need, frozenset([name] if name else []), there)

    def _refused(self, method: str, path: str) -> Reply | None:
        parts = path.partition("?")[0].strip("/").split("/")
        if parts[0] not in ("api", "apis") or len(parts) == 1:
            return None
        group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
        namespace = rest.pop(1) if rest[:1] == ["namespaces"] and len(rest) > 2 else ""
        rest = rest[1:] if namespace else rest
        if not rest:
            return None
        name = rest[1] if len(rest) > 1 else ""
        verb = VERBS[method] if name or method != "GET" else "list"
        wanted = [verb]
        if verb == "patch" and (rest[0], namespace, name) not in self.objects:
            wanted.append("create")
        for each in wanted:
            if not self._may(Need(group, rest[0], namespace, each), "" if each == "create" else name):
                place = f' in the namespace "{namespace}"' if namespace else " at the cluster scope"
                what = f'{rest[0]} is forbidden: User "{self.user}" cannot {each} resource "{rest[0]}"'
                return failure(403, "Forbidden", f'{what} in API group "{group}"{place}')
        return None
