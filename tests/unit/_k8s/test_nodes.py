# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the requests about nodes and their pods ask for."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.nodes import pods_on
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, connect


@pytest.mark.parametrize(("given", "version"), [({}, None), ({"recent": True}, "0")])
def test_recent_pods_of_a_node_come_out_of_the_memory_of_the_server(given: dict[str, Any], version: str | None) -> None:
    server = FakeServer()
    pods_on(connect(server), "n", "app=a", **given)
    ((_method, path, query),) = server.requests
    assert (path, query["fieldSelector"], query["labelSelector"]) == ("/api/v1/pods", "spec.nodeName=n", "app=a")
    assert query.get("resourceVersion") == version


def test_pods_of_other_nodes_are_not_taken_for_those_of_one() -> None:
    server = FakeServer()
    for name, node in (("a", "n"), ("b", "other")):
        metadata = {"name": name, "namespace": "ns"}
        server.put("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": node}})
    with pytest.raises(ApiFault, match="its field selector was not heeded: pod ns/b is not on node n") as caught:
        pods_on(connect(server), "n")
    assert caught.value.passing
