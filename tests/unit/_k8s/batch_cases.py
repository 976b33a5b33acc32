# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of the batch share: a set of objects, and short ways to apply it and to look at the outcome."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.batch import run
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchRequest, BatchResult
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import (
    FakeServer,
    FakeTime,
    config_map,
    connect,
    daemon_set,
)

INVENTORY = "ConfigMap ns/rdma-fabric-web"


def wave(*objects: Any, name: str = "w") -> dict[str, Any]:
    return {"name": name, "objects": list(objects)}


BASE = (wave(config_map("a"), config_map("b")), wave(daemon_set("d"), name="workloads"))


def apply(server: FakeServer, *waves: dict[str, Any], **options: Any) -> BatchResult:
    given = {"set_name": "web", "inventory_namespace": "ns", "wait": False, **options}
    return run(connect(server, FakeTime()), BatchRequest(waves=list(waves), **given))


def actions(result: BatchResult) -> dict[str, str]:
    return {str(change.key): change.action for change in result.changes}


def label(server: FakeServer, name: str, value: str | None) -> None:
    """Change or remove the set label of a ConfigMap as somebody else would."""
    labels = server.objects[("configmaps", "ns", name)]["metadata"]["labels"]
    if value is None:
        del labels["rdma.fabric/set"]
    else:
        labels["rdma.fabric/set"] = value


def recorded(server: FakeServer) -> list[str]:
    """Return the names in the inventory."""
    data = server.objects[("configmaps", "ns", "rdma-fabric-web")]["data"]
    return [entry["name"] for entry in json.loads(data["objects"])]


class Establishing:
    """Lets the server establish the CRD of ``Thing`` only after some more LISTs."""

    def __init__(self, server: FakeServer, after_lists: int) -> None:
        self.server = server
        self.left = after_lists
        server.on_list = self.listed

    def listed(self, plural: str) -> None:
        crd = self.server.objects.get(("customresourcedefinitions", "", "things.example.com"))
        if plural != "customresourcedefinitions" or crd is None:
            return
        self.left -= 1
        if self.left < 0:
            self.server.plurals["things"] = "Thing"
            crd["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
