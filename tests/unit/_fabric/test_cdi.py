# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Device plugins with useCdi: nodes whose container runtime has CDI off or none, and what several resources lose."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.action.fabric_nccl import flaws_of
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import Document
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.cdi import plugins_with_cdi, without_cdi
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.preflight import preflight
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import render
from ansible_collections.rdma.fabric.plugins.module_utils._proof.nccl_plan import Scope
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, resource
from ansible_collections.rdma.fabric.tests.unit._fabric.nccl_launch import a_test

DEVICES = {"configList": [{"resourceName": "rdma", "rdmaHcaMax": 8, "selectors": {"vendors": ["15b3"]}}]}
FUNCTIONS = {"resourceList": [{"resourceName": "vfs", "selectors": {"vendors": ["15b3"]}}]}
SHARED, SRIOV = "rdma-shared-dp-ds", "network-operator-sriov-device-plugin"


@pytest.mark.parametrize(
    ("shared", "sriov", "plugins"), [(True, False, [SHARED]), (True, True, [SRIOV, SHARED]), (False, False, [])]
)
def test_plugins_with_the_flag_are_found_in_what_is_rendered(shared: bool, sriov: bool, plugins: list[str]) -> None:
    policy: dict[str, Any] = {
        "rdmaSharedDevicePlugin": {"config": json.dumps(DEVICES), "useCdi": shared},
        "sriovDevicePlugin": {"config": json.dumps(FUNCTIONS), "useCdi": sriov},
    }
    assert plugins_with_cdi(render(Fabric([], [], variables={"nic_cluster_policy": policy}).accepted().spec)) == plugins


@pytest.mark.parametrize(
    ("runtime", "says"),
    [
        ("containerd://1.7.13", "containerd 1.7 of the nodes a has CDI off unless it was switched on"),
        ("containerd://1.7.27-k3s1", "(next: set enable_cdi = true in its configuration, or leave useCdi out)"),
        ("containerd://1.6.33", "containerd of the nodes a is older than 1.7 and has no CDI"),
        ("containerd://2.0.0", ""),
        ("containerd://2.1.4-k3s1", ""),
        ("cri-o://1.34.1", ""),
        ("", ""),
    ],
)
def test_what_is_said_of_a_runtime(runtime: str, says: str) -> None:
    found = without_cdi([SHARED], {"a": runtime})
    assert len(found) == bool(says)
    assert says in "".join(found)
    assert without_cdi([], {"a": runtime}) == []


def test_nodes_of_one_kind_are_said_once() -> None:
    runtimes = {**{f"n{number}": "containerd://1.7.1" for number in range(40)}, "old": "containerd://1.5.0"}
    off, none = without_cdi([SHARED], runtimes)
    assert "n0, n1" in off and " more has CDI off" in off
    assert "of the nodes old is older" in none


def sriov(version: str, *resources: str, **more: Any) -> list[Document]:
    pairs = [each.split("/") for each in resources]
    found = [{"resourcePrefix": a, "resourceName": b, "selectors": {"pfNames": [b]}} for a, b in pairs]
    image = {"repository": "r", "image": "i", "version": version}
    section = {**image, "useCdi": True, "config": json.dumps({"resourceList": found})}
    return [resource("NicClusterPolicy", "nic-cluster-policy", {"sriovDevicePlugin": section, **more})]


def shared(*names: str) -> dict[str, Any]:
    found = [{"resourceName": each, "rdmaHcaMax": 8, "selectors": {"ifNames": [each]}} for each in names]
    return {"rdmaSharedDevicePlugin": {"useCdi": True, "config": json.dumps({"configList": found})}}


def policies(**labels: dict[str, str]) -> list[Document]:
    given = [
        (name, {"resourceName": name, "nodeSelector": each, "numVfs": 4, "nicSelector": {"pfNames": [name]}})
        for name, each in labels.items()
    ]
    found = [resource("SriovNetworkNodePolicy", name, spec) for name, spec in given]
    return [*found, resource("SriovOperatorConfig", "default", {"useCDI": True})]


def pod(*containers: list[str]) -> Document:
    found = [
        {"name": f"c{place}", "image": "i", "resources": {"limits": dict.fromkeys(names, 1)}}
        for place, names in enumerate(containers)
    ]
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ai"}}
    return Document("pod.yaml", {**body, "spec": {"containers": found}})


ONE, DELETED, OVERWRITTEN = "device files of one alone", "deletes the files", "before v3.8.0"


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        (sriov("v3.9.0", "n/a", "n/b"), [("n/a, n/b", ONE)]),
        (sriov("v3.7.0", "n/a", "m/c", "n/b"), [("n/a, n/b", ONE), ("n/a, n/b", OVERWRITTEN)]),
        (sriov("v3.7.0", "n/a", "m/a"), []),
        (sriov("v3.9.0", "n/a", **shared("a")), []),
        (sriov("v3.9.0", "n/a", **shared("a", "b")), [("rdma/a, rdma/b", ONE)]),
        (
            policies(a={"rail": "a"}, b={"gpu": "yes"}),
            [("nvidia.com/a, nvidia.com/b", ONE), ("nvidia.com/a, nvidia.com/b", DELETED)],
        ),
        (policies(a={"rail": "a"}, b={"rail": "b"}), []),
        (policies(a={"rail": "a"}, b={"rail": "b"})[:2], []),
    ],
)
def test_what_is_lost_with_several_resources_is_said(documents: list[Document], said: list[tuple[str, str]]) -> None:
    notices = [each for each in preflight(Fabric(documents, []).accepted().spec) if each.source.startswith("useCdi")]
    assert [each.source for each in notices] == [f"useCdi ({names})" for names, _words in said]
    assert [words for _names, words in said if not any(words in each.problem for each in notices)] == []


@pytest.mark.parametrize(
    ("containers", "refused"),
    [([["n/a", "n/b"]], True), ([["n/a"], ["n/b"]], False), ([["n/a", "m/a", "x/gpu"]], False)],
)
def test_a_container_of_the_input_that_asks_for_two_is_refused(containers: list[list[str]], refused: bool) -> None:
    given = Fabric([*sriov("v3.9.0", "n/a", "n/b", "m/a"), pod(*containers)], []).accepted().spec
    with pytest.raises(InvalidInput) if refused else nullcontext() as found:
        preflight(given)
    assert not found or "Pod p: container c0: asks for n/a and n/b, and with useCdi gets" in str(found.value)


@pytest.mark.parametrize(
    ("resources", "refused"),
    [({"n/a": 1, "n/b": 1}, ["all rails"]), ({"n/a": 2}, []), ({"n/a": 1, "m/a": 1}, [])],
)
def test_an_nccl_job_that_gets_the_devices_of_one_network_is_refused(
    resources: dict[str, int], refused: list[str]
) -> None:
    test = a_test(resources={"nvidia.com/gpu": 8, **resources})
    flaws = flaws_of(
        Fabric(sriov("v3.9.0", "n/a", "n/b", "m/a"), []).accepted().spec, [(Scope("all rails", []), test)], {}
    )
    assert [each.path for each in flaws] == refused
    for flaw in flaws:
        assert flaw.problem == "a pod asks for n/a and n/b, and with useCdi gets the device files of one alone"
        assert "rdma_fabric_nccl_scope: rails" in flaw.hint
