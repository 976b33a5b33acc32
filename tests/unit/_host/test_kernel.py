# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in for a host does what the tests that stand on it take for granted."""

from __future__ import annotations

import pytest

from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import KILL, Kernel, Killed
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import ERRORS, faults
from ansible_collections.rdma.fabric.tests.unit._host.test_access import refusal

DOCUMENT = {
    "files": {"/sys/devices/pci0/net/ens1/mtu": "1500\n", "/etc/rdma-fabric.d/one": "1"},
    "links": {"/sys/class/net/ens1": "../../devices/pci0/net/ens1"},
    "commands": {"uname -m": {"rc": 0, "stdout": "x86_64\n", "stderr": ""}},
}


@pytest.fixture
def kernel() -> Kernel:
    return Kernel(DOCUMENT)


def test_it_reads_like_its_recording(kernel: Kernel) -> None:
    assert kernel.read("/sys/class/net/ens1/mtu") == "1500\n"
    assert kernel.list("/sys/class/net") == ["ens1"]
    assert kernel.realpath("/sys/class/net/ens1") == "/sys/devices/pci0/net/ens1"
    assert kernel.run(["uname", "-m"], 1).stdout == "x86_64\n"
    assert refusal(kernel.run, ["no-such-program"], 1) == "ENOENT"


def test_an_attribute_must_exist(kernel: Kernel) -> None:
    kernel.set_attribute("/sys/class/net/ens1/mtu", "9000", 1)
    assert kernel.read("/sys/class/net/ens1/mtu") == "9000\n"
    assert refusal(kernel.set_attribute, "/sys/class/net/ens1/none", "1", 1) == "ENOENT"


def test_a_file_is_replaced_in_steps_of_which_none_leaves_half_of_it(kernel: Kernel) -> None:
    kernel.replace("/etc/new.d/file", "text", 0o644)
    assert [mutation.kind for mutation in kernel.mutations] == ["mkdir", "create", "write", "rename"]
    for number in range(4):
        disturbed = Kernel(DOCUMENT)
        disturbed.disturb(number, KILL)
        with pytest.raises(Killed):
            disturbed.replace("/etc/new.d/file", "text", 0o644)
        assert not disturbed.exists("/etc/new.d/file")
        with pytest.raises(Killed):
            disturbed.replace("/etc/other", "a dead process does nothing more", 0o644)


def test_a_fault_hits_one_mutation(kernel: Kernel) -> None:
    kernel.disturb(2, "ENOSPC")
    assert refusal(kernel.replace, "/etc/file", "text", 0o644) == "ENOSPC"
    assert kernel.list("/etc") == ["rdma-fabric.d"]
    kernel.replace("/etc/file", "text", 0o644)
    assert kernel.read("/etc/file") == "text"


def test_a_directory_of_ours_goes_with_its_last_file(kernel: Kernel) -> None:
    kernel.remove("/etc/rdma-fabric.d/one")
    assert kernel.list("/etc") == []
    kernel.remove("/etc/rdma-fabric.d/one")
    assert [mutation.kind for mutation in kernel.mutations] == ["unlink", "rmdir"]


def test_a_file_that_was_moved_is_listed_and_read_in_its_new_place_only(kernel: Kernel) -> None:
    kernel.tree.add_file("/etc/one", "1")
    assert "one" in kernel.list("/etc")
    kernel.tree.move("/etc/one", "/etc/new.d/two")
    assert ("one" in kernel.list("/etc"), kernel.list("/etc/new.d"), kernel.exists("/etc/one")) == (
        False,
        ["two"],
        False,
    )
    kernel.tree.discard("/etc/new.d/two")
    assert (kernel.list("/etc/new.d"), kernel.exists("/etc/new.d/two")) == ([], False)


def test_a_link_that_was_moved_leads_from_its_new_place_only(kernel: Kernel) -> None:
    kernel.tree.add_file("/etc/there", "1")
    kernel.tree.add_link("/etc/link", "there")
    assert kernel.read("/etc/link") == "1"
    kernel.tree.move("/etc/link", "/etc/other")
    assert (kernel.read("/etc/other"), kernel.exists("/etc/link")) == ("1", False)


class TestFaultsOfASweep:
    def test_a_sample_kills_every_mutation_and_fails_it_once_with_the_errors_in_turn(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("RDMA_FABRIC_SWEEPS", raising=False)
        assert [faults(number, ERRORS) for number in range(5)] == [
            *((code, KILL) for code in ERRORS),
            (ERRORS[0], KILL),
        ]

    def test_a_whole_one_fails_it_with_every_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RDMA_FABRIC_SWEEPS", "whole")
        assert faults(7, ERRORS) == (*ERRORS, KILL)


def test_a_twin_goes_its_own_way(kernel: Kernel) -> None:
    assert kernel.list("/etc") == ["rdma-fabric.d"]
    before = kernel.state()
    twin = kernel.twin()
    assert twin.state() == before
    twin.replace("/etc/file", "text", 0o644)
    twin.remove("/etc/rdma-fabric.d/one")
    twin.tree.move("/sys/devices/pci0/net/ens1", "/sys/devices/pci0/net/rail0")
    twin.tree.add_link("/etc/link", "file")
    twin.absent.add("ip")
    assert (kernel.state(), kernel.list("/etc"), kernel.mutations, kernel.absent) == (
        before,
        ["rdma-fabric.d"],
        [],
        set(),
    )
    assert (twin.list("/etc"), twin.read("/etc/link")) == (["file", "link"], "text")


def test_a_link_of_a_twin_leads_elsewhere_for_the_twin_alone(kernel: Kernel) -> None:
    twin = kernel.twin()
    twin.tree.add_link("/sys/class/net/ens1", "/elsewhere")
    assert twin.tree.resolve("/sys/class/net/ens1") == "/elsewhere"
    assert kernel.realpath("/sys/class/net/ens1") == "/sys/devices/pci0/net/ens1"
