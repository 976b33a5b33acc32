# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes that a run stands on, the controller's own and its API server's: they are interrupted only by consent."""

from __future__ import annotations

import socket
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, Collection, Mapping, Sequence
from urllib.parse import urlsplit

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import seen_or_told
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.nodes import all_nodes
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.objects import Json
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import node_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.table import TABLE
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.values import value_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.variable import PREFIX

Variables = Mapping[str, Mapping[str, Any]]

_ALLOW = TABLE[f"{PREFIX}allow_controller_node"]
_RECORDING = f"{PREFIX}recording"
_INTERRUPTIONS = ("reboot", "driver_reload")


def may_be_interrupted(hosts: Sequence[str], spec: Mapping[str, Any]) -> list[str]:
    """Return those of the hosts of a FabricSpec that have a consent to a reboot or a reload of their driver."""
    consents = {host: ((spec.get("hosts") or {}).get(host) or {}).get("consents") or {} for host in hosts}
    return [host for host, given in consents.items() if any(given.get(each) for each in _INTERRUPTIONS)]


def read_api_servers(connection: Connection, server: str) -> tuple[dict[str, str], list[str]]:
    """Return the nodes that run the API server of this address, each with what tells it, and what can't be told.

    Raises ApiFault where the server gives no answer.
    """
    name = urlsplit(server).hostname or ""
    addresses = set()
    with suppress(OSError):
        addresses = {str(each[4][0]) for each in socket.getaddrinfo(name, None)}
    unknown = "whether a host of this run runs the API server is not known"
    found, untold = seen_or_told(lambda: nodes_of_api_server(all_nodes(connection), name, addresses), unknown)
    return found or {}, untold


def foreseen(
    hosts: Sequence[str], variables: Variables, api_servers: Mapping[str, str], *, joins: bool = False
) -> list[str]:
    """Return a notice for each host that will not be interrupted, by what is known before the hosts are read.

    A node that ``joins`` may do so by a run of its own.
    """
    found = []
    for host in hosts:
        own = variables.get(host) or {}
        is_here = not joins and own.get("ansible_connection") == "local" and own.get(_RECORDING) is None
        why = _why(host, own, api_servers, is_here=is_here)
        found += [f"{host}: {why}"] if why else []
    return found


def why_not_interrupted(host: str, variables: Variables, api_servers: Mapping[str, str], *, joins: bool = False) -> str:
    """Return why a host that was read is not to be drained, reloaded or rebooted in this run, with the next step.

    ``joins`` is as for :func:`foreseen`.
    """
    own = variables.get(host) or {}
    is_here = bool((own.get("rdma_fabric_host_result") or {}).get("is_controller")) and not joins
    return _why(host, own, api_servers, is_here=is_here)


def _why(host: str, own: Mapping[str, Any], api_servers: Mapping[str, str], *, is_here: bool) -> str:
    if not (is_here or api_servers):
        return ""
    node = node_of(host, own)
    said = ["this controller"] if is_here else []
    said += [f"the API server ({api_servers[node]})"] if node in api_servers else []
    if not said or value_of(_ALLOW, own.get(_ALLOW.name))[0]:
        return ""
    elsewhere = "run from another machine, or " if is_here else ""
    return (
        f"node {node} runs {' and '.join(said)}, so it is not interrupted: {elsewhere}set {_ALLOW.name}: true for its "
        "host"
    )


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
