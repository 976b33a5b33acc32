# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is the API server older than what it is asked to store?

An object that uses what came later is refused. The releases are those in which an API is served, or a field taken, as a
server comes: the deprecation guide and the API reference of Kubernetes, the changes of its API, and its feature gates.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Collection, Iterator, Mapping, NamedTuple

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ..objects.objects import Json, key_of
from .errors import ApiFault, Fault
from .snapshot import fetch_group
from .transport import Connection

_MOST_NAMED = 5
_RELEASE = re.compile(r"v?([0-9]+)\.([0-9]+)")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


class Release(NamedTuple):
    """A minor release of Kubernetes."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


OLDEST_OF_UPSTREAM = Release(1, 32)
"""What the chart of the newest Network Operator asks for: Mellanox/network-operator,
deployment/network-operator/Chart.yaml, kubeVersion."""


def _is(*api_versions_and_kinds: tuple[str, str]) -> Callable[[Mapping[str, Any]], bool]:
    return lambda body: (body.get("apiVersion"), body.get("kind")) in api_versions_and_kinds


def _has_grpc_probe(body: Mapping[str, Any]) -> bool:
    return any(name in _PROBES and isinstance(value, dict) and "grpc" in value for name, value in _fields(body))


def _has_rules(body: Mapping[str, Any]) -> bool:
    is_definition = body.get("kind") == "CustomResourceDefinition"
    return is_definition and any(name == "x-kubernetes-validations" for name, _value in _fields(body))


_NEEDS: tuple[tuple[str, Release, Callable[[Mapping[str, Any]], bool]], ...] = (
    ("CronJobs of batch/v1", Release(1, 21), _is(("batch/v1", "CronJob"))),
    ("PodDisruptionBudgets of policy/v1", Release(1, 21), _is(("policy/v1", "PodDisruptionBudget"))),
    ("HorizontalPodAutoscalers of autoscaling/v2", Release(1, 23), _is(("autoscaling/v2", "HorizontalPodAutoscaler"))),
    ("definitions with rules in CEL", Release(1, 23), _has_rules),
    ("probes by gRPC", Release(1, 24), _has_grpc_probe),
    (
        "ValidatingAdmissionPolicies of admissionregistration.k8s.io/v1",
        Release(1, 30),
        _is(
            ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
            ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"),
        ),
    ),
    (
        "devices of resource.k8s.io/v1",
        Release(1, 34),
        lambda body: body.get("apiVersion") == "resource.k8s.io/v1",
    ),
)
"""What objects may have, the release that takes it first, and whether one has it."""


def read_release(connection: Connection) -> Release | None:
    """Return the release of the API server, None where it does not say; raises ApiFault."""
    try:
        said = connection.request("get", "/version", what="the version of the server")[1]
    except ApiFault as fault:
        if fault.fault is not Fault.NOT_FOUND:
            raise
        return None
    found = _RELEASE.match(str(said.get("gitVersion") or ""))
    return Release(int(found[1]), int(found[2])) if found else None


def too_new(release: Release, objects: Collection[Json]) -> list[str]:
    """Return what a server of this release would refuse of the objects, with the next step."""
    found = []
    for what, first, has in _NEEDS:
        users = [str(key_of(body)) for body in objects if release < first and has(body)]
        if users:
            found.append(
                f"it runs Kubernetes {release}, and {what} are there from {first} on: {named(users, _MOST_NAMED)} "
                f"(next: upgrade the cluster to {OLDEST_OF_UPSTREAM} or newer, or leave out what these objects are for)"
            )
    return found


def say_old(release: Release) -> list[str]:
    """Return the notice about a server of a release that nobody supports this on, none where somebody does."""
    if release >= OLDEST_OF_UPSTREAM:
        return []
    return [
        f"the cluster runs Kubernetes {release}: the newest Network Operator asks for {OLDEST_OF_UPSTREAM}, and "
        "nothing of this is tested on an older one (next: upgrade the cluster)"
    ]


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every field below a value with what it holds."""
    if isinstance(value, dict):
        for name, below in value.items():
            yield name, below
            yield from _fields(below)
    elif isinstance(value, list):
        for below in value:
            yield from _fields(below)


_VERSIONS = ("/apis/config.openshift.io/v1", "clusterversions")


def objection_to_platform(connection: Connection, *, said: bool) -> str:
    """Return what is wrong with ``said``, whether the cluster is said to be OpenShift; empty where it is right.

    As the Network Operator does (``pkg/clustertype``), it is told by its kind ClusterVersion. Raises ``ApiFault``.
    """
    path, name = _VERSIONS
    listed = fetch_group(connection, path) or {}
    found = any(each.get("name") == name for each in listed.get("resources") or [])
    if found and not said:
        return "it is OpenShift, which would reject these privileged pods (next: set rdma_fabric_openshift: true)"
    if said and not found:
        return (
            f"it is not OpenShift, as it has no {name}.config.openshift.io, and lacks what OpenShift includes (next: "
            "remove rdma_fabric_openshift, or give the kubeconfig of the right cluster)"
        )
    return ""
