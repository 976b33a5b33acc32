# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_drain on an API server in memory: what becomes of a node that is cordoned and can't be drained."""

from __future__ import annotations

import pytest

from ansible_collections.rdma.fabric.plugins.action import node_drain
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.transport import Reply
from ansible_collections.rdma.fabric.plugins.plugin_utils import _cluster_action
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeTime, failure
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action
from ansible_collections.rdma.fabric.tests.unit.plugins.node_server import NODE, Nodes


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Nodes:
    found, clock = Nodes(), FakeTime().clock()
    monkeypatch.setattr(node_drain.ActionModule, "client", lambda _self, _arguments: found)
    monkeypatch.setattr(_cluster_action, "Clock", lambda **_given: clock)
    found.put("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}})
    return found


@pytest.mark.parametrize("give_back", [True, False])
def test_a_node_whose_jobs_cannot_be_asked_for_is_given_back_where_that_is_wanted(
    server: Nodes, give_back: bool
) -> None:
    def refuses_the_selector(_number: int, _method: str, _path: str) -> Reply | None:
        asks = "labelSelector" in server.requests[-1][2]
        return failure(400, "BadRequest", "unable to parse requirement: found '', expected: in") if asks else None

    server.intercept = refuses_the_selector
    result = run_action("node_drain", {"node": "n", "wait_for": "app in train", "give_back": give_back})
    assert "unable to parse requirement" in result["msg"]
    assert ("It takes pods again" in result["msg"], result.get("cordoned")) == (give_back, not give_back)
    assert bool(server.objects[NODE]["spec"].get("unschedulable")) is not give_back
