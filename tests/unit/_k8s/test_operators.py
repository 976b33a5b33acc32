# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is taken off an operator's object, and what stays; that a server takes it is tested on a real one."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.batch import without_set_label
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.operators import (
    NETWORK,
    REVISION,
    STATE_LABEL,
    adopting,
    is_of_operator,
    running,
    without_operator,
)

POLICY = {
    "apiVersion": "mellanox.com/v1alpha1",
    "kind": "NicClusterPolicy",
    "name": "p",
    "uid": "u1",
    "controller": True,
}
OTHER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u2"}
OURS: dict[str, Any] = {
    "manager": "rdma-fabric",
    "operation": "Apply",
    "apiVersion": "v1",
    "fieldsV1": {"f:metadata": {"f:labels": {"f:rdma.fabric/set": {}}}},
}
THEIRS: dict[str, Any] = {
    "manager": "operator",
    "operation": "Update",
    "apiVersion": "v1",
    "fieldsV1": {
        "f:data": {".": {}, "f:key": {}},
        "f:metadata": {
            "f:annotations": {".": {}, f"f:{REVISION}": {}},
            "f:labels": {".": {}, "f:app": {}, f"f:{STATE_LABEL}": {}},
            "f:ownerReferences": {".": {}, 'k:{"uid":"u1"}': {}, 'k:{"uid":"u2"}': {}},
        },
    },
}
STATUS = {**THEIRS, "subresource": "status"}
EDIT = {"manager": "kubectl-edit", "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:data": {"f:other": {}}}}


def live(**metadata: Any) -> dict[str, Any]:
    own = {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7", **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": own}


def operated(**metadata: Any) -> dict[str, Any]:
    marks = {
        "labels": {"app": "x", STATE_LABEL: "state-x"},
        "annotations": {"a": "b", REVISION: "1"},
        "ownerReferences": [OTHER, POLICY],
        "managedFields": [THEIRS, OURS, STATUS, EDIT],
    }
    return live(**{**marks, **metadata})


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, False),
        ({"labels": {STATE_LABEL: "state-x"}}, True),
        ({"ownerReferences": [POLICY]}, True),
        ({"ownerReferences": [{**POLICY, "apiVersion": "sriovnetwork.openshift.io/v1"}]}, True),
        ({"annotations": {NETWORK: "SriovNetwork.sriovnetwork.openshift.io/ns/rail0"}}, True),
        ({"ownerReferences": [OTHER]}, False),
        ({"ownerReferences": [{**POLICY, "apiVersion": "mellanox.company/v1"}]}, False),
        ({"ownerReferences": ["no mapping", None]}, False),
    ],
)
def test_an_operator_is_told_by_its_marks_and_its_custom_resources(metadata: dict[str, Any], expected: bool) -> None:
    assert is_of_operator(live(**metadata)) is expected


def test_only_the_marks_are_taken_off() -> None:
    change = adopting(operated(), {"rdma.fabric/set": "s"})["metadata"]
    assert change["resourceVersion"] == "7"
    assert change["labels"] == {"rdma.fabric/set": "s", STATE_LABEL: None}
    assert change["annotations"] == {REVISION: None, NETWORK: None}
    assert change["ownerReferences"] == [OTHER]
    assert "ownerReferences" not in adopting(operated(ownerReferences=[OTHER]), {})["metadata"]
    bare = without_operator(operated())["metadata"]
    assert (bare["labels"], bare["annotations"], bare["ownerReferences"]) == ({"app": "x"}, {"a": "b"}, [OTHER])


def test_what_the_operator_had_set_becomes_a_part_of_our_record_and_others_keep_theirs() -> None:
    ours, status, edit = adopting(operated(), {})["metadata"]["managedFields"]
    assert (status, edit) == (STATUS, EDIT)
    assert ours["manager"] == "rdma-fabric"
    assert ours["fieldsV1"] == {
        "f:data": {".": {}, "f:key": {}},
        "f:metadata": {
            "f:labels": {".": {}, "f:app": {}, "f:rdma.fabric/set": {}},
            "f:ownerReferences": {".": {}, 'k:{"uid":"u2"}': {}},
        },
    }


def test_an_attachment_of_the_sriov_operator_is_told_by_its_annotation_alone() -> None:
    fields = {"f:metadata": {"f:annotations": {".": {}, f"f:{NETWORK}": {}}}, "f:spec": {".": {}, "f:config": {}}}
    annotations = {NETWORK: "SriovNetwork.sriovnetwork.openshift.io/ns/rail0"}
    attachment = live(annotations=annotations, managedFields=[{**THEIRS, "fieldsV1": fields}, OURS])
    assert without_operator(attachment)["metadata"]["annotations"] == {}
    (ours,) = adopting(attachment, {})["metadata"]["managedFields"]
    assert ours["fieldsV1"] == {**OURS["fieldsV1"], "f:spec": {".": {}, "f:config": {}}}


def test_a_record_of_another_api_version_is_dropped_as_two_of_one_manager_are_refused() -> None:
    other = {**THEIRS, "apiVersion": "v1beta1"}
    assert adopting(operated(managedFields=[other, OURS]), {})["metadata"]["managedFields"] == [OURS]


@pytest.mark.parametrize("broken", [None, "text", {}, {"fieldsV1": None}, {"fieldsV1": {"f:metadata": "text"}}])
def test_records_that_nobody_can_read_stay(broken: Any) -> None:
    assert broken in adopting(operated(managedFields=[broken, OURS]), {})["metadata"]["managedFields"]


def deployment(image: str, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"image": "registry.example/proxy"}, {"image": image}]}}
    return {"metadata": {"namespace": "ns", "name": "op"}, "spec": {"template": template, **spec}}


@pytest.mark.parametrize(
    ("body", "runs"),
    [
        (deployment("nvcr.io/nvidia/cloud-native/network-operator:v26.4.1"), True),
        (deployment("registry.example:5000/network-operator@sha256:0123", replicas=1), True),
        (deployment("sriov-network-operator"), True),
        (deployment("registry.example/network-operator:v1", replicas=0), False),
        (deployment("registry.example/network-operator-webhook:v1"), False),
        (deployment("registry.example/network-operator/tool:v1"), False),
        ({"metadata": {}, "spec": {}}, False),
        ({"metadata": {}}, False),
    ],
)
def test_an_operator_that_runs_is_told_by_its_image(body: dict[str, Any], runs: bool) -> None:
    assert running([body]) == (["ns/op"] if runs else [])


def test_the_sriov_operator_of_openshift_is_told_by_its_command() -> None:
    body = deployment("registry.redhat.io/openshift4/ose-sriov-network-rhel9-operator@sha256:0123")
    assert running([body]) == []
    body["spec"]["template"]["spec"]["containers"][1]["command"] = ["sriov-network-operator"]
    assert running([body]) == ["ns/op"]


@pytest.mark.parametrize(
    ("metadata", "image"),
    [
        ({"labels": {STATE_LABEL: "state-x"}}, "network-operator"),
        ({"ownerReferences": [POLICY]}, "network-operator"),
        ({"annotations": {NETWORK: "SriovNetwork.sriovnetwork.openshift.io/ns/rail0"}}, "sriov-network-operator"),
        ({"ownerReferences": [{**POLICY, "apiVersion": "sriovnetwork.openshift.io/v1"}]}, "sriov-network-operator"),
    ],
)
def test_only_the_operator_of_an_object_takes_it_back(metadata: dict[str, Any], image: str) -> None:
    operators = [deployment("network-operator"), deployment("sriov-network-operator")]
    for body in operators:
        (body["metadata"]["name"],) = (each["image"] for each in body["spec"]["template"]["spec"]["containers"][1:])
    assert running(operators, [live(**metadata), live()]) == [f"ns/{image}"]
    assert running(operators, [live()]) == []


def test_released_are_only_our_label_and_our_record() -> None:
    labels = {"app": "x", "rdma.fabric/set": "s", "app.kubernetes.io/managed-by": "rdma-fabric"}
    change = without_set_label(live(labels=labels, managedFields=[OURS, EDIT]), "s")["metadata"]
    assert change == {
        "resourceVersion": "7",
        "labels": {"rdma.fabric/set": None, "app.kubernetes.io/managed-by": None},
        "managedFields": [EDIT],
    }
    alone = without_set_label(live(labels={"app.kubernetes.io/managed-by": "Helm"}, managedFields=[OURS]), "s")[
        "metadata"
    ]
    assert (alone["labels"], alone["managedFields"]) == ({}, [{}])
