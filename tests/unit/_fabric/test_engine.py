# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine helm: which chart is asked for, what its operator is given, and what is told or refused beside it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.load import HostReading
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.removal import offered_by
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import parse_host_variables
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, of_text, resource

CONFIG = '{"configList": [{"resourceName": "a", "rdmaHcaMax": 63, "selectors": {"vendors": ["15b3"]}}]}'
POOL = {"subnet": "192.168.0.0/20", "perNodeBlockSize": 24, "gateway": "192.168.0.1"}
MACVLAN = {"master": "rail0", "networkNamespace": "apart", "ipam": '{"type": "nv-ipam", "poolName": "p"}'}
FUNCTIONS = {"resourceName": "a", "numVfs": 8, "nodeSelector": {"a": "b"}, "nicSelector": {"vendor": "15b3"}}


def helm(variables: dict[str, Any] | None = None, **given: Any) -> Fabric:
    settings = {"engine": "helm", **given.pop("settings", {})}
    return of_text(given.pop("text", ""), variables=variables or {}, settings=settings, **given)


def host(**variables: Any) -> dict[str, HostReading]:
    return {"gpu-01": parse_host_variables("gpu-01", {f"rdma_fabric_{name}": item for name, item in variables.items()})}


@pytest.mark.parametrize(
    ("given", "reference", "repository", "version"),
    [
        ({}, "network-operator", "https://helm.ngc.nvidia.com/nvidia", "26.7.0"),
        ({"helm_chart_version": "25.10.0"}, "network-operator", "https://helm.ngc.nvidia.com/nvidia", "25.10.0"),
        ({"helm_chart": "mine", "helm_chart_repository": "https://c.example"}, "mine", "https://c.example", ""),
        ({"helm_chart": "oci://r.example/x/network-operator"}, "oci://r.example/x/network-operator", "", "26.7.0"),
        ({"helm_chart": "known/network-operator"}, "known/network-operator", "", "26.7.0"),
        ({"helm_chart": "/srv/network-operator"}, "/srv/network-operator", "", ""),
    ],
)
def test_the_chart_that_is_asked_for(given: dict[str, str], reference: str, repository: str, version: str) -> None:
    chart = helm(settings=given).accepted().spec["chart"]
    assert (chart["reference"], chart["repository"], chart["version"]) == (reference, repository, version)


def test_values_are_merged_as_helm_does_and_reach_the_chart_as_they_are() -> None:
    values = {"operator": {"image": "mine", "tolerations": None}, "newer": {"than": "known"}}
    fabric = helm(values=values, settings_of_helm=["operator.tag=v2"]).accepted()
    assert fabric.spec["chart"]["values"] == {
        "operator": {"image": "mine", "tolerations": None, "tag": "v2"},
        "newer": {"than": "known"},
    }
    assert "it is given to the chart as it is" in fabric.said("newer").hint
    assert not any("no operator in the cluster" in notice.sentence() for notice in fabric.notices)


def test_the_operator_is_given_every_resource_as_it_is_where_it_looks_for_it() -> None:
    variables = {
        "nic_cluster_policy": {"rdmaSharedDevicePlugin": {"config": CONFIG}},
        "ip_pools": {"p": POOL},
        "macvlan_networks": {"rail0": MACVLAN},
        "network_attachments": {"own": {"config": '{"cniVersion": "0.3.1", "type": "macvlan", "master": "x"}'}},
    }
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: ufm, namespace: operators}\n"
    spec = helm(variables, text=secret, settings={"namespace": "operators"}).accepted().spec
    assert [list(request["kernel_modules"]) for request in spec["host_requests"]] == [["rdma_ucm", "ib_umad"]]
    assert spec["rollouts"] == []
    waves = render(spec)
    order = [(body["kind"], body["metadata"].get("namespace", "")) for body in objects_of(waves)]
    assert order == [
        ("Namespace", ""),
        ("Secret", "operators"),
        ("NicClusterPolicy", ""),
        ("MacvlanNetwork", ""),
        ("IPPool", "operators"),
        ("NetworkAttachmentDefinition", "default"),
    ]
    bodies = {body["kind"]: body for body in objects_of(waves)}
    assert bodies["NicClusterPolicy"]["spec"] == variables["nic_cluster_policy"]
    assert bodies["MacvlanNetwork"]["spec"] == MACVLAN
    offered = offered_by(objects_of(waves))
    assert offered.networks == {"apart/rail0", "default/own"}
    assert offered.resources == {"rdma/a"}


def test_the_operators_namespace_lets_its_pods_in_where_it_is_given_too() -> None:
    label = "pod-security.kubernetes.io/enforce"
    given: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nvidia-network-operator"}}
    (made,) = objects_of(render(helm(text=json.dumps(given)).accepted().spec))
    assert made["metadata"]["labels"][label] == "privileged"
    given["metadata"]["labels"] = {label: "baseline"}
    with pytest.raises(InvalidInput, match="its level is baseline"):
        render(helm(text=json.dumps(given)).accepted().spec)


def test_what_only_this_collection_refuses_is_left_to_the_operator() -> None:
    policy = {**FUNCTIONS, "nicSelector": {"vendor": "15b3", "netFilter": "openstack/NetworkID:x"}}
    document = resource("SriovNetworkNodePolicy", "a", policy)
    assert Fabric([document], []).violations
    fabric = Fabric([document], [], settings={"engine": "helm"}).accepted()
    assert "sriovNetworkOperator.enabled: true" in fabric.said("SR-IOV operator").hint
    switched = {"sriovNetworkOperator": {"enabled": True}}
    assert Fabric([document], [], settings={"engine": "helm"}, values=switched).accepted().notices == []
    unknown = helm({"nic_cluster_policy": {"nvIpan": {}}})
    assert unknown.wrong("nvIpan").hint == "did you mean nvIpam?"


def test_a_retired_field_is_named_with_who_judges_it() -> None:
    fabric = helm({"nic_cluster_policy": {"devicePlugin": {"config": CONFIG}}}).accepted()
    assert "the API server refuses it" in fabric.said("is retired").hint


@pytest.mark.parametrize(
    ("variables", "of_host", "source", "path"),
    [
        ({"nic_cluster_policy": {"ofedDriver": {}}}, {"driver": {"flavour": "inbox"}}, "driver", ""),
        ({"nic_cluster_policy": {"nvPeerDriver": {}}}, {"peer_memory": {"state": "present"}}, "peer_memory", ""),
        ({"sriov_pool_configs": {"a": {"rdmaMode": "shared"}}}, {"netns_mode": "shared"}, "netns_mode", ""),
        (
            {"sriov_node_policies": {"a": FUNCTIONS}},
            {"interfaces": [{"pci": "0000:18:00.0", "vfs": 4}]},
            "interfaces",
            "vfs",
        ),
    ],
)
def test_what_operator_and_host_would_both_do_is_refused(
    variables: dict[str, Any], of_host: dict[str, Any], source: str, path: str
) -> None:
    (wrong,) = helm(variables, hosts=host(**of_host)).violations
    assert (wrong.source, wrong.path) == (f"host gpu-01: rdma_fabric_{source}", path)
    assert helm(variables, hosts=host()).accepted().spec["hosts"]["gpu-01"]["requests"] == []


def test_functions_that_hosts_make_may_be_offered_by_the_operator() -> None:
    kept = {"sriov_node_policies": {"a": {**FUNCTIONS, "externallyManaged": True}}}
    helm(kept, hosts=host(interfaces=[{"pci": "0000:18:00.0", "vfs": 8}])).accepted()


@pytest.mark.parametrize(
    "given",
    [
        {"nfd": False},
        {"registry_mirrors": {"nvcr.io": "mirror.example"}},
        {"image_pull_secrets": ["pull"]},
        {"cni_bin_dir": "/opt/other"},
        {"helm_chart": "/srv/chart", "helm_chart_version": "1.0.0"},
        {"helm_chart": "oci://r.example/c", "helm_chart_repository": "https://c.example"},
    ],
)
def test_a_setting_without_effect_is_named(given: dict[str, Any]) -> None:
    (said,) = helm(settings=given).accepted().notices
    assert said.source == f"rdma_fabric_{list(given)[-1]}"
    assert "has no effect" in said.problem


def test_a_chart_is_nothing_to_the_direct_engine() -> None:
    fabric = of_text(settings={"helm_release": "mine"}).accepted()
    assert "chart" not in fabric.spec
    assert fabric.said("rdma_fabric_helm_release").hint == "set rdma_fabric_engine: helm, or remove it"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("engine", "operator"),
        ("helm_chart", "a chart"),
        ("helm_chart", "$HOME/chart"),
        ("helm_chart_repository", "oci://r.example"),
        ("helm_chart_version", ">=26.1 <27"),
        ("helm_release", "Operator"),
        ("helm_release", "a" * 54),
    ],
)
def test_what_helm_would_not_take_is_refused(name: str, value: str) -> None:
    (wrong,) = helm(settings={name: value}).violations
    assert wrong.source == f"rdma_fabric_{name}"
    assert "direct or helm" in wrong.problem or wrong.hint
