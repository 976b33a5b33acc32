# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The neighbours of a node in a real cluster, each asked for by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster import leases, nodes
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import GROUP_LABEL, slot_of


@dataclass(frozen=True)
class NeighbourCluster:
    """Nodes, pods and slots; see ``_node_proof.Cluster``. The slots of every group in ``namespace`` count."""

    connection: Connection
    namespace: str

    def node(self, name: str) -> dict[str, Any] | None:
        """Return a node, None where there is none of this name. Raises ApiFault."""
        return nodes.read_node(self.connection, name)

    def pods_on(self, name: str) -> list[dict[str, Any]]:
        """Return the pods on a node. Raises ApiFault."""
        return nodes.pods_on(self.connection, name)

    def slots(self) -> frozenset[str]:
        """Return the nodes that have a slot. Raises ApiFault."""
        found = leases.leases_of(self.connection, self.namespace, GROUP_LABEL).read()
        slots = [slot_of(lease, str(lease["metadata"]["labels"][GROUP_LABEL])) for lease in found]
        return frozenset(slot.node for slot in slots if slot is not None and slot.node)
