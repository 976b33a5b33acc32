# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``upgrade`` on the guests: a kernel argument that takes a reboot, node by node, while pods hold RDMA devices.

Kubelet, containerd, the device plugin and the reboots are real. The tests build on each other, in the file's order.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import ANNOTATION
from ansible_collections.rdma.fabric.tests.guests.pods import (
    create,
    delete,
    get,
    items,
    name_of,
    on_guest,
    rdma_pod,
)
from ansible_collections.rdma.fabric.tests.guests.site_runs import ROLLOUT_SECONDS, allocatable, await_offer, run_site
from ansible_collections.rdma.fabric.tests.integration.playbooks import Outcome, User
from ansible_collections.rdma.fabric.tests.lab.guests.cluster import Lab

RESOURCE, OFFERED = "rdma/rdma_shared_device_a", 63
NETWORK = """\
apiVersion: mellanox.com/v1alpha1
kind: MacvlanNetwork
metadata: {name: upgraded}
spec:
  networkNamespace: default
  master: enp1s0
  mode: bridge
  mtu: 1500
  ipam: '{"type": "whereabouts", "range": "192.0.2.0/24"}'
"""
ARGUMENT, AGAIN = "rdma_fabric.upgraded=1", "rdma_fabric.again=1"
NAMESPACE = "nvidia-network-operator"
UPGRADE_SECONDS = 1800.0  # two reboots of emulated guests, one after the other


@dataclass
class Fleet:
    """The guests with the lab's own policy, a pod with a device on each, and the user who upgrades them."""

    lab: Lab
    user: User

    def upgrade(self, *arguments: str, **variables: Any) -> Outcome:
        """Run ``upgrade`` as an administrator who wants another kernel argument and allows reboots."""
        given = {
            "rdma_fabric_wait_timeout": ROLLOUT_SECONDS,
            "rdma_fabric_manifests": [str(self.user.here / "network.yaml")],
            "rdma_fabric_kernel_arguments": [ARGUMENT],
            "rdma_fabric_allow_reboot": True,
            "rdma_fabric_drain_force": True,
            "rdma_fabric_drain_timeout": 600,
            **variables,
        }
        return self.user.run(
            "upgrade", *arguments, inventory=self.lab.inventory, variables=given, seconds=UPGRADE_SECONDS
        )

    @contextmanager
    def watched(self) -> Iterator[list[tuple[str, bool]]]:
        """Look every second whose node is cordoned; the list has each change, the node and whether it was cordoned."""
        changes: list[tuple[str, bool]] = []
        over = threading.Event()

        def look() -> None:
            cordoned: dict[str, bool] = {}
            while True:
                last = over.is_set()
                for node in items(self.lab, "nodes"):
                    name, now = name_of(node), bool(node["spec"].get("unschedulable"))
                    if now != cordoned.get(name, False):
                        changes.append((name, now))
                    cordoned[name] = now
                if last:
                    return
                over.wait(1.0)

        watcher = threading.Thread(target=look)
        watcher.start()
        try:
            yield changes
        finally:
            over.set()
            watcher.join()

    def boots(self) -> dict[str, str]:
        return {guest: on_guest(self.lab, guest, "cat /proc/sys/kernel/random/boot_id") for guest in self.lab.guests}

    def holders(self) -> list[str]:
        leases = items(self.lab, "leases", f"--namespace={NAMESPACE}", "--selector=rdma.fabric/slots")
        return [lease["spec"]["holderIdentity"] for lease in leases if lease["spec"].get("holderIdentity")]


@pytest.fixture(scope="module")
def fleet(cluster_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    user = User(tmp_path_factory.mktemp("upgrade"))
    (user.here / "network.yaml").write_text(NETWORK, encoding="utf-8")
    run_site(cluster_lab, user, rdma_fabric_manifests=[str(user.here / "network.yaml")])
    await_offer(cluster_lab, RESOURCE, OFFERED)
    found = Fleet(cluster_lab, user)
    pods = {guest: f"job-{guest}" for guest in cluster_lab.guests}
    create(cluster_lab, [rdma_pod(pod, guest, "upgraded", RESOURCE) for guest, pod in pods.items()])
    yield found
    delete(cluster_lab, *pods.values())


def test_check_mode_names_pods_and_the_reboot_and_does_nothing(fleet: Fleet) -> None:
    boots = fleet.boots()
    with fleet.watched() as changes:
        outcome = fleet.upgrade("--check", "--diff").succeeded()
    for guest in fleet.lab.guests:
        assert f"-pod default/job-{guest}" in outcome.output
    assert ARGUMENT in outcome.output
    assert (changes, fleet.holders(), fleet.boots()) == ([], [], boots)


def test_guests_are_drained_and_rebooted_in_turn_and_offer_their_devices_again(fleet: Fleet) -> None:
    boots = fleet.boots()
    with fleet.watched() as changes:
        fleet.upgrade().succeeded()
    assert [now for _name, now in changes] == [True, False] * len(fleet.lab.guests), changes
    assert sorted(name for name, now in changes if now) == sorted(fleet.lab.guests)
    assert [first[0] for first in changes[::2]] == [second[0] for second in changes[1::2]]
    for guest, boot in fleet.boots().items():
        assert boot != boots[guest]
        assert ARGUMENT in on_guest(fleet.lab, guest, "cat /proc/cmdline")
        assert ANNOTATION not in get(fleet.lab, "node", guest)["metadata"].get("annotations", {})
    # It is uncordoned once it offers them, so nobody has to wait for that.
    assert set(allocatable(fleet.lab, RESOURCE).values()) == {str(OFFERED)}
    pods = {name_of(pod) for pod in items(fleet.lab, "pods", "--namespace=default")}
    assert not pods & {f"job-{guest}" for guest in fleet.lab.guests}
    assert fleet.holders() == []


def test_a_second_run_interrupts_nobody(fleet: Fleet) -> None:
    boots = fleet.boots()
    with fleet.watched() as changes:
        outcome = fleet.upgrade().succeeded()
    assert set(outcome.changed.values()) == {0}
    assert (changes, fleet.boots()) == ([], boots)


@pytest.fixture
def containerd_masked(fleet: Fleet) -> Iterator[Callable[[], None]]:
    """No kubelet comes back on the first guest after a reboot, until the returned function is called."""
    first = fleet.lab.guests[0]

    def unmask() -> None:
        on_guest(fleet.lab, first, "systemctl unmask containerd.service && systemctl start containerd kubelet")

    on_guest(fleet.lab, first, "systemctl mask containerd.service")
    yield unmask
    unmask()


def refused(fleet: Fleet, **variables: Any) -> Outcome:
    """Run ``upgrade`` with the first guest as the canary, whose kubelet does not come back; nothing else is touched."""
    first, *others = fleet.lab.guests
    boots = fleet.boots()
    outcome = fleet.upgrade(rdma_fabric_canaries=first, rdma_fabric_drain_timeout=90, **variables).refused()
    assert f"node {first} is not uncordoned" in outcome.output
    assert "no further node begins, as one has failed" in outcome.output
    assert get(fleet.lab, "node", first)["spec"]["unschedulable"] is True
    assert [holder.partition("/")[0] for holder in fleet.holders()] == [first]
    assert {guest: fleet.boots()[guest] for guest in others} == {guest: boots[guest] for guest in others}
    return outcome


def test_a_node_whose_kubelet_does_not_come_back_stays_cordoned_with_its_slot_until_it_does(
    fleet: Fleet, containerd_masked: Callable[[], None]
) -> None:
    first, *others = fleet.lab.guests
    boots, wanted = fleet.boots(), {"rdma_fabric_kernel_arguments": [ARGUMENT, AGAIN]}
    refused(fleet, rdma_fabric_rollback=False, **wanted)
    now = fleet.boots()
    assert now[first] != boots[first]
    containerd_masked()
    fleet.upgrade(rdma_fabric_canaries=first, **wanted).succeeded()
    assert fleet.boots()[first] == now[first], "it was rebooted once"
    assert all(fleet.boots()[guest] != boots[guest] for guest in others)
    assert (fleet.holders(), allocatable(fleet.lab, RESOURCE)) == ([], dict.fromkeys(fleet.lab.guests, str(OFFERED)))


def test_such_a_node_is_brought_back_to_what_it_was_before(fleet: Fleet, containerd_masked: Callable[[], None]) -> None:
    """It stays cordoned, as its kubelet is not there; the next run, which asks for nothing new, gives it back."""
    first, boots = fleet.lab.guests[0], fleet.boots()
    former = {"rdma_fabric_kernel_arguments": [ARGUMENT, AGAIN]}
    refused(fleet, rdma_fabric_kernel_arguments=[ARGUMENT])
    assert fleet.boots()[first] != boots[first]
    assert AGAIN in on_guest(fleet.lab, first, "cat /proc/cmdline")
    containerd_masked()
    fleet.upgrade(**former).succeeded()
    assert get(fleet.lab, "node", first)["spec"].get("unschedulable") is None
    assert (fleet.holders(), allocatable(fleet.lab, RESOURCE)) == ([], dict.fromkeys(fleet.lab.guests, str(OFFERED)))
