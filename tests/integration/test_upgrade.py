# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook upgrade: node by node, never more out of service than allowed, and whatever a run left is healed.

The cluster is a real API server with nodes of KWOK. The hosts are this machine, each with files of its own.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import textwrap
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import ANNOTATION
from ansible_collections.rdma.fabric.tests.integration.guides import blocks_of, guide
from ansible_collections.rdma.fabric.tests.integration.own_files import OwnFiles, inventory_of
from ansible_collections.rdma.fabric.tests.integration.playbooks import (
    ADMINISTRATOR,
    Json,
    Outcome,
    User,
    stored_writes,
)
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import apply_nodes, delete_nodes, kwok_node

LIMITS = "/etc/security/limits.d/90-rdma-fabric.conf"
NAMES = ("one", "two", "three")
DEVICE = "rdma/upgraded"
ENOUGH_SECONDS = 60.0


class Fleet:
    """Three hosts that want a limit of locked memory, their nodes, and a pod with a device on each."""

    def __init__(self, cluster: ControlPlane, namespace: str, folder: Path) -> None:
        self.cluster, self.api, self.namespace = cluster, cluster.api, namespace
        self.user = User(folder / "user")
        self.hosts = {name: OwnFiles(folder / name) for name in NAMES}
        self.inventory = inventory_of(
            folder,
            self.hosts,
            rdma_fabric_limits={"memlock": "unlimited"},
            rdma_fabric_node_name=f"{namespace}-{{{{ inventory_hostname }}}}",
            rdma_fabric_drain_force=True,
        )
        self.nodes = {name: f"{namespace}-{name}" for name in NAMES}
        apply_nodes(self.api, [kwok_node(node, allocatable={DEVICE: "8"}) for node in self.nodes.values()])
        for node in self.nodes.values():
            self.pod(node)

    def pod(self, node: str) -> None:
        holder = {"limits": {DEVICE: "1"}, "requests": {DEVICE: "1"}}
        container = {"name": "c", "image": "registry.example/c:1", "resources": holder}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"job-{node}"},
            "spec": {"nodeName": node, "containers": [container]},
        }
        self.api.call("POST", f"/api/v1/namespaces/{self.namespace}/pods", body)

    def run(self, *arguments: str, **variables: Any) -> Outcome:
        given = {"rdma_fabric_namespace": self.namespace, **variables}
        return self.user.run(
            "upgrade",
            *arguments,
            inventory=self.inventory,
            variables=given,
            cluster=self.cluster,
            kubeconfig=self.cluster.kubeconfig,
        )

    def start(self) -> subprocess.Popen[str]:
        """Start a run in a process group of its own and do not wait for it."""
        argv = ["ansible-playbook", "rdma.fabric.upgrade", "-i", str(self.inventory)]
        return subprocess.Popen(
            [*argv, "-e", json.dumps({"rdma_fabric_namespace": self.namespace})],
            cwd=self.user.here,
            env=self.user.environment(self.cluster, self.cluster.kubeconfig),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def changed(self) -> list[str]:
        """Return the hosts whose files have what is asked for."""
        return [name for name, host in self.hosts.items() if host.has(LIMITS)]

    def node(self, name: str) -> Json:
        return self.api.call("GET", f"/api/v1/nodes/{self.nodes[name]}")

    def cordoned(self) -> list[str]:
        return [name for name in NAMES if self.node(name)["spec"].get("unschedulable")]

    def marked(self) -> list[str]:
        return [name for name in NAMES if ANNOTATION in self.node(name)["metadata"].get("annotations", {})]

    def slots(self) -> list[Json]:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        return [
            lease for lease in self.api.call("GET", path)["items"] if (lease.get("spec") or {}).get("holderIdentity")
        ]

    def holders(self) -> list[str]:
        return [str(lease["spec"]["holderIdentity"]).partition("/")[0] for lease in self.slots()]

    def pods(self) -> list[str]:
        found = self.api.call("GET", f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return sorted(pod["spec"]["nodeName"] for pod in found)

    def interrupted(self, since: int) -> list[tuple[str, str]]:
        """Return the writes to nodes in their order: the host, and whether it was taken or given back."""
        name_of = {node: name for name, node in self.nodes.items()}
        requests = self.cluster.audit.requests(since, user=ADMINISTRATOR)
        names = [each.name for each in requests if each.resource == "nodes" and each.verb == "patch"]
        seen: dict[str, int] = {}
        order = []
        for node in names:
            seen[node] = seen.get(node, 0) + 1
            order.append((name_of[node], "taken" if seen[node] % 2 else "given back"))
        return order

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + ENOUGH_SECONDS
        while not condition():
            assert time.monotonic() < deadline, "it did not come to that"
            time.sleep(0.05)


@pytest.fixture
def fleet(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[Fleet]:
    found = Fleet(control_plane, namespace, tmp_path)
    yield found
    delete_nodes(control_plane.api, found.nodes.values())


def test_nodes_are_upgraded_one_after_the_other_and_one_that_needs_nothing_is_not_touched(fleet: Fleet) -> None:
    mark = fleet.cluster.audit.mark()
    outcome = fleet.run().succeeded()
    assert fleet.changed() == list(NAMES)
    assert fleet.pods() == []
    assert (fleet.cordoned(), fleet.marked(), fleet.holders()) == ([], [], [])
    order = fleet.interrupted(mark)
    assert sorted(order[::2]) == sorted((name, "taken") for name in NAMES), order
    assert order[1::2] == [(name, "given back") for name, _what in order[::2]]
    assert "to be upgraded, one node out of service at once: one, two, three" in " ".join(outcome.output.split())
    mark = fleet.cluster.audit.mark()
    again = fleet.run().succeeded()
    assert set(again.changed.values()) == {0}
    assert fleet.interrupted(mark) == []
    requests = fleet.cluster.audit.requests(mark, user=ADMINISTRATOR)
    assert [each.uri for each in requests if each.resource == "leases" and each.verb != "list"] == []


def test_check_mode_tells_what_would_be_evicted_and_changes_nothing(fleet: Fleet) -> None:
    mark = fleet.cluster.audit.mark()
    outcome = fleet.run("--check", "--diff").succeeded()
    assert f"-pod {fleet.namespace}/job-{fleet.nodes['two']}" in outcome.output
    assert LIMITS in outcome.output
    assert (fleet.changed(), fleet.holders(), len(fleet.pods())) == ([], [], 3)
    assert stored_writes(fleet.cluster.audit, mark) == []


def test_a_canary_that_fails_keeps_its_slot_and_the_others_are_not_touched_until_it_is_mended(fleet: Fleet) -> None:
    fleet.hosts["two"].switch("read-only", on=True)
    mark = fleet.cluster.audit.mark()
    outcome = fleet.run(rdma_fabric_canaries="two", rdma_fabric_max_unavailable="2").refused()
    assert fleet.interrupted(mark) == [("two", "taken")]
    assert (fleet.changed(), fleet.cordoned(), fleet.holders()) == ([], ["two"], [fleet.nodes["two"]])
    (slot,) = fleet.slots()
    assert f"could not write {LIMITS}" in slot["metadata"]["annotations"]["rdma.fabric/slot-failed"]
    assert "no further node begins, as one has failed" in outcome.output
    assert "3 of 3 hosts of this run were not brought to the end" in outcome.output
    fleet.hosts["two"].switch("read-only", on=False)
    fleet.run(rdma_fabric_max_unavailable="2").succeeded()
    assert (fleet.changed(), fleet.cordoned(), fleet.marked(), fleet.holders()) == (list(NAMES), [], [], [])


@pytest.mark.parametrize("mended", [False, True])
def test_what_a_killed_run_left_is_healed_by_the_next_one(fleet: Fleet, mended: bool) -> None:
    """Killed while a node is drained; by then, or meanwhile, its host may have been changed."""
    with fleet.start() as process:
        try:
            fleet.until(lambda: bool(fleet.cordoned()))
            (first,) = fleet.cordoned()
            fleet.hosts[first].switch("hold", on=True)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    fleet.hosts[first].switch("hold", on=False)
    assert (fleet.cordoned(), fleet.holders()) == ([first], [fleet.nodes[first]])
    if mended:
        site = {"rdma_fabric_namespace": fleet.namespace}
        fleet.user.run("site", "--limit", first, inventory=fleet.inventory, variables=site).succeeded()
        assert fleet.changed() == [first]
    mark = fleet.cluster.audit.mark()
    outcome = fleet.run().succeeded()
    assert (fleet.changed(), fleet.cordoned(), fleet.marked(), fleet.holders()) == (list(NAMES), [], [], [])
    assert f"node {fleet.nodes[first]} goes on where another run left it" in " ".join(outcome.output.split())
    assert len([name for name, _what in fleet.interrupted(mark) if name != first]) == 4


def test_the_commands_of_the_guide_run(fleet: Fleet) -> None:
    """As they are written, with this fleet for its hosts and its namespace."""
    text = guide("guide-upgrade.md")
    commands = [shlex.split(line, comments=True) for line in text.splitlines() if line.startswith("ansible-playbook ")]
    assert [words[1] for words in commands] == ["rdma.fabric.upgrade"] * 3
    for words in commands:
        assert words[2:4] == ["-i", "hosts.yml"]
        fleet.run(*(word.replace("gpu-01", "one") for word in words[4:])).succeeded()
    assert fleet.changed() == list(NAMES)
    (leases,) = [shlex.split(line, comments=True) for line in text.splitlines() if line.startswith("kubectl ")]
    shown = fleet.cluster.kubectl(*(word.replace("nvidia-network-operator", fleet.namespace) for word in leases[1:]))
    assert "rdma-fabric-slot-upgrade-0" in shown


def test_a_failed_node_is_gone_on_without_as_the_guide_says(fleet: Fleet, tmp_path: Path) -> None:
    fleet.hosts["two"].switch("read-only", on=True)
    fleet.run(rdma_fabric_canaries="two").refused()
    (block,) = blocks_of(guide("guide-upgrade.md"))
    block = block.replace("gpu-07", fleet.nodes["two"]).replace("any_run", f"namespace: {fleet.namespace}\n    any_run")
    play = tmp_path / "play.yml"
    play.write_text(f"- hosts: localhost\n  gather_facts: false\n  tasks:\n{textwrap.indent(block, '    ')}")
    fleet.user.run(str(play), cluster=fleet.cluster, kubeconfig=fleet.cluster.kubeconfig).succeeded()
    assert (fleet.holders(), fleet.cordoned()) == ([], ["two"])
    fleet.run("--limit", "one,three").succeeded()
    assert (fleet.changed(), fleet.cordoned()) == (["one", "three"], ["two"])


def test_who_lacks_the_rights_is_told_before_a_host_is_looked_at(fleet: Fleet) -> None:
    nobody = fleet.cluster.client_kubeconfig("nobody-of-upgrades")
    outcome = fleet.user.run(
        "upgrade",
        inventory=fleet.inventory,
        variables={"rdma_fabric_namespace": fleet.namespace},
        cluster=fleet.cluster,
        kubeconfig=nobody,
    ).refused()
    assert "the user nobody-of-upgrades lacks rights that this run uses" in outcome.message
    assert "rdma-fabric-rollout" in outcome.message
    assert set(outcome.counts) == {"localhost"}


def test_a_namespace_that_is_not_there_is_told_before_a_host_is_looked_at(fleet: Fleet) -> None:
    outcome = fleet.run(rdma_fabric_namespace="not-there").refused()
    assert "there is no namespace not-there, where the slots are kept" in outcome.message
    assert set(outcome.counts) == {"localhost"}
