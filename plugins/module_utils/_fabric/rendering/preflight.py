# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What only the rendered objects show about an input, found before a host is changed."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any, Iterator, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._needs import SRIOV
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Notice, Violation, named

from ..checks.instances import flaws_of
from ..checks.sriov_policies import may_meet
from ..common.findings import path_text
from ..common.objects import Object, items_of, mapping_of
from ..common.pods import pods_of
from .host_devices import Offer, giving_objects, offers_of
from .ranges import diverted, hosts_of, overlaps
from .render import Wave, objects_of, render

_DEPLOYMENT_PLACING = ("deploymentNodeAffinity", "deploymentTolerations")
_OVERRIDES = "image_overrides"


def preflight(spec: Object) -> list[Notice]:
    """Return what is rendered and will surprise.

    Raises InvalidInput with everything that can't be rendered, else with the ranges that hold an address of a host,
    what the definitions of this run refuse of objects given as such, and containers that CDI gives too few devices.
    """
    waves = render(spec)
    objects = giving_objects(spec) if spec.get("chart") else objects_of(waves)
    offers = _with_cdi(objects)
    violations = [*overlaps(spec, hosts_of(spec)), *_misfits(waves), *_short_of_devices(objects, offers)]
    if violations:
        raise InvalidInput(violations)
    said = [*diverted(spec), *_lost_with_cdi(offers)]
    if spec.get("chart"):
        return said
    return [*said, *_unread_placing(spec, waves), *_unread_overrides(spec, waves)]


def short_of_devices(spec: Object, objects: Sequence[Mapping[str, Any]]) -> list[Violation]:
    """Return the containers of objects, in a cluster with a FabricSpec, that CDI gives too few devices."""
    return [*_short_of_devices(objects, _with_cdi(giving_objects(spec)))]


def _misfits(waves: list[Wave]) -> list[Violation]:
    by_name = {wave["name"]: wave["objects"] for wave in waves}
    return [
        Violation(f"{each['kind']} {each['metadata']['name']}", path_text(path), problem, hint)
        for each in by_name.get("objects", [])
        for path, problem, hint in flaws_of(by_name.get("crds", []), each)
    ]


def _unread_placing(spec: Object, waves: list[Wave]) -> Iterator[Notice]:
    """Yield a notice for each placing of Deployments that changes no object."""
    policy = spec.get("cluster_policy") or {}
    given = policy.get("spec") or {}
    for name in _DEPLOYMENT_PLACING:
        without = {**policy, "spec": _without(given, name)}
        if given.get(name) and render({**spec, "cluster_policy": without}) == waves:
            hint = "no component of this policy has a Deployment that reads it"
            yield Notice(policy["source"], f"spec.{name}", "has no effect here", hint)


def _unread_overrides(spec: Object, waves: list[Wave]) -> Iterator[Notice]:
    """Yield a notice for each part of an image override that changes no object; the driver's is work of the hosts."""
    settings = spec.get("settings") or {}
    overrides = settings.get(_OVERRIDES) or {}
    for component, given in overrides.items():
        for part in given if component != "doca-driver" else ():
            without = {**overrides, component: _without(given, part)}
            if render({**spec, "settings": {**settings, _OVERRIDES: without}}) == waves:
                hint = "no rendered object takes it from here; an image that the policy names itself counts"
                yield Notice(f"rdma_fabric_{_OVERRIDES}", path_text((component, part)), "has no effect here", hint)


def _without(given: Object, name: str) -> Object:
    return {key: value for key, value in given.items() if key != name}


# Device plugins that announce devices through CDI, held against the container runtimes of the nodes. Pure.
#
# containerd has it since 1.7, off unless its configuration says ``enable_cdi = true``, and has it on since 2.0
# (containerd/containerd, docs/cri/config.md; kubernetes-sigs/kind, pull request 3530). One that has it off starts the
# pod without the device, and says nothing. CRI-O has it on.
_ARGUMENT = "--use-cdi"
_CONTAINERD = re.compile(r"containerd://v?1\.(\d+)\.")
_FIRST = 7


def plugins_with_cdi(waves: list[Wave]) -> list[str]:
    """Return the names of the DaemonSets of the waves whose devices come through CDI."""
    daemon_sets = [body for body in objects_of(waves) if body["kind"] == "DaemonSet"]
    return sorted(str(body["metadata"]["name"]) for body in daemon_sets if _has_cdi(body["spec"]["template"]["spec"]))


def _has_cdi(pod: Mapping[str, Any]) -> bool:
    return any(_ARGUMENT in (each.get("args") or ()) for each in pod["containers"])


def without_cdi(plugins: Sequence[str], runtimes: Mapping[str, str]) -> list[str]:
    """Return what is to be said of nodes for such plugins; ``runtimes`` are theirs by name: ``containerd://1.7.13``."""
    versions = {node: _CONTAINERD.match(runtime) for node, runtime in runtimes.items()}
    minors = {node: int(found.group(1)) for node, found in versions.items() if found is not None}
    off = [node for node, minor in minors.items() if minor >= _FIRST]
    none = [node for node, minor in minors.items() if minor < _FIRST]
    about = f"useCdi ({', '.join(plugins)})"
    lost = "pods start without their devices then, and nothing says so"
    found = []
    if plugins and off:
        has = f"containerd 1.{_FIRST} of the nodes {named(off)} has CDI off unless it was switched on"
        found.append(f"{about}: {has}: {lost} (next: set enable_cdi = true in its configuration, or leave useCdi out)")
    if plugins and none:
        has = f"containerd of the nodes {named(none)} is older than 1.{_FIRST} and has no CDI"
        found.append(f"{about}: {has}: {lost} (next: update it, or leave useCdi out)")
    return found


# What is lost where a node has more than one resource with CDI. Pure.
#
# Sources: pkg/cdi, pkg/resources/server.go and cmd/sriovdp/manager.go of sriov-network-device-plugin, pkg/cdi and
# pkg/resources of k8s-rdma-shared-dev-plugin, pod_devices.go of kubelet's devicemanager. Plugins name devices in an
# annotation whose key is that of every resource (of a prefix), and of equal keys kubelet takes one.
_FILE_PER_RESOURCE = (3, 8, 0)
_WITHOUT = "leave useCdi out: plugins give all device files themselves then"


def _with_cdi(objects: Sequence[Mapping[str, Any]]) -> list[Offer]:
    return [each for each in offers_of(objects) if _has_cdi(each.pod)]


def _key(offer: Offer) -> tuple[str, str]:
    """Return what the key of a resource's annotation follows from."""
    return offer.plugin, offer.resource.partition("/")[0] if offer.plugin == SRIOV else ""


def _lost_with_cdi(offers: Sequence[Offer]) -> Iterator[Notice]:
    pairs = [pair for pair in combinations(offers, 2) if may_meet(pair[0].pod, pair[1].pod)]
    alike = [(one, other) for one, other in pairs if _key(one) == _key(other)]
    apart = [(one, other) for one, other in pairs if one.plugin == other.plugin and one.pod is not other.pod]
    old = [each for each in alike if each[0].plugin == SRIOV and (each[0].release or (4,)) < _FILE_PER_RESOURCE]
    for found, problem in (
        (alike, "a container that asks for more than one gets the device files of one alone, and nothing says so"),
        (apart, "where plugins share a node, each that starts or ends deletes the files by which pods of others start"),
        (old, "before v3.8.0 a plugin has one file for all, which the last overwrites: pods of others do not start"),
    ):
        if found:
            resources = sorted({each.resource for pair in found for each in pair})
            yield Notice(f"useCdi ({named(resources)})", "", problem, _WITHOUT)


def _short_of_devices(objects: Sequence[Mapping[str, Any]], offers: Sequence[Offer]) -> Iterator[Violation]:
    keys = {each.resource: _key(each) for each in offers}
    for body in objects if keys else ():
        groups = [(spec, group) for spec in pods_of(body) for group in ("initContainers", "containers")]
        for container in [each for spec, group in groups for _index, each in items_of(spec, group)]:
            limits = mapping_of(mapping_of(container.get("resources")).get("limits"))
            asked = [name for name in limits if name in keys]
            alike = [name for name in asked if sum(keys[each] == keys[name] for each in asked) > 1]
            if alike:
                problem = f"asks for {' and '.join(alike)}, and with useCdi gets the device files of one alone"
                source = f"{body['kind']} {body['metadata']['name']}"
                yield Violation(source, f"container {container.get('name')}", problem, _WITHOUT)
