# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where objects hold pods or name networks: kinds of Kubernetes itself, and the jobs and machines of GPU clusters.

Sources, by API group: kubeflow's trainer, training-operator and mpi-operator, Volcano, JobSet, LeaderWorkerSet,
KubeRay, OpenKruise, Argo Rollouts, Knative and KubeVirt (the Go types of each API).
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Tuple, Union

Path = Tuple[Union[str, int], ...]

NETWORKS = "k8s.v1.cni.cncf.io/networks"
"""The annotation by which a pod asks Multus for networks."""

_OF_KUBERNETES = ("", "apps", "batch")
_TEMPLATE = ("spec", "template")
_OWN_TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "Pod": (),
    "CronJob": ("spec", "jobTemplate", *_TEMPLATE),
    **dict.fromkeys(
        ("DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"), _TEMPLATE
    ),
}
"""Where a kind of Kubernetes has its pod."""

_EACH = "*"
_REPLICAS = {
    "JAXJob": "jaxReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
    "MXJob": "mxReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
}
_RAY = (("headGroupSpec", "template"), ("workerGroupSpecs", _EACH, "template"))
_LEADERS = ("spec", "leaderWorkerTemplate")
_JOBS = ("spec", "replicatedJobs", _EACH, "template", *_TEMPLATE)
_OF_OTHERS: Mapping[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    **{("kubeflow.org", kind): (("spec", field, _EACH, "template"),) for kind, field in _REPLICAS.items()},
    ("batch.volcano.sh", "Job"): (("spec", "tasks", _EACH, "template"),),
    ("argoproj.io", "Rollout"): (_TEMPLATE,),
    ("jobset.x-k8s.io", "JobSet"): (_JOBS,),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): (
        (*_LEADERS, "leaderTemplate"),
        (*_LEADERS, "workerTemplate"),
    ),
    ("ray.io", "RayCluster"): tuple(("spec", *path) for path in _RAY),
    ("ray.io", "RayJob"): tuple(("spec", "rayClusterSpec", *path) for path in _RAY),
    ("ray.io", "RayService"): tuple(("spec", "rayClusterConfig", *path) for path in _RAY),
    **{("apps.kruise.io", kind): (_TEMPLATE,) for kind in ("CloneSet", "DaemonSet", "StatefulSet")},
    ("serving.knative.dev", "Service"): (_TEMPLATE,),
    **{
        ("trainer.kubeflow.org", kind): ((*_TEMPLATE, *_JOBS),)
        for kind in ("ClusterTrainingRuntime", "TrainingRuntime")
    },
}
"""Where kinds of other controllers have theirs; ``_EACH`` is any member of a list or mapping."""

_OF_MULTUS = ("networks", _EACH, "multus", "networkName")
_OF_MACHINES: Mapping[str, tuple[str, ...]] = {
    "VirtualMachine": (*_TEMPLATE, "spec", *_OF_MULTUS),
    "VirtualMachineInstance": ("spec", *_OF_MULTUS),
    "VirtualMachineInstanceReplicaSet": (*_TEMPLATE, "spec", *_OF_MULTUS),
    "VirtualMachinePool": ("spec", "virtualMachineTemplate", *_TEMPLATE, "spec", *_OF_MULTUS),
}
"""Where machines of KubeVirt name networks, whose devices it asks for itself."""


def is_of_kubernetes(content: Mapping[str, Any]) -> bool:
    """Tell whether an object is of a kind of Kubernetes itself that runs pods; others have a ``Job`` too."""
    return str(content.get("kind")) in _OWN_TEMPLATES and _group(content) in _OF_KUBERNETES


def pod_templates(content: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """Yield (path, value) of each pod template of an object, whatever stands there; a Pod is its own.

    A kind of Kubernetes always has one, None where it is missing; of another controller's, only those that are given.
    """
    kind = str(content.get("kind"))
    if is_of_kubernetes(content):
        path = _OWN_TEMPLATES[kind]
        yield next(_found(content, path, ()), (path, None))
        return
    for path in _OF_OTHERS.get((_group(content), kind), ()):
        yield from _found(content, path, ())


def is_repeated(content: Mapping[str, Any], path: Path) -> bool:
    """Tell whether an object runs several pods of its template at a path."""
    return content.get("kind") == "DaemonSet" or number_of(content, path) > 1


def number_of(content: Mapping[str, Any], path: Path) -> int:
    """Return how many pods an object runs of its template at a path, by the numbers on the way there.

    Of a DaemonSet, and of kinds with other numbers, it is one.
    """
    value: Any = content
    product = 1
    for step in path[:-1]:
        value = value[step]
        counts = [value.get(key) for key in ("replicas", "parallelism")] if isinstance(value, Mapping) else []
        product *= next((count for count in counts if isinstance(count, int)), 1)
    return product


def networks_of_machines(content: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """Yield (path, value) of each network that a virtual machine names."""
    if _group(content) == "kubevirt.io":
        yield from _found(content, _OF_MACHINES.get(str(content.get("kind")), ("no machine",)), ())


def pods_of(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the spec of each pod that an object runs."""
    specs = [template.get("spec") for _path, template in pod_templates(content) if isinstance(template, Mapping)]
    return [spec for spec in specs if isinstance(spec, dict)]


def _group(content: Mapping[str, Any]) -> str:
    return str(content.get("apiVersion")).rpartition("/")[0]


def _found(value: Any, path: tuple[str, ...], at: Path) -> Iterator[tuple[Path, Any]]:
    if not path:
        yield at, value
    elif path[0] == _EACH:
        members = value.items() if isinstance(value, Mapping) else enumerate(value if isinstance(value, list) else [])
        for key, item in members:
            yield from _found(item, path[1:], (*at, key))
    elif isinstance(value, Mapping) and value.get(path[0]) is not None:
        yield from _found(value[path[0]], path[1:], (*at, path[0]))
