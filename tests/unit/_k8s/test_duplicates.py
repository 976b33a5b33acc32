# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which DaemonSet of somebody else does what a push deploys, and which is none of that."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.objects import component_labels
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.duplicates import duplicates, names_of_duplicates
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.operators import STATE_LABEL
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import SPECS
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import daemon_set

NFD = "registry.k8s.io/nfd/node-feature-discovery:v0.16.6"
POLICY = {"apiVersion": "mellanox.com/v1alpha1", "kind": "NicClusterPolicy", "name": "p", "uid": "u"}


def pushed(component: str) -> dict[str, Any]:
    body = daemon_set("ours", "fabric", "registry.example/of-any-name")
    return {**body, "metadata": {**body["metadata"], "labels": component_labels(component)}}


def theirs(image: str = NFD, **metadata: Any) -> dict[str, Any]:
    body = daemon_set("worker", "gpu-operator", image)
    return {**body, "metadata": {**body["metadata"], **metadata}}


@pytest.mark.parametrize(
    ("component", "image", "step"),
    [
        ("nfd", NFD, "set rdma_fabric_nfd: false"),
        (
            "nfd",
            "registry.example:5000/o4/ose-node-feature-discovery-rhel9@sha256:01",
            "rdma_fabric_nfd: false",
        ),
        ("multus", "ghcr.io/k8snetworkplumbingwg/multus-cni:v4.1.0-thick", "leave secondaryNetwork.multus out"),
        ("multus", "rancher/hardened-multus-cni:v4.2.1-build20250627", "leave secondaryNetwork.multus out"),
        ("whereabouts", "rancher/hardened-whereabouts:v0.9.1", "leave secondaryNetwork.ipamPlugin out"),
        ("nv-ipam", "ghcr.io/mellanox/nvidia-k8s-ipam:v0.3.7", "leave nvIpam out"),
        ("rdma-shared-device-plugin", "ghcr.io/mellanox/k8s-rdma-shared-dev-plugin", "rdmaSharedDevicePlugin out"),
        ("sriov-device-plugin", "x/sriov-network-device-plugin:v3.9", "leave sriovDevicePlugin out"),
    ],
)
def test_one_of_somebody_else_is_named_with_its_image_and_what_to_set(component: str, image: str, step: str) -> None:
    (notice,) = duplicates([pushed(component)], [theirs(image)])
    assert notice.startswith(f"DaemonSet gpu-operator/worker ({image}) is another ")
    has_addresses = component in ("whereabouts", "nv-ipam")
    removal = (
        "end the pods that have addresses of the other one and then remove it"
        if has_addresses
        else "remove the other one"
    )
    assert f"{step}, or {removal})" in notice


def test_what_is_not_pushed_is_not_named() -> None:
    other = {**pushed("nfd"), "kind": "Deployment"}
    given = daemon_set("given", image=NFD)
    given["metadata"]["labels"] = {"app.kubernetes.io/component": "nfd", "app.kubernetes.io/managed-by": "Helm"}
    bare = daemon_set("bare", image=NFD)
    for objects in ([], [pushed("multus")], [other], [given], [bare]):
        assert duplicates(objects, [theirs()]) == []
    assert names_of_duplicates([other, given, bare, pushed("cni-plugins")]) == []
    assert names_of_duplicates([pushed("nfd"), pushed("multus")]) == ["Multus", "Node Feature Discovery"]


@pytest.mark.parametrize(
    "owned", [{"labels": {STATE_LABEL: "state-SRIOV-device-plugin"}}, {"ownerReferences": [POLICY]}]
)
def test_a_device_plugin_that_an_operator_has_left_under_another_name_is_named(owned: dict[str, Any]) -> None:
    left = theirs("nvcr.io/nvidia/mellanox/sriov-network-device-plugin:network-operator-v26.4.1", **owned)
    (notice,) = duplicates([pushed("sriov-device-plugin")], [left])
    assert "a node has the devices of the one that registers last" in notice


@pytest.mark.parametrize(
    "live",
    [
        pytest.param(theirs(labels={"app.kubernetes.io/managed-by": "rdma-fabric"}), id="ours"),
        pytest.param(theirs(labels={"rdma.fabric/set": "other"}), id="of another set"),
        pytest.param(theirs(name="ours", namespace="fabric"), id="to be taken over"),
        pytest.param(theirs("registry.example/node-feature-discovery/tool:v1"), id="another image"),
        pytest.param({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "a"}}, id="without pods"),
    ],
)
def test_what_is_of_ours_or_taken_over_is_not_named(live: dict[str, Any]) -> None:
    assert duplicates([pushed("nfd")], [live]) == []


def test_what_finds_topologies_labels_no_node() -> None:
    body = theirs()
    body["spec"]["template"]["spec"]["containers"][0]["command"] = ["nfd-topology-updater"]
    assert duplicates([pushed("nfd")], [body]) == []


def test_all_are_named_in_one_order() -> None:
    several = [theirs(name="b"), theirs("x/multus-cni:v4", name="a")]
    found = duplicates([pushed("nfd"), pushed("multus")], several)
    assert [each.split()[1] for each in found] == ["gpu-operator/a", "gpu-operator/b"]
    assert duplicates([pushed("nfd"), pushed("multus")], several[::-1]) == found


def test_what_this_collection_renders_is_found_by_its_label_and_is_its_own_double_elsewhere() -> None:
    # Pushed here by one who renames nothing, and there by somebody whose objects carry no label of ours.
    objects = objects_of(render(SPECS["everything"]()))
    names = ["Multus", "Node Feature Discovery", "RDMA shared device plugin", "SR-IOV device plugin", "whereabouts"]
    assert names_of_duplicates(objects) == names
    assert names_of_duplicates(objects_of(render(SPECS["nv_ipam"]()))) == [
        "Multus",
        "Node Feature Discovery",
        "nv-ipam",
    ]
    elsewhere = [
        {**body, "metadata": {"name": body["metadata"]["name"], "namespace": "elsewhere"}}
        for body in objects
        if body["kind"] == "DaemonSet"
    ]
    found = duplicates(objects, elsewhere)
    assert [sum(f"is another {name}," in each for each in found) for name in names] == [1] * len(names)
    assert duplicates(objects, objects) == []
