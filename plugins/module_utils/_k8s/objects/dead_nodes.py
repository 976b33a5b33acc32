# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is a DaemonSet only not ready because of nodes that are not Ready? Pure.

Its status counts such a node as one that is to run a pod if the pod tolerates what the control plane taints it with.
What the kubelet there does not do is nobody's to wait for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from .objects import Json, Key
from .readiness import is_ready

# k8s.io/kubernetes, pkg/controller/daemon/util, IsPodUpdated: the pods of a template have its generation or its hash.
_GENERATION = "deprecated.daemonset.template.generation"
_POD_GENERATION = "pod-template-generation"
_HASH = "controller-revision-hash"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_SHOWN = 5


@dataclass(frozen=True)
class DeadNodes:
    """Nodes that are not Ready and are to run a DaemonSet; whether these ``alone`` keep it from being ready.

    ``rolling``: it replaces its pods, and has not replaced all of them.
    """

    names: tuple[str, ...]
    alone: bool
    rolling: bool


def dead_nodes(daemon_set: Mapping[str, Any], pods: Iterable[Json], ready: Mapping[str, bool]) -> DeadNodes:
    """Judge what a DaemonSet that is not ready lacks, by its pods and by whether each node of the cluster is Ready.

    One that works on no node at all is not excused by nodes that are not Ready.
    """
    own = [pod for pod in pods if _is_of(pod, daemon_set)]
    updated = _updated(daemon_set, own)
    places = {place: False for place in map(node_of, own) if place in ready}
    for pod in updated:
        if is_ready(pod) and not pod["metadata"].get("deletionTimestamp") and node_of(pod) in places:
            places[node_of(pod)] = True
    status = daemon_set.get("status") or {}
    names = tuple(sorted(place for place in places if not ready[place]))
    served = sum(good for place, good in places.items() if ready[place])
    # A pod that is where none is to be is no part of the other counts.
    expected = int(status.get("desiredNumberScheduled") or 0) + int(status.get("numberMisscheduled") or 0)
    working = min(served, int(status.get("numberAvailable") or 0))
    alone = bool(names) and working > 0 and working + len(names) >= expected
    return DeadNodes(names, alone, not _replaces_none(daemon_set))


def node_of(pod: Mapping[str, Any]) -> str:
    """Return the node that a pod is bound to, or that a DaemonSet's pod is to be bound to; empty for any."""
    spec = pod.get("spec") or {}
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    for term in required.get("nodeSelectorTerms") or []:
        for field in term.get("matchFields") or []:
            if field.get("key") == "metadata.name" and field.get("values"):
                return str(field["values"][0])
    return ""


def held_up(reason: str, names: tuple[str, ...]) -> str:
    """Return why a DaemonSet is not ready, and that it may have replaced no more pods because of dead nodes.

    What a dead node runs counts as unavailable (k8s.io/kubernetes, pkg/controller/daemon/update.go, rollingUpdate).
    """
    held = "not Ready, which counts against maxUnavailable and may hold up the other nodes"
    return f"{reason}; {held}: {named(names, _SHOWN)}"


def dead_node_notices(found: Mapping[Key, tuple[str, ...]]) -> list[str]:
    """Return one notice for each group of nodes that are not Ready, with the DaemonSets that lack their pods there."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for key, nodes in found.items():
        groups.setdefault(nodes, []).append(str(key))
    return [
        f"not Ready: {named(nodes, _SHOWN)}: the run did not wait there for pods of {named(keys, _SHOWN)}, which may "
        "not run, or be of an old version; bring these nodes back or remove them from the cluster; then run again"
        for nodes, keys in groups.items()
        if nodes
    ]


def _is_of(pod: Json, daemon_set: Mapping[str, Any]) -> bool:
    uid = daemon_set["metadata"].get("uid")
    return any(owner.get("uid") == uid for owner in pod["metadata"].get("ownerReferences") or [])


def _updated(daemon_set: Mapping[str, Any], pods: list[Json]) -> list[Json]:
    """Return the pods that are provably of the DaemonSet's present template, all where it replaces none."""
    if _replaces_none(daemon_set):
        return pods
    generation = (daemon_set["metadata"].get("annotations") or {}).get(_GENERATION)
    present = {_label(pod, _HASH) for pod in pods if generation and _label(pod, _POD_GENERATION) == generation}
    return [pod for pod in pods if _label(pod, _HASH) in present - {""}]


def _replaces_none(daemon_set: Mapping[str, Any]) -> bool:
    """Tell whether all pods are of the present template already, or are replaced by who deletes them."""
    spec, status = daemon_set.get("spec") or {}, daemon_set.get("status") or {}
    all_are = int(status.get("updatedNumberScheduled") or 0) >= int(status.get("desiredNumberScheduled") or 0)
    return all_are or (spec.get("updateStrategy") or {}).get("type") == "OnDelete"


def _label(pod: Json, name: str) -> str:
    return str((pod["metadata"].get("labels") or {}).get(name) or "")
