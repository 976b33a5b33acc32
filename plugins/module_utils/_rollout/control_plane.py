# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes run the API server that a run talks to: without it the run can't go on."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Collection, Sequence

from .objects import Json

# kubeadm, k3s and RKE2; the second one until Kubernetes 1.24.
_ROLES = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


def nodes_of_api_server(nodes: Sequence[Json], server: str, addresses: Collection[str]) -> dict[str, str]:
    """Return the nodes that run the API server which answers at ``server``, each with what tells it.

    ``server`` is a name or an address, ``addresses`` are those that it stands for. A node that has one of them runs it.
    Where none has, as behind a load balancer or a tunnel, the only node of the control plane does; of several, others
    answer when one is gone.
    """
    own = {_plain(address) for address in (server, *addresses)} - {""}
    found = {}
    for node in nodes:
        matching = sorted(own & _addresses_of(node))
        if matching:
            found[_name(node)] = f"{matching[0]} is its address"
    if found:
        return found
    members = [_name(node) for node in nodes if any(role in (node["metadata"].get("labels") or {}) for role in _ROLES)]
    return {members[0]: "it is the only node of the control plane"} if len(members) == 1 else {}


def _addresses_of(node: Json) -> set[str]:
    return {_plain(str(each.get("address") or "")) for each in (node.get("status") or {}).get("addresses") or []}


def _plain(address: str) -> str:
    """Return an address or a name as equal ones are written; nothing for a loopback address, where tunnels begin."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        name = address.lower().rstrip(".")
        return "" if name == "localhost" else name
    return "" if parsed.is_loopback else str(parsed)


def _name(node: Json) -> str:
    return str(node["metadata"]["name"])
