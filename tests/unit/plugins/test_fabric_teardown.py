# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fabric_teardown on an API server in memory: what pods use stays unless its removal is allowed."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.action import fabric_teardown
from ansible_collections.rdma.fabric.tests.unit._k8s.batch_cases import apply, wave
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, config_map
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    """A server with a set that offers a resource, and a pod that has it."""
    found = FakeServer()
    resources = [{"resourceName": "a", "rdmaHcaMax": 8, "selectors": {"ifNames": ["rail0"]}}]
    devices = {**config_map("devices"), "data": {"config.json": json.dumps({"configList": resources})}}
    apply(found, wave(devices))
    spec = {"nodeName": "n", "containers": [{"name": "c", "resources": {"limits": {"rdma/a": "1"}}}]}
    found.put("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}, "spec": spec})
    monkeypatch.setattr(fabric_teardown.ActionModule, "client", lambda _self, _arguments: found)
    return found


@pytest.mark.parametrize(("options", "is_refused"), [({}, True), ({"allow_in_use": True}, False)])
def test_what_pods_use_is_removed_only_where_that_is_allowed(
    server: FakeServer, options: dict[str, Any], is_refused: bool
) -> None:
    before = copy.deepcopy(server.objects)
    result = run_action("fabric_teardown", {"set": "web", "inventory_namespace": "ns", "wait": False, **options})
    assert bool(result.get("failed")) is is_refused, result
    assert (server.objects == before, ("configmaps", "ns", "devices") in server.objects) == (is_refused, is_refused)
    told = result["msg"] if is_refused else "; ".join(result["notices"])
    assert "1 pod still uses networks or devices of this set: ns/p (resource rdma/a)" in told


def test_check_mode_names_the_pods_and_goes_on(server: FakeServer) -> None:
    before = copy.deepcopy(server.objects)
    result = run_action("fabric_teardown", {"set": "web", "inventory_namespace": "ns"}, check=True)
    assert (result["changed"], server.objects == before) == (True, True), result
    assert "ns/p (resource rdma/a)" in "; ".join(result["notices"])
