# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pods of Multus and the SR-IOV device plugin on nodes that a run changes, and what these nodes then offer. Pure.

The plugin looks for devices when it starts, and not again (``cmd/sriovdp/main.go`` of sriov-network-device-plugin).
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping, Sequence, Tuple

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.host_devices import offers_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.concerns import CONCERNS
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import PLANNED
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.diagnosis import log_command, pod_reasons
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import Json
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.operators import base_name
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.readiness import is_ready
from ansible_collections.rdma.fabric.plugins.module_utils._needs import SRIOV
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from .needs import devices_of

Body = Mapping[str, Any]
Place = Tuple[str, str]
"""Namespace and name of a DaemonSet."""
Plugins = Mapping[Place, Body]

_LABEL = ("app", "sriovdp")
POD_SELECTOR = "=".join(_LABEL)
"""The label of the plugin's pods, ours as upstream's (``_fabric/rendering/components/device_plugins.py``)."""
_MOST_TOLD = 6
_COMPONENT = "app.kubernetes.io/component"
# It finds functions by the names of their ports, too, which take a driver's reload or as little as one.
_CHANGES = tuple(f"{name}:" for name, each in CONCERNS.items() if each.renews_vfs or each.asks_reload)


def is_renewed(result: Body, plan: Body, *, check: bool) -> bool:
    """Tell whether what ``rdma_host`` registered changes which functions the plugin finds; with ``check``, would."""
    steps = [each["id"] for each in result.get("executed") or ()]
    if check and not result.get("recorded"):
        steps += [each["id"] for each in plan.get("steps") or () if each["status"] == PLANNED]
    return any(str(step).startswith(_CHANGES) for step in steps)


def is_plugin(pod: Body) -> bool:
    """Tell whether a pod is the plugin's, whoever has pushed it."""
    return _LABEL in (pod["metadata"].get("labels") or {}).items() and not pod["metadata"].get("deletionTimestamp")


def unready_multus(pods: Iterable[Body]) -> list[str]:
    """Return that Multus is not ready on a node with these pods.

    As it ends it takes its configuration away, and a pod that starts before it is back has none of its networks, which
    nothing tells (k8snetworkplumbingwg/multus-cni, issues 1387 and 1527).
    """
    waiting = [
        str(pod["metadata"]["name"])
        for pod in pods
        if any("multus" in base_name(str(each.get("image"))) for each in pod["spec"]["containers"])
        and (not is_ready(pod) or pod["metadata"].get("deletionTimestamp"))
    ]
    return [f"Multus is not ready on it, and pods would start without their networks ({named(waiting)})"] * bool(
        waiting
    )


def plugins_of(objects: Sequence[Body]) -> dict[Place, Body]:
    """Return the DaemonSets of the plugin among rendered objects, by namespace and name."""
    return {
        (str(each["metadata"]["namespace"]), str(each["metadata"]["name"])): each
        for each in objects
        if each["kind"] == "DaemonSet" and (each["metadata"].get("labels") or {}).get(_COMPONENT) == SRIOV
    }


def rolled_out(rows: Sequence[Body]) -> set[Place]:
    """Return the DaemonSets whose pods a batch replaces or has replaced, by the rows of its result."""
    return {
        (str(row["namespace"]), str(row["name"]))
        for row in rows
        if row["kind"] == "DaemonSet"
        and (row["action"] == "created" or any(field.startswith("spec.template") for field in row["fields"]))
    }


def pods_of(pods: Sequence[Json], plugins: Plugins) -> Iterator[tuple[Place, Json]]:
    """Yield the pods that run or start, each with the DaemonSet that it is of."""
    for pod in pods:
        metadata = pod["metadata"]
        for owner in metadata.get("ownerReferences") or ():
            place = (str(metadata["namespace"]), str(owner.get("name")))
            if owner.get("kind") == "DaemonSet" and place in plugins and not metadata.get("deletionTimestamp"):
                yield place, pod


def stale_offers(
    objects: Sequence[Body], documents: Iterable[Body], nodes: Sequence[Body], node_of: Mapping[str, str]
) -> list[str]:
    """Return that nodes offer other numbers of devices than their hosts have, with the next step, where they do.

    So it is after a run that ended between a host and the plugin's pod there. ``node_of`` has the node of each host.
    Hosts whose functions are still to be changed are left out.
    """
    plugins = plugins_of(objects)
    given = offers_of(objects) if plugins else []
    offers = {str(node["metadata"]["name"]): (node.get("status") or {}).get("allocatable") or {} for node in nodes}
    found: dict[str, list[str]] = {}
    for document in documents if plugins else ():
        node = node_of[document["host"]]
        if is_renewed({}, document["plan"], check=True):
            continue
        for name, count in sorted(devices_of(given, document).items()):
            there = offers.get(node, {}).get(name)
            if there is not None and str(there) != str(count):
                found.setdefault(f"{name} {there} in place of {count}", []).append(node)
    if not found:
        return []
    said = named([f"{what} on {named(sorted(names), _MOST_TOLD)}" for what, names in found.items()], _MOST_TOLD)
    (namespace, _name), node = next(iter(plugins)), min(next(iter(found.values())))
    command = f"kubectl delete pod --namespace={namespace} --selector={POD_SELECTOR}"
    return [
        f"nodes offer other devices than their hosts have: {said}; next: have the device plugin look again "
        f"({command} --field-selector=spec.nodeName={node})"
    ]


def what_is_missing(node: Body, pods: Sequence[Body], wanted: Mapping[str, int]) -> str:
    """Return why a node does not offer what it is to yet, empty where it does; ``pods`` are its pods of the plugin."""
    unready = [pod for pod in pods if not is_ready(pod)]
    if not pods or unready:
        told = [*filter(None, [*(each for pod in unready for each in pod_reasons(pod)), *map(log_command, unready)])]
        return f"no pod of the device plugin is ready there{': ' if told else ''}{'; '.join(told)}"
    there = (node.get("status") or {}).get("allocatable") or {}
    short = [
        f"{name} {there.get(name, 'nothing')}, expected {count}"
        for name, count in sorted(wanted.items())
        if str(there.get(name, "0")) != str(count)
    ]
    log = f"kubectl logs --namespace={pods[0]['metadata']['namespace']} {pods[0]['metadata']['name']}"
    return f"it offers {' and '.join(short)} ({log} says what the plugin has found)" if short else ""
