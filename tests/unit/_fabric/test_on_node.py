# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs on a node by its labels, and what it is to offer then."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.on_node import OnNode, on_node
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import everything, spec_of, training_cluster

NIC = {"feature.node.kubernetes.io/pci-15b3.present": "true"}
LABELLED = {"nfd.node.kubernetes.io/feature-labels": "pci-15b3.present"}
Json = dict[str, Any]


def node(labels: dict[str, str], annotations: dict[str, str] | None = None, name: str = "n") -> Json:
    return {"metadata": {"name": name, "labels": labels, "annotations": annotations or {}}}


def found(spec: Json, body: Json) -> OnNode:
    return on_node(objects_of(render(spec)), body)


def test_a_node_with_nics_is_to_offer_what_its_device_plugins_are_told_to() -> None:
    result = found(training_cluster(), node(NIC, LABELLED))
    assert result.devices == ("rdma/rdma_shared_device_a",)
    names = {name.rpartition("/")[2] for name in result.daemon_sets}
    assert {"rdma-shared-dp-ds", "kube-multus-ds", "nfd-worker", "whereabouts", "cni-plugins-ds"} == names
    assert result.undecided == ""


def test_a_node_without_nics_is_to_offer_nothing_once_it_is_known_to_have_none() -> None:
    result = found(training_cluster(), node({}, LABELLED))
    assert (result.devices, result.undecided) == ((), "")
    assert not any("rdma-shared" in name for name in result.daemon_sets)


def test_nothing_is_decided_before_the_labels_are_there() -> None:
    assert found(training_cluster(), node({})).undecided
    own = training_cluster()
    own["settings"]["nfd"] = False
    assert found(own, node(NIC)) == found(own, node(NIC))._replace(undecided="")


def test_a_group_of_nodes_has_devices_of_its_own() -> None:
    config = '{"configList": [{"resourceName": "b", "rdmaHcaMax": 1, "selectors": {"vendors": ["15b3"]}}]}'
    policy = {"nodeSelector": {"pool": "b"}, "rdmaSharedDevicePlugin": {"config": config}}
    spec = spec_of(node_policies=[{"name": "b", "spec": policy, "source": "b.yaml"}])
    assert found(spec, node({**NIC, "pool": "b"}, LABELLED)).devices == ("rdma/b",)
    assert found(spec, node({**NIC, "pool": "a"}, LABELLED)).devices == ()


@pytest.mark.parametrize(
    ("operator", "values", "chosen"),
    [
        ("In", ["gpu"], True),
        ("In", ["cpu"], False),
        ("NotIn", ["cpu"], True),
        ("NotIn", ["gpu"], False),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Gt", ["5"], False),
    ],
)
def test_a_required_affinity_counts(operator: str, values: list[str], chosen: bool) -> None:
    spec = everything()
    affinity = copy.deepcopy(spec["cluster_policy"]["spec"]["nodeAffinity"])
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    term["matchExpressions"] = [{"key": "pool", "operator": operator, "values": values}]
    spec["cluster_policy"]["spec"]["nodeAffinity"] = affinity
    result = found(spec, node({**NIC, "pool": "gpu"}, LABELLED))
    assert bool(result.devices) is chosen


def test_numbers_and_names_of_nodes_count_in_an_affinity() -> None:
    body = {"kind": "DaemonSet", "metadata": {"namespace": "ns", "name": "d"}}

    def chosen(**term: list[Json]) -> bool:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        pod = {"affinity": {"nodeAffinity": required}}
        each = {**body, "spec": {"template": {"spec": pod}}}
        return on_node([each], node({"gpus": "8"}, name="gpu-01")).daemon_sets == ("ns/d",)

    assert chosen(matchExpressions=[{"key": "gpus", "operator": "Gt", "values": ["4"]}])
    assert not chosen(matchExpressions=[{"key": "gpus", "operator": "Lt", "values": ["4"]}])
    assert not chosen(matchExpressions=[{"key": "cpus", "operator": "Gt", "values": ["4"]}])
    assert chosen(matchFields=[{"key": "metadata.name", "operator": "In", "values": ["gpu-01"]}])
    assert not chosen(matchFields=[{"key": "metadata.name", "operator": "NotIn", "values": ["gpu-01"]}])
    assert not chosen()
