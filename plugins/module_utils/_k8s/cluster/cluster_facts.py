# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an input is held against: nodes with their addresses, and the networks of pods and services."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..api.errors import seen_or_told
from ..api.kinds import Kinds
from ..api.snapshot import fetch_group, get_object, list_objects
from ..api.transport import Connection
from ..objects.gpu_side import GpuNode, gpu_node_of
from ..objects.objects import Json, Key
from .nodes import all_nodes

_SERVICE_CIDR = Key("networking.k8s.io/v1", "ServiceCIDR", "", "")
_API_SERVICE = Key("v1", "Service", "default", "kubernetes")


@dataclass
class ClusterFacts:
    """Addresses and networks as text, each behind its owner's name for people; ``unknown`` says what can't be told.

    ``bodies`` are all nodes as they are, ``runtimes`` those of containers (``containerd://1.7.13``) by node, ``gpus``
    the nodes with GPUs for containers.
    """

    bodies: list[Json] = field(default_factory=list)
    runtimes: dict[str, str] = field(default_factory=dict)
    gpus: list[GpuNode] = field(default_factory=list)
    nodes: list[tuple[str, str]] = field(default_factory=list)
    pods: list[tuple[str, str]] = field(default_factory=list)
    services: list[tuple[str, str]] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def read_cluster_facts(connection: Connection, *, services: bool = True) -> ClusterFacts:
    """Return what the nodes tell, and with ``services`` the ServiceCIDRs or the Service of the API server.

    A CNI plugin with pools of its own leaves the nodes without a network of pods. Who may not look at one of them is
    told so in ``unknown``. Raises ApiFault where the server gives no answer.
    """
    found = ClusterFacts()
    unheld = "folders of CNI programs, node policies and address ranges are not held against the nodes"
    nodes, found.unknown = seen_or_told(lambda: all_nodes(connection), unheld)
    found.bodies = nodes or []
    _add_nodes(found, found.bodies)
    if services:
        unheld = "address ranges are not held against the network of services"
        networks, untold = seen_or_told(lambda: _services(connection), unheld)
        found.services, found.unknown = networks or [], [*found.unknown, *untold]
    return found


def _add_nodes(found: ClusterFacts, nodes: list[Json]) -> None:
    for node in nodes:
        metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
        who, addresses = f"node {metadata['name']}", status.get("addresses") or []
        about = status.get("nodeInfo") or {}
        found.runtimes[metadata["name"]] = str(about.get("containerRuntimeVersion", ""))
        gpus = gpu_node_of(node)
        found.gpus += [gpus] if gpus is not None else []
        found.nodes += [(who, str(each["address"])) for each in addresses if each.get("type") != "Hostname"]
        found.pods += [(who, str(cidr)) for cidr in spec.get("podCIDRs") or []]


def _services(connection: Connection) -> list[tuple[str, str]]:
    """Return the ServiceCIDRs (Kubernetes 1.33 and newer), else the addresses of the API server's own Service."""
    kinds = Kinds(lambda path: fetch_group(connection, path))
    resource = kinds.find(_SERVICE_CIDR)
    if resource is not None:
        return [
            (f"ServiceCIDR {each['metadata']['name']}", str(cidr))
            for each in list_objects(connection, _SERVICE_CIDR, resource, {})
            for cidr in (each.get("spec") or {}).get("cidrs") or []
        ]
    service = get_object(connection, kinds, _API_SERVICE) or {}
    spec = service.get("spec") or {}
    return [(f"Service {_API_SERVICE.name}", str(address)) for address in spec.get("clusterIPs") or []]
