# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When is an object ready?

The rules are those of ``kubectl rollout status`` (k8s.io/kubectl/pkg/polymorphichelpers/rollout_status.go), but a
DaemonSet that no node's labels match is ready, with a notice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping


@dataclass(frozen=True)
class Readiness:
    """Whether an object is ready; how many pods it wants and has available; why not; what to say when it is.

    ``lacking`` are nodes that are not Ready, whose pods a DaemonSet that is ready lacks. ``updated`` are the pods of
    the new version.
    """

    ready: bool
    desired: int = 0
    available: int = 0
    reason: str = ""
    notice: str = ""
    lacking: tuple[str, ...] = ()
    updated: int = 0

    @property
    def done(self) -> int:
        """Return how far it is: a number that only grows while pods are replaced, and then become available."""
        return self.updated + (self.available if self.updated >= self.desired else 0)


def readiness(body: Mapping[str, Any]) -> Readiness | None:
    """Return how ready a live object is, or None for a kind that is ready as soon as it is stored."""
    rule = _RULES.get(str(body.get("kind")))
    if rule is None:
        return None
    status = body.get("status") or {}
    if body["kind"] in _WORKLOADS:
        generation = int(body["metadata"].get("generation") or 0)
        if int(status.get("observedGeneration") or 0) < generation:
            return Readiness(False, reason="not yet seen by its controller")
    return rule(body.get("spec") or {}, status)


def is_workload(kind: str) -> bool:
    """Tell whether a kind runs pods that a run waits for."""
    return kind in _WORKLOADS


def condition(status: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return one entry of ``status.conditions``, empty when it is not there."""
    entries = status.get("conditions")
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, Mapping) and entry.get("type") == name:
            return dict(entry)
    return {}


def what_holds(body: Mapping[str, Any]) -> list[str]:
    """Return what keeps an object that is being deleted: its finalizers, and what a namespace says of its content."""
    told = [condition(body.get("status") or {}, f"Namespace{name}") for name in _HELD_BY]
    messages = [str(each.get("message")) for each in told if each.get("status") == "True"]
    return [*((body.get("metadata") or {}).get("finalizers") or []), *messages]


def is_ready(body: Mapping[str, Any]) -> bool:
    """Tell whether the condition Ready of a node or a pod is True."""
    return condition(body.get("status") or {}, "Ready").get("status") == "True"


def _daemon_set(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Readiness:
    desired = int(status.get("desiredNumberScheduled") or 0)
    available = int(status.get("numberAvailable") or 0)
    if desired == 0:
        return Readiness(True, notice=f"runs on no node: {_wanted_nodes(spec)}")
    on_delete = (spec.get("updateStrategy") or {}).get("type") == "OnDelete"
    updated = desired if on_delete else int(status.get("updatedNumberScheduled") or 0)
    reason = ""
    if updated < desired:
        reason = f"{updated} of {desired} pods are of the new version"
    elif available < desired:
        reason = f"{available} of {desired} pods are available"
    return Readiness(not reason, desired, available, reason, updated=updated)


def _wanted_nodes(spec: Mapping[str, Any]) -> str:
    pod = (spec.get("template") or {}).get("spec") or {}
    selector = pod.get("nodeSelector") or {}
    if selector:
        wanted = ", ".join(f"{name}={value}" for name, value in sorted(selector.items()))
        return f"its node selector {wanted} matches none"
    if (pod.get("affinity") or {}).get("nodeAffinity"):
        return "its node affinity matches none"
    return "the cluster has no node for it"


def _replicas(spec: Mapping[str, Any], status: Mapping[str, Any], available: int) -> Readiness:
    replicas = spec.get("replicas")
    desired = 1 if replicas is None else int(replicas)
    updated = int(status.get("updatedReplicas") or 0)
    if updated < desired:
        return Readiness(False, desired, available, f"{updated} of {desired} pods are of the new version")
    if int(status.get("replicas") or 0) > updated:
        return Readiness(False, desired, available, "pods of the old version are still there")
    if available < desired:
        return Readiness(False, desired, available, f"{available} of {desired} pods are available")
    return Readiness(True, desired, available)


def _deployment(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Readiness:
    found = _replicas(spec, status, int(status.get("availableReplicas") or 0))
    progressing = condition(status, "Progressing")
    if not found.ready and progressing.get("reason") == "ProgressDeadlineExceeded":
        reason = f"{found.reason}; {progressing.get('message', 'its progress deadline has passed')}"
        return Readiness(False, found.desired, found.available, reason)
    return found


def _stateful_set(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Readiness:
    if (spec.get("updateStrategy") or {}).get("type") == "OnDelete":
        status = {**status, "updatedReplicas": status.get("replicas")}
    return _replicas(spec, status, int(status.get("readyReplicas") or 0))


def _crd(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Readiness:
    if condition(status, "Established").get("status") == "True":
        return Readiness(True)
    accepted = condition(status, "NamesAccepted")
    if accepted.get("status") == "False":
        return Readiness(False, reason=f"its names are refused: {accepted.get('message', '')}")
    return Readiness(False, reason="not yet established by the API server")


def _namespace(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Readiness:
    phase = str(status.get("phase") or "")
    held = "; ".join(["", *what_holds({"status": status})])
    return Readiness(phase == "Active", reason="" if phase == "Active" else f"its phase is {phase or 'unknown'}{held}")


_RULES = {
    "DaemonSet": _daemon_set,
    "Deployment": _deployment,
    "StatefulSet": _stateful_set,
    "CustomResourceDefinition": _crd,
    "Namespace": _namespace,
}
# k8s.io/api, core/v1: NamespaceConditionType.
_HELD_BY = (
    "DeletionDiscoveryFailure",
    "DeletionGroupVersionParsingFailure",
    "DeletionContentFailure",
    "ContentRemaining",
    "FinalizersRemaining",
)
_WORKLOADS = frozenset(("DaemonSet", "Deployment", "StatefulSet"))
