# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The networks of a fabric with the resource behind each, and the pods that test them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.proof_pods import (
    networks_of,
    pod_name,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.proof_pods import (
    test_image as image_of,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.proof_pods import (
    test_pod as pod_of,
)
from tools.checkout import CHECKOUT

Json = dict[str, Any]

SEED = CHECKOUT / "tests" / "fixtures" / "seeds" / "egx-v0.1.0" / "rdma-test-pod1.yml"


def macvlan(name: str, **spec: Any) -> Json:
    given = {"networkNamespace": "default", "master": "rail0", "mode": "bridge", "ipam": "{}", **spec}
    return {"kind": "MacvlanNetwork", "name": name, "spec": given, "source": "vars"}


def spec(networks: list[Json], *configs: Json, attachments: list[Json] | None = None) -> Json:
    policy = {"rdmaSharedDevicePlugin": {"config": json.dumps({"configList": list(configs)})}} if configs else {}
    return {
        "cluster_policy": {"name": "p", "spec": policy, "source": "vars"} if configs else None,
        "node_policies": [],
        "networks": networks,
        "attachments": attachments or [],
        "settings": {},
    }


def shared(name: str, *interfaces: str, **changes: Any) -> Json:
    selectors = {"ifNames": list(interfaces)} if interfaces else {"vendors": ["15b3"]}
    return {"resourceName": name, "rdmaHcaMax": 63, "selectors": selectors, **changes}


def only(found: list[Json]) -> Json:
    (network,) = found
    return network


def test_the_only_shared_resource_serves_every_macvlan_network() -> None:
    found = networks_of(spec([macvlan("a"), macvlan("b", master="rail1", mtu=9000)], shared("dev")))
    assert [each["resource"] for each in found] == ["rdma/dev", "rdma/dev"]
    assert [each["mtu"] for each in found] == [None, 9000]
    assert found[1]["network"] == "default/b"


def test_of_several_the_one_that_names_the_master_is_taken() -> None:
    fabric = spec([macvlan("a", master="rail1")], shared("one", "rail0"), shared("two", "rail1", resourcePrefix="x.y"))
    assert only(networks_of(fabric))["resource"] == "x.y/two"


def test_several_that_fit_are_named_and_none_is_guessed() -> None:
    network = only(networks_of(spec([macvlan("a", master="rail9")], shared("one", "rail0"), shared("two", "rail1"))))
    assert network["resource"] is None
    assert network["candidates"] == ["rdma/one", "rdma/two"]


def test_the_plugins_old_field_names_interfaces_too() -> None:
    old = {"resourceName": "hca_shared_devices_a", "rdmaHcaMax": 1000, "devices": ["rail1"]}
    fabric = spec([macvlan("a", master="rail1")], old, shared("two", "rail0"))
    assert only(networks_of(fabric))["resource"] == "rdma/hca_shared_devices_a"


def test_a_host_device_network_brings_its_own_resource() -> None:
    network = {
        "kind": "HostDeviceNetwork",
        "name": "vf",
        "spec": {"resourceName": "hostdev", "ipam": "{}"},
        "source": "v",
    }
    assert only(networks_of(spec([network], shared("dev"))))["resource"] == "nvidia.com/hostdev"


def test_an_attachment_given_as_such_is_read() -> None:
    given: Json = {
        "name": "raw",
        "namespace": "ai",
        "config": json.dumps({"plugins": [{"type": "macvlan", "master": "rail1", "mtu": 4200}, {"type": "tuning"}]}),
        "annotations": {"k8s.v1.cni.cncf.io/resourceName": "rdma/own"},
        "labels": {},
        "source": "file",
    }
    found = only(networks_of(spec([], shared("dev"), attachments=[given])))
    assert (found["network"], found["resource"], found["master"], found["mtu"]) == ("ai/raw", "rdma/own", "rail1", 4200)


@pytest.mark.parametrize(
    ("fields", "isolated"),
    [
        ({}, [False, False]),
        ({"namespaceIsolation": False, "globalNamespaces": "ai"}, [False, False]),
        ({"namespaceIsolation": True}, [False, True]),
        ({"NamespaceIsolation": True, "globalNamespaces": " ai , b"}, [True, False]),
    ],
)
def test_networks_are_for_pods_of_their_namespace_where_multus_isolates(fields: Json, isolated: list[bool]) -> None:
    fabric = spec([macvlan("a"), macvlan("b", networkNamespace="ai")], shared("dev"))
    fabric["cluster_policy"]["spec"]["secondaryNetwork"] = {"multus": {"config": json.dumps(fields)}}
    assert [each["isolated"] for each in networks_of(fabric)] == isolated


@pytest.mark.parametrize("config", ["", "{broken", "[]", '{"plugins": 3}', '{"master": 7, "mtu": true}', None])
def test_a_configuration_that_says_nothing_is_no_error(config: str | None) -> None:
    given: Json = {
        "name": "raw",
        "namespace": "ai",
        "config": config,
        "annotations": {},
        "labels": {},
        "source": "file",
    }
    found = only(networks_of(spec([], attachments=[given])))
    assert (found["resource"], found["master"], found["mtu"], found["candidates"]) == (None, None, None, [])


def pod(**changes: Any) -> Json:
    given: Json = {
        "run": "0a1b",
        "node": "n1",
        "namespace": "ai",
        "network": "ai/rail0",
        "resources": ["rdma/dev"],
        "image": "image:1",
        "deadline": 900,
        "settings": {},
        "tolerations": [],
        "command": ["sh", "-c", "sleep infinity"],
    }
    return pod_of("name", **{**given, **changes})


def test_the_pod_has_the_shape_of_the_walkthroughs_own() -> None:
    seed, ours = yaml.safe_load(SEED.read_text(encoding="utf-8")), pod(resources=["rdma/hca_shared_devices_a"])
    theirs, container = seed["spec"]["containers"][0], ours["spec"]["containers"][0]
    assert container["securityContext"] == theirs["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}
    for group in ("limits", "requests"):
        given = {name: str(amount) for name, amount in theirs["resources"][group].items()}
        assert given.items() <= container["resources"][group].items()
    assert [word.strip() for word in theirs["command"]] == container["command"]
    assert set(seed["metadata"]["annotations"]) <= set(ours["metadata"]["annotations"])


def test_a_pod_is_of_the_runtime_class_that_is_given() -> None:
    assert pod(runtime_class="nvidia")["spec"]["runtimeClassName"] == "nvidia"
    assert "runtimeClassName" not in pod()["spec"]


def test_only_the_pod_of_the_one_node_that_is_tested_goes_to_a_cordoned_node() -> None:
    cordon = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
    tested = [pod(node=node, pairs_of="n1") for node in ("n1", "n2")]
    assert [cordon in each["spec"]["tolerations"] for each in tested] == [True, False]
    assert {each["metadata"]["annotations"]["rdma.fabric/pairs-of"] for each in tested} == {"n1"}
    everybody = pod()
    assert cordon not in everybody["spec"]["tolerations"]
    assert "rdma.fabric/pairs-of" not in everybody["metadata"]["annotations"]


def test_the_pod_asks_for_one_of_each_of_its_resources() -> None:
    (container,) = pod(resources=["nvidia.com/hostdev", "rdma/dev"])["spec"]["containers"]
    amounts = {"nvidia.com/hostdev": "1", "rdma/dev": "1"}
    assert all(amounts.items() <= given.items() for given in container["resources"].values())


def test_the_pod_gives_what_a_quota_of_cpu_and_memory_wants_of_each() -> None:
    (container,) = pod(resources=["rdma/dev"])["spec"]["containers"]
    assert [{"cpu", "memory"} - set(container["resources"][group]) for group in ("limits", "requests")] == [set()] * 2


def test_the_pod_ends_itself_knows_nobody_and_is_scheduled_to_its_node() -> None:
    body = pod()["spec"]
    assert body["activeDeadlineSeconds"] == 900
    assert body["restartPolicy"] == "Never"
    assert body["automountServiceAccountToken"] is False
    assert "nodeName" not in body
    (term,) = body["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    assert not {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName"} & set(body)
    assert "privileged" not in body["containers"][0]["securityContext"]


def test_the_pod_is_marked_as_ours_and_of_its_run() -> None:
    metadata = pod()["metadata"]
    assert metadata["labels"]["rdma.fabric/run"] == "0a1b"
    assert metadata["labels"]["app.kubernetes.io/managed-by"] == "rdma-fabric"
    assert metadata["labels"]["app.kubernetes.io/component"] == "verify"
    assert metadata["annotations"]["k8s.v1.cni.cncf.io/networks"] == "ai/rail0"


def test_no_mesh_takes_over_the_connections_of_the_pod() -> None:
    metadata = pod()["metadata"]
    assert metadata["labels"]["sidecar.istio.io/inject"] == "false"
    assert metadata["labels"]["istio.io/dataplane-mode"] == "none"
    assert metadata["annotations"]["linkerd.io/inject"] == "disabled"


def test_tolerations_and_pull_secrets_of_the_fabric_reach_the_pod() -> None:
    mine = {"key": "a", "operator": "Exists"}
    body = pod(tolerations=[mine], settings={"image_pull_secrets": ["s"]})["spec"]
    assert mine in body["tolerations"]
    assert body["imagePullSecrets"] == [{"name": "s"}]


def test_the_image_goes_through_the_mirrors_unless_it_is_given() -> None:
    mirrors = {"registry_mirrors": {"docker.io": "registry.local/hub"}}
    assert image_of(None, {}) == "mellanox/rping-test"
    assert image_of(None, mirrors) == "registry.local/hub/mellanox/rping-test"
    assert image_of("mine:1", mirrors) == "mine:1"


def test_names_hold_nothing_of_the_nodes() -> None:
    assert pod_name("0a1b2c3d", 999, 9999) == "rdma-verify-0a1b2c3d-999-9999"
