# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ib-kubernetes: what its program needs to start, the GUIDs it takes, and what it needs that is not part of the input.

The facts are those of ``manifests/state-ib-kubernetes`` of the Network Operator 26.4.1 and of ib-kubernetes itself.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.ib_kubernetes import check, guid_number
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import render
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, of_policy, of_text, resource
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import GUIDS, services, spec_of

Object = dict[str, Any]
NAMESPACE = "nvidia-network-operator"
START, END = "pKeyGUIDPoolRangeStart", "pKeyGUIDPoolRangeEnd"
CONTROL_PLANE = ["node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane"]
NETWORK = {"cniVersion": "0.3.1", "type": "ib-sriov", "pkey": "0x0001", "ibKubernetesEnabled": True}


def rendered(section: Object, **parts: Any) -> dict[str, Object]:
    waves = render(spec_of({"ibKubernetes": {**GUIDS, **section}}, settings={"nfd": False}, **parts))
    return {each["kind"]: each for wave in waves for each in wave["objects"]}


def main_of(deployment: Object) -> Object:
    containers = deployment["spec"]["template"]["spec"]["containers"]
    assert len(containers) == 1
    return dict(containers[0])


def fabric(section: Object, *documents: Any, **given: Any) -> Fabric:
    policy = resource("NicClusterPolicy", "nic-cluster-policy", {"ibKubernetes": {**GUIDS, **section}})
    return Fabric([policy, *documents], [], **given)


def secret(namespace: str = NAMESPACE, **fields: Any) -> Any:
    found = resource("Secret", "ufm", None, "secret.yaml", namespace=namespace)
    found.content.update(apiVersion="v1", **fields)
    found.content.pop("spec")
    return found


def network(config: Object) -> Any:
    found = resource("NetworkAttachmentDefinition", "ib", {"config": json.dumps(config)}, "net.yaml")
    found.content["apiVersion"] = "k8s.cni.cncf.io/v1"
    found.content["metadata"]["annotations"] = {"k8s.v1.cni.cncf.io/resourceName": "nvidia.com/ib"}
    return found


def test_the_section_brings_one_program_with_its_rights_and_nothing_else() -> None:
    found = rendered({}, namespace="fabric")
    assert set(found) == {"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Deployment"}
    assert found["ClusterRoleBinding"]["subjects"] == [
        {"kind": "ServiceAccount", "name": "ib-kubernetes", "namespace": "fabric"}
    ]
    rights = {each["resources"][0]: set(each["verbs"]) for each in found["ClusterRole"]["rules"]}
    assert rights == {
        "pods": {"get", "list", "watch", "patch"},
        "network-attachment-definitions": {"get", "list", "watch"},
        "leases": {"get", "list", "watch", "create", "update", "patch"},
        "events": {"create"},
    }


def test_the_program_reads_the_pool_and_the_access_to_ufm_from_its_environment() -> None:
    main = main_of(rendered({})["Deployment"])
    assert main["image"] == "nvcr.io/nvidia/mellanox/ib-kubernetes:network-operator-v26.7.0"
    values = {each["name"]: each["value"] for each in main["env"] if "value" in each}
    assert values == {
        "DAEMON_SM_PLUGIN": "ufm",
        "DAEMON_PERIODIC_UPDATE": "5",
        "GUID_POOL_RANGE_START": GUIDS[START],
        "GUID_POOL_RANGE_END": GUIDS[END],
    }
    secrets = [each["valueFrom"]["secretKeyRef"] for each in main["env"] if "secretKeyRef" in each.get("valueFrom", {})]
    assert {each["name"] for each in secrets} == {"ufm"}
    assert [each["key"] for each in secrets if not each.get("optional")] == [
        "UFM_USERNAME",
        "UFM_PASSWORD",
        "UFM_ADDRESS",
    ]
    assert [each["key"] for each in secrets if each.get("optional")] == [
        "UFM_HTTP_SCHEMA",
        "UFM_PORT",
        "UFM_CERTIFICATE",
    ]
    fields = {each["name"] for each in main["env"] if "fieldRef" in each.get("valueFrom", {})}
    assert fields == {"K8S_NODE", "POD_NAMESPACE", "POD_UID"}


def test_it_runs_once_near_the_control_plane_on_the_hosts_network() -> None:
    deployment = rendered({})["Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]) == (1, {"type": "Recreate"})
    assert pod["hostNetwork"] is True
    assert pod["priorityClassName"] == "system-cluster-critical"
    prefers = pod["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert [each["preference"]["matchExpressions"][0]["key"] for each in prefers] == CONTROL_PLANE
    assert [each["key"] for each in pod["tolerations"]] == [*CONTROL_PLANE, "nvidia.com/gpu"]


def test_placing_secrets_resources_and_seconds_of_the_policy_reach_the_pod() -> None:
    waves = render(services())
    found = {(each["kind"], each["metadata"]["name"]): each for wave in waves for each in wave["objects"]}
    deployment = found[("Deployment", "ib-kubernetes")]
    pod, main = deployment["spec"]["template"]["spec"], main_of(deployment)
    assert pod["imagePullSecrets"] == [{"name": "ngc"}]
    assert pod["tolerations"][-1] == {"key": "dedicated", "operator": "Exists"}
    assert "requiredDuringSchedulingIgnoredDuringExecution" in pod["affinity"]["nodeAffinity"]
    assert main["resources"] == {"requests": {"cpu": "500m", "memory": "1Gi"}}
    assert {"name": "DAEMON_PERIODIC_UPDATE", "value": "10"} in main["env"]


@pytest.mark.parametrize(
    ("version", "program"),
    [
        ("v1.0.2", "/usr/bin/ib-kubernetes"),
        ("v1.1.0", "/ib-kubernetes"),
        ("network-operator-v25.7.0", "/ib-kubernetes"),
    ],
)
def test_the_program_is_started_where_its_release_has_it(version: str, program: str) -> None:
    """The operator's own manifest changed with v25.1.0, which brought ib-kubernetes v1.1.0."""
    assert main_of(rendered({"version": version})["Deployment"])["command"] == [program]


@pytest.mark.parametrize(
    ("start", "end", "wrong"),
    [
        ("02:00:00:00:00:00:00:00", "02:FF:FF:FF:FF:FF:FF:FF", []),
        ("02:00:00:00:00:00:00:01", "02:00:00:00:00:00:00:01", []),
        ("02-00-00-00-00-00-00-01", "0200.0000.0000.00ff", []),
        ("02:00:00:00:00:00:00", "02:FF:FF:FF:FF:FF:FF:FF", [START]),
        ("02:00:00:00:00:00:00:0g", "0x02000000000000ff", [START, END]),
        ("02:00:00:00:00:00:00:02", "02:00:00:00:00:00:00:01", [END]),
        ("00:00:00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff:ff:ff", [START, END]),
        ("02:00:00:00:00:00:00:00\n", "02:00-00:00:00:00:00:01", [START, END]),
    ],
)
def test_a_pool_is_refused_where_the_program_refuses_it(start: str, end: str, wrong: list[str]) -> None:
    assert [each.path for each in check({START: start, END: end})] == wrong
    found = fabric({START: start, END: end}).violations
    assert {each.path for each in found} == {f"spec.ibKubernetes.{name}" for name in wrong}


def test_an_end_that_is_missing_is_no_problem_of_the_other() -> None:
    assert check({}) == check({START: "02:00:00:00:00:00:00:00"}) == []
    assert guid_number(None) is None


def test_what_has_to_be_given_is_asked_for() -> None:
    found = of_policy({"ibKubernetes": {"ufmSecret": "", "periodicUpdateSeconds": 0}}).violations
    assert {(each.path, each.problem) for each in found} == {
        ("spec.ibKubernetes", f"lacks `{START}`"),
        ("spec.ibKubernetes", f"lacks `{END}`"),
        ("spec.ibKubernetes.ufmSecret", "is empty"),
        ("spec.ibKubernetes.periodicUpdateSeconds", "is 0, out of range"),
    }


def test_the_charts_values_bring_its_range_and_have_to_name_the_secret() -> None:
    values: Object = {"ibKubernetes": {"deploy": True, "ufmSecret": "ufm", END: "02:00:00:00:00:00:00:ff"}}
    section = of_text(values=values).accepted().spec["cluster_policy"]["spec"]["ibKubernetes"]
    assert (section[START], section[END]) == ("02:00:00:00:00:00:00:00", "02:00:00:00:00:00:00:ff")
    values["ibKubernetes"].update(ufmSecret="", **{START: "x"})
    assert {each.path for each in of_text(values=values).violations} == {
        "ibKubernetes.ufmSecret",
        f"ibKubernetes.{START}",
    }


def test_the_secret_is_named_where_it_is_not_given() -> None:
    notice = fabric({}).accepted().said("names the Secret ufm")
    assert notice.path == "spec.ibKubernetes.ufmSecret"
    assert NAMESPACE in notice.hint and "UFM_PASSWORD" in notice.hint
    elsewhere = secret("default", stringData={"UFM_USERNAME": "a"})
    assert fabric({}, elsewhere).accepted().said("names the Secret ufm") == notice


def test_a_secret_that_is_given_has_what_the_pod_reads() -> None:
    keys = {"UFM_USERNAME": "YQ==", "UFM_ADDRESS": "YQ=="}
    complete = fabric({}, secret(data=keys, stringData={"UFM_PASSWORD": "b"})).accepted()
    assert not [each for each in complete.notices if "Secret" in each.problem]
    found = fabric({}, secret(data=keys)).violations
    assert [each.problem for each in found] == ["lacks UFM_PASSWORD, without which ib-kubernetes does not start"]


def test_a_network_that_waits_for_a_guid_is_named_where_nothing_gives_it() -> None:
    notice = Fabric([network(NETWORK)], []).accepted().said("waits for a GUID")
    assert notice.path == "spec.config -> ibKubernetesEnabled"
    said = [each.problem for each in fabric({}, network(NETWORK)).accepted().notices]
    said += [each.problem for each in Fabric([network({**NETWORK, "ibKubernetesEnabled": False})], []).notices]
    assert not [problem for problem in said if "waits for a GUID" in problem]


@pytest.mark.parametrize(
    ("guids", "named"),
    [
        ({"first": "02:00:00:00:00:00:00:10", "last": "02:00:00:00:00:00:00:1f"}, True),
        ({"first": "01:00:00:00:00:00:00:10", "last": "03:00:00:00:00:00:00:1f"}, True),
        (["04:00:00:00:00:00:00:00", "02:ff:ff:ff:ff:ff:ff:ff"], True),
        (["03:00:00:00:00:00:00:00"], False),
        ("deterministic", False),
        (None, False),
    ],
)
def test_guids_that_hosts_give_their_functions_too_are_named(guids: Any, named: bool) -> None:
    hosts: Object = {"node-0": ({"interfaces": [{"vf_guids": guids}]}, [], [])}
    said = [each for each in fabric({}, hosts=hosts).accepted().notices if "two ports" in each.problem]
    assert bool(said) is named
    assert all("node-0" in each.problem for each in said)
