# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A removal that destroys VFs has nothing to bring back of them, and leaves nothing behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.run import baseline
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run, as_it_would_end
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HostSpec
from ansible_collections.rdma.fabric.tests.unit._host import igb
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
REMOVE = Run(check=False, diff=True, mode="apply", recorded=False, state="absent")
PORT = {"pci": igb.PF, "vfs": 2}
CONSENT = {"rdma_fabric_allow_vf_reset": True}
ARP = "/proc/sys/net/ipv4/conf/enp1s0f0v0/arp_ignore"


def host_with_rails() -> Kernel:
    """Return a host whose first VF became a rail in a second run, as it was not there in the first."""
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


class TestWithoutConsent:
    """Functions that a removal may not destroy stay, and who hands the host on has to know it."""

    def test_the_run_fails_and_names_what_stays_and_the_consent(self) -> None:
        kernel = host_with_rails()
        outcome = apply(kernel, igb.wish(), REMOVE, None, kernel)
        assert outcome["failed"] and outcome["changed"]
        assert "is not all taken back without a consent" in outcome["msg"]
        assert "vfs 0000:01:00.0" in outcome["msg"] and "rdma_fabric_allow_vf_reset: true" in outcome["msg"]
        assert "rdma_fabric_host_strict: false" in outcome["msg"]

    def test_so_does_the_next_one_that_finds_nothing_else_to_do(self) -> None:
        kernel = host_with_rails()
        apply(kernel, igb.wish(), REMOVE, None, kernel)
        outcome = apply(kernel, igb.wish(), REMOVE, None, kernel)
        assert outcome["failed"] and not outcome["changed"] and outcome["executed"] == []

    def test_check_mode_fails_before_anything_is_drained_for_it(self) -> None:
        check = replace(REMOVE, check=True)
        looked = preview(host_with_rails(), igb.wish(), check, None)
        assert "would not all be taken back" in as_it_would_end(looked, check, root=True)["msg"]
        allowed = preview(host_with_rails(), igb.wish(**CONSENT), check, None)
        assert "failed" not in as_it_would_end(allowed, check, root=True)

    def test_whoever_keeps_them_on_purpose_says_so_and_takes_them_back_later(self) -> None:
        kernel = host_with_rails()
        lenient = replace(REMOVE, strict=False)
        assert "failed" not in as_it_would_end(
            preview(kernel, igb.wish(), replace(lenient, check=True), None), replace(lenient, check=True), root=True
        )
        outcome = succeeded(kernel, igb.wish(), lenient)
        assert [step["status"] for step in outcome["plan"]["steps"]] == ["needs_consent"]
        succeeded(kernel, igb.wish(**CONSENT), REMOVE)
        assert not kernel.exists(baseline.PATH)

    @pytest.mark.parametrize("state", ["present", "previous"])
    def test_other_runs_report_it_and_go_on(self, state: str) -> None:
        kernel = host_with_rails()
        outcome = apply(kernel, igb.wish({"pci": igb.PF, "vfs": 4}), replace(APPLY, state=state), None, kernel)
        assert "failed" not in outcome
