# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a user sees after a quick start: plans of its hosts, its networks, pools and device plugin in the cluster."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Mapping

import pytest
import yaml
from testinfra.host import Host

RUN_DIR = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "run"
SCENARIO = Path(os.environ["MOLECULE_SCENARIO_DIRECTORY"])
INVENTORY = yaml.safe_load((SCENARIO / "hosts.yml").read_text(encoding="utf-8"))
CLUSTER_SIDE: Mapping[str, Any] = INVENTORY["ungrouped"]["hosts"]["localhost"]
INTERFACES: list[dict[str, Any]] = INVENTORY["rdma_fabric"]["vars"]["rdma_fabric_interfaces"]
NAMESPACE = "nvidia-network-operator"
# The variable of each kind of network with the CNI program that its attachments name.
PROGRAMS = {
    "rdma_fabric_macvlan_networks": "macvlan",
    "rdma_fabric_host_device_networks": "host-device",
    "rdma_fabric_ipoib_networks": "ipoib",
    "rdma_fabric_sriov_networks": "sriov",
}
POOLS = {"rdma_fabric_ip_pools": "ippools", "rdma_fabric_cidr_pools": "cidrpools"}


def kubernetes(host: Host, *arguments: str) -> Any:
    """Return what ``kubectl`` reads from the cluster of the scenario."""
    command = " ".join(("kubectl", "--kubeconfig", os.environ["K8S_AUTH_KUBECONFIG"], *arguments, "-o", "json"))
    return json.loads(host.check_output(command))


@pytest.mark.parametrize("name", sorted(INVENTORY["rdma_fabric"]["hosts"]))
def test_every_port_of_a_host_is_planned_under_its_name(host: Host, name: str) -> None:
    """The plan of a host has steps for each port of the inventory, and no step that is refused."""
    steps = json.loads(host.file(str(RUN_DIR / "hosts" / f"{name}.json")).content_string)["plan"]["steps"]
    actions = [step["action"] for step in steps]
    for interface in INTERFACES:
        assert [action for action in actions if action.endswith(f"to {interface['name']}")], (interface, actions)
        if "vfs" in interface:
            assert f"create {interface['vfs']} VFs (now 0)" in actions
    assert [step["action"] for step in steps if step["status"] == "refused"] == []


def test_every_network_can_be_attached_by_pods(host: Host) -> None:
    """Each network is an attachment in its namespace, for the CNI program of its kind, and there are no others."""
    networks = {
        (spec["networkNamespace"], name): program
        for variable, program in PROGRAMS.items()
        for name, spec in CLUSTER_SIDE.get(variable, {}).items()
    }
    found = kubernetes(host, "get", "network-attachment-definitions", "-A")["items"]
    assert networks
    assert {
        (each["metadata"]["namespace"], each["metadata"]["name"]): json.loads(each["spec"]["config"])["type"]
        for each in found
    } == networks


def test_every_pool_is_there_for_its_network(host: Host) -> None:
    """The pools of nv-ipam have the names that the networks ask for."""
    for variable, kind in POOLS.items():
        if variable in CLUSTER_SIDE:
            found = kubernetes(host, "get", f"{kind}.nv-ipam.nvidia.com", "-n", NAMESPACE)["items"]
            assert {each["metadata"]["name"] for each in found} == set(CLUSTER_SIDE[variable])


def test_nodes_get_the_device_plugin_of_the_quick_start(host: Host) -> None:
    """The configuration of a device plugin has a resource for each network, and its DaemonSet mounts that."""
    shared = "rdmaSharedDevicePlugin" in CLUSTER_SIDE["rdma_fabric_nic_cluster_policy"]
    sets = kubernetes(host, "get", "daemonsets", "-n", NAMESPACE)["items"]
    names = [each["metadata"]["name"] for each in sets]
    plugin = "rdma-shared-dp-ds" if shared else "network-operator-sriov-device-plugin"
    assert len([name for name in names if name.startswith(plugin)]) == 1, names
    maps = kubernetes(host, "get", "configmaps", "-n", NAMESPACE)["items"]
    texts = [text for each in maps for text in (each.get("data") or {}).values() if '"resourceName"' in text]
    assert len(texts) == 1
    for variable in PROGRAMS:
        for name, spec in CLUSTER_SIDE.get(variable, {}).items():
            resource = spec.get("resourceName") or spec["master"]
            assert f'"{resource}' in texts[0], (name, texts[0])


def test_a_second_run_finds_every_object_as_it_should_be(host: Host) -> None:
    """The last run changed nothing in the cluster."""
    counts = json.loads(host.file(str(RUN_DIR / "report.json")).content_string)["cluster"]["counts"]
    assert counts["unchanged"] == counts["total"] > 0
