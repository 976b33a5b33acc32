# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinds are found without asking the server where that is possible."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.kinds import (
    Kinds,
    Resource,
    collection_path,
    object_path,
    taught_kind,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import Key
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import definition


def never(path: str) -> None:
    raise AssertionError(f"asked for {path}")


@pytest.mark.parametrize(
    ("api_version", "kind", "plural", "namespaced"),
    [
        ("v1", "ConfigMap", "configmaps", True),
        ("v1", "Endpoints", "endpoints", True),
        ("v1", "Namespace", "namespaces", False),
        ("apps/v1", "DaemonSet", "daemonsets", True),
        ("batch/v1", "CronJob", "cronjobs", True),
        ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", True),
        ("networking.k8s.io/v1", "Ingress", "ingresses", True),
        ("networking.k8s.io/v1", "IngressClass", "ingressclasses", False),
        ("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", False),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", False),
        ("rbac.authorization.k8s.io/v1", "Role", "roles", True),
        ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", True),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", False),
    ],
)
def test_built_in_kinds_cost_no_request(api_version: str, kind: str, plural: str, namespaced: bool) -> None:
    assert Kinds(never).find(Key(api_version, kind, "", "x")) == Resource(plural, namespaced)


def test_a_definition_of_the_batch_teaches_its_kind() -> None:
    kinds = Kinds(never)
    kinds.learn([definition("Mouse", "mice"), {"kind": "ConfigMap"}])
    assert kinds.find(Key("example.com/v1", "Mouse", "", "x")) == Resource("mice", True)


@pytest.mark.parametrize("broken", [None, "x", {}, {"names": 3}, {"names": {"kind": "A"}}, {"group": 1, "names": {}}])
def test_a_broken_definition_teaches_nothing(broken: Any) -> None:
    assert taught_kind({**definition("Mouse", "mice"), "spec": broken}) is None


def test_an_unknown_kind_is_asked_for_once_per_group_version() -> None:
    asked: list[str] = []

    def fetch(path: str) -> dict[str, Any]:
        asked.append(path)
        names = [("mice", "Mouse"), ("mice/status", "Mouse"), ("oxen", "Ox")]
        return {"resources": [{"name": name, "kind": kind, "namespaced": True} for name, kind in names]}

    kinds = Kinds(fetch)
    found = [kinds.find(Key("example.com/v1", kind, "", "x")) for kind in ("Mouse", "Ox", "Cow", "Cow")]
    assert found == [Resource("mice", True), Resource("oxen", True), None, None]
    assert asked == ["/apis/example.com/v1"]


def test_a_group_that_is_not_served_has_no_kinds() -> None:
    assert Kinds(lambda _path: None).find(Key("example.com/v1", "Mouse", "", "x")) is None


def test_paths() -> None:
    assert collection_path("v1", Resource("pods", True), "") == "/api/v1/pods"
    assert collection_path("apps/v1", Resource("daemonsets", True), "n") == "/apis/apps/v1/namespaces/n/daemonsets"
    assert collection_path("v1", Resource("nodes", False), "n") == "/api/v1/nodes"
    assert object_path(Key("v1", "Pod", "n", "a"), Resource("pods", True)) == "/api/v1/namespaces/n/pods/a"


@pytest.mark.parametrize(
    ("name", "segment"),
    [
        ("system:node", "system:node"),
        ("a:/../../x?y=1#z", "a:%2F..%2F..%2Fx%3Fy%3D1%23z"),
        ("a%2Fb", "a%252Fb"),
        ("..", "%2E%2E"),
        ("\u00e9\n", "%C3%A9%0A"),
        ("\ud800", "%ED%A0%80"),
    ],
)
def test_a_name_is_one_segment_of_a_path_whatever_it_holds(name: str, segment: str) -> None:
    assert object_path(Key("v1", "Pod", "n", name), Resource("pods", True)) == f"/api/v1/namespaces/n/pods/{segment}"
    assert collection_path("v1", Resource("pods", True), name) == f"/api/v1/namespaces/{segment}/pods"
