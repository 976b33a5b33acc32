# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``join``, ``drift`` and ``teardown`` on booted nodes, with pods that hold RDMA devices.

The hosts' kernel, udev and boots are real, and so are kubelet, containerd and the programs in the cluster. The
tests build on each other, in the file's order.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.joining import mark_of
from ansible_collections.rdma.fabric.tests.guests.host_runs import CARD, differences
from ansible_collections.rdma.fabric.tests.guests.pods import get, items, kubectl, name_of, on_guest, until
from ansible_collections.rdma.fabric.tests.guests.rolled_out import (
    JOBS,
    NAMESPACE,
    RESOURCE,
    Fleet,
    every_second,
    jobs,
)
from ansible_collections.rdma.fabric.tests.integration.playbooks import Outcome, User
from ansible_collections.rdma.fabric.tests.integration.whole_cluster import everything, kept_kinds
from ansible_collections.rdma.fabric.tests.lab.guests.cluster import Lab
from ansible_collections.rdma.fabric.tests.lab.guests.speed import pace

TAINT = "fabric.example.com/joining"
JOIN_SECONDS = 900
CONSENT = {"rdma_fabric_allow_teardown": True, "rdma_fabric_allow_vf_reset": True}
NETWORK = "rdma-shared"
# The namespace of the fabric, which may hold what others put there, and what the cluster puts into each.
KEPT = {f"Namespace /{NAMESPACE}", f"ServiceAccount {NAMESPACE}/default", f"ConfigMap {NAMESPACE}/kube-root-ca.crt"}
# What the programs have written for themselves, which docs/guide-teardown.md says.
LEFT = tuple(f"files /etc/cni/net.d/{program}.d" for program in ("multus", "whereabouts"))
DIFFERS = 2
GONE_SECONDS = 120.0


class DayTwo(Fleet):
    """The nodes of a lab, what they and the cluster were before the first run, and somebody who runs the playbooks."""

    def __init__(self, lab: Lab, user: User) -> None:
        super().__init__(lab, user)
        _budget, deployment = jobs()
        kubectl(lab, "apply", "--filename=-", stdin=json.dumps(deployment))
        self.objects, self.hosts = everything(lab.api), self.snapshots()

    def run(self, playbook: str, *arguments: str, **variables: Any) -> Outcome:
        """Run a playbook where new nodes have a taint."""
        timeout = round(JOIN_SECONDS * pace(os.environ))
        joining = {"rdma_fabric_join_taint": f"{TAINT}:NoSchedule", "rdma_fabric_join_timeout": timeout}
        return super().run(playbook, *arguments, **{**joining, **variables})

    def tainted(self) -> list[str]:
        """Return the nodes that have the taint."""
        taints = {name_of(node): node["spec"].get("taints") or [] for node in items(self.lab, "nodes")}
        return [name for name, found in taints.items() if TAINT in {each["key"] for each in found}]

    def with_jobs(self) -> set[str]:
        """Return the nodes that pods of the Deployment were put on."""
        return {pod["spec"]["nodeName"] for pod in self.pods() if "nodeName" in pod["spec"]}

    def job_names(self) -> list[str]:
        """Return the names of the pods of the Deployment."""
        return [name_of(pod) for pod in self.pods()]

    @contextmanager
    def tainted_watched(self) -> Iterator[dict[str, bool]]:
        """Look every second which nodes have the taint, and whether one has pods of the Deployment at that time."""
        seen: dict[str, bool] = {}

        def look() -> None:
            # In this order: a pod may come as soon as the taint is gone.
            busy = self.with_jobs()
            for node in self.tainted():
                seen[node] = seen.get(node, False) or node in busy

        with every_second(look):
            yield seen


@pytest.fixture(scope="module")
def fleet(cluster_of_three: Lab, tmp_path_factory: pytest.TempPathFactory) -> DayTwo:
    return DayTwo(cluster_of_three, User(tmp_path_factory.mktemp("day-two")))


def test_new_nodes_take_no_pods_until_they_are_verified(fleet: DayTwo) -> None:
    with fleet.tainted_watched() as seen:
        outcome = fleet.run("join").succeeded()
    assert seen == dict.fromkeys(fleet.lab.guests, False), outcome.output
    assert fleet.tainted() == []
    for guest in fleet.lab.guests:
        mark = mark_of(get(fleet.lab, "node", guest))
        assert mark is not None and mark.joined
    fleet.await_jobs()


def test_a_second_join_changes_nothing(fleet: DayTwo) -> None:
    pods = fleet.jobs()
    outcome = fleet.run("join").succeeded()
    assert set(outcome.changed.values()) == {0}
    assert fleet.jobs() == pods


def test_drift_finds_nothing_after_a_run(fleet: DayTwo) -> None:
    outcome = fleet.run("drift").succeeded()
    assert "result: nothing differs" in outcome.output


def test_drift_finds_what_somebody_has_changed_and_site_brings_it_back(fleet: DayTwo) -> None:
    changed = fleet.lab.guests[1]
    on_guest(fleet.lab, changed, f"ip link set dev {CARD} mtu 4000")
    kubectl(fleet.lab, "delete", "network-attachment-definitions.k8s.cni.cncf.io", NETWORK, "--namespace=default")
    outcome = fleet.run("drift")
    assert outcome.status == DIFFERS, outcome.output
    assert "set the MTU to 9000 (now 4000)" in outcome.output
    assert f"NetworkAttachmentDefinition default/{NETWORK}: missing: an earlier run applied it" in outcome.output
    assert on_guest(fleet.lab, changed, f"cat /sys/class/net/{CARD}/mtu").strip() == "4000"
    fleet.run("site").succeeded()
    assert on_guest(fleet.lab, changed, f"cat /sys/class/net/{CARD}/mtu").strip() == "9000"
    fleet.run("drift").succeeded()


def test_a_teardown_waits_for_the_pods_that_use_the_fabric(fleet: DayTwo) -> None:
    outcome = fleet.run("teardown", **CONSENT).refused()
    assert all(f"default/{pod} (resource {RESOURCE})" in outcome.output for pod in fleet.job_names())
    assert set(outcome.changed) == {"localhost"}


def test_after_a_teardown_cluster_and_hosts_are_what_they_were_before_the_first_run(fleet: DayTwo) -> None:
    kubectl(fleet.lab, "scale", "deployment", JOBS, "--namespace=default", "--replicas=0")
    until(lambda: not fleet.job_names(), GONE_SECONDS, lambda: f"{fleet.job_names()}")
    fleet.run("teardown", **CONSENT).succeeded()

    def others() -> set[str]:
        found = set(everything(fleet.lab.api)) ^ {*fleet.objects, *KEPT}
        return found - kept_kinds(found)

    until(lambda: not others(), GONE_SECONDS, lambda: f"{others()}")
    fleet.reboot()
    after = fleet.snapshots()
    differing = {guest: differences(fleet.hosts[guest], found) for guest, found in after.items()}
    left = {guest: [line for line in lines if not line.startswith(LEFT)] for guest, lines in differing.items()}
    assert not any(left.values()), left
