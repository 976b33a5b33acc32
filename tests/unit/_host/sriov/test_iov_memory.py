# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A BIOS that left no memory for VFs is told before a number of them is written, of recordings too."""

from __future__ import annotations

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.pci import is_unassigned
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import record
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import make_plan
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.explained import remedy_of
from ansible_collections.rdma.fabric.tests.unit._host.families import PF
from ansible_collections.rdma.fabric.tests.unit._host.kernel import vfs
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.mlx5 import applied, booted, done, functions, the_step, wish

NVIDIA, INTEL = "15b3", "8086"
RESOURCE = f"{vfs.PCI}/{PF}/resource"


def line(start: int, end: int, flags: int) -> str:
    return f"0x{start:016x} 0x{end:016x} 0x{flags:016x}\n"


# 0x14220c: memory, prefetchable, 64-bit, SIZEALIGN; 0x20000000 is UNSET (include/linux/ioport.h).
NONE = line(0, 0, 0)
OWN = line(0x200000000000, 0x200001FFFFFF, 0x14220C)
HAS = line(0x200002000000, 0x2000027FFFFF, 0x14220C)
UNSET = line(0, 0x7FFFFF, 0x2014220C)
MOVED = line(0x200002000000, 0x2000027FFFFF, 0x2014220C)
AT_ZERO = line(0, 0x7FFFFF, 0x14220C)


def resource(*of_functions: str) -> str:
    """BAR 0 of the port itself, then what is given of its functions, then nothing."""
    return OWN + NONE * 6 + "".join(of_functions) + NONE * (6 - len(of_functions))


@pytest.mark.parametrize(
    ("text", "vendor", "expected"),
    [
        pytest.param(resource(HAS), NVIDIA, False, id="assigned"),
        pytest.param(resource(), NVIDIA, True, id="wiped"),
        pytest.param(resource(), INTEL, False, id="wiped, of a card that may have none"),
        pytest.param(resource(UNSET), NVIDIA, True, id="unset"),
        pytest.param(resource(UNSET), INTEL, True, id="unset of any vendor"),
        pytest.param(resource(MOVED), NVIDIA, True, id="unset with the address that the BIOS gave"),
        pytest.param(resource(AT_ZERO), INTEL, True, id="never assigned"),
        pytest.param(resource(HAS, NONE, NONE, UNSET), INTEL, True, id="one of two"),
        pytest.param(resource(HAS, NONE, NONE, NONE), INTEL, False, id="one of two, wiped: not told"),
        pytest.param(NONE * 7 + HAS + NONE * 5, NVIDIA, False, id="its own BARs do not count"),
        pytest.param(UNSET + NONE * 6 + HAS + NONE * 5, NVIDIA, False, id="nor do they when unset"),
        pytest.param(OWN + NONE * 5 + UNSET + HAS + NONE * 5, NVIDIA, False, id="nor does its ROM"),
        pytest.param(resource(HAS) + UNSET, NVIDIA, False, id="windows of a bridge do not count"),
        pytest.param(OWN + NONE * 6, NVIDIA, False, id="a kernel without SR-IOV"),
        pytest.param("", NVIDIA, False, id="not told"),
        pytest.param(resource("unknown\n"), NVIDIA, False, id="another form"),
    ],
)
def test_what_resource_means(text: str, vendor: str, expected: bool) -> None:
    assert is_unassigned(text, vendor) is expected


def without_memory(text: str) -> Kernel:
    kernel = booted()
    kernel.tree.add_file(RESOURCE, text)
    return kernel


class TestPlan:
    @pytest.mark.parametrize("text", [resource(), resource(UNSET)])
    def test_the_number_is_refused_with_cause_and_next_step(self, text: str) -> None:
        kernel = without_memory(text)
        outcome = applied(kernel, wish(vfs=2))
        step = the_step(outcome, f"vfs:{PF}")
        assert (step["status"], kernel.mutations) == ("refused", [])
        for part in ("no memory for its VFs", "Above 4G Decoding", "pci=realloc", "reboot"):
            assert part in f"{step['detail']}{remedy_of(step['detail'], {})}"

    def test_a_recorded_host_tells_the_same(self) -> None:
        recorded = RecordedHost(record(without_memory(resource()), "recorded"))
        desired = wish(vfs=2)
        (step,) = [s for s in make_plan(desired, gather(recorded, desired=desired))["steps"] if s["concern"] == "vfs"]
        assert (step["status"], "no memory for its VFs" in step["detail"]) == ("refused", True)

    def test_assigned_memory_lets_functions_be_made(self) -> None:
        kernel = without_memory(resource(HAS))
        done(kernel, wish(vfs=2))
        assert len(functions(kernel)) == 2

    def test_functions_that_are_there_are_proof_enough(self) -> None:
        kernel = booted()
        done(kernel, wish(vfs=2))
        kernel.tree.add_file(RESOURCE, resource())
        (nic,) = [nic for nic in gather(kernel)["nics"] if nic["address"] == PF]
        assert "unassigned" not in (nic["sriov"] or {})

    def test_none_of_them_is_no_wish_that_lacks_memory(self) -> None:
        assert applied(without_memory(resource()), wish(vfs=0))["plan"]["steps"] == []
