# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a user sees after the scenario: plans of every recorded host, the objects in the cluster, the report."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

RUN_DIR = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "run"
FLEET = ("dgx-h100-01", "dgx-h100-02", "roce-h100-01", "egx-01", "egx-02", "vm-vf-01", "cpu-01")


def kubernetes(host: Host, *arguments: str) -> Any:
    """Return what ``kubectl`` reads from the cluster of the scenario."""
    command = " ".join(("kubectl", "--kubeconfig", os.environ["K8S_AUTH_KUBECONFIG"], *arguments, "-o", "json"))
    return json.loads(host.check_output(command))


@pytest.mark.parametrize("name", FLEET)
def test_every_host_was_read_and_planned(host: Host, name: str) -> None:
    """Each host of the inventory has its facts and its plan in the run directory."""
    result = json.loads(host.file(str(RUN_DIR / "hosts" / f"{name}.json")).content_string)
    assert result["facts"]["system"]["kernel"]
    assert result["plan"]["digest"].startswith("sha256:")
    assert result["recorded"] is True


def test_rails_get_their_names(host: Host) -> None:
    """The eight rails of an H100 node are planned under the names the inventory asks for."""
    plan = json.loads(host.file(str(RUN_DIR / "hosts" / "dgx-h100-01.json")).content_string)["plan"]
    wanted = {step["to"] for step in plan["steps"] if step["concern"] == "naming" and isinstance(step["to"], str)}
    named = " ".join(step["action"] for step in plan["steps"] if step["concern"] == "naming")
    assert all(f"rail{rail}" in wanted or f"rail{rail}" in named for rail in range(8))


def test_workloads_are_in_the_cluster(host: Host) -> None:
    """The components the policy asks for exist as upstream names them."""
    daemon_sets = kubernetes(host, "get", "daemonsets", "-n", "nvidia-network-operator")
    names = {item["metadata"]["name"] for item in daemon_sets["items"]}
    assert {"kube-multus-ds", "cni-plugins-ds", "rdma-shared-dp-ds"} <= names


def test_networks_can_be_attached(host: Host) -> None:
    """Networks given as upstream's resources and as attachments are both there for the pods of the namespace."""
    attachments = kubernetes(host, "get", "network-attachment-definitions", "-n", "ai-training")
    assert {item["metadata"]["name"] for item in attachments["items"]} == {
        "rdma-macvlan",
        "rdma-storage",
        "rdma-passthrough",
    }


def test_report_needs_no_network(host: Host) -> None:
    """The page is there and loads nothing from elsewhere."""
    page = host.file(str(RUN_DIR / "report.html"))
    assert page.size < 2 * 1024 * 1024
    assert "default-src 'none'" in page.content_string


def test_report_tells_of_the_cluster(host: Host) -> None:
    """The last run found every object as it should be."""
    counts = json.loads(host.file(str(RUN_DIR / "report.json")).content_string)["cluster"]["counts"]
    assert counts["unchanged"] == counts["total"] > 0


def test_the_set_can_be_removed(host: Host) -> None:
    """The list of the set's objects, from which a removal reads what is its own, lies in the set's namespace."""
    inventory = kubernetes(host, "get", "configmap", "-n", "nvidia-network-operator", "rdma-fabric-rdma-fabric")
    assert "kube-multus-ds" in inventory["data"]["objects"]
