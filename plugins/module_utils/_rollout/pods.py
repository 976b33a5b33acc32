# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods of a node have to leave it, which stay, and which forbid the drain.

The rules for DaemonSet, mirror, finished, unmanaged and emptyDir pods are those of kubectl (pkg/drain/filters.go), the
label that keeps a pod from being drained is that of NVIDIA's upgrade library. What holds a device is judged here, as a
change of a driver or a firmware takes nothing from the other pods; a reboot ends them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Callable, Iterable, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._label_requirements import tolerates

from .objects import Json

EVICT = "evict"
STAY = "stay"
REFUSE = "refuse"

# What a wire test makes and ends by itself (_fabric/rendering/proof_pods); nothing is lost with it.
TEST_POD = {"app.kubernetes.io/managed-by": "rdma-fabric", "app.kubernetes.io/component": "verify"}
SKIP_LABEL = "nvidia.com/ofed-driver-upgrade-drain.skip"
MIRROR = "kubernetes.io/config.mirror"
NETWORKS = ("k8s.v1.cni.cncf.io/networks", "v1.multus-cni.io/default-network")
_VERBS_DEVICES = "/dev/infiniband"
_CONTAINERS = ("containers", "initContainers")
FINISHED = ("Succeeded", "Failed")
_CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
# What a pod has that asks for none (k8s.io/api, core/v1).
_USUAL_GRACE = 30


@dataclass(frozen=True)
class DrainOptions:
    """What a drain is asked for.

    ``everything`` takes every pod, not only those that hold devices; ``resources`` are patterns of the names of
    extended resources, ``selected`` the uids of the pods that a label selector takes, None without one. With uids in
    ``restarts`` it is about these pods of DaemonSets alone: their controllers replace them.
    """

    everything: bool = False
    resources: tuple[str, ...] = ()
    force: bool = False
    delete_empty_dir: bool = False
    selected: frozenset[str] | None = None
    restarts: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Verdict:
    """What becomes of one pod, and why; ``uid`` tells it from another one of the same name.

    ``keeps`` is what one that stays for its DaemonSet holds all the same, ``grace`` the seconds that a pod may take to
    end. With ``returns`` its controller may put it on the cordoned node again, as it tolerates the taint of a cordon.
    """

    namespace: str
    name: str
    uid: str
    action: str
    reason: str
    ending: bool = False
    keeps: str = ""
    grace: int = 0
    returns: bool = False

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    def may_outlast(self, limit: float) -> bool:
        """Tell whether a pod that has to leave asks for more seconds to end than the limit."""
        return self.action == EVICT and self.grace > max(limit, _USUAL_GRACE)


def judge(pods: Iterable[Json], options: DrainOptions, has_daemon_set: Callable[[str, str], bool]) -> list[Verdict]:
    """Return a verdict on each pod, by namespace and name; ``has_daemon_set`` is asked for (namespace, name)."""
    verdicts = [_verdict(pod, options, has_daemon_set) for pod in pods]
    return sorted(verdicts, key=lambda verdict: (verdict.namespace, verdict.name))


def _verdict(pod: Json, options: DrainOptions, has_daemon_set: Callable[[str, str], bool]) -> Verdict:
    metadata = pod["metadata"]
    action, reason, keeps = _decide(pod, options, has_daemon_set)
    return Verdict(
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata["name"]),
        uid=str(metadata["uid"]),
        action=action,
        reason=reason,
        ending=bool(metadata.get("deletionTimestamp")),
        keeps=keeps,
        grace=int((pod.get("spec") or {}).get("terminationGracePeriodSeconds") or 0),
        returns=action == EVICT and _may_return(pod),
    )


def _may_return(pod: Json) -> bool:
    tolerations = (pod.get("spec") or {}).get("tolerations") or []
    kind = controller_of(pod).get("kind")
    return bool(kind) and kind != "DaemonSet" and any(tolerates(each, _CORDON) for each in tolerations)


def _decide(pod: Json, options: DrainOptions, has_daemon_set: Callable[[str, str], bool]) -> tuple[str, str, str]:
    """Return what becomes of a pod, why, and what it holds all the same."""
    held = "every pod has to leave" if options.everything else what_it_holds(pod, options.resources)
    if not held and pod["metadata"]["uid"] in options.restarts:
        held = "it offers the devices that were there when it started"
    stays = _why_it_stays(pod, options, held)
    if stays:
        return STAY, stays, ""
    if _has_finished(pod):
        return EVICT, "it has finished", ""
    metadata, owner = pod["metadata"], controller_of(pod)
    of_daemon_set = owner.get("kind") == "DaemonSet" and str(owner.get("apiVersion", "")).startswith("apps/")
    if of_daemon_set and has_daemon_set(str(metadata.get("namespace") or ""), str(owner.get("name"))):
        if metadata["uid"] in options.restarts:
            return EVICT, held, ""
        returns = f"the DaemonSet {owner.get('name')} would bring it back at once"
        return STAY, returns, what_it_holds(pod, options.resources)
    forbids = _why_it_forbids(pod, options, owner, orphan=of_daemon_set)
    if forbids and not metadata.get("deletionTimestamp"):
        return REFUSE, forbids, ""
    return EVICT, held, ""


def _why_it_stays(pod: Json, options: DrainOptions, held: str) -> str:
    """Return why a pod stays whatever controls it, or an empty string."""
    metadata = pod["metadata"]
    if MIRROR in (metadata.get("annotations") or {}):
        return "it is a static pod of the kubelet"
    if (metadata.get("labels") or {}).get(SKIP_LABEL) == "true":
        return f"its label {SKIP_LABEL} says so"
    if options.selected is not None and metadata["uid"] not in options.selected:
        return "the pod selector does not take it"
    if options.restarts and controller_of(pod).get("kind") != "DaemonSet":
        return "it is of no DaemonSet"
    if not held:
        return "it holds no RDMA device, GPU or secondary network"
    return "it has finished and no longer holds anything" if _has_finished(pod) and not options.everything else ""


def _why_it_forbids(pod: Json, options: DrainOptions, owner: Json, *, orphan: bool) -> str:
    """Return what evicting a pod would lose that nobody has allowed to lose, or an empty string."""
    if is_test_pod(pod):
        return ""
    if orphan and not options.force:
        return f"its DaemonSet {owner.get('name')} is gone, so nothing recreates it (force: true evicts it)"
    if _has_empty_dir(pod) and not options.delete_empty_dir:
        return "the data in its emptyDir volumes would be lost (delete_empty_dir: true evicts it)"
    if not owner and not options.force:
        return "it has no controller, so nothing recreates it elsewhere (force: true evicts it)"
    return ""


def what_it_holds(pod: Json, resources: Iterable[str]) -> str:
    """Return what a pod holds that a change of the node would take away from it, or an empty string."""
    spec, annotations = pod.get("spec") or {}, pod["metadata"].get("annotations") or {}
    patterns = tuple(resources)
    for name in sorted(asked_for(spec)):
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            return f"it has the resource {name}"
    if spec.get("resourceClaims"):
        return "it has a device by a ResourceClaim"
    for key in NETWORKS:
        if str(annotations.get(key) or "").strip() not in ("", "[]"):
            return f"it is on the network {str(annotations[key]).strip():.80}"
    for volume in spec.get("volumes") or []:
        path = str((volume.get("hostPath") or {}).get("path") or "").rstrip("/")
        if path == _VERBS_DEVICES or path.startswith(f"{_VERBS_DEVICES}/"):
            return f"it has {path} of the node"
    return ""


def consumers(pods: Iterable[Json], resources: Iterable[str]) -> dict[str, list[str]]:
    """Return the pods (``namespace/name``) that hold devices or secondary networks, by node; those of DaemonSets serve
    the node.
    """
    found: dict[str, list[str]] = {}
    patterns = tuple(resources)
    for pod in pods:
        node = str((pod.get("spec") or {}).get("nodeName") or "")
        serves = _has_finished(pod) or controller_of(pod).get("kind") == "DaemonSet"
        if node and not serves and what_it_holds(pod, patterns):
            found.setdefault(node, []).append(f"{pod['metadata'].get('namespace')}/{pod['metadata']['name']}")
    return found


def is_test_pod(pod: Json) -> bool:
    """Say whether a pod is one of a proof, whichever run has made it."""
    return TEST_POD.items() <= (pod["metadata"].get("labels") or {}).items()


def controller_of(pod: Json) -> Json:
    """Return the owner reference to the controller of a pod, empty without one."""
    for owner in pod["metadata"].get("ownerReferences") or []:
        if owner.get("controller"):
            found: Json = owner
            return found
    return {}


def asked_for(spec: Json) -> set[str]:
    """Return the names of the resources of all containers, of which more than none is asked for."""
    return {
        str(name)
        for kind in _CONTAINERS
        for container in spec.get(kind) or []
        for amounts in (container.get("resources") or {}).values()
        if isinstance(amounts, Mapping)
        for name, amount in amounts.items()
        if str(amount) != "0"
    }


def _has_finished(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in FINISHED


def _has_empty_dir(pod: Json) -> bool:
    return any(volume.get("emptyDir") is not None for volume in (pod.get("spec") or {}).get("volumes") or [])
