# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator, a chart or a GitOps tool manages is named and left alone."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.ownership import is_adoptable, other_owner
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchError
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import MANAGER
from ansible_collections.rdma.fabric.tests.unit._k8s.batch_cases import BASE, actions, apply, wave
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import (
    FakeServer,
    config_map,
    daemon_set,
    failure,
    namespace_object,
)

CONTROLLED = {
    "ownerReferences": [
        {
            "apiVersion": "mellanox.com/v1alpha1",
            "kind": "NicClusterPolicy",
            "name": "nic-cluster-policy",
            "uid": "policy",
            "controller": True,
        },
    ]
}
# Network attachments of the SR-IOV operator: in another namespace than their custom resource, and in the same one.
NETWORK = {"annotations": {"sriovnetwork.openshift.io/owner-ref": "SriovNetwork.sriovnetwork.openshift.io/ns/rail0"}}
BESIDE = {
    "ownerReferences": [
        {"apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetwork", "name": "rail0", "uid": "network"}
    ]
}
MARKED: list[tuple[dict[str, Any], str]] = [
    (CONTROLLED, "the controller of NicClusterPolicy nic-cluster-policy"),
    ({"labels": {"nvidia.network-operator.state": "state-multus-cni"}}, "the NVIDIA Network Operator"),
    ({"labels": {"app.kubernetes.io/managed-by": "Helm"}}, "Helm (app.kubernetes.io/managed-by)"),
    ({"annotations": {"meta.helm.sh/release-name": "network-operator"}}, "Helm (meta.helm.sh/release-name"),
    ({"annotations": {"argocd.argoproj.io/tracking-id": "x"}}, "Argo CD"),
    ({"labels": {"helm.toolkit.fluxcd.io/name": "x"}}, "Flux"),
    (NETWORK, "the SR-IOV Network Operator"),
    ({"labels": {"argocd.argoproj.io/instance": "x"}}, "Argo CD"),
    ({"labels": {"olm.operatorframework.io/owner-name": "nfd"}}, "the Operator Lifecycle Manager (olm.operatorfr"),
    ({"labels": {"kapp.k14s.io/app": "1"}}, "kapp"),
    ({"labels": {"objectset.rio.cattle.io/hash": "0a"}}, "k3s, RKE2 or Fleet"),
]


def put(server: FakeServer, body: dict[str, Any], metadata: dict[str, Any]) -> None:
    """Store an object as somebody else who puts these marks on it."""
    body["metadata"].update(metadata)
    server.put("configmaps" if body["kind"] == "ConfigMap" else "daemonsets", body)


@pytest.mark.parametrize(("metadata", "owner"), [*MARKED, (BESIDE, "the controller of SriovNetwork rail0")])
@pytest.mark.parametrize("check", [False, True])
def test_an_object_that_somebody_else_looks_after_is_refused_before_anything_is_changed(
    metadata: dict[str, Any], owner: str, check: bool
) -> None:
    server = FakeServer()
    put(server, daemon_set("kube-multus-ds"), metadata)
    with pytest.raises(BatchError) as refused:
        apply(server, wave(config_map("a")), wave(daemon_set("kube-multus-ds")), check=check)
    assert f"DaemonSet ns/kube-multus-ds is managed by {owner}" in str(refused.value)
    adoptable = "Network Operator" in owner or "controller of" in owner
    hint = "stop the operator and run rdma.fabric.adopt" if adoptable else "remove it there, or leave it out here"
    assert hint in str(refused.value)
    assert server.written() == []


def test_all_of_them_are_named_at_once() -> None:
    server = FakeServer()
    names = [f"c{number}" for number in range(30)]
    for name in names:
        put(server, config_map(name), CONTROLLED)
    with pytest.raises(BatchError, match="30 problems"):
        apply(server, wave(*(config_map(name) for name in names), daemon_set("d")))
    assert server.written() == []
    assert len(server.requests) < 10


def test_an_object_that_an_operator_took_over_later_is_neither_changed_nor_deleted() -> None:
    server = FakeServer()
    apply(server, *BASE)
    server.objects[("daemonsets", "ns", "d")]["metadata"].update(CONTROLLED)
    with pytest.raises(BatchError, match="DaemonSet ns/d is managed by the controller"):
        apply(server, BASE[0], wave(daemon_set("d", image="x:2")))
    gone = apply(server, absent=True)
    assert actions(gone)["DaemonSet ns/d"] == "kept"
    why = "managed by the controller of NicClusterPolicy nic-cluster-policy"
    assert gone.notices[0] == f"kept, {why}: 1 (DaemonSet ns/d)"


def test_a_single_object_of_an_operator_is_refused_too() -> None:
    server = FakeServer()
    put(server, config_map("a"), CONTROLLED)
    with pytest.raises(BatchError, match="managed by the controller"):
        apply(server, wave(config_map("a")), set_name="", inventory_namespace="")


def test_an_object_of_nobody_is_still_taken_over() -> None:
    server = FakeServer()
    put(server, config_map("a"), {"labels": {"app.kubernetes.io/managed-by": "rdma-fabric"}})
    result = apply(server, wave(config_map("a", key="x")))
    assert actions(result)["ConfigMap ns/a"] == "configured"


def test_a_label_of_our_own_manifest_is_no_other_owner_and_can_be_removed() -> None:
    server = FakeServer()
    body = config_map("a")
    body["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "somebody"}
    apply(server, wave(body))
    assert not apply(server, wave(body)).changed
    assert actions(apply(server, absent=True))["ConfigMap ns/a"] == "deleted"


@pytest.mark.parametrize("metadata", [metadata for metadata, _owner in MARKED[1:]])
def test_a_mark_that_the_manifest_has_itself_is_another_owners_only_where_its_value_differs(
    metadata: dict[str, Any],
) -> None:
    other = {part: dict.fromkeys(marks, "other") for part, marks in metadata.items()}
    assert other_owner({"metadata": metadata}, {"metadata": metadata}) == ""
    assert other_owner({"metadata": metadata}, {"metadata": other}) == other_owner({"metadata": metadata}) != ""


@pytest.mark.parametrize(
    ("entry", "owner"),
    [
        ({"manager": MANAGER, "operation": "Apply"}, ""),
        ({"manager": "argocd-controller", "operation": "Apply"}, "Argo CD (argocd.argoproj.io/tracking-id: x)"),
        ({"manager": MANAGER, "operation": "Update"}, "Argo CD (argocd.argoproj.io/tracking-id: x)"),
    ],
)
def test_a_mark_is_ours_only_where_we_have_applied_it(entry: dict[str, Any], owner: str) -> None:
    record = {**entry, "fieldsV1": {"f:metadata": {"f:annotations": {"f:argocd.argoproj.io/tracking-id": {}}}}}
    assert other_owner({"metadata": {**MARKED[4][0], "managedFields": [record]}}) == owner


@pytest.mark.parametrize(
    ("manager", "owner"),
    [("argocd-controller", "Argo CD (app.kubernetes.io/instance: x)"), ("helm", ""), (MANAGER, "")],
)
def test_a_label_that_others_use_too_is_argo_cds_where_it_has_set_it(manager: str, owner: str) -> None:
    fields: dict[str, Any] = {"f:metadata": {"f:labels": {"f:app.kubernetes.io/instance": {}}}}
    record = {"manager": manager, "operation": "Apply" if manager == MANAGER else "Update", "fieldsV1": fields}
    labels = {"app.kubernetes.io/instance": "x"}
    assert other_owner({"metadata": {"labels": labels, "managedFields": [record]}}) == owner


@pytest.mark.parametrize(
    ("metadata", "is_one"),
    [
        (CONTROLLED, True),
        (MARKED[1][0], True),
        ({**CONTROLLED, **MARKED[1][0]}, True),
        ({**CONTROLLED, **MARKED[4][0]}, False),
        (NETWORK, True),
        (BESIDE, True),
        ({**NETWORK, **BESIDE}, True),
        (MARKED[4][0], False),
        ({}, False),
    ],
)
def test_only_what_an_operator_alone_looks_after_can_be_adopted(metadata: dict[str, Any], is_one: bool) -> None:
    body = daemon_set("d")
    assert is_adoptable({**body, "metadata": {**body["metadata"], **metadata}}, body) is is_one


def test_a_namespace_of_a_chart_is_shared_with_a_notice() -> None:
    server = FakeServer()
    server.put("namespaces", {**namespace_object("net"), "metadata": {"name": "net", **MARKED[2][0]}})
    result = apply(server, wave(namespace_object("net")))
    assert "Namespace net is managed by Helm" in result.notices[0]


def test_an_owner_reference_that_the_manifest_asks_for_is_no_other_owner() -> None:
    live = {"metadata": {"uid": "u", **CONTROLLED}}
    assert other_owner(live, {"metadata": CONTROLLED}) == ""
    assert other_owner({"metadata": {"ownerReferences": [{"kind": "X", "name": "x", "uid": "1"}]}}) == ""


def test_what_exists_already_costs_no_request_more() -> None:
    server = FakeServer()
    apply(server, *BASE)
    assert apply(server, *BASE).requests == {"list": 2, "patch": 0, "get": 0, "delete": 0}


def test_who_may_not_read_namespaces_can_still_work_inside_one() -> None:
    server = FakeServer()
    server.intercept = lambda _number, method, path: (
        failure(403, "Forbidden", "no") if method == "GET" and path == "/api/v1/namespaces/ns" else None
    )
    assert actions(apply(server, wave(config_map("a"))))["ConfigMap ns/a"] == "created"
