# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``site`` with the driver's container on the recorded fleet: placed by what is read of hosts, and written once."""

from __future__ import annotations

import json
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.driver_container import WAIT_LABEL
from ansible_collections.rdma.fabric.tests.integration.playbooks import ADMINISTRATOR, User, stored_writes
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.guests.budget import until
from ansible_collections.rdma.fabric.tests.lab.nodes import delete_nodes, kwok_nodes
from tools.fleet import INVENTORY

Json = dict[str, Any]
NAMESPACE = "nvidia-network-operator"
CONTAINER = ("-e", "rdma_fabric_driver_source=container")
NODE = "driver-1"


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> User:
    return User(tmp_path_factory.mktemp("user"))


@pytest.fixture(scope="module")
def drivers(fleet_cluster: ControlPlane, user: User) -> list[Json]:
    """The DaemonSets of the driver after a run."""
    user.run("site", *CONTAINER, inventory=INVENTORY, cluster=fleet_cluster).succeeded()
    return stored_drivers(fleet_cluster)


@pytest.fixture(scope="module")
def limited(
    fleet_cluster: ControlPlane, user: User, drivers: list[Json], tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, ...]:
    """The arguments of a run of one host, for which the groups of nodes are given, after such a run."""
    assert drivers
    group = {"os": "ubuntu", "os_version": "24.04", "kernel": "6.8.0-41-generic", "arch": "amd64"}
    given = tmp_path_factory.mktemp("given") / "nodes.json"
    given.write_text(json.dumps({"rdma_fabric_driver_nodes": [group]}), encoding="utf-8")
    arguments = (*CONTAINER, "-e", f"@{given}", "--limit", "egx-01")
    user.run("site", *arguments, inventory=INVENTORY, cluster=fleet_cluster).succeeded()
    return arguments


@pytest.fixture
def node(fleet_cluster: ControlPlane, limited: tuple[str, ...]) -> Iterator[str]:
    """A node that the only DaemonSet of a run is for, once its pod there is ready."""
    assert limited
    (driver,) = stored_drivers(fleet_cluster)
    (body,) = kwok_nodes([NODE])
    body["metadata"]["labels"].update(driver["spec"]["template"]["spec"]["nodeSelector"])
    fleet_cluster.api.call("POST", "/api/v1/nodes", body)
    until(
        lambda: is_ready(fleet_cluster, driver, NODE),
        said="the driver's pod does not become ready",
        every=0.2,
    )
    yield NODE
    delete_nodes(fleet_cluster.api, [NODE])


def is_ready(cluster: ControlPlane, driver: Json, node: str) -> bool:
    """Tell whether the containers of a driver's pod on a node are ready."""
    labels = driver["spec"]["template"]["metadata"]["labels"].items()
    query = {
        "fieldSelector": f"spec.nodeName={node}",
        "labelSelector": ",".join(f"{key}={value}" for key, value in labels),
    }
    found = cluster.api.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods", query=query)["items"]
    states = [state["ready"] for pod in found for state in pod["status"].get("containerStatuses") or ()]
    return bool(states) and all(states)


def stored_drivers(cluster: ControlPlane) -> list[Json]:
    found = json.loads(cluster.kubectl("get", "daemonsets", "-n", NAMESPACE, "-o", "json"))["items"]
    return [each for each in found if each["metadata"]["name"].startswith("mofed-")]


def test_each_system_and_kernel_of_the_fleet_has_a_driver_and_device_plugins_wait_for_it(
    fleet_cluster: ControlPlane, drivers: list[Json]
) -> None:
    kernels = [each["spec"]["template"]["metadata"]["labels"]["kernel"] for each in drivers]
    assert kernels and len(kernels) == len(set(kernels))
    assert {each["spec"]["updateStrategy"]["type"] for each in drivers} == {"OnDelete"}
    plugin = json.loads(fleet_cluster.kubectl("get", "daemonset", "rdma-shared-dp-ds", "-n", NAMESPACE, "-o", "json"))
    assert plugin["spec"]["template"]["spec"]["nodeSelector"][WAIT_LABEL] == "false"


def test_a_limit_is_refused_unless_the_groups_of_nodes_are_given(
    fleet_cluster: ControlPlane, user: User, limited: tuple[str, ...]
) -> None:
    assert [each["metadata"]["name"] for each in stored_drivers(fleet_cluster)] == ["mofed-ubuntu24.04-848bf4b879-ds"]
    refused = user.run("site", *CONTAINER, "--limit", "egx-01", inventory=INVENTORY, cluster=fleet_cluster).refused()
    assert "the DaemonSets of their nodes would be removed" in refused.message
    assert "no host was changed" in refused.message
    assert [each["metadata"]["name"] for each in stored_drivers(fleet_cluster)] == ["mofed-ubuntu24.04-848bf4b879-ds"]


def test_a_node_whose_driver_is_ready_says_so_and_the_next_run_writes_nothing(
    fleet_cluster: ControlPlane, user: User, limited: tuple[str, ...], node: str
) -> None:
    user.run("site", *limited, inventory=INVENTORY, cluster=fleet_cluster).succeeded()
    labels = fleet_cluster.api.call("GET", f"/api/v1/nodes/{node}")["metadata"]["labels"]
    assert labels[WAIT_LABEL] == "false"
    mark = fleet_cluster.audit.mark()
    user.run("site", *limited, inventory=INVENTORY, cluster=fleet_cluster).succeeded()
    assert stored_writes(fleet_cluster.audit, mark, ADMINISTRATOR) == []
