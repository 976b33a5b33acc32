# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes without machines: KWOK keeps every Node with its annotation Ready and its pods Running."""

from __future__ import annotations

import time
from typing import Any, Iterable, Mapping, Sequence
from urllib.parse import quote

from .api import Api, collection_path

ANNOTATION = "kwok.x-k8s.io/node"
ANNOTATION_VALUE = "fake"
NIC_LABEL = {"feature.node.kubernetes.io/pci-15b3.present": "true"}  # of Node Feature Discovery
NOT_READY_TAINT = "node.kubernetes.io/not-ready"
ALLOCATABLE = {"cpu": "64", "memory": "1Ti", "pods": "110", "ephemeral-storage": "1Ti"}
READY_TIMEOUT_SECONDS = 120.0
POLL_SECONDS = 0.1


class NodesNotReady(Exception):
    """Nodes did not become Ready in time; the text names them."""


def kwok_node(
    name: str,
    labels: Mapping[str, str] | None = None,
    *,
    allocatable: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
) -> dict[str, Any]:
    """Give the manifest of one node as a kubelet would register it; ``labels`` come on top of the kubelet's own.

    ``allocatable`` adds to or replaces the usual amounts (resource name -> Kubernetes quantity).
    """
    resources = {**ALLOCATABLE, **(allocatable or {})}
    node: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {ANNOTATION: ANNOTATION_VALUE},
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                **(labels or {}),
            },
        },
        "status": {"allocatable": dict(resources), "capacity": dict(resources)},
    }
    if taints:
        node["spec"] = {"taints": [dict(taint) for taint in taints]}
    return node


def kwok_nodes(names: Iterable[str], labels: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Give the manifests of nodes that all carry ``labels``."""
    return [kwok_node(name, labels) for name in names]


def is_ready(node: Mapping[str, Any]) -> bool:
    """Tell whether a live node is Ready and free of the taint that keeps pods away until then."""
    conditions = node.get("status", {}).get("conditions", [])
    taints = node.get("spec", {}).get("taints", [])
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and not any(taint["key"] == NOT_READY_TAINT for taint in taints)


def register_nodes(api: Api, nodes: Sequence[Mapping[str, Any]]) -> None:
    """Create or update the nodes."""
    for node in nodes:
        api.apply(f"{collection_path('v1', 'nodes')}/{quote(node['metadata']['name'])}", node)


def apply_nodes(api: Api, nodes: Sequence[Mapping[str, Any]], timeout: float = READY_TIMEOUT_SECONDS) -> None:
    """Create or update the nodes and wait until all are Ready."""
    collection = collection_path("v1", "nodes")
    register_nodes(api, nodes)
    pending = {node["metadata"]["name"] for node in nodes}
    deadline = time.monotonic() + timeout
    while True:
        asked = time.monotonic()
        live = api.call("GET", collection)["items"]
        pending -= {node["metadata"]["name"] for node in live if is_ready(node)}
        if not pending:
            return
        if time.monotonic() > deadline:
            raise NodesNotReady(f"not Ready after {timeout:.0f} s: {', '.join(sorted(pending))}")
        # No more than half of the time goes into asking: the list of many nodes is long.
        time.sleep(max(POLL_SECONDS, time.monotonic() - asked))


def delete_nodes(api: Api, names: Iterable[str]) -> None:
    """Delete nodes; those that are not there are passed over."""
    for name in names:
        api.request("DELETE", f"{collection_path('v1', 'nodes')}/{quote(name)}")
