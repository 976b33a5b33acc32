# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CNI meta plugin of the lab moves a node's soft RDMA device with a pod's interface, and back."""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.tests.lab.guests.cluster import Lab

CARD = "$(dirname /sys/bus/pci/drivers/igb/0000:*/sriov_totalvfs)"
UPSTREAM = "/root/upstream-cni"  # a node has these plugins from a DaemonSet of the fabric, which is not there yet
VERSION = {"cniVersion": "0.3.1", "name": "test"}


class Node:
    """One node on which CNI plugins are called as a container runtime does it."""

    def __init__(self, lab: Lab, name: str) -> None:
        self._lab = lab
        self._name = name
        self.card = self.shell(f"ls {CARD}/net").strip()

    def shell(self, command: str) -> str:
        """Run a command that has to succeed."""
        done = self._lab.ssh(self._name, command)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def call(self, command: str, plugin: str, pod: str, network: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        """Call one plugin for the interface net1 of a pod, whose network namespace has the pod's name."""
        folder = "/opt/cni/bin" if plugin == "rxe-netns" else UPSTREAM
        variables = {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": pod,
            "CNI_IFNAME": "net1",
            "CNI_NETNS": f"/run/netns/{pod}",
            "CNI_PATH": folder,
            "CNI_ARGS": f"IgnoreUnknown=1;K8S_POD_NAMESPACE=test;K8S_POD_NAME={pod}",
        }
        settings = shlex.join(f"{name}={value}" for name, value in variables.items())
        given = shlex.quote(json.dumps({**VERSION, "type": plugin, **network}))
        return self._lab.ssh(self._name, f"env {settings} {folder}/{plugin} <<<{given}")

    def chain(self, command: str, pod: str, interface: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        """Make (ADD) a pod's interface and bring soft RDMA into it, or undo it in the other order (DEL)."""
        if command == "ADD":
            made = self.call("ADD", interface["type"], pod, interface)
            assert made.returncode == 0, made.stdout
            return self.call("ADD", "rxe-netns", pod, {"prevResult": json.loads(made.stdout)})
        freed = self.call("DEL", "rxe-netns", pod, {})
        self.call("DEL", interface["type"], pod, interface)
        return freed

    def device_of(self, pod: str | None = None) -> str | None:
        """Give the interface that rxe0 is on as a pod, or the node, sees it."""
        where = f"ip netns exec {pod} " if pod else ""
        (link,) = json.loads(self.shell(f"{where}rdma -j link"))
        interface: str | None = link.get("netdev")
        return interface


@pytest.fixture
def node(cluster_lab: Lab) -> Iterator[Node]:
    """A node with two pods' empty network namespaces."""
    node = Node(cluster_lab, cluster_lab.guests[0])
    find = "find /var/lib/containerd -path '*/fs/*' -type f -name"
    copies = [f"cp $({find} {name} | head -n 1) {UPSTREAM}/" for name in ("macvlan", "host-device")]
    node.shell(" && ".join(["ip netns add pod-1", "ip netns add pod-2", f"mkdir -p {UPSTREAM}", *copies]))
    yield node
    node.shell(f"ip netns delete pod-1; ip netns delete pod-2; rm -r {UPSTREAM}; sleep 1")
    for pod in ("pod-1", "pod-2"):
        assert node.call("DEL", "rxe-netns", pod, {}).returncode == 0
    assert node.device_of() == node.card


def macvlan(node: Node) -> dict[str, Any]:
    return {"type": "macvlan", "master": node.card, "mode": "bridge"}


def test_one_pod_gets_the_device_the_next_is_refused_and_the_node_gets_it_back(node: Node) -> None:
    result = node.chain("ADD", "pod-1", macvlan(node))
    assert result.returncode == 0, result.stdout
    assert json.loads(result.stdout)["interfaces"][0]["name"] == "net1"  # what the plugin before said
    assert node.device_of("pod-1") == "net1"
    assert node.device_of() is None
    assert node.call("CHECK", "rxe-netns", "pod-1", {}).returncode == 0

    refused = node.chain("ADD", "pod-2", macvlan(node))
    assert refused.returncode == 1
    error = json.loads(refused.stdout)
    assert error["code"] == 11
    assert "test/pod-1" in error["msg"]
    assert node.call("CHECK", "rxe-netns", "pod-2", {}).returncode == 1
    assert node.chain("DEL", "pod-2", macvlan(node)).returncode == 0
    assert node.device_of("pod-1") == "net1"

    assert node.chain("DEL", "pod-1", macvlan(node)).returncode == 0
    assert node.device_of() == node.card
    assert node.chain("DEL", "pod-1", macvlan(node)).returncode == 0  # as runtimes do


def test_a_pod_that_vanished_does_not_keep_the_device(node: Node) -> None:
    assert node.chain("ADD", "pod-1", macvlan(node)).returncode == 0
    node.shell("ip netns delete pod-1; sleep 1")  # the kernel takes the interface away in its own time
    assert node.chain("ADD", "pod-2", macvlan(node)).returncode == 0
    assert node.call("DEL", "rxe-netns", "pod-1", {}).returncode == 0  # late, and no longer its own
    assert node.device_of("pod-2") == "net1"


def test_a_virtual_function_that_was_moved_into_a_pod_gets_the_device(node: Node) -> None:
    # A former test may have left others, which the kernel does not change in number.
    node.shell(f"echo 0 > {CARD}/sriov_numvfs && echo 1 > {CARD}/sriov_numvfs && udevadm settle")
    try:
        address = node.shell(f"basename $(readlink {CARD}/virtfn0)").strip()
        interface = {"type": "host-device", "pciBusID": address}
        result = node.chain("ADD", "pod-1", interface)
        assert result.returncode == 0, result.stdout
        assert node.device_of("pod-1") == "net1"
        assert node.chain("DEL", "pod-1", interface).returncode == 0
        assert node.device_of() == node.card
    finally:
        node.shell(f"echo 0 > {CARD}/sriov_numvfs")


@pytest.mark.parametrize(
    ("network", "code"), [({}, 7), ({"cniVersion": "9.9.9"}, 1), ({"prevResult": {}}, 100)], ids=str
)
def test_what_cannot_be_done_is_said_with_the_specifications_code(
    node: Node, network: dict[str, Any], code: int
) -> None:
    refused = node.call("ADD", "rxe-netns", "pod-1", network)
    assert refused.returncode == 1
    assert json.loads(refused.stdout)["code"] == code
