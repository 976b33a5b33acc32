# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the rendered DaemonSets run on a node, and which devices their plugins offer there. Pure."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._label_requirements import selects, terms_of

from ..checks.driver_container import DRIVER
from ..checks.nfd_rules import was_labelled
from ..common.features import FEATURES, NIC_LABEL
from ..common.objects import pod_of_workload
from .components.driver_container import POD_LABEL
from .removal import offered_by

Body = Mapping[str, Any]

_LABELLER = "nfd-worker"


class OnNode(NamedTuple):
    """Extended resources, DaemonSets as ``namespace/name``, and why more of them may come, empty where none will."""

    devices: tuple[str, ...]
    daemon_sets: tuple[str, ...]
    undecided: str


def on_node(objects: Sequence[Body], node: Body) -> OnNode:
    """Return what is to run on a node by its labels, and what it is to offer then.

    Selectors of labels by Node Feature Discovery say nothing before it has labelled the node.
    """
    sets = [body for body in objects if body["kind"] == "DaemonSet"]
    chosen = [body for body in sets if selects(pod_of_workload(body), node)]
    maps = [body for body in objects if body["kind"] == "ConfigMap"]
    configs = {f"{body['metadata'].get('namespace')}/{body['metadata']['name']}": body for body in maps}
    devices = {
        name
        for body in chosen
        for volume in pod_of_workload(body).get("volumes") or []
        for name in offered_by(_config_of(body, volume, configs)).resources
    }
    labels = any(body["metadata"]["name"] == _LABELLER for body in sets)
    waits = labels and not was_labelled(node) and any(_is_by_features(pod_of_workload(body)) for body in sets)
    undecided = "Node Feature Discovery has not labelled it" if waits else ""
    return OnNode(tuple(sorted(devices)), tuple(map(_name, chosen)), undecided)


def _config_of(body: Body, volume: Body, configs: Mapping[str, Body]) -> list[Body]:
    name = (volume.get("configMap") or {}).get("name")
    found = configs.get(f"{body['metadata'].get('namespace')}/{name}")
    return [] if found is None else [found]


def _name(body: Body) -> str:
    return f"{body['metadata'].get('namespace')}/{body['metadata']['name']}"


def _is_by_features(pod: Body) -> bool:
    keys = [*(pod.get("nodeSelector") or {})]
    keys += [each["key"] for term in terms_of(pod) for each in term.get("matchExpressions") or []]
    return any(key.startswith(FEATURES) for key in keys)


# On which nodes the driver's container is ready, for the label that device plugins wait for. Pure.
#
# Source: ``controllers/mofed_wait_labels.go`` and ``nicclusterpolicy_controller.go`` of the Network Operator.
READY, WAIT = "false", "true"


def drivers_of(objects: Sequence[Body]) -> list[Body]:
    """Return the DaemonSets of the driver among rendered objects."""
    return [
        each
        for each in objects
        if each["kind"] == "DaemonSet" and POD_LABEL in (each["spec"]["template"]["metadata"].get("labels") or {})
    ]


def waits(drivers: Sequence[Body], nodes: Sequence[Body], pods: Sequence[Body]) -> dict[str, str]:
    """Return the value of the label that each node is to have; nodes of which nothing is known are left out.

    ``pods`` are those of the driver. A node waits while the container of its driver is not ready. One that has no pod
    yet, and is to have one, keeps what it has. A node with a NIC that no DaemonSet is for has no driver to wait for.
    """
    ready: dict[str, bool] = {}
    for pod in pods:
        name = (pod.get("spec") or {}).get("nodeName")
        if name:
            ready[name] = ready.get(name, True) and _is_ready(pod)
    found = {}
    for node in nodes:
        name = str(node["metadata"]["name"])
        if name in ready:
            found[name] = READY if ready[name] else WAIT
        elif _has_nic(node) and not any(selects(each["spec"]["template"]["spec"], node) for each in drivers):
            found[name] = READY
    return found


def _has_nic(node: Body) -> bool:
    return bool((node["metadata"].get("labels") or {}).get(NIC_LABEL) == "true")


def _is_ready(pod: Body) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return any(each.get("name") == DRIVER and each.get("ready") for each in statuses)
