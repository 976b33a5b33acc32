# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the scenario left in the cluster: programs that run, RDMA that pods can ask for, the proof and nothing of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from testinfra.host import Host

testinfra_hosts = ["local://"]

RUN_DIR = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "run"
MANAGED = "--selector=app.kubernetes.io/managed-by=rdma-fabric"
SHARED_DEVICE_PLUGIN = "rdma-shared-dp-ds"


def items(host: Host, *arguments: str) -> list[dict[str, Any]]:
    """Return the objects that ``kubectl get`` reads from the cluster that KUBECONFIG names."""
    answer = json.loads(host.check_output(" ".join(("kubectl", "get", *arguments, "--output=json"))))
    found: list[dict[str, Any]] = answer["items"]
    return found


def test_every_daemon_set_runs_on_every_node_it_is_meant_for(host: Host) -> None:
    """Each DaemonSet has a Ready pod of its newest revision on each of its nodes."""
    found = {item["metadata"]["name"]: item["status"] for item in items(host, "daemonsets", "-A", MANAGED)}
    assert {"kube-multus-ds", "cni-plugins-ds", SHARED_DEVICE_PLUGIN} <= set(found)
    for name, status in found.items():
        wanted = status["desiredNumberScheduled"]
        assert wanted >= 1, name
        assert (status["numberReady"], status["updatedNumberScheduled"]) == (wanted, wanted), name


def test_nodes_with_the_plugin_offer_shared_rdma(host: Host) -> None:
    """Kubelet on each node that the shared device plugin runs on offers its resource to pods."""
    pods = items(host, "pods", "-A")
    nodes = {pod["spec"]["nodeName"] for pod in pods if pod["metadata"]["name"].startswith(f"{SHARED_DEVICE_PLUGIN}-")}
    offers = {node["metadata"]["name"]: node["status"]["allocatable"] for node in items(host, "nodes")}
    for node in nodes:
        assert [name for name, count in offers[node].items() if name.startswith("rdma/") and int(count)], node


def test_every_pair_of_nodes_passed_bytes_in_both_directions(host: Host) -> None:
    """The proof on the wire ran on real pods: connection manager and ``ib_write_bw`` both ways, and nothing is red."""
    proof = json.loads(host.file(str(RUN_DIR / "verify.json")).content_string)
    assert proof["verdict"] in ("pass", "reported"), proof["failures"]
    assert proof["pairs"]
    for pair in proof["pairs"]:
        written = {
            test["from"] for test in pair["tests"] if test["test"] == "bandwidth" and test["verdict"] != "skipped"
        }
        assert written == {pair["a"], pair["b"]}, pair


def test_no_test_pod_is_left(host: Host) -> None:
    """The pods of the proof are gone."""
    assert items(host, "pods", "-A", "--selector=app.kubernetes.io/component=verify") == []
