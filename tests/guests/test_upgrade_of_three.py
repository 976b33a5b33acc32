# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``upgrade`` on three guests: another kernel, another driver of the cards, an argument, while pods hold RDMA devices.

Kubelet, containerd, the device plugin, the reboots, the budget of the pods, Debian's kernels and the loading of the
kernel's mlx5 driver are real. The driver of the cards is igb, built out of the tree against the next kernel and put
where DKMS puts it. A vendor's is left out on hosts without an NVIDIA NIC, which QEMU has none of, so no step of the
collection builds a driver here, and none reloads one. The tests build on each other, in the file's order.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import ANNOTATION
from ansible_collections.rdma.fabric.tests.guests.installed import install
from ansible_collections.rdma.fabric.tests.guests.pods import get, on_guest
from ansible_collections.rdma.fabric.tests.guests.rolled_out import ARGUMENT, BUDGET, PODS, RESOURCE, Fleet
from ansible_collections.rdma.fabric.tests.guests.site_runs import allocatable, await_offer, run_site
from ansible_collections.rdma.fabric.tests.integration.playbooks import User
from ansible_collections.rdma.fabric.tests.lab.guests.cluster import Lab
from ansible_collections.rdma.fabric.tests.lab.guests.next_kernel import (
    CLOUD,
    IGB_VERSION,
    REALTIME,
    NextKernel,
    gather_igb,
    gather_kernel,
)
from ansible_collections.rdma.fabric.tests.lab.programs import to_standard_error

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


@pytest.fixture(scope="module")
def next_kernel(fleet: Fleet) -> NextKernel:
    """The kernel that all guests start next, with a driver of its own for their cards.

    It was installed and left to a reboot, as unattended upgrades do it; DKMS builds for each kernel that is installed.
    """
    found = gather_kernel(REALTIME, os.environ, to_standard_error)
    driver = gather_igb(found.kernel, os.environ, to_standard_error)
    place = f"usr/lib/modules/{found.kernel.release}/updates/dkms/{driver.name}"
    install(fleet.lab.directory, fleet.lab.guests, found.archives, {place: driver})
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


def test_a_next_kernel_without_the_driver_of_the_cards_ends_the_run_before_a_node_is_drained(fleet: Fleet) -> None:
    canary, boots, pods = fleet.lab.guests[0], fleet.boots(), fleet.jobs()
    lacking = gather_kernel(CLOUD, os.environ, to_standard_error)
    install(fleet.lab.directory, [canary], lacking.archives)
    with fleet.watched() as seen:
        outcome = fleet.upgrade().refused()
    assert f"kernel {lacking.kernel.release}" in outcome.output
    assert "it has no igb, igbvf, which NICs of this host use now" in outcome.output
    assert (seen.cordons, seen.fewest_healthy, fleet.holders()) == ([], PODS, [])
    assert (fleet.boots(), fleet.jobs(), fleet.with_driver()) == (boots, pods, [])
    # A later kernel takes its place, so that it may stay.


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


def test_guests_get_kernel_and_driver_in_turn_and_offer_their_devices_again(
    fleet: Fleet, next_kernel: NextKernel
) -> None:
    """The canary that has failed before continues where it stopped, as its driver loads by now."""
    boots, pods, former, kernel = fleet.boots(), fleet.jobs(), fleet.kernels(), next_kernel.kernel.release
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
    assert fleet.kernels() == dict.fromkeys(fleet.lab.guests, kernel)
    assert fleet.each("cat /sys/module/igb/version") == dict.fromkeys(fleet.lab.guests, IGB_VERSION)
    told = {turn["host"]: (turn["before"]["kernel"], turn["after"]["kernel"]) for turn in fleet.turns()}
    assert told == {guest: (release, kernel) for guest, release in former.items()}
    assert fleet.with_driver() == list(fleet.lab.guests)
    # It is uncordoned once it offers them, so nobody has to wait for that.
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
