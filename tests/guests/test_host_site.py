# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``site`` brings booted guests to a wanted state and keeps them there over a reboot; its removal leaves no trace.

The tests build on each other, in the order of the file. The guests are no nodes, and there are no cluster objects: an
API server runs beside them. A unit by the name of kubelet tells what it finds when it starts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.tests.bench.site import per_host
from ansible_collections.rdma.fabric.tests.guests.host_runs import CARD, FUNCTION, Fleet, Json, differences, printed
from ansible_collections.rdma.fabric.tests.guests.site_runs import watched
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane

NAME = "rail0"
MTU = 9000
ARGUMENT = "iommu=pt"
MODULE = "ib_ipoib"
SYSCTL, VALUE = "net/core/rmem_max", "33554432"
PAGES = 8
SEEN = "/run/seen-by-kubelet"
KUBELET = "/etc/systemd/system/kubelet.service"
# As everywhere, the kubelet starts once the network is there: the lab's guests have no unit that waits for it.
KUBELET_UNIT = f"""
[Unit]
Wants=network-online.target
After=network-online.target systemd-networkd.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStartPre=-/usr/lib/systemd/systemd-networkd-wait-online --interface={NAME} --timeout=30
ExecStart=/bin/sh -c '{{ cat /sys/bus/pci/devices/{FUNCTION}/sriov_numvfs /sys/class/net/{NAME}/mtu; \
 ls -d /sys/module/{MODULE}; cat /proc/sys/{SYSCTL}; ulimit -l; cat /proc/cmdline; }} >{SEEN} 2>&1 || true'

[Install]
WantedBy=multi-user.target
"""
# Where Ansible and the connection keep what is theirs.
ANSIBLES_OWN = ("/root/.ansible/", "/run/sshd", "/run/utmp")


def wanted(functions: int) -> list[dict[str, Any]]:
    return [{"pci": FUNCTION, "name": NAME, "mtu": MTU, "vfs": functions, "state": "up"}]


VARIABLES = {
    "rdma_fabric_interfaces": wanted(4),
    "rdma_fabric_kernel_modules": [MODULE, "ib_umad"],
    "rdma_fabric_kernel_arguments": [ARGUMENT],
    "rdma_fabric_sysctls": {SYSCTL.replace("/", "."): int(VALUE)},
    "rdma_fabric_limits": {"memlock": "unlimited"},
    "rdma_fabric_hugepages": {"2Mi": PAGES},
    "rdma_fabric_allow_vf_reset": True,
}


@pytest.fixture(scope="module")
def fleet(lab: Path, cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The guests, each with a unit that tells what a kubelet would have found."""
    found = Fleet(lab, tmp_path_factory.mktemp("site"), cluster, VARIABLES)
    for guest in found.guests:
        found.ssh(guest, f"cat >{KUBELET} && systemctl enable kubelet.service", stdin=KUBELET_UNIT)
    yield found
    for guest in found.guests:
        found.ssh(guest, f"systemctl disable kubelet.service && rm {KUBELET} && systemctl daemon-reload")


@pytest.fixture(scope="module")
def before(fleet: Fleet) -> dict[str, Json]:
    """What the guests are like before anything was done to them."""
    return fleet.snapshots_after_start()


def state(fleet: Fleet, guest: str) -> list[str]:
    """Give what is asked for as a guest has it."""
    command = f"""
        cat /sys/bus/pci/devices/{FUNCTION}/sriov_numvfs /sys/class/net/{NAME}/mtu
        ip -brief link show dev {NAME} up | wc -l
        cat /proc/sys/{SYSCTL} /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
        ls /sys/module | grep -x {MODULE}
    """
    return fleet.ssh(guest, command).split()


def holds(functions: int) -> list[str]:
    return [str(functions), str(MTU), "1", VALUE, str(PAGES), MODULE]


def test_the_run_executes_what_check_mode_has_shown_and_check_mode_changes_nothing(
    fleet: Fleet, before: dict[str, Json]
) -> None:
    shown = printed(fleet.site("--check", "--diff").succeeded().output)
    assert set(shown) == set(fleet.guests)
    for guest in fleet.guests:
        assert differences(before[guest], fleet.snapshot(guest)) == []
    fleet.site().succeeded()
    for guest in fleet.guests:
        assert fleet.executed(guest) == shown[guest]
        assert state(fleet, guest) == holds(4)
        # A service that starts from now on has the limit.
        assert fleet.ssh(guest, "systemd-run --quiet --pipe --wait sh -c 'ulimit -l'").strip() == "unlimited"


def test_fewer_functions_and_more_functions_come_at_once(fleet: Fleet) -> None:
    fleet.site(rdma_fabric_interfaces=wanted(2)).succeeded()
    for guest in fleet.guests:
        assert state(fleet, guest) == holds(2)
        assert any("create 2 VFs (now 4)" in line for line in fleet.executed(guest))


def test_a_reboot_that_is_allowed_brings_everything_back_before_kubelet_starts(fleet: Fleet) -> None:
    boots = {guest: fleet.ssh(guest, "cat /proc/sys/kernel/random/boot_id") for guest in fleet.guests}
    outcome = fleet.site(rdma_fabric_interfaces=wanted(7), rdma_fabric_allow_reboot=True).succeeded()
    for guest in fleet.guests:
        assert outcome.counts[guest]["ok ansible.builtin.reboot"] == 1
        assert fleet.ssh(guest, "cat /proc/sys/kernel/random/boot_id") != boots[guest]
        assert state(fleet, guest) == holds(7)
        seen = fleet.ssh(guest, f"cat {SEEN}").split()
        assert seen[:5] == ["7", str(MTU), f"/sys/module/{MODULE}", VALUE, "unlimited"]
        assert ARGUMENT in seen[5:]
        order = fleet.ssh(guest, "systemctl show --property=Before,Result rdma-fabric-host.service")
        assert {"kubelet.service", "Result=success"} <= set(order.replace("Before=", "").split())


def test_the_second_run_costs_one_module_and_writes_nothing(fleet: Fleet) -> None:
    (guest, *_others) = fleet.guests
    with watched(fleet, guest) as changes:
        outcome = fleet.site(rdma_fabric_interfaces=wanted(7)).succeeded()
    assert dict(outcome.changed) == dict.fromkeys(("localhost", *fleet.guests), 0)
    assert per_host(outcome.counts)["site.steady.modules_per_host"] == 1
    assert per_host(outcome.counts)["site.steady.skipped_per_host"] == 0
    assert [each for each in changes if not each["path"].startswith(ANSIBLES_OWN)] == []


def test_removal_leaves_the_guests_as_they_were(fleet: Fleet, before: dict[str, Json]) -> None:
    shown = printed(fleet.site("--check", "--diff", rdma_fabric_host_state="absent").succeeded().output)
    fleet.site(rdma_fabric_host_state="absent").succeeded()
    for guest in fleet.guests:
        assert fleet.executed(guest) == shown[guest]
        assert fleet.ssh(guest, f"cat /sys/class/net/{CARD}/mtu").strip() == "1500"
    # What the kernel keeps until it starts anew: its own command line, and drivers that came with the functions.
    fleet.site(rdma_fabric_host_state="absent", rdma_fabric_allow_reboot=True).succeeded()
    for guest in fleet.guests:
        assert differences(before[guest], fleet.snapshot(guest)) == []
