# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has which addresses: hosts, by what was read of them, and the cluster."""

from __future__ import annotations

from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.overlaps import Neighbours, neighbours
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.cluster_facts import ClusterFacts

Facts = Mapping[str, Any]


def of_read_hosts(facts_of: Mapping[str, Facts]) -> Neighbours:
    """Return the addresses that were read of interfaces, which is done where routes are asked of hosts."""
    found = []
    for host, facts in facts_of.items():
        routing = facts.get("routing") or {}
        read = [*(routing.get("interfaces") or {}).values(), {"addresses": routing.get("uplinks")}]
        texts = [str(text).partition("/")[0] for each in read for text in each.get("addresses") or []]
        found += [(f"host {host}", text) for text in texts]
    return Neighbours(hosts=neighbours(found))


def of_cluster(found: ClusterFacts) -> Neighbours:
    """Return what a cluster tells."""
    return Neighbours(hosts=neighbours(found.nodes), pods=neighbours(found.pods), services=neighbours(found.services))
