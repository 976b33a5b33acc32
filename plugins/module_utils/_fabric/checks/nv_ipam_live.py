# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools of nv-ipam beside the nodes of a cluster: whose part a change takes, and for whom one is kept for nobody."""

from __future__ import annotations

from typing import Any, Collection, Iterable, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from .nv_ipam import entries
from .nv_ipam_parts import losing_nodes

_GROUP = "nv-ipam.nvidia.com/"
_POOLS = ("IPPool", "CIDRPool")
_MOST_NAMED = 6


def moved_parts(changes: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[str]:
    """Return a notice for each pool whose change takes from nodes the part that they have.

    ``changes`` are live objects with what becomes of them. The daemons of nodes know of the pods of their own node
    only, so nothing keeps an address from the node that gets it next.
    """
    found = []
    for before, after in changes:
        kind = str(before.get("kind"))
        if kind not in _POOLS or not str(before.get("apiVersion")).startswith(_GROUP):
            continue
        nodes = losing_nodes(kind, after["spec"], (before.get("status") or {}).get("allocations") or [])
        if nodes:
            pool = f"{kind} {before['metadata'].get('namespace')}/{before['metadata']['name']}"
            found.append(
                f"{pool}: the change moves nodes to other addresses ({named(nodes, _MOST_NAMED)}). "
                "Pods that run keep theirs, and nv-ipam gives these to pods of other nodes, too (next: make a pool of "
                "another name, or end the pods on its networks first)"
            )
    return found


def names_nodes(pools: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a pool ``{"kind", "name", "spec"}`` keeps a part for a node by its name."""
    return any(_named_nodes(pool["spec"]) for pool in pools)


def absent_nodes(pools: Iterable[Mapping[str, Any]], nodes: Collection[str]) -> list[str]:
    """Return a notice for each pool that keeps parts for nodes which the cluster does not have; ``nodes`` are its own.

    The controller gives such a part to nobody, and the node that was meant gets any other one
    (``getNewAllocationForNode`` of nvidia-k8s-ipam, ``pkg/ipam-controller/controllers/cidrpool``).
    """
    found = []
    for pool in pools:
        absent = [node for node in _named_nodes(pool["spec"]) if node not in nodes]
        if absent:
            found.append(
                f"{pool['kind']} {pool['name']}: staticAllocations keep parts for {named(absent, _MOST_NAMED)}, and "
                "the cluster has no node of that name: no node gets them (fine for nodes that join later; next: "
                "kubectl get nodes shows the names)"
            )
    return found


def _named_nodes(spec: Mapping[str, Any]) -> list[str]:
    return [str(entry["nodeName"]) for _where, entry in entries(spec, "staticAllocations") if entry.get("nodeName")]
