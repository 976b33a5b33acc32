# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters: what they return, and that a flawed input fails with every flaw."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.rdma.fabric.plugins.filter.devplugin_config import FilterModule as DevpluginConfig
from ansible_collections.rdma.fabric.plugins.filter.fabric_objects import FilterModule as FabricObjects
from ansible_collections.rdma.fabric.plugins.filter.network_attachment import FilterModule as NetworkAttachment
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import (
    RDMA_CONFIG,
    SRIOV_CONFIG,
    attachment,
    spec_of,
    training_cluster,
)

FILTERS: dict[str, Any] = {
    **DevpluginConfig().filters(),
    **FabricObjects().filters(),
    **NetworkAttachment().filters(),
}


def test_a_device_plugin_configuration_becomes_its_text() -> None:
    assert json.loads(FILTERS["devplugin_config"](RDMA_CONFIG)) == RDMA_CONFIG
    assert json.loads(FILTERS["devplugin_config"](SRIOV_CONFIG, plugin="sriov")) == SRIOV_CONFIG


def test_a_network_becomes_its_attachment() -> None:
    found = FILTERS["network_attachment"]({"master": "rail0"}, "rail-0")
    assert found["metadata"]["name"] == "rail-0"
    assert json.loads(found["spec"]["config"])["type"] == "macvlan"
    assert FILTERS["network_attachment"]({"resourceName": "vf"}, "a", "HostDeviceNetwork")["metadata"]["annotations"]


def test_a_specification_becomes_its_objects() -> None:
    everything = FILTERS["fabric_objects"](training_cluster())
    assert everything == objects_of(render(training_cluster()))
    networks = FILTERS["fabric_objects"](training_cluster(), "NetworkAttachmentDefinition")
    assert [each["metadata"]["name"] for each in networks] == ["ib-network", "rdma-macvlan"]


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("devplugin_config", ({"configList": []},), ["devplugin_config:", "configList"]),
        ("devplugin_config", ("{",), ["not valid JSON"]),
        ("devplugin_config", (RDMA_CONFIG, "gpu"), ["'gpu' is not a device plugin", "sriov"]),
        ("network_attachment", ({"mtu": -1, "mode": "brigde"}, "a"), ["mtu", "mode", "bridge"]),
        ("network_attachment", ({}, "a", "VlanNetwork"), ["VlanNetwork"]),
        ("network_attachment", ("text", "a"), ["documented shape"]),
        ("fabric_objects", (spec_of(attachments=[attachment("n", "{}")] * 2),), ["rendered twice", "rename or drop"]),
        ("fabric_objects", ([],), ["documented shape (ansible-doc -t filter rdma.fabric.fabric_objects): "]),
        ("network_attachment", ({},), ["other parameters (ansible-doc -t filter rdma.fabric.network_", "'name'"]),
        ("fabric_objects", ({}, "a", "b"), ["fabric_objects has other parameters ", "too many"]),
    ],
)
def test_a_flawed_input_fails_with_every_flaw(name: str, arguments: tuple[Any, ...], words: list[str]) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        FILTERS[name](*arguments)
    for word in words:
        assert word in str(caught.value)
