# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine helm: a real Helm installs a chart, and its operator is given the custom resources as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterator

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.integration.charts import (
    NAMESPACE,
    POOLS,
    HelmUser,
    make_chart,
    operator,
    releases,
)
from ansible_collections.rdma.fabric.tests.integration.playbooks import User, stored, stored_writes
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import apply_nodes, kwok_node
from ansible_collections.rdma.fabric.tests.lab.programs import Programs

Json = dict[str, Any]
SHARED = '{"configList": [{"resourceName": "shared", "rdmaHcaMax": 63, "selectors": {"vendors": ["15b3"]}}]}'
INPUT: Json = {
    "rdma_fabric_engine": "helm",
    "rdma_fabric_helm_chart": "network-operator",
    "rdma_fabric_helm_values": {"operator": {"mood": "curious"}},
    "rdma_fabric_helm_set": ["nfd.enabled=true"],
    "rdma_fabric_nic_cluster_policy": {"rdmaSharedDevicePlugin": {"config": SHARED}, "nvIpam": {}},
    "rdma_fabric_macvlan_networks": {"rail0": {"master": "rail0", "ipam": '{"type": "nv-ipam", "poolName": "rail0"}'}},
    "rdma_fabric_ip_pools": {"rail0": {"subnet": "192.168.0.0/20", "perNodeBlockSize": 24, "gateway": "192.168.0.1"}},
    "rdma_fabric_wait_timeout": 60,
}
GIVEN = {
    "nicclusterpolicy/nic-cluster-policy": INPUT["rdma_fabric_nic_cluster_policy"],
    "macvlannetwork/rail0": INPUT["rdma_fabric_macvlan_networks"]["rail0"],
    "ippool/rail0": INPUT["rdma_fabric_ip_pools"]["rail0"],
}


@pytest.fixture
def cluster(lab_programs: Programs, tmp_path: Path) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path / "cluster", programs=lab_programs) as running:
        apply_nodes(running.api, [kwok_node("gpu-01")])
        yield running


@pytest.fixture
def user(tmp_path: Path) -> User:
    found = HelmUser(tmp_path)
    make_chart(found.here / "network-operator")
    return found


def given(cluster: ControlPlane) -> dict[str, Json]:
    """Return the specs of the custom resources as the API server stores them."""
    return {name: stored(cluster, *name.split("/"), NAMESPACE)["spec"] for name in GIVEN}


def test_the_chart_is_installed_and_given_what_the_user_gave(cluster: ControlPlane, user: User) -> None:
    foretold = user.run("site", "--check", "--diff", variables=INPUT, cluster=cluster).succeeded()
    assert releases(cluster) == {}
    assert "mood: curious" in foretold.output
    assert "would be installed" in foretold.output

    with operator(cluster):
        user.run("site", variables=INPUT, cluster=cluster).succeeded()
    assert given(cluster) == GIVEN
    (labels,) = releases(cluster).values()
    assert (labels["name"], labels["status"]) == ("network-operator", "deployed")
    pod = stored(cluster, "deployment", "network-operator", NAMESPACE)["spec"]["template"]
    assert pod["metadata"]["labels"]["mood"] == "curious"

    mark = cluster.audit.mark()
    again = user.run("site", variables=INPUT, cluster=cluster).succeeded()
    assert again.changed["localhost"] == 0, again.output
    assert stored_writes(cluster.audit, mark) == []
    assert user.report()["asked"]["engine"] == "helm"
    assert any("network-operator is as wanted" in each for each in user.report()["notices"]), user.report()["notices"]
