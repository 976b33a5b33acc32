# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a proof of a fabric needs in the cluster: its networks with the resource behind each, and the test pods.

The pods are those of the vendor's walkthroughs: unprivileged but for IPC_LOCK, one device of a shared or exclusive
resource, one secondary network.
"""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from ..checks import devplugin, multus, nad
from ..checks.cni import RESOURCE_NAME
from ..checks.driver_container import policies_of
from ..common import names
from ..common.images import mirrored
from ..common.jsontext import Problem
from ..common.objects import Object, build
from ..common.pods import NETWORKS

COMPONENT = "verify"
RUN_LABEL = "rdma.fabric/run"
NODE_ANNOTATION = "rdma.fabric/node"
# The one node whose pairs a run tests, on the pods of both sides.
PAIRS_ANNOTATION = "rdma.fabric/pairs-of"
# Meshes (Istio, its ambient mode, Linkerd) take over all TCP of a pod, also that of other networks, so that a proxy
# accepts what nobody listens for; that of a sidecar runs on when a job has ended (istio/istio, issues 7182 and 11045).
MESH_LABELS = {"sidecar.istio.io/inject": "false", "istio.io/dataplane-mode": "none"}
MESH_ANNOTATIONS = {"linkerd.io/inject": "disabled"}
CONTAINER = "rdma-test-ctr"
IMAGE = "mellanox/rping-test"
SCRATCH = "/rdma-fabric"
# Quotas of a namespace want cpu and memory of every pod. The requests leave nothing to be scheduled around; the limits
# are beyond what a test takes, which is a core for polling and some buffers.
REQUESTS = {"cpu": "100m", "memory": "128Mi"}
_LIMITS = {"cpu": "4", "memory": "4Gi"}
# The taint of a cordoned node.
_CORDON_TAINT = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
GPU_TAINT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def networks_of(spec: Object) -> list[dict[str, Any]]:
    """Return every network of a FabricSpec, in its order, as the plan of a proof needs it.

    Each is ``{"network": "namespace/name", "namespace", "name", "kind", "plugin", "master", "mtu", "resource",
    "candidates", "plugins", "isolated"}``; ``plugin`` is the type of its first CNI plugin, ``plugins`` are all as they
    are called. ``resource`` is the one a pod asks for to use it: the network's own, or the RDMA shared device plugin's
    for its master; None when several fit (``candidates``) or none does. An isolated one is for pods of its namespace
    alone.
    """
    shared = [(name, _interfaces(item)) for name, item in shared_resources(spec)]
    rendered = [(each["kind"], nad.network_attachment(each)) for each in spec.get("networks") or []]
    rendered += [(nad.KIND, nad.given_attachment(each)) for each in spec.get("attachments") or []]
    found = [_network(kind, attachment, shared) for kind, attachment in rendered]
    opened = multus.open_namespaces(multus.config_of((spec.get("cluster_policy") or {}).get("spec") or {}))
    return [{**each, "isolated": opened is not None and each["namespace"] not in opened} for each in found]


def _network(kind: str, attachment: Object, shared: list[tuple[str, list[str]]]) -> dict[str, Any]:
    metadata = attachment["metadata"]
    plugins = nad.plugins_in((attachment.get("spec") or {}).get("config") or "")
    plugin = plugins[0] if plugins else {}
    own = (metadata.get("annotations") or {}).get(RESOURCE_NAME)
    master = plugin.get("master") if isinstance(plugin.get("master"), str) else None
    fitting = [name for name, interfaces in shared if master in interfaces] or [name for name, _interfaces in shared]
    candidates = [own] if own else list(dict.fromkeys(fitting))
    mtu = plugin.get("mtu")
    return {
        "network": f"{metadata['namespace']}/{metadata['name']}",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "kind": kind,
        "plugin": plugin.get("type"),
        "master": master,
        "mtu": mtu if isinstance(mtu, int) and not isinstance(mtu, bool) and mtu > 0 else None,
        "resource": candidates[0] if len(candidates) == 1 else None,
        "candidates": candidates,
        "plugins": plugins,
    }


def shared_resources(spec: Object) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (name, entry of the configuration) of each resource of the RDMA shared device plugin, of every policy."""
    for policy in policies_of(spec):
        section = policy.get("rdmaSharedDevicePlugin")
        config, problems = devplugin.check_rdma_shared(section.get("config")) if section is not None else ({}, [])
        if config and not problems:
            yield from zip(devplugin.resource_names("rdma_shared", config), config["configList"])


def _interfaces(item: dict[str, Any]) -> list[str]:
    selectors = item.get("selectors") or {}
    return [*(selectors.get("ifNames") or []), *(item.get("devices") or [])]


def test_image(given: str | None, settings: Object) -> str:
    """Return the image of the test pods: the given one, or the usual one through the registry mirrors."""
    return given or mirrored(IMAGE, settings.get("registry_mirrors") or {})


def gpu_problems(resource: str | None, image: str | None) -> list[Problem]:
    """Return why GPU memory can't be tested with pods that have one of ``resource``; nothing where none is asked for.

    The usual image has a perftest without CUDA, and which of the vendor's images has one changes.
    """
    if not resource:
        return []
    no_domain = "" if "/" in resource else "has no domain, so it belongs to no device"
    found = names.label_key(resource) or ([Problem("", no_domain, "such as nvidia.com/gpu")] if no_domain else [])
    if not image:
        step = "give one whose perftest was built with CUDA (rdma_fabric_verify_image)"
        found.append(
            Problem("", "needs an image of the test pods: perftest of the usual one knows no GPU memory", step)
        )
    return found


def pod_name(run: str, network: int, node: int) -> str:
    """Return the name of a test pod: of its run, and of the places of its network and its node in the run's plan."""
    return f"rdma-verify-{run}-{network}-{node}"


def test_pod(
    name: str,
    *,
    run: str,
    node: str,
    namespace: str,
    network: str,
    resources: Sequence[str],
    image: str,
    deadline: int,
    settings: Object,
    tolerations: list[Object],
    command: Sequence[str],
    pairs_of: str = "",
    runtime_class: str = "",
) -> Object:
    """Return one test pod on ``node`` with ``network`` (``namespace/name``) and one of each of ``resources``, that runs
    ``command``.

    It is scheduled, not placed, so that the node's resources are counted; kubelet ends it after ``deadline`` seconds.
    ``pairs_of`` is the one node whose pairs are tested, if so: it may be cordoned. ``runtime_class`` is the name of the
    RuntimeClass that runs the pod, the cluster's usual runtime if empty.
    """
    tolerated = [*tolerations, *([] if GPU_TAINT in tolerations else [GPU_TAINT])]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    amounts = dict.fromkeys(resources, "1")
    container = {
        "name": CONTAINER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(command),
        "resources": {"limits": {**_LIMITS, **amounts}, "requests": {**REQUESTS, **amounts}},
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
        "volumeMounts": [{"name": "scratch", "mountPath": SCRATCH}],
    }
    return build(
        "v1",
        "Pod",
        name,
        COMPONENT,
        namespace=namespace,
        labels={RUN_LABEL: run, **MESH_LABELS},
        annotations={
            **MESH_ANNOTATIONS,
            NETWORKS: network,
            NODE_ANNOTATION: node,
            **({PAIRS_ANNOTATION: pairs_of} if pairs_of else {}),
        },
        spec={
            **({"runtimeClassName": runtime_class} if runtime_class else {}),
            "restartPolicy": "Never",
            "activeDeadlineSeconds": deadline,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "affinity": affinity,
            "tolerations": [*tolerated, *([_CORDON_TAINT] if node == pairs_of else [])],
            "imagePullSecrets": [{"name": each} for each in settings.get("image_pull_secrets") or []],
            "containers": [container],
            # Not an empty mapping: that would be left out as one that says nothing.
            "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "16Mi"}}],
        },
    )
