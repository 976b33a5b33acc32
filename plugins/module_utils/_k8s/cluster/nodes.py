# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests about nodes and the pods on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Mapping, TypeVar

from ..api.answers import checked_object, checked_pods
from ..api.errors import ApiFault, Fault
from ..api.kinds import PODS, Resource, object_path
from ..api.snapshot import list_objects
from ..api.transport import Connection, Patience
from ..objects.objects import MANAGER, Json, Key
from .leases import delete_as_read

_NODES = Resource("nodes", False)
_DAEMON_SETS = Resource("daemonsets", True)
# The drain decides when an eviction is asked for again.
_ONCE = Patience(total=0.0)
# Somebody else may write to a node between reading it and writing to it.
_MOST_WRITES = 10
Written = TypeVar("Written")


def read_node(connection: Connection, name: str) -> Json | None:
    """Return a node, None when there is none of this name."""
    return _read(connection, Key("v1", "Node", "", name), _NODES)


def labelled_nodes(connection: Connection, selector: str) -> list[Json]:
    """Return the nodes that a label selector takes, as the API server has them in memory.

    That is what every controller acts on. A server that may not answer from memory has to bring itself up to date
    first, which takes tenths of a second while anything is written to the cluster.
    """
    selectors = {"labelSelector": selector, "resourceVersion": "0"}
    return list_objects(connection, Key("v1", "Node", "", ""), _NODES, selectors)


def cordoned_nodes(connection: Connection) -> list[Json]:
    """Return the nodes that take no new pods, as the API server has them in memory."""
    selectors = {"fieldSelector": "spec.unschedulable=true", "resourceVersion": "0"}
    return list_objects(connection, Key("v1", "Node", "", ""), _NODES, selectors)


def patch_node(connection: Connection, name: str, patch: Mapping[str, object], *, dry_run: bool = False) -> Json | None:
    """Merge a patch into a node; None when it is gone, or another one than that of the patch's resourceVersion."""
    key = Key("v1", "Node", "", name)
    query = {"fieldManager": "rdma.fabric", **({"dryRun": "All"} if dry_run else {})}
    try:
        body = connection.request(
            "patch",
            object_path(key, _NODES),
            what=str(key),
            query=query,
            body=patch,
            content_type="application/merge-patch+json",
        )[1]
    except ApiFault as fault:
        # Nodes of a cloud go at any moment, also between a LIST and the write.
        if fault.fault not in (Fault.CONFLICT, Fault.NOT_FOUND):
            raise
        return None
    return checked_object(body, key, f"patch {key}")


def write_node(
    connection: Connection, name: str, attempt: Callable[[Json], Written | None], node: Json | None = None
) -> Written | None:
    """Return what ``attempt`` makes of a node as it is now, beginning with ``node`` where it was read already.

    ``attempt`` returns None where somebody else wrote to the node in between: it is read again then. None when the node
    is gone. Raises ApiFault, also when somebody else is always first.
    """
    live = node
    for _attempt in range(_MOST_WRITES):
        live = live or read_node(connection, name)
        if live is None:
            return None
        done = attempt(live)
        if done is not None:
            return done
        live = None
    raise ApiFault(
        Fault.CONFLICT,
        f"node {name} was changed by somebody else at each of {_MOST_WRITES} writes",
        hint=f"see who writes to it (kubectl get node {name} --show-managed-fields -o yaml), then run again",
    )


def apply_labels(connection: Connection, name: str, uid: str, labels: Mapping[str, str]) -> Json | None:
    """Apply labels of a node, by server-side apply, which takes away those that this collection applied before.

    None when the node is another one now (of another ``uid``), is gone, or has such a label from somebody else by now.
    """
    key = Key("v1", "Node", "", name)
    # With the uid no node is made where there is none.
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": uid, "labels": dict(labels)}}
    try:
        answer = connection.request(
            "patch",
            object_path(key, _NODES),
            what=str(key),
            query={"fieldManager": MANAGER, "force": "false"},
            body=body,
            content_type="application/apply-patch+yaml",
        )[1]
    except ApiFault as fault:
        # A node that was made anew has another uid, which can't be changed.
        if fault.fault is not Fault.CONFLICT and "metadata.uid" not in fault.message:
            raise
        return None
    return checked_object(answer, key, f"patch {key}")


def pods_on(connection: Connection, node: str, selector: str = "", *, recent: bool = False) -> list[Json]:
    """Return the pods that are bound to a node, those that a label selector takes where one is given.

    What is ``recent`` comes out of the API server's memory, where it has the pods by node. Else servers before 1.31
    read the pods of the whole cluster from etcd for it (k8s.io/apiserver, storage/cacher, shouldDelegateList).
    """
    selectors = {"fieldSelector": f"spec.nodeName={node}", **({"labelSelector": selector} if selector else {})}
    if recent:
        selectors["resourceVersion"] = "0"
    pods = list_objects(connection, Key("v1", "Pod", "", ""), PODS, selectors)
    return checked_pods(pods, node, f"list pods on node {node}")


def all_nodes(connection: Connection) -> list[Json]:
    """Return every node of the cluster."""
    return list_objects(connection, Key("v1", "Node", "", ""), _NODES, {})


def all_pods(connection: Connection) -> list[Json]:
    """Return the pods of all namespaces."""
    return list_objects(connection, Key("v1", "Pod", "", ""), PODS, {})


def labelled_pods(connection: Connection, label: str) -> list[Json]:
    """Return the pods of all namespaces that have a label."""
    return list_objects(connection, Key("v1", "Pod", "", ""), PODS, {"labelSelector": label})


def has_daemon_set(connection: Connection, namespace: str, name: str) -> bool:
    """Tell whether a DaemonSet is there."""
    return _read(connection, Key("apps/v1", "DaemonSet", namespace, name), _DAEMON_SETS) is not None


def evict_pod(connection: Connection, namespace: str, name: str, uid: str, *, dry_run: bool = False) -> None:
    """Ask once for the eviction of the pod of this uid. Raises :class:`ApiFault` with what refuses it."""
    key = Key("v1", "Pod", namespace, name)
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    replace(connection, patience=_ONCE).request(
        "post",
        f"{object_path(key, PODS)}/eviction",
        what=f"eviction of {key}",
        query={"dryRun": "All"} if dry_run else None,
        body=body,
        content_type="application/json",
    )


def delete_pod(connection: Connection, pod: Json, *, dry_run: bool = False) -> None:
    """Delete exactly this pod, where it is still there. Raises :class:`ApiFault`."""
    delete_as_read(connection, pod, PODS, dry_run=dry_run)


def _read(connection: Connection, key: Key, resource: Resource) -> Json | None:
    try:
        body = connection.request("get", object_path(key, resource), what=str(key))[1]
    except ApiFault as fault:
        if fault.fault is not Fault.NOT_FOUND:
            raise
        return None
    return checked_object(body, key, f"get {key}")
