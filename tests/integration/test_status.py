# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``rdma.fabric.status`` on recorded hosts and a real API server: one screen, the exit it deserves, and no change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import dump_recording
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import Mark, to_cordon
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import Slot, lease_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._status.held_nodes import RUN
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET, RECORDINGS
from ansible_collections.rdma.fabric.tests.integration.after_site import push
from ansible_collections.rdma.fabric.tests.integration.playbooks import Outcome, User, stored_writes
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import NIC_LABEL, apply_nodes, delete_nodes, kwok_node
from ansible_collections.rdma.fabric.tests.unit.captures import facts_of
from tools.rights import FILE

RESOURCE = "rdma/rail0"
RANGE = '{"type": "host-local", "subnet": "192.168.200.0/24"}'
POLICY = {
    "rdmaSharedDevicePlugin": {
        "config": json.dumps(
            {"configList": [{"resourceName": "rail0", "rdmaHcaMax": 63, "selectors": {"ifNames": ["rail0"]}}]}
        )
    }
}


NAMESPACE = "nvidia-network-operator"
JOINING = "fabric.example.com/joining"
WHY = "the links are not as before; rolled back to what it was before"
SINCE = "2026-03-01T10:00:00Z"
RENEWED = "2026-03-01T10:00:00.000000Z"
MERGE = "application/merge-patch+json"


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


def inventory(user: User, hosts: dict[str, Any], controller: dict[str, Any] | None = None) -> Path:
    local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    read = {
        host: {"rdma_fabric_recording": f"{RECORDINGS}/{host}.json.gz", **own} if own.get("live") is None else own
        for host, own in hosts.items()
    }
    path = user.here / "hosts.yml"
    content = {
        "all": {"vars": controller or {}},
        "rdma_fabric": {"hosts": read, "vars": local},
        "ungrouped": {"hosts": {"localhost": local}},
    }
    path.write_text(yaml.safe_dump(content))
    return path


def lines_of(outcome: Outcome) -> list[str]:
    """Return the screen: what is printed from the number of hosts to the next task."""
    _before, _mark, after = outcome.output.partition("\nhosts: ")
    return f"hosts: {after}".partition("\n\n")[0].splitlines()


@pytest.mark.first
def test_without_a_cluster_equal_hosts_are_one_line_and_nothing_needs_a_person(user: User) -> None:
    hosts = inventory(user, {"egx-01": {}, "egx-02": {}, "cpu-01": {}})
    done = user.run("status", "-e", "rdma_fabric_status_file=status.json", inventory=hosts).succeeded()
    assert lines_of(done)[:-1] == [
        "hosts: 3",
        "     3  matching      cpu-01, egx-01, egx-02",
        "cluster: not contacted, with hosts only; rdma_fabric_kubeconfig has nodes out of service shown",
        "result: everything matches the input; next: nothing to do",
    ]
    assert sum(done.changed.values()) == 0
    assert done.counts["egx-01"] == {"ok rdma.fabric.rdma_host": 1}
    assert user.files() == ["hosts.yml", "status.json"], "nothing is left in the folder of runs"
    assert json.loads((user.here / "status.json").read_text())["outcome"] == "ok"


def counted(user: User) -> Path:
    """Return the recording of a host with the counters of a real port."""
    tree = FLEET["egx-01"]()
    captured = facts_of("port_counters", "connectx-7-saturated")["counters"]
    tree.attributes("/sys/class/infiniband/mlx5_0/ports/1/counters", captured)
    path = user.here / "counted.json"
    path.write_bytes(dump_recording(tree.document(), compress=False))
    return path


def test_hosts_and_a_cluster_that_need_a_person_fail_the_run_and_all_are_on_the_screen(user: User) -> None:
    """Counters of ports, too, where they are asked for."""
    rail3 = [{"pci": "0000:5e:00.0", "name": "rail3", "state": "up"}]
    over_ssh = {"live": True, "ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    hosts = {
        "dgx-h100-01": {"rdma_fabric_interfaces": rail3},
        "dgx-h100-02": {"rdma_fabric_interfaces": rail3},
        "cpu-01": {},
        "egx-01": {"rdma_fabric_recording": str(counted(user)), "rdma_fabric_status_counters": "yes"},
        "broken": {},
        "gone": over_ssh,
    }
    wanted = {"rdma_fabric_nic_cluster_policy": POLICY}
    done = user.run("status", inventory=inventory(user, hosts, wanted))
    assert done.status != 0, done.output
    screen = "\n".join(lines_of(done))
    assert "     1  failed        broken" in screen, done.output
    assert "     1  unreachable   gone" in screen
    assert "     1  matching      cpu-01" in screen
    assert "link down: rail3 (ibp94s0)" in screen
    assert "pending: dgx-h100-02, dgx-h100-01, egx-01; next: rdma.fabric.site" in screen
    told = [line for line in lines_of(done) if "counters" in line or "link_downed" in line]
    assert told[0].endswith("of 1 host; totals, which may be long past"), done.output
    assert told[1] == "  link_downed: 1 port, egx-01 mlx5_0 255 saturated: the link went down"
    assert "rail3" in done.failures["localhost"]["msg"]
    assert "the cluster: there is no kubeconfig" in done.failures["localhost"]["msg"]


def test_the_cluster_is_read_and_not_changed(fleet_cluster: ControlPlane, user: User) -> None:
    networks = {"rail0": {"master": "rail0", "networkNamespace": "default", "ipam": RANGE}}
    wanted = {"rdma_fabric_nic_cluster_policy": POLICY, "rdma_fabric_macvlan_networks": networks}
    hosts = inventory(user, {"cpu-01": {}}, wanted)
    before = user.run("status", inventory=hosts, cluster=fleet_cluster)
    assert before.status != 0, before.output
    assert "not in the cluster" in before.output, before.output
    apply_nodes(fleet_cluster.api, [kwok_node("offering-1", NIC_LABEL, allocatable={RESOURCE: "63"})])
    push(fleet_cluster, NAMESPACE, wanted)
    mark = fleet_cluster.audit.mark()
    done = user.run("status", inventory=hosts, cluster=fleet_cluster).succeeded()
    assert stored_writes(fleet_cluster.audit, mark) == []
    screen = "\n".join(lines_of(done))
    assert f"1 node: {RESOURCE} 63 (offering-1)" in screen
    assert "1 node: none (cpu-01)" in screen
    assert "networks    1 of 1 there" in screen
    assert "result: everything matches the input" in screen


def without_leases(cluster: ControlPlane, name: str) -> Path:
    """Return the kubeconfig of a user with the shipped role of the push who may not see Leases."""
    (push,) = (each for each in yaml.safe_load(FILE.read_text())["items"] if each["metadata"]["name"].endswith("-push"))
    rules = [rule for rule in push["rules"] if "leases" not in rule["resources"]]
    assert len(rules) < len(push["rules"])
    api, kind = "/apis/rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    cluster.api.apply(f"{api}/clusterroles/{name}", {**push, "metadata": {"name": name}, "rules": rules})
    binding = {
        "apiVersion": f"{kind}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": kind, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": kind, "kind": "User", "name": name}],
    }
    cluster.api.apply(f"{api}/clusterrolebindings/{name}", binding)
    return cluster.client_kubeconfig(name)


def test_a_node_that_a_failed_upgrade_left_its_slot_and_a_new_node_need_a_person(
    fleet_cluster: ControlPlane, user: User
) -> None:
    api, nodes = fleet_cluster.api, "/api/v1/nodes"
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
    wanted = {"rdma_fabric_nic_cluster_policy": POLICY, "rdma_fabric_join_taint": f"{JOINING}:NoSchedule"}
    hosts = inventory(user, {"cpu-01": {}}, wanted)
    new = kwok_node("new-01", taints=[{"key": JOINING, "effect": "NoSchedule"}])
    apply_nodes(api, [kwok_node("gpu-07", NIC_LABEL, allocatable={RESOURCE: "63"}), kwok_node("by-hand")])
    try:
        push(fleet_cluster, NAMESPACE, wanted)
        api.call("PATCH", f"{nodes}/by-hand", {"spec": {"unschedulable": True}}, content_type=MERGE)
        api.call("POST", leases, lease_of(Slot(1, "cpu-01", "run-2", RENEWED, 60), "upgrade", NAMESPACE))
        mark = fleet_cluster.audit.mark()
        shown = "\n".join(lines_of(user.run("status", inventory=hosts, cluster=fleet_cluster).succeeded()))
        listed = [each for each in fleet_cluster.audit.requests(mark) if each.uri.startswith(f"{leases}?")]
        assert [each.verb for each in listed if "rdma.fabric%2Fslots" in each.uri] == ["list"]
        assert "  cordoned    1 node by somebody else (SchedulingDisabled): by-hand\n" in shown
        assert f"  slots       cpu-01: held by run run-2, renewed {SINCE}\n" in shown
        assert "result: everything matches the input" in shown

        cordon = to_cordon(api.call("GET", f"{nodes}/gpu-07"), Mark("root@ctl", RUN, WHY, SINCE))
        assert cordon.patch is not None
        api.call("PATCH", f"{nodes}/gpu-07", cordon.patch, content_type=MERGE)
        api.call("POST", leases, lease_of(Slot(0, "gpu-07", "run-1", RENEWED, 60, WHY), "upgrade", NAMESPACE))
        apply_nodes(api, [new])
        done = user.run("status", inventory=hosts, cluster=fleet_cluster)
        assert done.status != 0, done.output
        shown = "\n".join(lines_of(done))
        assert f"  cordoned    gpu-07: since {SINCE} by root@ctl: {WHY}\n" in shown
        assert f"  slots       gpu-07: failed: {WHY}\n" in shown
        assert f"  joining     1 node has the taint {JOINING}:NoSchedule\n              new-01: Ready\n" in shown
        assert [line.partition(":")[0] for line in done.failures["localhost"]["msg"].splitlines()] == [
            "cordoned by a run",
            "failed slots, so no other node has its turn",
            "Ready and not joined",
        ]

        api.call("PATCH", f"{nodes}/gpu-07", {"spec": {"unschedulable": None}}, content_type=MERGE)
        delete_nodes(api, ["new-01"])
        somebody = without_leases(fleet_cluster, "status-without-leases")
        told = user.run("status", inventory=hosts, cluster=fleet_cluster, kubeconfig=somebody).succeeded()
        assert "  slots       the slots were not read: " in told.output
    finally:
        delete_nodes(api, ["gpu-07", "by-hand", "new-01"])
        for index in range(2):
            api.request("DELETE", f"{leases}/rdma-fabric-slot-upgrade-{index}")
