# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server that is too old for an object is told by the release that it takes, one that is only old by a notice."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.server_version import (
    OLDEST_OF_UPSTREAM,
    Release,
    read_release,
    say_old,
    too_new,
)
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, resource
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, config_map, connect, failure, good

Json = dict[str, Any]


def server_of(version: Any) -> FakeServer:
    server = FakeServer()
    server.intercept = lambda _number, _method, path: good(version) if path == "/version" else None
    return server


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ({"major": "1", "minor": "35", "gitVersion": "v1.35.1"}, Release(1, 35)),
        ({"major": "1", "minor": "31+", "gitVersion": "v1.31.4-eks-56e63d8"}, Release(1, 31)),
        ({"gitVersion": "v1.9.0+k3s1"}, Release(1, 9)),
        ({"gitVersion": "unknown"}, None),
        ({}, None),
    ],
)
def test_the_release_is_what_the_server_says(version: Json, release: Release | None) -> None:
    assert read_release(connect(server_of(version))) == release


def test_a_server_without_a_version_is_of_no_known_release_and_other_faults_are_told() -> None:
    server = FakeServer()
    server.version = ""
    assert read_release(connect(server)) is None
    server.intercept = lambda *_request: failure(401, "Unauthorized", "Unauthorized")
    with pytest.raises(ApiFault, match="Unauthorized"):
        read_release(connect(server))


def of(api_version: str, kind: str, **fields: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, **fields}


RULES = {"x-kubernetes-validations": [{"rule": "self.a >= 0"}]}
PROBED = {"template": {"spec": {"containers": [{"name": "c", "livenessProbe": {"grpc": {"port": 1}}}]}}}
DEFINITION = of(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", spec={"versions": [{"schema": {"openAPIV3Schema": RULES}}]}
)


@pytest.mark.parametrize(
    ("body", "first"),
    [
        (of("batch/v1", "CronJob"), Release(1, 21)),
        (of("policy/v1", "PodDisruptionBudget"), Release(1, 21)),
        (of("autoscaling/v2", "HorizontalPodAutoscaler"), Release(1, 23)),
        (DEFINITION, Release(1, 23)),
        (of("apps/v1", "DaemonSet", spec=PROBED), Release(1, 24)),
        (of("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"), Release(1, 30)),
        (of("resource.k8s.io/v1", "DeviceClass"), Release(1, 34)),
    ],
)
def test_an_object_is_refused_before_the_release_that_takes_it(body: Json, first: Release) -> None:
    (told,) = too_new(Release(1, first.minor - 1), [config_map("other"), body])
    assert f"from {first} on: {body['kind']} a (next: upgrade the cluster" in told
    assert too_new(first, [body]) == []


def test_many_objects_of_one_reason_are_one_error() -> None:
    jobs = [{**of("batch/v1", "CronJob"), "metadata": {"name": f"j{number}"}} for number in range(9)]
    (told,) = too_new(Release(1, 20), jobs)
    assert "and 4 more" in told


def test_what_is_rendered_for_a_policy_takes_no_newer_server_than_its_probes() -> None:
    policy: Json = {"nvIpam": {}, "secondaryNetwork": {"multus": {}, "ipamPlugin": {}}}
    objects = objects_of(
        render(Fabric([resource("NicClusterPolicy", "nic-cluster-policy", policy)], []).accepted().spec)
    )
    assert too_new(Release(1, 24), objects) == []
    (told,) = too_new(Release(1, 23), objects)
    assert "probes by gRPC" in told and "nfd-worker" in told


def test_a_release_older_than_upstream_takes_is_a_notice() -> None:
    (told,) = say_old(Release(1, 31))
    assert told.startswith("the cluster runs Kubernetes 1.31: ") and "next: upgrade" in told
    assert say_old(OLDEST_OF_UPSTREAM) == []
