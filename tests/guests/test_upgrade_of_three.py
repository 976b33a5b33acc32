# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``upgrade`` on three guests: a driver, and a kernel argument that takes a reboot, while pods hold RDMA devices.

Kubelet, containerd, the device plugin, the reboots, the budget of the pods and the loading of the kernel's mlx5 driver
are real. Another driver can't be had: a vendor's is left out on hosts without an NVIDIA NIC, which QEMU has none of, so
nothing is built by DKMS and no driver is reloaded here. The tests build on each other, in the file's order.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import ANNOTATION
from ansible_collections.rdma.fabric.tests.guests.pods import get, on_guest
from ansible_collections.rdma.fabric.tests.guests.rolled_out import ARGUMENT, BUDGET, RESOURCE, Fleet
from ansible_collections.rdma.fabric.tests.guests.site_runs import allocatable, await_offer, run_site
from ansible_collections.rdma.fabric.tests.integration.playbooks import User
from ansible_collections.rdma.fabric.tests.lab.guests.cluster import Lab

OFFERED = 63
BROKEN = "/etc/modprobe.d/broken.conf"
ROLLED_BACK = "; rolled back to what it was before"


@pytest.fixture(scope="module")
def fleet(cluster_of_three: Lab, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    user = User(tmp_path_factory.mktemp("upgrade"))
    run_site(cluster_of_three, user)
    await_offer(cluster_of_three, RESOURCE, OFFERED)
    found = Fleet(cluster_of_three, user)
    found.start_jobs()
    return found


def test_check_mode_names_pods_and_the_reboot_and_does_nothing(fleet: Fleet) -> None:
    boots, pods = fleet.boots(), fleet.jobs()
    with fleet.watched() as seen:
        outcome = fleet.upgrade("--check", "--diff").succeeded()
    for pod in pods:
        assert f"-pod default/{pod}" in outcome.output
    assert ARGUMENT in outcome.output
    assert "mlx5_core" in outcome.output
    assert (seen.cordons, fleet.holders(), fleet.boots(), fleet.jobs()) == ([], [], boots, pods)


def test_a_driver_that_does_not_load_on_the_canary_is_rolled_back_and_the_others_are_not_touched(fleet: Fleet) -> None:
    canary = fleet.lab.guests[0]
    boots, modules = fleet.boots(), fleet.each("ls /etc/modules-load.d")
    asked: dict[str, Any] = {"rdma_fabric_canaries": canary, "rdma_fabric_kernel_arguments": []}
    on_guest(fleet.lab, canary, f"echo 'install mlx5_core /bin/false' > {BROKEN}")
    try:
        with fleet.watched() as seen:
            outcome = fleet.upgrade(**asked).refused()
        assert (seen.cordons, seen.fewest_healthy) == ([(canary, True)], BUDGET)
        assert "mlx5_core" in fleet.reason()
        assert fleet.reason().endswith(ROLLED_BACK)
        mark = get(fleet.lab, "node", canary)["metadata"]["annotations"][ANNOTATION]
        assert json.loads(mark)["reason"] == fleet.reason()
        assert "no further node begins, as one has failed" in outcome.output
        assert fleet.holders() == [canary]
        assert (fleet.with_driver(), fleet.boots(), fleet.each("ls /etc/modules-load.d")) == ([], boots, modules)
    finally:
        on_guest(fleet.lab, canary, f"rm -f {BROKEN}")
    fleet.await_jobs()


def test_guests_are_drained_and_rebooted_in_turn_and_offer_their_devices_again(fleet: Fleet) -> None:
    """The canary that has failed before goes on where it stopped, as its driver loads by now."""
    boots, pods = fleet.boots(), fleet.jobs()
    with fleet.watched() as seen:
        fleet.upgrade().succeeded()
    assert [now for _name, now in seen.cordons] == [True, False] * len(fleet.lab.guests), seen
    assert sorted(name for name, now in seen.cordons if now) == sorted(fleet.lab.guests)
    assert [first[0] for first in seen.cordons[::2]] == [second[0] for second in seen.cordons[1::2]]
    assert (seen.most_down, seen.fewest_healthy) == (1, BUDGET)
    # Three pods on two nodes: one of them has two, of which the budget lets one go at a time.
    assert any("budget" in why for why in fleet.refusals()), fleet.refusals()
    for guest, boot in fleet.boots().items():
        assert boot != boots[guest]
        assert ARGUMENT in on_guest(fleet.lab, guest, "cat /proc/cmdline")
        assert ANNOTATION not in get(fleet.lab, "node", guest)["metadata"].get("annotations", {})
    assert fleet.with_driver() == list(fleet.lab.guests)
    # It is given back once it offers them, so nobody has to wait for that.
    assert set(allocatable(fleet.lab, RESOURCE).values()) == {str(OFFERED)}
    fleet.await_jobs()
    assert not set(fleet.jobs()) & set(pods)
    assert fleet.holders() == []


def test_a_second_run_interrupts_nobody(fleet: Fleet) -> None:
    boots, pods = fleet.boots(), fleet.jobs()
    with fleet.watched() as seen:
        outcome = fleet.upgrade().succeeded()
    assert set(outcome.changed.values()) == {0}
    assert (seen.cordons, fleet.boots(), fleet.jobs()) == ([], boots, pods)
