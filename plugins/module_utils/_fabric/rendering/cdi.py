# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Device plugins that announce devices through CDI: what container runtimes make of it, and containers and nodes. Pure.

containerd has it since 1.7, off unless its configuration says ``enable_cdi = true``, and has it on since 2.0
(containerd/containerd, docs/cri/config.md; kubernetes-sigs/kind, pull request 3530). One that has it off starts the pod
without the device, and says nothing. CRI-O has it on.

Plugins name devices in an annotation whose key is that of every resource (of a prefix), and of equal keys kubelet takes
one: pkg/cdi, pkg/resources/server.go and cmd/sriovdp/manager.go of sriov-network-device-plugin, pkg/cdi and
pkg/resources of k8s-rdma-shared-dev-plugin, pod_devices.go of kubelet's devicemanager.
"""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any, Iterator, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._needs import SRIOV
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Notice, Violation, named

from ..checks.sriov_policies import may_meet
from ..common.objects import items_of, mapping_of
from ..common.pods import pods_of
from .host_devices import Offer, offers_of
from .render import Wave, objects_of

_ARGUMENT = "--use-cdi"
_CONTAINERD = re.compile(r"containerd://v?1\.(\d+)\.")
_FIRST = 7
_FILE_PER_RESOURCE = (3, 8, 0)
_WITHOUT = "leave useCdi out: plugins give all device files themselves then"


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


def offers_with_cdi(objects: Sequence[Mapping[str, Any]]) -> list[Offer]:
    """Return the resources of device plugins among objects whose devices come through CDI."""
    return [each for each in offers_of(objects) if _has_cdi(each.pod)]


def _key(offer: Offer) -> tuple[str, str]:
    """Return what the key of a resource's annotation follows from."""
    return offer.plugin, offer.resource.partition("/")[0] if offer.plugin == SRIOV else ""


def lost_with_cdi(offers: Sequence[Offer]) -> Iterator[Notice]:
    """Yield a notice of what is lost where a node has more than one of these resources."""
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


def short_of_devices(objects: Sequence[Mapping[str, Any]], offers: Sequence[Offer]) -> Iterator[Violation]:
    """Yield the containers of objects that ask for more than one of these resources."""
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
