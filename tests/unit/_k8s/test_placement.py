# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that keep the pods of workloads off are named, with the line to add."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.placement import kept_off

NIC = "feature.node.kubernetes.io/pci-15b3.present"
DEDICATED = {"key": "dedicated", "value": "gpu-training", "effect": "NoSchedule"}
TOLERATION = {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}


def node(name: str, *taints: Any, **labels: str) -> Any:
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"taints": [*taints]}}


def workload(name: str, *tolerations: Any, kind: str = "DaemonSet", **selector: str) -> Any:
    pod = {"nodeSelector": selector, "tolerations": [*tolerations]}
    return {"kind": kind, "metadata": {"name": name}, "spec": {"template": {"spec": pod}}}


PLUGIN, MULTUS = workload("plugin", **{NIC: "true"}), workload("multus")
HARDENED = "nvcr.io/nvidia/mellanox/rdma-cni-stig-fips:v1"
TAINTED = [node(name, DEDICATED, **{NIC: "true"}) for name in ("a", "b")]
LINE = (
    "a, b have the taint dedicated=gpu-training:NoSchedule, which the pods of plugin, multus do not tolerate, so none "
    'runs there (next: tolerations: [{key: "dedicated", operator: Exists, effect: NoSchedule}] in the NicClusterPolicy)'
)


def test_the_taint_of_nodes_of_the_fabric_is_told_once_with_the_toleration() -> None:
    assert kept_off([PLUGIN, MULTUS], [*TAINTED, node("cpu")], ()) == [LINE]


def test_nodes_of_the_inventory_count_before_they_are_labelled() -> None:
    nodes = [node("a", DEDICATED), node("b", DEDICATED), node("cpu", DEDICATED)]
    (line,) = kept_off([PLUGIN, MULTUS], nodes, ["a"])
    assert line.startswith("a has the taint dedicated") and "pods of multus do" in line


@pytest.mark.parametrize(
    "toleration",
    [TOLERATION, {"operator": "Exists"}, {"key": "dedicated", "value": "gpu-training"}],
    ids=["by key", "every one", "by value"],
)
def test_what_is_tolerated_is_passed_over(toleration: Any) -> None:
    assert kept_off([workload("plugin", toleration, **{NIC: "true"})], TAINTED, ()) == []


@pytest.mark.parametrize(
    "taint",
    [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "dedicated", "effect": "PreferNoSchedule"},
    ],
)
def test_taints_of_the_system_and_wishes_keep_nothing_off(taint: Any) -> None:
    assert kept_off([PLUGIN], [node("a", taint, **{NIC: "true"})], ()) == []


@pytest.mark.parametrize(
    "key",
    ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "node.cloudprovider.kubernetes.io/uninitialized"],
)
def test_no_toleration_is_asked_for_of_nodes_that_come_or_go(key: str) -> None:
    (line,) = kept_off([PLUGIN], [node("a", {"key": key, "effect": "NoSchedule"}, **{NIC: "true"})], ())
    assert line.startswith(f"a has the taint {key}:NoSchedule") and "(next: wait until" in line


def test_nodes_that_are_not_of_the_fabric_may_have_any_taint() -> None:
    control = node("control", {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"})
    assert kept_off([PLUGIN, MULTUS], [control, node("a", **{NIC: "true"})], ()) == []


def test_a_deployment_that_no_node_takes_needs_a_toleration_of_its_own() -> None:
    deployment = workload("controller", kind="Deployment")
    (line,) = kept_off([deployment], TAINTED, ())
    assert "(next: deploymentTolerations: [{" in line
    assert kept_off([deployment], [*TAINTED, node("cpu")], ()) == []


def test_labels_with_class_and_vendor_are_told_where_nothing_here_labels_nodes() -> None:
    nodes = [node("a", **{"feature.node.kubernetes.io/pci-0200_15b3.present": "true"})]
    (line,) = kept_off([PLUGIN], nodes, ())
    assert f"no node has the label {NIC}" in line and "pci-0200_15b3.present" in line and "deviceLabelFields" in line
    assert kept_off([PLUGIN, workload("nfd-worker")], nodes, ()) == []


def cni(image: str, *tolerations: Any, **selector: str) -> Any:
    body = workload("rdma-cni", *tolerations, **selector)
    body["spec"]["template"]["spec"]["initContainers"] = [{"name": "install", "image": image}]
    return body


def of(name: str, architecture: str, *taints: Any) -> Any:
    return node(name, *taints, **{"kubernetes.io/arch": architecture})


def test_nodes_whose_architecture_an_image_lacks_are_named_with_workload_and_image() -> None:
    """Mellanox/network-operator#1053: GH200 nodes find no image of theirs, as an image is for amd64 alone."""
    nodes = [of("x86", "amd64"), of("gh200-1", "arm64"), of("gh200-2", "arm64")]
    (line,) = kept_off([cni(HARDENED)], nodes, (), {HARDENED: ("amd64",)})
    assert line == (
        f"gh200-1, gh200-2 are arm64, and the image {HARDENED} of rdma-cni is built for amd64 (next: one for arm64 in "
        "the policy or rdma_fabric_image_overrides, or kubernetes.io/arch in nodeAffinity of the NicClusterPolicy)"
    )


def test_nodes_tell_their_architecture_without_a_label_too() -> None:
    bare = {**node("ibm"), "status": {"nodeInfo": {"architecture": "s390x"}}}
    (line,) = kept_off([cni("x")], [bare], (), {"x": ("amd64", "arm64")})
    assert line.startswith("ibm is s390x, and the image x of rdma-cni is built for amd64, arm64")


@pytest.mark.parametrize(
    ("body", "nodes", "platforms"),
    [
        (cni("x"), [of("a", "arm64")], {}),
        (cni("x"), [of("a", "arm64")], {"another": ("amd64",)}),
        (cni("x"), [node("a")], {"x": ("amd64",)}),
        (cni("x", **{"kubernetes.io/arch": "amd64"}), [of("a", "arm64")], {"x": ("amd64",)}),
        (cni("x"), [of("a", "arm64", {"key": "arm", "effect": "NoSchedule"})], {"x": ("amd64",)}),
    ],
    ids=["nothing known", "of another image", "of no node", "not selected", "tainted"],
)
def test_nothing_is_said_where_an_image_may_be_right_or_no_pod_comes(body: Any, nodes: Any, platforms: Any) -> None:
    assert [line for line in kept_off([body], nodes, (), platforms) if "image" in line] == []


def test_nodes_with_windows_are_named_where_pods_would_come_to_them() -> None:
    """rancher/rke2#9478: without a selector, pods of a DaemonSet come to them and never start."""
    on_linux = workload("plugin", **{"kubernetes.io/os": "linux"})
    nodes = [node(name, **{"kubernetes.io/os": name.partition("-")[0]}) for name in ("linux-1", "windows-1")]
    (line,) = kept_off([MULTUS, on_linux], nodes, ())
    assert line.startswith("windows-1 has Windows, where the pods of multus never start (next: kubernetes.io/os in ")
    nodes[1]["spec"]["taints"] = [{"key": "os", "value": "windows", "effect": "NoSchedule"}]
    assert kept_off([MULTUS, on_linux], nodes, ()) == []
