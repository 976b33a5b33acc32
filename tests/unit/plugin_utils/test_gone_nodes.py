# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that is deleted between the LIST of all nodes and the write to it keeps no other one from its own."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.action import node_labels
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.driver_container import WAIT_LABEL
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.features import NIC_LABEL
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.components.driver_container import POD_LABEL
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Reply
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.teardown import Written, clean_nodes
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, connect, failure, good
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    """Three nodes with a driver's label, of which ``b`` is deleted as soon as somebody writes to it."""
    found = FakeServer()
    for name in "abc":
        labels = {NIC_LABEL: "true", WAIT_LABEL: "true"}
        found.put("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})

    send = found.send

    def merged(method: str, path: str, body: bytes | None, content_type: str | None) -> Reply:
        if method != "PATCH":
            return send(method, path, body, content_type)
        name = path.partition("?")[0].rpartition("/")[2]
        if name == "b":
            found.objects.pop(("nodes", "", "b"), None)
            return failure(404, "NotFound", 'nodes "b" not found', name="b", kind="nodes")
        return good(found.objects[("nodes", "", name)])

    monkeypatch.setattr(found, "send", merged)
    return found


def test_a_teardown_cleans_the_others(server: FakeServer) -> None:
    written = Written(nfd=False, labels=False, marks=False, drivers=True)
    assert clean_nodes(connect(server), written, check=False) == ["a", "c"]


def test_the_others_say_whether_their_driver_is_ready(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_labels.ActionModule, "client", lambda _self, _arguments: server)
    template: dict[str, Any] = {"metadata": {"labels": {POD_LABEL: ""}}, "spec": {"nodeSelector": {"of": "others"}}}
    metadata = {"name": "driver", "namespace": "ns"}
    driver = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": {"template": template}}
    result = run_action("node_labels", {"hosts": [], "waves": [{"name": "drivers", "objects": [driver]}]})
    assert (result.get("failed"), result["nodes"]) == (None, ["a", "c"])
