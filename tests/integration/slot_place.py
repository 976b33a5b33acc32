# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The slots of one namespace on a real API server, and two nodes that want them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import STATE_LABEL
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import apply_nodes, delete_nodes, kwok_node
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

Json = dict[str, Any]
MERGE = "application/merge-patch+json"


class Place:
    """The slots of one namespace, and two nodes."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self.cluster, self.api, self.namespace = cluster, cluster.api, namespace
        self.first, self.second = f"{namespace}-1", f"{namespace}-2"
        self.leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"

    def slot(self, node: str, *, check: bool = False, **arguments: Any) -> Json:
        given = {"node": node, "namespace": self.namespace, "run": "one", "timeout": 1, **arguments}
        return run_action("node_slot", given, check=check)

    def done(self, node: str, **arguments: Any) -> Json:
        result = self.slot(node, **arguments)
        assert not result.get("failed"), result
        return result

    def refused(self, node: str, **arguments: Any) -> str:
        result = self.slot(node, **arguments)
        assert result.get("failed"), result
        return str(result["msg"])

    def holders(self) -> list[str]:
        live = self.api.call("GET", self.leases)["items"]
        return sorted(lease["spec"].get("holderIdentity") or "" for lease in live)

    def label(self, node: str, state: str | None) -> None:
        change = {"metadata": {"labels": {STATE_LABEL: state}}}
        self.api.call("PATCH", f"/api/v1/nodes/{node}", change, content_type=MERGE)


@contextmanager
def made_place(control_plane: ControlPlane, namespace: str) -> Iterator[Place]:
    """Make the two nodes for a while."""
    found = Place(control_plane, namespace)
    apply_nodes(found.api, [kwok_node(name) for name in (found.first, found.second)])
    try:
        yield found
    finally:
        delete_nodes(found.api, {found.first, found.second})
