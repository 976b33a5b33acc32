# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The groups of nodes that the driver's container runs on, by what was read of hosts in a run. Pure."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, NamedTuple

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.driver_container import (
    IDENTITY,
    NODES,
    groups_of,
    lacks_nodes,
    wants_container,
)
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.variable import PREFIX

from .variables import labels_read

_MOST_NAMED = 10
_HINT = f"give the groups of nodes in {PREFIX}{NODES}"


class Placed(NamedTuple):
    """A FabricSpec with the groups of nodes that were read; ``unread`` are the hosts whose groups are not known."""

    spec: dict[str, Any]
    unread: list[str]


def placed(spec: Mapping[str, Any], variables: Mapping[str, Mapping[str, Any]]) -> Placed:
    """Return a FabricSpec with the groups of the nodes whose hosts were read.

    ``variables`` are those of the inventory's hosts, with what ``rdma_host`` registered. Nothing is added where no
    container of a driver is asked for, or its groups are given.
    """
    if not lacks_nodes(spec):
        return Placed(dict(spec), [])
    read = _read_labels(spec, variables)
    unread = [host for host in spec.get("hosts") or {} if host not in read]
    return Placed({**spec, NODES: groups_of(read.values())}, unread)


def left_out(spec: Mapping[str, Any], variables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return one notice of hosts that were read and whose nodes are of none of the groups that were given."""
    given = (spec.get("settings") or {}).get(NODES)
    if not given or not wants_container(spec):
        return []
    known = [{name: group[name] for name in IDENTITY} for group in given]
    read = _read_labels(spec, variables)
    hosts = [host for host, labels in read.items() if any(group not in known for group in groups_of([labels]))]
    if not hosts:
        return []
    return [
        f"no group of {PREFIX}{NODES} is for the nodes of {named(hosts, _MOST_NAMED)}: they keep the kernel's own "
        "driver (next: add theirs, or leave the variable out)"
    ]


def whole(spec: Mapping[str, Any], variables: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Any], str]:
    """Return the same FabricSpec, and why it is not known where the driver's container runs; empty where it is."""
    found = placed(spec, variables)
    return found.spec, why_unplaced(spec, found.unread)


def why_unplaced(spec: Mapping[str, Any], unread: Iterable[str]) -> str:
    """Return why it is not known on which nodes the driver's container runs; empty where it is."""
    if not lacks_nodes(spec):
        return ""
    missing = list(unread)
    if missing:
        return (
            f"on which nodes the driver's container runs depends on their hosts, and these were not read: "
            f"{named(missing, _MOST_NAMED)}; the DaemonSets of their nodes would be removed (next: {_HINT}, or run "
            "without a limit)"
        )
    if not spec.get("hosts"):
        return f"on which nodes the driver's container runs is not known: the input has no host (next: {_HINT})"
    return ""


def _read_labels(spec: Mapping[str, Any], variables: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the labels of the node of each host that was read, those of its variables among them."""
    hosts = spec.get("hosts") or {}
    found = {host: labels_read(variables.get(host) or {}) for host in hosts}
    own = {host: (hosts[host] or {}).get("node_labels") or {} for host in hosts}
    return {host: {**labels, **own[host]} for host, labels in found.items() if labels}
