# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SriovOperatorConfig: what of it counts for the policies beside it, and what is said of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, resource

Object = dict[str, Any]
KIND = "SriovOperatorConfig"
WAIT = "network.nvidia.com/operator.mofed.wait"
POLICY = {"resourceName": "x", "numVfs": 4, "nicSelector": {"vendor": "15b3"}}


def fabric(config: Object, *selectors: Object, name: str = "default") -> Fabric:
    documents = [
        resource("SriovNetworkNodePolicy", f"p{index}", {**POLICY, "resourceName": f"x{index}", "nodeSelector": each})
        for index, each in enumerate(selectors)
    ]
    return Fabric([*documents, resource(KIND, name, config, "config.yaml", namespace="sriov")], [])


def plugins(found: Fabric) -> list[Object]:
    bodies = objects_of(render(found.accepted().spec))
    return [each for each in bodies if each["kind"] == "DaemonSet" and "device-plugin" in each["metadata"]["name"]]


def test_its_nodes_are_those_of_every_policy_on_hosts_and_for_plugins() -> None:
    found = fabric({"configDaemonNodeSelector": {"pool": "gpu"}}, {"zone": "a"}, {"zone": "b"})
    selectors = [each["node_selector"] for each in found.accepted().spec["host_requests"]]
    assert selectors == [{"pool": "gpu", "zone": "a"}, {"pool": "gpu", "zone": "b"}]
    placed = [each["spec"]["template"]["spec"]["nodeSelector"] for each in plugins(found)]
    assert sorted(each["zone"] for each in placed) == ["a", "b"]
    assert {each["pool"] for each in placed} == {"gpu"}


def test_the_selector_of_the_vendors_chart_selects_every_host() -> None:
    chart = {"beta.kubernetes.io/os": "linux", WAIT: "false"}
    found = fabric({"configDaemonNodeSelector": chart}, {})
    assert [each["node_selector"] for each in found.accepted().spec["host_requests"]] == [{"kubernetes.io/os": "linux"}]
    notice = found.said("only an operator puts it on nodes")
    assert notice.path == f'spec.configDaemonNodeSelector["{WAIT}"]'


def test_a_policy_for_none_of_its_nodes_is_refused() -> None:
    found = fabric({"configDaemonNodeSelector": {"pool": "gpu"}}, {"pool": "cpu"}, {"pool": "gpu"})
    wrong = found.wrong("spec.nodeSelector.pool")
    assert wrong.problem == 'selects no node: SriovOperatorConfig default asks for pool="gpu"'
    assert "config.yaml" in wrong.hint


@pytest.mark.parametrize(("config", "announced"), [({}, False), ({"useCDI": False}, False), ({"useCDI": True}, True)])
def test_devices_are_announced_as_it_says(config: Object, announced: bool) -> None:
    (plugin,) = plugins(fabric(config, {}))
    container = plugin["spec"]["template"]["spec"]["containers"][0]
    assert ("--use-cdi" in container["args"]) is announced


def test_without_policies_or_by_another_name_it_has_no_effect_and_that_is_said() -> None:
    config = {"configDaemonNodeSelector": {"pool": "gpu"}, "useCDI": True}
    alone = fabric(config).accepted()
    assert {each.path for each in alone.notices if each.problem == "has no effect here"} >= {
        "spec.configDaemonNodeSelector",
        "spec.useCDI",
    }
    other = fabric(config, {}, name="other").accepted()
    assert other.spec["host_requests"][0]["node_selector"] == {}
    assert other.said("passes over every name but default").path == "spec"


def test_what_it_says_of_the_operator_itself_is_named_with_who_does_it_here() -> None:
    gates = {"parallelNicConfig": True, "dynamicResourceAllocation": True}
    config = {"enableInjector": True, "disableDrain": True, "featureGates": gates}
    said = {each.path: each.sentence() for each in fabric(config, {}).accepted().notices}
    assert "ResourceClaim" in said["spec.featureGates.dynamicResourceAllocation"]
    assert "ask for the resource of each network themselves" in said["spec.enableInjector"]
    assert "rdma.fabric.upgrade" in said["spec.disableDrain"]
    assert "in their order" in said["spec.featureGates.parallelNicConfig"]


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"configurationMode": "cron"}, "spec.configurationMode"),
        ({"logLevel": 3}, "spec.logLevel"),
        ({"disablePlugins": ["intel"]}, "spec.disablePlugins[0]"),
        ({"configDaemonNodeSelector": {"a b": "c"}}, 'spec.configDaemonNodeSelector["a b"]'),
        ({"useCdi": True}, "spec.useCdi"),
        ({"featureGates": {"parallelNic": True}}, "spec.featureGates.parallelNic"),
    ],
)
def test_what_the_api_server_refuses_is_refused(config: Object, path: str) -> None:
    fabric(config, {}).wrong(path)
