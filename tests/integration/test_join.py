# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook join: a new node takes no pods until it is verified, and one that works is not touched.

The cluster is a real API server with nodes of KWOK. The hosts are this machine, each with files of its own.
"""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import MARKER
from ansible_collections.rdma.fabric.tests.integration.joining import FOREIGN, TAINT, TEXT, Joining
from ansible_collections.rdma.fabric.tests.integration.playbooks import LIMIT_SECONDS, stored_writes
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


@pytest.mark.hosts("one", "two", "three", "four")
def test_a_host_that_fails_keeps_its_node_tainted_and_says_why_while_the_others_join(fleet_of_new: Joining) -> None:
    """One that can't be written to, one that can't be reached, and one whose node lacks its devices."""
    fleet = fleet_of_new
    fleet.register("one", "two", "three")
    fleet.register("four", devices="0")
    fleet.hosts["two"].switch("read-only", on=True)
    inventory = json.loads(fleet.inventory.read_text(encoding="utf-8"))
    away = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    inventory["rdma_fabric"]["hosts"]["three"].update(away)
    fleet.inventory.write_text(json.dumps(inventory), encoding="utf-8")
    outcome = fleet.join(rdma_fabric_join_timeout=3).refused()
    assert fleet.joined() == ["one"]
    assert [fleet.taints(name) for name in fleet.names] == [[], [TAINT], [TAINT], [TAINT]]
    reasons = {name: mark.reason for name in fleet.names if (mark := fleet.mark(name)) is not None}
    assert f"could not write {LIMITS}" in reasons["two"]
    assert reasons["three"].startswith("unreachable: ")
    assert reasons["four"] == f"not verified within 3 s: it does not offer {DEVICE}"
    assert reasons["four"] in " ".join(outcome.output.split())
    assert [event["message"] for event in fleet.events("two")] == [reasons["two"]]
    assert "3 of 4 hosts of this run did not finish" in outcome.output
    fleet.hosts["two"].switch("read-only", on=False)
    fleet.offer("four", 8)
    fleet.join("--limit", "!three").succeeded()
    assert fleet.joined() == fleet.changed() == ["one", "two", "four"]


def test_a_node_that_is_not_registered_yet_is_waited_for_and_tainted_first(fleet_of_new: Joining) -> None:
    fleet = fleet_of_new
    mark = fleet.cluster.audit.mark()
    with fleet.start(playbook="join", rdma_fabric_join_taint=TEXT, rdma_fabric_hosts_pattern="one") as process:
        fleet.until(lambda: fleet.changed() == ["one"])
        fleet.register("one")
        fleet.until(lambda: process.poll() is not None, LIMIT_SECONDS)
    assert process.returncode == 0
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


def test_the_device_plugin_runs_on_a_new_node_and_a_teardown_takes_marks_and_the_unit_of_the_first_boot_along(
    fleet_of_new: Joining,
) -> None:
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
    fleet.bring_unit("one", f"# {MARKER}\n[Unit]\n")
    consent: dict[str, Any] = {"rdma_fabric_allow_teardown": True, "rdma_fabric_join_taint": TEXT}
    fleet.run(playbook="teardown", **given, **consent).succeeded()
    assert (fleet.changed(), fleet.mark("one"), fleet.units("one")) == ([], None, [])


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
    assert "the cluster objects do not match the input: pods could take the network" in found.reason
