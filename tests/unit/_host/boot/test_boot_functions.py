# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual functions over a reboot: the kernel forgets them, the boot unit makes them again before the network."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.run import start
from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.unit import RESULT_FILE, WISHES_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.outcome import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import CONCERNS
from ansible_collections.rdma.fabric.tests.unit._host.igb import APPLY, PF, VF0, applied, booted, wish
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

EVERYTHING: Run = replace(APPLY, concerns=CONCERNS)
SETTINGS = {"mac": "deterministic", "vlan": 5, "spoofchk": False}


def rebooted(kernel: Kernel) -> Kernel:
    """The guest as the kernel makes it, with the files that were there."""
    fresh = booted()
    for path, content in kernel.tree.files.items():
        if path.startswith(("/etc/", "/usr/local/", "/var/lib/rdma-fabric/")):
            fresh.tree.add_file(path, content)
    for path, target in kernel.tree.links.items():
        if path.startswith("/etc/"):
            fresh.tree.add_link(path, target)
    return fresh


@pytest.mark.parametrize(
    "wanted",
    [
        {"vfs": 4},
        {"vfs": 4, "mtu": 9000, "vf_mtu": 9000, "state": "up"},
        {"vfs": 2, "vf_settings": SETTINGS},
    ],
)
def test_a_rebooted_host_is_what_it_was_before_anything_uses_it(wanted: dict[str, Any]) -> None:
    desired = wish({"pci": PF, **wanted})
    before = booted()
    assert not applied(before, desired, EVERYTHING).get("failed")
    kernel = rebooted(before)
    assert not kernel.exists(f"/sys/bus/pci/devices/{VF0}")
    start(kernel, kernel)
    assert json.loads(kernel.read(RESULT_FILE))["problems"] == []
    assert kernel.exists(f"/sys/bus/pci/devices/{VF0}")
    kernel.revive()
    outcome = applied(kernel, desired, EVERYTHING)
    assert (outcome["changed"], outcome["executed"], kernel.mutations) == (False, [], [])


def test_another_number_is_what_the_next_boot_brings() -> None:
    kernel = booted()
    for count in (4, 2, 7):
        desired = wish({"pci": PF, "vfs": count}, rdma_fabric_allow_vf_reset=True)
        assert not applied(kernel, desired, EVERYTHING).get("failed")
        assert json.loads(kernel.read(WISHES_FILE))["interfaces"] == [{"pci": PF, "vfs": count}]
    kernel = rebooted(kernel)
    start(kernel, kernel)
    assert kernel.read(f"/sys/bus/pci/devices/{PF}/sriov_numvfs").strip() == "7"
