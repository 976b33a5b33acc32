# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which interfaces of hosts the cluster objects find by their names."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.meanings import NamedInterface, interfaces_named


def test_masters_of_networks_and_attachments_are_found() -> None:
    macvlan = {"type": "macvlan", "master": "ens2f0"}
    spec = {
        "networks": [
            {"kind": "MacvlanNetwork", "name": "a", "spec": {"networkNamespace": "ai", "master": "rail0"}},
            {"kind": "IPoIBNetwork", "name": "b", "spec": {"master": "a-name-of-more-than-15-bytes"}},
            {"kind": "MacvlanNetwork", "name": "c", "spec": {}},
            {"kind": "HostDeviceNetwork", "name": "d", "spec": {"resourceName": "rail0"}},
        ],
        "attachments": [{"name": "nad", "namespace": "ai", "config": json.dumps(macvlan), "annotations": {}}],
    }
    assert interfaces_named(spec) == [
        NamedInterface("network ai/a", "master", "rail0"),
        NamedInterface("network ai/nad", "master", "ens2f0"),
    ]


def plugins(shared: Any, sriov: Any = None) -> dict[str, Any]:
    sections: dict[str, Any] = {"rdmaSharedDevicePlugin": shared, "sriovDevicePlugin": sriov}
    return {"spec": {name: section for name, section in sections.items() if section is not None}}


def test_names_in_selectors_of_every_policy_are_found_once() -> None:
    shared = {"configList": [{"resourceName": "a", "rdmaHcaMax": 9, "selectors": {"ifNames": ["rail0", "rail0"]}}]}
    old = {"configList": [{"resourceName": "b", "rdmaHcaMax": 9, "devices": ["ens2f0"]}]}
    of_ports = {
        "resourceList": [
            {"resourceName": "c", "resourcePrefix": "nvidia.com", "selectors": {"pfNames": ["rail1#0-3"]}},
            {"resourceName": "d", "resourcePrefix": "nvidia.com", "selectors": [{"pfNames": ["rail2"]}]},
        ]
    }
    spec = {
        "cluster_policy": plugins({"config": json.dumps(shared)}, {"config": json.dumps(of_ports)}),
        "node_policies": [plugins({"config": json.dumps(old)})],
    }
    assert interfaces_named(spec) == [
        NamedInterface("resource rdma/a", "ifNames", "rail0"),
        NamedInterface("resource nvidia.com/c", "pfNames", "rail1"),
        NamedInterface("resource nvidia.com/d", "pfNames", "rail2"),
        NamedInterface("resource rdma/b", "ifNames", "ens2f0"),
    ]


def test_sections_without_a_configuration_and_other_selectors_name_none() -> None:
    vendors = {"configList": [{"resourceName": "a", "rdmaHcaMax": 9, "selectors": {"vendors": ["15b3"]}}]}
    for section in (None, {}, {"config": ""}, {"config": json.dumps(vendors)}):
        assert interfaces_named({"cluster_policy": plugins(section)}) == []
    assert interfaces_named({}) == []
