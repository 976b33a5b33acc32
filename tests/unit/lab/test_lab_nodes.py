# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of the lab: their manifests, and when they count as ready."""

from __future__ import annotations

from typing import Any, Mapping, cast

import pytest

from ansible_collections.rdma.fabric.tests.lab.api import Api
from ansible_collections.rdma.fabric.tests.lab.nodes import (
    NodesNotReady,
    apply_nodes,
    is_ready,
    kwok_node,
    kwok_nodes,
)

READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}


def test_manifest_is_what_a_kubelet_would_register() -> None:
    node = kwok_node("gpu-0", {"example.com/rails": "8"})
    assert node["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
    assert node["metadata"]["labels"] == {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": "gpu-0",
        "kubernetes.io/os": "linux",
        "example.com/rails": "8",
    }
    assert node["status"]["allocatable"] == node["status"]["capacity"]
    assert int(node["status"]["allocatable"]["pods"]) >= 110
    assert "spec" not in node  # no taint: DaemonSets without tolerations schedule


def test_labels_of_the_caller_win_and_resources_add_up() -> None:
    node = kwok_node(
        "n",
        {"kubernetes.io/arch": "arm64"},
        allocatable={"rdma/hca_shared_devices_a": "63", "cpu": "8"},
        taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
    )
    assert node["metadata"]["labels"]["kubernetes.io/arch"] == "arm64"
    assert node["status"]["allocatable"]["rdma/hca_shared_devices_a"] == "63"
    assert node["status"]["capacity"]["cpu"] == "8"
    assert node["spec"]["taints"] == [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]


def test_nodes_do_not_share_state() -> None:
    one, two = kwok_nodes(["a", "b"], {"x": "y"})
    one["status"]["allocatable"]["cpu"] = "1"
    one["metadata"]["labels"]["x"] = "z"
    assert two["status"]["allocatable"]["cpu"] == "64"
    assert two["metadata"]["labels"]["x"] == "y"


@pytest.mark.parametrize(
    ("node", "ready"),
    [
        (READY, True),
        ({"status": {}}, False),
        ({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, False),
        ({"status": {"conditions": [{"type": "DiskPressure", "status": "True"}]}}, False),
        ({**READY, "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}}, False),
        ({**READY, "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}}, True),
    ],
)
def test_ready_is_the_condition_without_the_taint(node: Mapping[str, Any], ready: bool) -> None:
    assert is_ready(node) is ready


class FakeApi:
    def __init__(self, never_ready: str = "") -> None:
        self.applied: list[str] = []
        self.never_ready = never_ready
        self.lists = 0

    def apply(self, path: str, document: Mapping[str, Any]) -> None:
        assert path == f"/api/v1/nodes/{document['metadata']['name']}"
        self.applied.append(document["metadata"]["name"])

    def call(self, method: str, path: str) -> dict[str, Any]:
        assert (method, path) == ("GET", "/api/v1/nodes")
        self.lists += 1
        ready = self.applied[: self.lists]  # one more with every look
        return {"items": [{"metadata": {"name": name}, **READY} for name in ready if name != self.never_ready]}


def test_apply_waits_for_every_node() -> None:
    api = FakeApi()
    apply_nodes(cast(Api, api), kwok_nodes(["a", "b", "c"]), timeout=10)
    assert api.applied == ["a", "b", "c"]
    assert api.lists == 3


def test_nodes_that_stay_unready_are_named() -> None:
    with pytest.raises(NodesNotReady, match=r"not Ready after 0 s: b$"):
        apply_nodes(cast(Api, FakeApi("b")), kwok_nodes(["a", "b"]), timeout=0.2)
