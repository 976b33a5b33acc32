# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The canonical form of objects, our own and those of users."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.objects import (
    build,
    canonical,
    canonical_given,
    containers_of,
    digest,
    pod_of,
)

POD: dict[str, Any] = {
    "containers": [
        {
            "name": "c",
            "image": "i",
            "resources": {"limits": {"cpu": 1, "memory": "1024Mi", "nvidia.com/gpu": 8}, "requests": None},
            "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}],
            "env": [
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "EMPTY", "value": ""},
            ],
        }
    ],
    "volumes": [{"name": "scratch", "emptyDir": {}}],
}
CANONICAL_CONTAINER: dict[str, Any] = {
    "name": "c",
    "image": "i",
    "resources": {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "8"}},
    "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}],
    "env": [
        {"name": "NODE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}},
        {"name": "EMPTY", "value": ""},
    ],
}


def wrapped(kind: str, pod: Any) -> dict[str, Any]:
    template = {"spec": pod}
    spec = {"Pod": pod, "CronJob": {"jobTemplate": {"spec": {"template": template}}}}.get(kind, {"template": template})
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, "spec": spec}


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
        ("v1", "Node"),
        ("nfd.k8s-sigs.io/v1alpha1", "NodeFeatureRule"),
    ],
)
def test_what_is_in_no_namespace_is_pushed_without_one(api_version: str, kind: str) -> None:
    given = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "n"}}
    assert "namespace" not in canonical_given(given, "given")["metadata"]
    assert canonical_given({**given, "apiVersion": "own.io/v1"}, "given")["metadata"]["namespace"] == "n"


def test_nulls_and_empty_containers_go_at_any_depth_and_zero_stays() -> None:
    value: dict[str, Any] = {"a": None, "b": {"c": {}, "d": {"e": []}}, "f": [{"g": None}], "h": 0, "i": False, "j": ""}
    assert canonical(value) == {"f": [{}], "h": 0, "i": False, "j": ""}


def test_an_object_has_a_namespace_only_where_it_has_one() -> None:
    assert "namespace" not in build("v1", "Namespace", "a", "c")["metadata"]
    assert build("v1", "ConfigMap", "a", "c", namespace="n")["metadata"]["namespace"] == "n"


@pytest.mark.parametrize("kind", ["Pod", "Job", "CronJob", "Deployment", "DaemonSet", "StatefulSet", "ReplicaSet"])
def test_pods_of_users_get_the_server_s_spelling_wherever_they_are(kind: str) -> None:
    given = wrapped(kind, copy.deepcopy(POD))
    before = copy.deepcopy(given)
    found = pod_of(canonical_given(given, "given"))
    assert found is not None
    assert found["containers"] == [CANONICAL_CONTAINER]
    assert found["volumes"] == [{"name": "scratch", "emptyDir": {}}]
    assert given == before


def test_what_the_server_sets_is_left_out_and_the_rest_is_kept() -> None:
    metadata: dict[str, Any] = {
        "name": "x",
        "creationTimestamp": None,
        "resourceVersion": "1",
        "uid": "u",
        "managedFields": [],
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 30,
        "annotations": {"a": "b"},
        "labels": {"app.kubernetes.io/component": "mine"},
    }
    given = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}, "status": {"x": 1}}
    found = canonical_given(given, "given")
    assert set(found["metadata"]) == {"name", "annotations", "labels"}
    assert found["metadata"]["labels"]["app.kubernetes.io/component"] == "mine"
    assert found["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "rdma-fabric"
    assert found["data"] == {}
    assert "status" not in found


@pytest.mark.parametrize(
    "pod",
    [
        None,
        "x",
        {},
        {"containers": None},
        {"containers": ["x"]},
        {"containers": [{"resources": None, "ports": ["x"], "env": [None, {"valueFrom": None}]}]},
        {"containers": [{"resources": {"limits": "x"}}]},
        {"containers": 1, "initContainers": {"a": {}}},
        {"containers": [{"resources": "x", "ports": 1, "env": {"a": "b"}}]},
        {"containers": [{"resources": ["x"], "env": [{"valueFrom": "x"}]}]},
    ],
)
def test_a_malformed_pod_is_left_for_the_server_to_refuse(pod: Any) -> None:
    canonical_given(wrapped("Pod", pod), "given")


def test_a_value_that_is_no_quantity_is_left_for_the_server_to_name() -> None:
    given = wrapped("Pod", {"containers": [{"resources": {"limits": {"cpu": "lots"}}}]})
    found = pod_of(canonical_given(given, "given"))
    assert found is not None
    assert found["containers"][0]["resources"]["limits"] == {"cpu": "lots"}


def test_all_containers_are_found() -> None:
    pod = {"containers": [{"name": "a"}], "initContainers": [{"name": "b"}], "ephemeralContainers": [{"name": "c"}]}
    assert [each["name"] for each in containers_of(pod)] == ["b", "a", "c"]


def test_a_digest_tells_texts_and_their_borders_apart() -> None:
    assert digest("a", "b") != digest("ab") != digest("a", "b", "")
    assert digest("a") == digest("a")
