# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A booted host in the form of an ostree keeps names, MTU, VFs and modules below /etc and /var, and refuses the rest.

The tests build on each other, in the order of the file. A unit makes /usr read-only and says that an ostree has booted;
rpm-ostree itself, whose images no guest has, is not there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Iterator

import pytest

from ansible_collections.rdma.fabric.tests.guests.host_runs import FUNCTION, Fleet, Json, differences
from ansible_collections.rdma.fabric.tests.guests.site_runs import watched
from ansible_collections.rdma.fabric.tests.guests.test_findings import NVIDIA
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane

NAME, MTU, MODULE = "rail0", 9000, "ib_ipoib"
VARIABLES = {
    "rdma_fabric_interfaces": [{"pci": FUNCTION, "name": NAME, "mtu": MTU, "vfs": 2, "state": "up"}],
    "rdma_fabric_kernel_modules": [MODULE],
    "rdma_fabric_allow_vf_reset": True,
}
NOT_THERE = {
    "rdma_fabric_kernel_arguments": ["iommu=pt"],
    "rdma_fabric_driver": {"flavour": "doca-ofed", "version": "25.01-0.6.0"},
}
UNIT = "/etc/systemd/system/ostree-form.service"
UNIT_TEXT = """
[Unit]
DefaultDependencies=no
After=local-fs.target
Before=sysinit.target rdma-fabric-host.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'mount --bind -o ro /usr /usr && touch /run/ostree-booted'

[Install]
WantedBy=sysinit.target
"""
WRITABLE = ("/etc/", "/run/", "/var/", "/root/.ansible/", "/sys/", "/proc/")


@pytest.fixture(scope="module")
def fleet(lab: Path, cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The guests, the first of them in the form of an ostree."""
    found = Fleet(lab, tmp_path_factory.mktemp("site"), cluster, VARIABLES)
    found.ssh(found.guests[0], f"cat >{UNIT} && systemctl enable {Path(UNIT).name}", stdin=UNIT_TEXT)
    found.reboot(found.guests[0])
    yield found
    found.ssh(found.guests[0], f"systemctl disable {Path(UNIT).name} && rm {UNIT}")
    found.reboot(found.guests[0])


@pytest.fixture(scope="module")
def before(fleet: Fleet) -> Json:
    """What the guest is like before anything was done to it."""
    return fleet.snapshot(fleet.guests[0])


def plan(fleet: Fleet) -> Json:
    """Give the plan that the last run made."""
    path = fleet.user.here / "rdma-fabric-run" / "hosts" / f"{fleet.guests[0]}.json"
    found: Json = json.loads(path.read_text(encoding="utf-8"))["plan"]
    return found


def assert_kept(fleet: Fleet) -> None:
    """Fail unless the guest has what is asked for, and a /usr that nobody writes to."""
    looks = f"cat /sys/bus/pci/devices/{FUNCTION}/sriov_numvfs /sys/class/net/{NAME}/mtu; ls -d /sys/module/{MODULE}"
    seen = fleet.ssh(fleet.guests[0], f"{looks}; touch /usr/written 2>&1 || true").split()
    assert seen[:3] == ["2", str(MTU), f"/sys/module/{MODULE}"]
    assert " ".join(seen).endswith("Read-only file system")


def test_check_mode_refuses_packages_and_kernel_arguments_with_the_way(fleet: Fleet, before: Json) -> None:
    guest, (plant, remove) = fleet.guests[0], NVIDIA
    fleet.ssh(guest, plant)
    try:
        fleet.site("--check", "--limit", f"{guest},localhost", **NOT_THERE).refused()
    finally:
        fleet.ssh(guest, remove)
    refused = {step["concern"]: step["detail"] for step in plan(fleet)["steps"] if step["status"] == "refused"}
    assert set(refused) == {"driver", "kernel_arguments"}
    assert "rpm-ostree kargs" in refused["kernel_arguments"]
    assert "source: container" in refused["driver"]
    assert differences(before, fleet.snapshot(guest)) == []


def test_the_rest_is_written_where_an_ostree_keeps_it_and_its_initramfs_is_left_to_rpm_ostree(fleet: Fleet) -> None:
    guest = fleet.guests[0]
    (initramfs,) = (each for each in plan(fleet)["notices"] if "initramfs" in each)
    with watched(fleet, guest) as changes:
        fleet.site("--limit", f"{guest},localhost").succeeded()
    assert [each for each in changes if not each["path"].startswith(WRITABLE)] == []
    (link,) = fleet.ssh(guest, "ls /etc/systemd/network/05-rdma-fabric-*").split()
    assert f"rpm-ostree initramfs-etc --force-sync --track={link}," in initramfs
    assert_kept(fleet)
    fleet.reboot(guest)
    fleet.snapshot(guest)  # it has started to the end
    assert_kept(fleet)


def test_removal_leaves_the_guest_as_it_was(fleet: Fleet, before: Json) -> None:
    guest = fleet.guests[0]
    fleet.site("--limit", f"{guest},localhost", rdma_fabric_host_state="absent").succeeded()
    fleet.reboot(guest)
    assert differences(before, fleet.snapshot(guest)) == []
