# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL tests planned from the facts of hosts, and jobs of users that NCCL would stumble over."""

from __future__ import annotations

import copy
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._proof.nccl_plan import (
    Scope,
    devices_of,
    environment_of,
    environment_violations,
    host_notices,
    idle_nodes,
    rates_of,
    scopes_of,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.nccl_workload import (
    SHARED_MEMORY,
    Host,
    Template,
    job_notices,
)
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.pods import consumers
from ansible_collections.rdma.fabric.tests.unit._proof.test_nccl_environment import DGX_HCAS, facts_of

FACTS = facts_of("dgx-h100-01")
BY_PCI = {device["pci"]: device for device in FACTS["rdma"]}
DEVICES = [BY_PCI[rail["nic"]] for rail in FACTS["rails"]]
NETWORKS = [
    {"network": f"default/rail{number}", "master": device["netdev"], "rail": number}
    for number, device in enumerate(DEVICES)
]
WHOLE, ALONE = Scope("all rails", NETWORKS), Scope("rail 1", NETWORKS[1:2])
FUNCTIONS = [{**network, "master": None} for network in NETWORKS]
GPU = "nvidia.com/gpu"


def renamed(old: str, new: str) -> Any:
    facts = copy.deepcopy(FACTS)
    for device in facts["rdma"]:
        device["name"] = new if device["name"] == old else device["name"]
    return facts


def test_all_rails_and_each_alone() -> None:
    assert [scope.name for scope in scopes_of(NETWORKS[:2], "both")] == [
        "all rails",
        "rail 0 (default/rail0)",
        "rail 1 (default/rail1)",
    ]
    assert [scope.names for scope in scopes_of(NETWORKS[:1], "rails")] == [["default/rail0"]]


def test_the_environment_names_the_rails_and_a_rail_alone() -> None:
    hosts = {"a": FACTS, "b": FACTS}
    whole = environment_of(hosts, WHOLE, {"NCCL_IB_TC": 106})
    assert whole["NCCL_IB_HCA"] == DGX_HCAS
    assert (whole["NCCL_NET_GDR_LEVEL"], whole["NCCL_IB_TC"], whole["NCCL_SOCKET_IFNAME"]) == ("PXB", "106", "eth0")
    assert environment_of(hosts, ALONE, {})["NCCL_IB_HCA"] == f"={DEVICES[1]['name']}"
    assert "NCCL_IB_HCA" not in environment_of(hosts, Scope("all rails", FUNCTIONS), {})
    assert environment_violations(hosts, WHOLE, whole) == []
    bonded = copy.deepcopy(FACTS)
    bonded["netdevs"].append({"name": "member", "pci": "0000:00:00.1", "master": DEVICES[0]["netdev"]})
    assert environment_of({"a": FACTS, "b": bonded}, WHOLE, {}) == {
        **environment_of(hosts, WHOLE, {}),
        "NCCL_IB_QPS_PER_CONNECTION": "2",
    }
    elsewhere = copy.deepcopy(FACTS)
    for device in elsewhere["rdma"]:
        device["netdev"] = None
    assert "NCCL_IB_HCA" not in environment_of({"a": FACTS, "b": elsewhere}, WHOLE, {}), "b's names are not known"


def test_hosts_whose_names_contradict_each_other_are_refused() -> None:
    storage = next(device["name"] for device in FACTS["rdma"] if device not in DEVICES)
    other = renamed(storage, "was_storage")
    rail = next(device for device in other["rdma"] if device["name"] == DEVICES[1]["name"])
    rail["name"] = storage
    hosts = {"a": FACTS, "b": other}
    (flaw,) = environment_violations(hosts, WHOLE, environment_of(hosts, WHOLE, {}))
    assert "takes other devices than those of the rails on a (" in flaw.problem
    spelled = renamed(DEVICES[1]["name"], "ibp27s0")
    hosts = {"a": FACTS, "b": spelled}
    assert environment_violations(hosts, WHOLE, environment_of(hosts, WHOLE, {})) == []


def test_rates_are_those_of_links_and_of_pcie() -> None:
    assert rates_of(FACTS, NETWORKS) == rates_of(FACTS, FUNCTIONS) == [400.0] * 8
    assert rates_of(None, NETWORKS) == [None] * 8
    assert devices_of(FACTS, [{**NETWORKS[0], "master": "none"}]) is None
    slow = copy.deepcopy(FACTS)
    next(nic for nic in slow["nics"] if nic["address"] == DEVICES[2]["pci"])["link"]["width"] = 8
    assert rates_of(slow, NETWORKS[1:3])[0] == 400.0
    assert (rates_of(slow, NETWORKS[1:3])[1] or 0) < 260


def test_nodes_in_use_are_left_out_and_named() -> None:
    idle, left = idle_nodes(["a", "b"], {"b": ["default/train-0"]})
    assert idle == ["a"]
    assert left == ["not tested: b: in use by default/train-0 (rdma_fabric_nccl_busy)"]


def test_pods_that_hold_devices_are_consumers_unless_they_serve_the_node() -> None:
    def pod(name: str, *, phase: str = "Running", kind: str = "Job", **limits: str) -> Any:
        metadata = {"namespace": "default", "name": name, "ownerReferences": [{"kind": kind, "controller": True}]}
        spec = {"nodeName": "a", "containers": [{"resources": {"limits": limits}}]}
        return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}

    held = {GPU: "1"}
    pods = [pod("train", **held), pod("web"), pod("done", phase="Succeeded", **held)]
    pods.append(pod("plugin", kind="DaemonSet", **held))
    assert consumers(pods, [GPU]) == {"a": ["default/train"]}


def test_what_holds_hosts_back_is_told_once_for_all() -> None:
    down = copy.deepcopy(FACTS)
    port = next(device for device in down["rdma"] if device["name"] == DEVICES[0]["name"])["ports"][0]
    port["state"] = "DOWN"
    assert host_notices({"a": FACTS}) == []
    (line,) = host_notices({"a": down, "b": down})
    assert line.startswith("rail 0 (mlx5_0) is not active") and line.endswith("(on a, b)")


def job(**container: Any) -> Template:
    usual = {"name": "pytorch", "resources": {"limits": {GPU: 8}}, "volumeMounts": [{"mountPath": SHARED_MEMORY}]}
    return Template("PyTorchJob train", {"containers": [{**usual, **container}]}, ["default/rail0", "default/rail1"])


def notices(template: Template) -> list[str]:
    hosts = {"a": Host(FACTS, {}), "b": Host(FACTS, {})}
    return job_notices([template], ["default/rail0", "default/rail1"], [GPU], hosts)


def test_a_job_that_fits_is_not_remarked() -> None:
    assert notices(job(env=[{"name": "NCCL_IB_HCA", "value": DGX_HCAS}])) == []
    assert notices(job(volumeMounts=[], resources={})) == [], "a sidecar"


def test_a_job_is_held_to_shared_memory_rails_and_environment() -> None:
    assert f"{SHARED_MEMORY} has the 64 MiB" in notices(job(volumeMounts=[]))[0]
    (line,) = notices(job()._replace(networks=["default/rail1"]))
    assert line == "PyTorchJob train is on 1 of 2 networks, not on default/rail0: its GPUs share the other rails"
    found = notices(job(env=[{"name": "NCCL_IB_HCA", "value": "mlx5"}, {"name": "NCCL_IB_DISABLE", "value": "1"}]))
    assert any("NCCL_IB_DISABLE=1: NCCL goes over TCP with it" in line and "(on a, b)" in line for line in found)
    assert any("NCCL_IB_HCA=mlx5 selects mlx5_1" in line for line in found)
