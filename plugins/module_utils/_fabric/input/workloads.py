# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods, Jobs and other workloads that come with a fabric's input: flaws that would keep them from the fabric.

They are of Kubernetes itself, or of a job controller of GPU clusters (MPIJob, Volcano, JobSet and their like), and are
pushed as they are; what the API server refuses is mostly left to it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import described, mismatch, nearest, shown

from ..checks import nad
from ..common.findings import Place
from ..common.names import label_key, label_value
from ..common.objects import mapping_of
from ..common.pods import NETWORKS, Path, is_of_kubernetes, is_repeated, networks_of_machines, number_of, pod_templates
from ..common.quantities import parse_quantity
from ..common.schema import missing_blank
from . import attachments
from .resources import Resource

# Annotations by which a pod asks Multus for networks, and where one without a namespace is looked for: in the pod's, or
# for the network in the place of the cluster's in that of Multus (k8snetworkplumbingwg/multus-cni, pkg/k8sclient and
# pkg/types/conf.go).
_ASKING = {NETWORKS: None, "v1.multus-cni.io/default-network": "kube-system"}
_LOCKING = frozenset({"IPC_LOCK", "CAP_IPC_LOCK"})
_MASTER = re.compile(r"--(?:rdzv[_-]endpoint|master[_-]addr)(?:[ =]|$)([^\s:]*)", re.ASCII)


@dataclass(frozen=True)
class Surroundings:
    """What else the input holds: offered device ``resources``, Service names, and ``networks`` by ``namespace/name``.

    A network has the device resource that its pods need, or an empty text. Those of ``open_namespaces`` are for pods of
    every namespace, others of their own; None where all are for all. ``without_functions`` are the kind, namespace and
    name of claims that bring no device of a network. Of networks ``once`` a pod gets one interface.
    """

    networks: Mapping[str, str]
    resources: Sequence[str]
    services: Sequence[str]
    open_namespaces: Sequence[str] | None = None
    without_functions: frozenset[tuple[str, str, str]] = frozenset()
    once: frozenset[str] = frozenset()
    plain: frozenset[str] = frozenset()


def check_workload(resource: Resource, around: Surroundings) -> None:
    """Note the flaws of the pods of one object that is pushed as it is."""
    is_ours = is_of_kubernetes(resource.content)
    _say_beside(resource)
    for path, name in networks_of_machines(resource.content):
        home = resource.namespace or "default"
        _check_networks(str(name), home, home, resource.place.at(*path), around)
    for path, template in pod_templates(resource.content):
        place = resource.place.at(*path)
        if not isinstance(template, Mapping):
            place.violation(mismatch(template, "a pod template"), "give metadata and spec")
            continue
        spec = template.get("spec")
        if not isinstance(spec, Mapping):
            place.at("spec").violation(mismatch(spec, "a mapping"), "give at least containers")
            continue
        annotations = resource.metadata("annotations")
        if path:
            # A Pod's own metadata was checked with the object, that of a template was not.
            metadata = mapping_of(template.get("metadata"))
            annotations = _check_texts(metadata, "annotations", place.at("metadata"), False)
            _check_texts(metadata, "labels", place.at("metadata"), True)
        namespace = resource.namespace or "default"
        # Charts leave it empty, which Multus takes for none (pkg/k8sclient/k8sclient.go, GetPodNetwork).
        keys = [key for key in _ASKING if key in annotations and (annotations[key] or key != NETWORKS)]
        given = {key: place.at("metadata", "annotations", key) for key in keys}
        asked: list[str] = []
        for key, where in given.items():
            asked += _check_networks(annotations[key], namespace, _ASKING[key] or namespace, where, around)
        if asked and around.without_functions.issuperset(_claims(spec, namespace)):
            _check_devices(asked, spec, next(iter(given.values())))
        for where in given.values() if spec.get("hostNetwork") is True else ():
            # The runtime calls no CNI plugin for such a pod (containerd's internal/cri/server/sandbox_run.go).
            problem = (
                "has no effect: the pod is on the host's network (hostNetwork: true), to which nothing is attached"
            )
            where.notice(problem, "leave hostNetwork out, or use the host's own interfaces and addresses")
        _check_texts(spec, "nodeSelector", place.at("spec"), True)
        # Other controllers have services by which their pods meet.
        _check_containers(spec, place.at("spec"), around, meeting=is_ours)


def check_asked(objects: Sequence[Resource], configs: Mapping[str, str]) -> None:
    """Name addresses by hand that several pods get: all of a template have its annotation (multus-cni#346 and #589).

    Refuse what no pod can be given. ``configs`` are those of networks, by ``namespace/name``.
    """
    first: dict[tuple[str, str], tuple[Place, str]] = {}
    asking: dict[str, tuple[Place, int]] = {}
    for resource in objects:
        of_pods: dict[Path, list[Mapping[str, Any]]] = {}
        for path, name, asked in nad.asked_networks(resource.content):
            place = resource.place.at(*path, "metadata", "annotations", NETWORKS)
            of_pods.setdefault(path, []).append(asked)
            place.violations(nad.refused_of_pod(asked))
            asking[name] = (place, asking.get(name, (place, 0))[1] + number_of(resource.content, path))
            for address, range_ in nad.given_by_hand(configs.get(name, ""), asked):
                if range_ and asked.get("ips"):
                    problem = f"asks for {address} of {name}: whereabouts adds it, without a record, to what it assigns"
                    place.notice(f"{problem} from {range_}, so that others may get it", f"add it to exclude of {name}")
                other, who = first.setdefault((name, address), (place, f"{resource.kind} {resource.name}"))
                if other != place or is_repeated(resource.content, path):
                    takers = f"its pods, as {who} does" if other != place else "each of its pods"
                    problem = f"gives {address} of the network {name} to {takers}: one wire has an address once"
                    hint = "have nv-ipam or whereabouts assign addresses, or make an object for each pod, with its own"
                    place.notice(problem, hint)
        for path, pod in of_pods.items():
            resource.place.at(*path, "metadata", "annotations", NETWORKS).violations(nad.refused_names(pod))
    for name, (place, wanted) in asking.items():
        for range_, room in nad.room_of(configs.get(name, "")).items():
            if wanted > room:
                problem = (
                    f"with it, {wanted} addresses of {name} are asked for, and {range_} has {room} of whereabouts'"
                )
                place.notice(f"{problem}: the other pods do not start", "give the network a larger range")


def _say_beside(resource: Resource) -> None:
    """Say where an object asks for networks in place of its pods, which Multus does not see.

    Users of Jobs, Deployments and RayClusters do that: k8snetworkplumbingwg/multus-cni#404 and #566.
    """
    paths = [path for path, _template in pod_templates(resource.content) if path]
    for key in [key for key in _ASKING if paths and key in resource.metadata("annotations")]:
        problem = f"is asked for by the {resource.kind}, not by its pods, whose annotations Multus reads"
        hint = f"put it at {resource.place.at(*paths[0], 'metadata', 'annotations').text()}"
        resource.place.at("metadata", "annotations", key).notice(problem, hint)


def _check_containers(spec: Mapping[str, Any], place: Place, around: Surroundings, *, meeting: bool) -> None:
    """Check the containers of a pod; ``meeting``: whether to look for where a launcher meets."""
    if not spec.get("containers"):
        place.at("containers").violation("is missing or empty: a pod runs at least one container")
    for group, index, container in _containers(spec):
        where = place.at(group, index)
        _check_resources(container, spec, where, around)
        if meeting:
            _check_rendezvous(container, spec, where, around)


def _check_texts(owner: Mapping[str, Any], field: str, place: Place, are_labels: bool) -> dict[str, str]:
    """Check a mapping of text to text; return what is right about it."""
    value, where = owner.get(field), place.at(field)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        hint = missing_blank(value) if isinstance(value, str) else ""
        where.violation(mismatch(value, "a mapping"), hint)
        return {}
    right = {}
    for key, item in value.items():
        if not isinstance(key, str) or not isinstance(item, str):
            what = item if isinstance(key, str) else key
            spelling = where.at(str(key)).written or shown(what)
            where.at(str(key)).violation(
                f"is {described(what)}; the API server takes text only", f'quote it: "{spelling}"'
            )
            continue
        where.at(key).violations(label_key(key) + (label_value(item) if are_labels else []))
        right[key] = item
    return right


def _check_networks(annotation: str, namespace: str, home: str, where: Place, around: Surroundings) -> list[str]:
    """Check which networks a pod asks for; return the device resource of each that needs one, as often as asked.

    ``home`` is the namespace of a network that is named without one.
    """
    where.violations(attachments.reference_problems(annotation))
    names = attachments.referenced(annotation, home)
    for name in names:
        if around.networks and name not in around.networks:
            hint = nearest(name, around.networks) or f"given: {', '.join(around.networks)}"
            where.notice(f"asks for the network {name}, which is not part of the input", hint)
        owner = name.partition("/")[0]
        if around.open_namespaces is not None and owner not in (namespace, *around.open_namespaces):
            problem = f"asks for the network {name}, and Multus has it for pods of {owner} alone (namespaceIsolation)"
            hint = f"put both into one namespace, or the network into {around.open_namespaces[0]}"
            where.notice(f"{problem}: the pod does not start", hint)
    for name, times in Counter(names).items():
        if times > 1 and name in around.once:
            # Mellanox/ib-kubernetes#160
            problem = (
                f"asks for the network {name} {times} times, and this release of ib-kubernetes gives the first a GUID"
            )
            hint = "make a network for each, or use network-operator-v25.10.0 or newer"
            where.notice(f"{problem}: the pod does not start", hint, unmet=True)
    return [around.networks[name] for name in names if around.networks.get(name)]


def _claims(spec: Mapping[str, Any], namespace: str) -> Iterator[tuple[str, str, str]]:
    """Yield the kind, namespace and name of each claim of a pod, or of its template."""
    given = spec.get("resourceClaims")
    for each in given if isinstance(given, list) else []:
        claim, template = (mapping_of(each).get(key) for key in ("resourceClaimName", "resourceClaimTemplateName"))
        yield ("ResourceClaim", namespace, str(claim)) if claim else ("ResourceClaimTemplate", namespace, str(template))


def _check_devices(asked: Sequence[str], spec: Mapping[str, Any], place: Place) -> None:
    """Name networks whose devices no container asks for: Multus has none to give to their programs, which mostly fail.

    The Network Resources Injector of the SR-IOV Network Operator adds them, to the first container's limits.
    """
    limits = [
        mapping_of(mapping_of(each.get("resources")).get("limits"))
        for group, _index, each in _containers(spec)
        if group == "containers"
    ]
    for name, wanted in Counter(asked).items():
        given = sum(_devices(each.get(name)) for each in limits)
        if given < wanted:
            problem = f"asks for networks with {wanted} of {name}, and for {given} of it: what is beyond gets no device"
            hint = f"add {name}: {wanted} to the limits of a container; no injector is deployed here that would"
            place.notice(problem, hint)


def _devices(amount: Any) -> int:
    try:
        return int(parse_quantity(str(amount)))
    except ValueError:
        return 0


def _check_resources(container: Mapping[str, Any], spec: Mapping[str, Any], place: Place, around: Surroundings) -> None:
    """Check amounts of device resources, and what a container needs to register memory with them."""
    given = mapping_of(container.get("resources"))
    limits, requests = mapping_of(given.get("limits")), mapping_of(given.get("requests"))
    where = place.at("resources")
    for name in dict.fromkeys([*limits, *requests]):
        if isinstance(name, str) and "/" in name:
            _check_device(name, limits.get(name), requests.get(name), where)
    asked = {
        name: where.at("limits" if name in limits else "requests", name)
        for name in dict.fromkeys([*limits, *requests])
        if _is_rdma(name, around)
    }
    if asked:
        first = next(iter(asked))
        _check_memory_locks(container, spec, asked[first], first)
        security = mapping_of(container.get("securityContext"))
        if around.plain.issuperset(asked) and _LOCKING & _added(security) and not security.get("privileged"):
            # spidernet-io/spiderpool, issue 4345
            problem = f"asks for {first} with IPC_LOCK, and that resource is without isRdma: it gives no RDMA device"
            asked[first].notice(problem, "set isRdma: true of the resource, or leave IPC_LOCK out")
    for name, its_place in asked.items():
        if around.resources and name not in around.resources:
            hint = nearest(name, around.resources) or f"offered: {', '.join(around.resources)}"
            its_place.notice(f"asks for {name}, which no device plugin of the input offers", hint)


def _added(security: Mapping[str, Any]) -> set[str]:
    added = mapping_of(security.get("capabilities")).get("add")
    return {str(name) for name in added} if isinstance(added, list) else set()


def _check_memory_locks(container: Mapping[str, Any], spec: Mapping[str, Any], place: Place, resource: str) -> None:
    """Say when a container with RDMA may lock no more memory than the limit of the container runtime.

    execve(2) leaves capabilities that were added to a user other than root without effect (capabilities(7)), and the
    kernel asks for IPC_LOCK of the first user namespace (Linux, drivers/infiniband/core/umem.c).
    """
    security = {**mapping_of(spec.get("securityContext")), **mapping_of(container.get("securityContext"))}
    user = security.get("runAsUser")
    who = f"user {user}" if user else "another user than root" if security.get("runAsNonRoot") is True else ""
    who = "a user of its own namespace (hostUsers: false)" if spec.get("hostUsers") is False else who
    problem = f"asks for {resource} without IPC_LOCK: registering memory may fail at the memlock limit"
    hint = 'add securityContext: {capabilities: {add: ["IPC_LOCK"]}}'
    if who:
        problem = f"asks for {resource} as {who}, for whom IPC_LOCK has no effect: memory is registered up to the limit"
        hint = "raise that of the container runtime on the hosts: rdma_fabric_limits: {memlock: unlimited}"
    elif security.get("privileged") is True or {*_LOCKING, "ALL"} & _added(security):
        return
    place.notice(problem, hint)


def _check_device(name: str, limit: Any, request: Any, place: Place) -> None:
    """Apply the API server's rules for extended resources: whole, limit equal to request, never a request alone.

    Definitions of other controllers take any amount, and their pods are then never made.
    """
    for group, amount in (("limits", limit), ("requests", request)):
        if amount is None:
            continue
        try:
            whole = parse_quantity(str(amount)) % 1 == 0
        except (ValueError, ArithmeticError):
            whole = False
        if isinstance(amount, bool) or not whole:
            place.at(group, name).violation(mismatch(amount, "a whole number of devices"))
            return
    if limit is None:
        place.at("requests", name).violation("has no limit: devices are not shared out beyond it", "add it to limits")
    elif request is not None and parse_quantity(str(limit)) != parse_quantity(str(request)):
        place.at("limits", name).violation(f"is {shown(limit)}, the request is {shown(request)}", "make them equal")


def _is_rdma(name: Any, around: Surroundings) -> bool:
    return isinstance(name, str) and (name.startswith("rdma/") or name in around.resources)


def _check_rendezvous(
    container: Mapping[str, Any], spec: Mapping[str, Any], place: Place, around: Surroundings
) -> None:
    """Say when a launcher meets at a host name that nothing in the input makes resolvable."""
    for field in ("command", "args"):
        words = container.get(field)
        text = " ".join(str(word) for word in words) if isinstance(words, list) else ""
        for match in _MASTER.finditer(text):
            host = match[1]
            is_name = host and not host.replace(".", "").isdigit() and "$" not in host and host != "localhost"
            if is_name and not _resolves(host, spec, around):
                hint = f"add a headless Service and set hostname and subdomain, so that {host} has an address"
                place.at(field).notice(f"meets at {shown(host)}, which nothing in the input resolves", hint)


def _resolves(host: str, spec: Mapping[str, Any], around: Surroundings) -> bool:
    parts = host.split(".")
    return parts[0] in around.services or (len(parts) > 1 and parts[1] in around.services)


def _containers(spec: Mapping[str, Any]) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    for group in ("initContainers", "containers"):
        found = spec.get(group)
        for index, container in enumerate(found if isinstance(found, list) else []):
            if isinstance(container, Mapping):
                yield group, index, container
