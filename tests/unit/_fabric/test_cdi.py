# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Device plugins with useCdi, and nodes whose container runtime has CDI off or none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.preflight import (
    plugins_with_cdi,
    without_cdi,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import render
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric

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
