# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pods of one node as an API server is asked for them."""

from __future__ import annotations

import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.node_cluster import NodeCluster
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, connect


def server_with_pods() -> FakeServer:
    server = FakeServer()
    for name, app in (("a", "train"), ("b", "web")):
        metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": {"app": app}}
        server.put("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n1"}})
    return server


@pytest.mark.parametrize("recent", [True, False])
def test_who_waits_asks_for_what_the_server_has_in_memory_and_who_decides_does_not(recent: bool) -> None:
    server = server_with_pods()
    cluster = NodeCluster(connect(server), "n1", "app=train")
    assert len(cluster.pods(recent=recent)) == 2
    assert cluster.selected(recent=recent) == {str(server.objects[("pods", "ns", "a")]["metadata"]["uid"])}
    assert len(cluster.working("app=web", recent=recent)) == 1
    queries = [query for _method, _path, query in server.requests]
    assert [query.get("labelSelector") for query in queries] == [None, "app=train", "app=web"]
    assert {query["fieldSelector"] for query in queries} == {"spec.nodeName=n1"}
    assert {query.get("resourceVersion") for query in queries} == {"0" if recent else None}


def test_without_a_selector_none_is_asked_for() -> None:
    server = server_with_pods()
    assert NodeCluster(connect(server), "n1").selected(recent=True) is None
    assert server.requests == []
