# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server in memory whose nodes take merge patches."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Reply
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, failure, good

NODE = ("nodes", "", "n")


class Nodes(FakeServer):
    """A server that merges patches into nodes and labels applied to them, and keeps the taints that were stored."""

    def __init__(self) -> None:
        super().__init__()
        self.plurals.update(nodes="Node", pods="Pod", daemonsets="DaemonSet", events="Event")
        self.tainted: list[list[str]] = []

    def send(self, method: str, path: str, body: bytes | None, content_type: str | None) -> Reply:
        if method != "PATCH":
            return super().send(method, path, body, content_type)
        parts, patch = urlsplit(path), json.loads(body or b"{}")
        self.requests.append((method, parts.path, {}))
        live = self.objects[NODE]
        if content_type == "application/apply-patch+yaml":
            assert patch["metadata"]["uid"] == live["metadata"]["uid"]
            labels = {**live["metadata"]["labels"], **patch["metadata"]["labels"]}
            return good(self.put("nodes", {**live, "metadata": {**live["metadata"], "labels": labels}}))
        if patch["metadata"].pop("resourceVersion") != live["metadata"]["resourceVersion"]:
            return failure(409, "Conflict", "the object has been modified")
        annotations = {**live["metadata"].get("annotations", {}), **patch["metadata"]["annotations"]}
        kept = {name: value for name, value in annotations.items() if value is not None}
        after = {**live, "metadata": {**live["metadata"], "annotations": kept}}
        after["spec"] = {**live["spec"], **patch.get("spec", {})}
        if "dryRun" not in parse_qs(parts.query):
            self.tainted.append([each["key"] for each in after["spec"].get("taints") or []])
            self.put("nodes", after)
        return good(after)
