# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A removal that destroys virtual functions has nothing to bring back of them, and leaves nothing behind."""

from __future__ import annotations

from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.run import baseline
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HostSpec
from ansible_collections.rdma.fabric.tests.unit._host import igb
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
REMOVE = Run(check=False, diff=True, mode="apply", recorded=False, state="absent")
PORT = {"pci": igb.PF, "vfs": 2}
CONSENT = {"rdma_fabric_allow_vf_reset": True}
ARP = "/proc/sys/net/ipv4/conf/enp1s0f0v0/arp_ignore"


def host_with_rails() -> Kernel:
    """Return a host whose first virtual function became a rail in a second run, as it was not there in the first."""
    kernel = igb.booted()
    succeeded(kernel, igb.wish(PORT), APPLY)
    kernel.tree.add_file(ARP, "0\n")
    rail = {"pci": igb.VF0, "mtu": 1400, "state": "up"}
    succeeded(kernel, igb.wish(PORT, rail, rdma_fabric_sysctls={"net.ipv4.conf.enp1s0f0v0.arp_ignore": 1}), APPLY)
    return kernel


def succeeded(kernel: Kernel, desired: HostSpec, run: Run) -> Mapping[str, Any]:
    outcome = apply(kernel, desired, run, None, kernel)
    assert not outcome.get("failed"), outcome["msg"]
    return outcome


def test_what_is_of_functions_that_go_is_left_alone() -> None:
    kernel = host_with_rails()
    outcome = succeeded(kernel, igb.wish(**CONSENT), REMOVE)
    about = {step["id"].split(":")[0] for step in outcome["executed"]}
    assert "vfs" in about and not about & {"mtu", "link", "sysctl"}
    assert kernel.read(f"/sys/bus/pci/devices/{igb.PF}/sriov_numvfs") == "0\n"
    assert not kernel.exists(baseline.PATH)


def test_functions_that_stay_get_everything_back() -> None:
    kernel = host_with_rails()
    outcome = apply(kernel, igb.wish(), REMOVE, None, kernel)
    assert [step["id"] for step in outcome["plan"]["steps"]] == [f"vfs:{igb.PF}"]
    assert kernel.read("/sys/class/net/enp1s0f0v0/mtu") == "1500\n"
    assert kernel.read(ARP) == "0\n"


def test_a_card_that_was_taken_out_is_no_obstacle_to_a_removal() -> None:
    kernel = host_with_rails()
    kernel.set_attribute(f"/sys/bus/pci/devices/{igb.PF}/sriov_numvfs", "0", 1.0)
    outcome = succeeded(kernel, igb.wish(), REMOVE)
    assert outcome["plan"]["steps"] == [] and not kernel.exists(baseline.PATH)
