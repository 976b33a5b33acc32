# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The task for one device-plugin configuration, as far as it goes without a cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.tests.unit._fabric.specs import RDMA_CONFIG, SRIOV_CONFIG
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action


def rendered(**arguments: Any) -> dict[str, Any]:
    return run_action("rdma_devplugin_config", {"state": "rendered", **arguments})


@pytest.mark.parametrize("given", [RDMA_CONFIG, json.dumps(RDMA_CONFIG, indent=4)])
def test_mapping_and_text_give_the_same_object(given: Any) -> None:
    result = rendered(config=given)
    assert result["changed"] is False
    assert result["config"] == RDMA_CONFIG
    assert result["resources"] == ["rdma/rdma_shared_device_a"]
    metadata = result["object"]["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("rdma-devices", "nvidia-network-operator")
    assert json.loads(result["object"]["data"]["config.json"]) == RDMA_CONFIG
    assert result["object"]["data"]["config.json"] == result["text"]


def test_the_other_plugin_has_its_own_name_and_rules() -> None:
    result = rendered(plugin="sriov", config=SRIOV_CONFIG, namespace="net")
    assert result["object"]["metadata"]["name"] == "network-operator-sriovdp-config"
    assert result["object"]["metadata"]["namespace"] == "net"
    assert result["resources"] == ["nvidia.com/hostdev"]
    assert rendered(plugin="sriov", config=RDMA_CONFIG)["failed"]


def test_every_flaw_is_told_with_its_path() -> None:
    config = {"configList": [{"resourceName": "a-b", "rdmaHcaMax": -1, "selectors": {}}]}
    result = rendered(config=config, name="Bad_Name", namespace="a.b")
    assert result["failed"]
    assert {(each["source"], each["path"]) for each in result["violations"]} == {
        ("config", "configList[0].resourceName"),
        ("config", "configList[0].rdmaHcaMax"),
        ("config", "configList[0].selectors"),
        ("name", ""),
        ("namespace", ""),
    }


def test_what_is_legal_but_odd_is_a_notice() -> None:
    result = rendered(config={"configList": [{"resourceName": "a", "rdmaHcaMax": 1, "devices": ["ens2f0"]}]})
    assert [notice for notice in result["notices"] if "devices" in notice and "deprecated" in notice]


@pytest.mark.parametrize("arguments", [{}, {"config": {}, "plugin": "gpu"}, {"config": {}, "stat": "present"}])
def test_wrong_arguments_are_refused(arguments: dict[str, Any]) -> None:
    assert rendered(**arguments)["failed"]
