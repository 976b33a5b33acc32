# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook join: a new node takes no pods until it is verified, and one that works is not touched.

The cluster is a real API server with nodes of KWOK. The hosts are this machine, each with files of its own.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import MARKER
from ansible_collections.rdma.fabric.tests.integration.joining import FOREIGN, TAINT, TEXT, Joining
from ansible_collections.rdma.fabric.tests.integration.playbooks import stored_writes
from ansible_collections.rdma.fabric.tests.integration.upgrading import DEVICE, LIMITS, NAMES
from ansible_collections.rdma.fabric.tests.lab.nodes import NIC_LABEL
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import RDMA_CONFIG

POLICY = {"rdmaSharedDevicePlugin": {"config": json.dumps(RDMA_CONFIG)}}


@pytest.mark.first
def test_new_nodes_are_let_in_once_they_are_verified_and_are_not_touched_again(fleet_of_new: Joining) -> None:
    """One that its kubelet has registered with the taint, and two that it has not."""
    fleet = fleet_of_new
    fleet.register("one", taints=(TAINT,))
    fleet.register("two", taints=(FOREIGN,))
    fleet.register("three")
    fleet.join().succeeded()
    assert fleet.changed() == list(NAMES)
    assert fleet.joined() == list(NAMES)
    assert [fleet.taints(name) for name in NAMES] == [[], [FOREIGN], []]
    for node in fleet.nodes.values():
        fleet.pod(node)
    mark = fleet.cluster.audit.mark()
    again = fleet.join().succeeded()
    assert set(again.changed.values()) == {0}
    assert stored_writes(fleet.cluster.audit, mark) == []
    assert fleet.pods() == sorted(fleet.nodes.values())


@pytest.mark.hosts("one", "two")
def test_a_host_that_fails_keeps_its_node_tainted_and_says_why_while_the_others_join(fleet_of_new: Joining) -> None:
    fleet = fleet_of_new
    fleet.register("one", "two")
    fleet.hosts["two"].switch("read-only", on=True)
    outcome = fleet.join().refused()
    assert fleet.joined() == ["one"]
    assert fleet.taints("two") == [TAINT]
    mark = fleet.mark("two")
    assert mark is not None
    assert f"could not write {LIMITS}" in mark.reason
    assert [event["message"] for event in fleet.events("two")] == [mark.reason]
    assert "1 of 2 hosts of this run did not finish" in outcome.output
    fleet.hosts["two"].switch("read-only", on=False)
    fleet.join().succeeded()
    assert (fleet.joined(), fleet.changed()) == (["one", "two"], ["one", "two"])


def test_a_host_that_can_not_be_reached_keeps_its_node_tainted_while_another_one_joins(fleet_of_new: Joining) -> None:
    fleet = fleet_of_new
    fleet.register("one", "two")
    inventory = json.loads(fleet.inventory.read_text(encoding="utf-8"))
    away = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    inventory["rdma_fabric"]["hosts"]["two"].update(away)
    fleet.inventory.write_text(json.dumps(inventory), encoding="utf-8")
    fleet.join("--limit", "one,two").refused()
    assert (fleet.joined(), fleet.taints("two")) == (["one"], [TAINT])
    mark = fleet.mark("two")
    assert mark is not None
    assert mark.reason.startswith("unreachable: ")


def test_a_node_without_its_devices_keeps_its_taint_until_it_has_them(fleet_of_new: Joining) -> None:
    fleet = fleet_of_new
    fleet.register("one")
    fleet.register("two", devices="0")
    outcome = fleet.join("--limit", "one,two", rdma_fabric_join_timeout=3).refused()
    assert (fleet.joined(), fleet.taints("two")) == (["one"], [TAINT])
    mark = fleet.mark("two")
    assert mark is not None
    assert mark.reason == f"not verified within 3 s: it does not offer {DEVICE}"
    assert mark.reason in " ".join(outcome.output.split())
    fleet.offer("two", 8)
    fleet.join("--limit", "one,two").succeeded()
    assert fleet.joined() == ["one", "two"]


@pytest.mark.hosts("one", "two")
def test_what_a_killed_run_left_is_brought_to_its_end_by_the_next_one(fleet_of_new: Joining) -> None:
    fleet = fleet_of_new
    fleet.register("one", "two")
    fleet.hosts["two"].switch("hold", on=True)
    with fleet.start(playbook="join", rdma_fabric_join_taint=TEXT) as process:
        try:
            fleet.until(lambda: all(TAINT in fleet.taints(name) for name in fleet.names))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    fleet.hosts["two"].switch("hold", on=False)
    assert fleet.joined() == []
    fleet.join().succeeded()
    assert (fleet.joined(), fleet.changed()) == (["one", "two"], ["one", "two"])


def test_a_node_that_is_not_registered_yet_is_waited_for_and_tainted_first(fleet_of_new: Joining) -> None:
    fleet = fleet_of_new
    mark = fleet.cluster.audit.mark()
    with fleet.start(playbook="join", rdma_fabric_join_taint=TEXT, rdma_fabric_hosts_pattern="one") as process:
        fleet.until(lambda: fleet.changed() == ["one"])
        fleet.register("one")
        assert process.wait(60) == 0
    assert fleet.joined() == ["one"]
    assert fleet.writes_to_nodes(mark) == [fleet.nodes["one"]] * 2


def test_a_node_that_works_is_refused_by_name_and_keeps_its_pods_and_its_settings(fleet_of_new: Joining) -> None:
    fleet = fleet_of_new
    fleet.register("one", "two")
    fleet.pod(fleet.nodes["one"])
    mark = fleet.cluster.audit.mark()
    outcome = fleet.join("--limit", "one,two").refused()
    assert f"node {fleet.nodes['one']} is not new: it has no taint {TEXT}" in " ".join(outcome.output.split())
    assert (fleet.changed(), fleet.joined(), fleet.taints("one")) == (["two"], ["two"], [])
    assert fleet.nodes["one"] not in fleet.writes_to_nodes(mark)
    assert fleet.pods() == [fleet.nodes["one"]]


@pytest.mark.hosts("one")
def test_check_mode_shows_taints_plans_and_marks_and_changes_nothing(fleet_of_new: Joining) -> None:
    fleet = fleet_of_new
    fleet.register("one")
    mark = fleet.cluster.audit.mark()
    outcome = fleet.join("--check", "--diff").succeeded()
    assert f"+taint {TEXT}" in outcome.output
    assert "+rdma.fabric/join: joined" in outcome.output
    assert LIMITS in outcome.output
    assert stored_writes(fleet.cluster.audit, mark) == []
    assert fleet.changed() == []


def test_the_device_plugin_runs_on_a_new_node_and_its_devices_are_waited_for(fleet_of_new: Joining) -> None:
    fleet = fleet_of_new
    fleet.register("one", taints=(TAINT,), **NIC_LABEL)
    given: dict[str, Any] = {
        "rdma_fabric_nic_cluster_policy": POLICY,
        "rdma_fabric_nfd": False,
        "rdma_fabric_set": fleet.namespace,
        "rdma_fabric_hosts_pattern": "one",
    }
    outcome = fleet.join(**given, rdma_fabric_join_devices=None, rdma_fabric_join_timeout=3).refused()
    assert "it does not offer rdma/rdma_shared_device_a" in " ".join(outcome.output.split())
    (pod,) = fleet.api.call("GET", f"/api/v1/namespaces/{fleet.namespace}/pods")["items"]
    assert pod["spec"]["nodeName"] == fleet.nodes["one"]
    assert {**TAINT, "operator": "Equal"} in pod["spec"]["tolerations"]
    fleet.join(**given).succeeded()
    assert fleet.joined() == ["one"]


def test_no_node_joins_while_a_network_would_cut_off_a_host(fleet_of_new: Joining) -> None:
    fleet = fleet_of_new
    fleet.register("one", taints=(TAINT,))
    uplink = next(name for _index, name in socket.if_nameindex() if name != "lo")
    given: dict[str, Any] = {
        "rdma_fabric_macvlan_networks": {"all-of-it": {"master": uplink, "mode": "passthru"}},
        "rdma_fabric_protected_interfaces": [uplink],
        "rdma_fabric_set": fleet.namespace,
        "rdma_fabric_hosts_pattern": "one",
    }
    mark = fleet.cluster.audit.mark()
    outcome = fleet.join(**given).refused()
    assert "pods could take the network of their own node, so this run only writes its report" in outcome.message
    assert "MacvlanNetwork" not in str(stored_writes(fleet.cluster.audit, mark))
    assert (fleet.joined(), fleet.changed()) == ([], ["one"])
    found = fleet.mark("one")
    assert found is not None
    assert "the cluster side does not match the input: pods could take the network" in found.reason


def test_a_teardown_takes_marks_and_the_unit_of_the_first_boot_along(fleet_of_new: Joining) -> None:
    fleet = fleet_of_new
    fleet.register("one")
    given: dict[str, Any] = {
        "rdma_fabric_nic_cluster_policy": POLICY,
        "rdma_fabric_nfd": False,
        "rdma_fabric_set": fleet.namespace,
        "rdma_fabric_hosts_pattern": "one",
    }
    fleet.join(**given).succeeded()
    assert fleet.joined() == ["one"]
    fleet.bring_unit("one", f"# {MARKER}\n[Unit]\n")
    consent: dict[str, Any] = {"rdma_fabric_allow_teardown": True, "rdma_fabric_join_taint": TEXT}
    fleet.run(playbook="teardown", **given, **consent).succeeded()
    assert (fleet.changed(), fleet.mark("one"), fleet.units("one")) == ([], None, [])


def test_without_a_taint_nothing_is_looked_at(fleet_of_new: Joining) -> None:
    fleet = fleet_of_new
    fleet.register("one")
    outcome = fleet.run(playbook="join", rdma_fabric_join_taint=" ").refused()
    assert "rdma_fabric_join_taint is not set" in outcome.message
    assert "example.com/joining:NoSchedule" in outcome.message
    assert set(outcome.counts) == {"localhost"}


def test_who_lacks_the_rights_is_told_before_a_node_is_tainted(fleet_of_new: Joining) -> None:
    fleet = fleet_of_new
    fleet.register("one")
    outcome = fleet.join(kubeconfig=fleet.cluster.client_kubeconfig("nobody-of-joins")).refused()
    assert "the user nobody-of-joins lacks rights that this run uses" in outcome.message
    assert "rdma-fabric-join" in outcome.message
    assert set(outcome.counts) == {"localhost"}
