# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Huge pages: reserved now and at boot, by size and NUMA node, and never believed without reading back."""

from __future__ import annotations

from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.memory.hugepages import TMPFILES_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.memory import pool_directory
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.own_files import DROP_IN, listed
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep
from ansible_collections.rdma.fabric.tests.unit._host.kernel.system import reboot
from ansible_collections.rdma.fabric.tests.unit._host.system_hosts import REMOVE, applied, host, previewed


def pages(kernel: Kernel, size: str, node: str | None = None) -> int:
    return int(kernel.read(f"{pool_directory(size, node)}/nr_hugepages"))


def statuses(outcome: Mapping[str, Any]) -> dict[str, str]:
    return {step["id"]: step["status"] for step in outcome["plan"]["steps"] if step["concern"] == "hugepages"}


def at_boot(kernel: Kernel) -> list[str]:
    return kernel.read(TMPFILES_FILE).splitlines()[1:]


class TestSmallSizes:
    def test_they_are_reserved_now_and_at_boot(self) -> None:
        kernel = host()
        outcome = applied(kernel, hugepages={"2Mi": 512})
        assert not outcome.get("failed"), outcome["msg"]
        assert pages(kernel, "2Mi") == 512
        assert at_boot(kernel) == ["w /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages - - - - 512"]
        assert outcome["plan"]["steps"] == []

    def test_fewer_than_asked_for_is_no_success(self) -> None:
        kernel = host()
        kernel.tree.add_file("/proc/meminfo", "MemTotal: 67108864 kB\nMemFree: 204800 kB\nHugepagesize: 2048 kB\n")
        outcome = applied(kernel, hugepages={"2Mi": 512})
        assert outcome["failed"]
        assert "the kernel gave 100 of 512 pages of 2Mi" in outcome["failed_step"]["error"]
        assert "next: free memory and run again, or reboot" in outcome["failed_step"]["error"]
        assert pages(kernel, "2Mi") == 0, "what was taken is given back"
        assert kernel.exists(TMPFILES_FILE), "the next boot, with all its memory free, reserves them"

    def test_a_second_run_changes_nothing(self) -> None:
        kernel = host()
        applied(kernel, hugepages={"2Mi": 512})
        kernel.revive()
        assert applied(kernel, hugepages={"2Mi": 512})["changed"] is False
        assert kernel.mutations == []

    def test_removal_gives_them_back(self) -> None:
        kernel = host()
        before = kernel.state()["files"]
        applied(kernel, hugepages={"2Mi": 512, "1Gi": {0: 2}})
        outcome = applied(kernel, run=REMOVE)
        assert not outcome.get("failed"), outcome["msg"]
        assert kernel.state()["files"] == before

    def test_whatever_disturbs_a_run_the_next_one_ends_where_a_calm_one_does(self) -> None:
        assert sweep(host, lambda kernel: applied(kernel, hugepages={"2Mi": 512, "1Gi": {0: 1, 1: 2}})) > 8


class TestLargestSizes:
    def test_the_kernel_reserves_them_while_it_boots(self) -> None:
        kernel = host()
        outcome = applied(kernel, hugepages={"1Gi": 4})
        assert not outcome.get("failed"), outcome["msg"]
        assert listed(kernel.read(DROP_IN)) == ["hugepagesz=1G hugepages=4"]
        assert (outcome["reboot_required"], pages(kernel, "1Gi")) == (True, 0)
        assert "from the next reboot on" in outcome["plan"]["notices"][0]

    def test_a_refused_argument_promises_no_pages(self) -> None:
        kernel = host()
        for program in [path for path in kernel.state()["files"] if path.endswith(("update-grub", "grub-mkconfig"))]:
            kernel.tree.discard(program)
        plan = previewed(kernel, hugepages={"1Gi": 4})["plan"]
        assert [step["status"] for step in plan["steps"] if step["concern"] == "kernel_arguments"] == ["refused"]
        (notice,) = plan["notices"]
        assert "4 huge pages of 1Gi are reserved neither now nor by a reboot" in notice

    def test_after_the_reboot_they_are_there(self) -> None:
        kernel = host()
        applied(kernel, hugepages={"1Gi": 4})
        reboot(kernel, "ro quiet hugepagesz=1G hugepages=4")
        kernel.tree.add_file(f"{pool_directory('1Gi')}/nr_hugepages", "4\n")
        outcome = applied(kernel, hugepages={"1Gi": 4})
        assert (outcome["changed"], outcome["reboot_required"], outcome["plan"]["steps"]) == (False, False, [])

    def test_pages_that_somebody_gave_back_are_taken_again(self) -> None:
        kernel = host()
        applied(kernel, hugepages={"1Gi": 4})
        reboot(kernel, "ro quiet hugepagesz=1G hugepages=4")
        assert applied(kernel, hugepages={"1Gi": 4})["changed"]
        assert pages(kernel, "1Gi") == 4

    def test_fewer_pages_are_given_back_at_once(self) -> None:
        kernel = host()
        kernel.tree.add_file(f"{pool_directory('1Gi')}/nr_hugepages", "4\n")
        applied(kernel, hugepages={"1Gi": 0})
        assert pages(kernel, "1Gi") == 0
        assert not kernel.exists(DROP_IN)


class TestAnotherDefaultSize:
    """The kernel argument default_hugepagesz changes what vm.nr_hugepages means, from the reboot on."""

    DEFAULT = "default_hugepagesz=1G"

    def rebooted(self, kernel: Kernel) -> None:
        reboot(kernel, f"ro quiet {' '.join(listed(kernel.read(DROP_IN)))}")
        meminfo = "MemTotal: 67108864 kB\nMemFree: 33554432 kB\nHugepagesize: 1048576 kB\n"
        kernel.tree.add_file("/proc/meminfo", meminfo)

    def test_one_reboot_is_enough(self) -> None:
        kernel = host()
        wish: dict[str, Any] = {"hugepages": {"1Gi": 8}, "kernel_arguments": [self.DEFAULT]}
        applied(kernel, **wish)
        assert listed(kernel.read(DROP_IN)) == [self.DEFAULT, "hugepagesz=1G hugepages=8"]
        self.rebooted(kernel)
        kernel.tree.add_file(f"{pool_directory('1Gi')}/nr_hugepages", "8\n")
        outcome = applied(kernel, **wish)
        assert (outcome["changed"], outcome["reboot_required"], outcome["plan"]["steps"]) == (False, False, [])

    def test_a_number_never_goes_to_pages_of_another_size(self) -> None:
        kernel = host()
        wish: dict[str, Any] = {"hugepages": {"2Mi": 512}, "kernel_arguments": [self.DEFAULT]}
        applied(kernel, **wish)
        before = at_boot(kernel)
        assert before == ["w /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages - - - - 512"]
        self.rebooted(kernel)
        assert applied(kernel, **wish)["changed"] is False
        assert at_boot(kernel) == before
        assert (pages(kernel, "2Mi"), pages(kernel, "1Gi")) == (512, 0)


class TestNodes:
    def test_each_node_gets_its_own(self) -> None:
        kernel = host()
        applied(kernel, hugepages={"1Gi": {0: 1, 1: 3}})
        assert (pages(kernel, "1Gi", "0"), pages(kernel, "1Gi", "1")) == (1, 3)
        assert kernel.read(TMPFILES_FILE).splitlines()[1:] == [
            "w /sys/devices/system/node/node0/hugepages/hugepages-1048576kB/nr_hugepages - - - - 1",
            "w /sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages - - - - 3",
        ]
        assert not applied(kernel, hugepages={"1Gi": {0: 1, 1: 3}})["changed"]

    def test_a_node_that_is_not_there(self) -> None:
        outcome = applied(host(), hugepages={"1Gi": {7: 1}})
        assert "no such NUMA node" in outcome["failed_step"]["error"]


class TestRefusals:
    def test_more_than_the_host_has(self) -> None:
        outcome = previewed(host(), hugepages={"1Gi": 60})
        assert statuses(outcome) == {"hugepages:memory": "refused"}
        detail = next(step["detail"] for step in outcome["plan"]["steps"] if step["concern"] == "hugepages")
        assert "65536 MiB" in detail

    def test_a_size_that_the_processor_does_not_have(self) -> None:
        outcome = previewed(host(), hugepages={"16Mi": 1})
        assert statuses(outcome) == {"hugepages:16Mi": "refused"}
        assert "2Mi, 1Gi" in outcome["plan"]["steps"][0]["detail"]

    def test_a_host_that_tells_nothing_is_planned_as_usual(self) -> None:
        kernel = host()
        kernel.tree.discard("/sys/kernel/mm")
        kernel.tree.discard("/proc/meminfo")
        assert "hugepages:2Mi" in statuses(previewed(kernel, hugepages={"2Mi": 4}))

    @pytest.mark.parametrize("text", ["", "MemTotal: many kB", "\x00", "MemTotal:" + "9" * 99 + " kB"])
    def test_any_meminfo_can_be_read(self, text: str) -> None:
        kernel = host()
        kernel.tree.add_file("/proc/meminfo", text)
        assert statuses(previewed(kernel, hugepages={"2Mi": 4}))

    def test_pages_in_use_stay_and_are_told(self) -> None:
        kernel = host()
        kernel.tree.add_file(f"{pool_directory('2Mi')}/nr_hugepages", "12\n")
        kernel.tree.add_file("/proc/meminfo", "MemTotal: 67108864 kB\nMemFree: 0 kB\nHugepagesize: 2048 kB\n")
        outcome = applied(kernel, hugepages={"2Mi": 20})
        assert "the kernel gave 0 of 20" in outcome["failed_step"]["error"]


@pytest.mark.parametrize(
    ("path", "text", "is_told"),
    [
        ("/etc/sysctl.d/10-oracle.conf", "vm.nr_hugepages = 1024\n", True),
        ("/etc/sysctl.d/10-oracle.conf", "vm.nr_hugepages = 4\n", False),
        ("/usr/lib/tuned/site/tuned.conf", "[sysctl]\nvm.nr_hugepages=1024\n", True),
        ("/usr/lib/tuned/site/tuned.conf", "[sysctl]\nvm.nr_hugepages=${pages}\n", False),
    ],
)
def test_who_else_sets_the_number_at_boot_is_told(path: str, text: str, is_told: bool) -> None:
    kernel = host()
    kernel.tree.add_file(path, text)
    kernel.tree.add_file("/etc/tuned/active_profile", "site\n")
    kernel.tree.add_file("/etc/systemd/system/multi-user.target.wants/tuned.service", "")
    wanted = f"{path} sets vm.nr_hugepages to 1024 at boot, and rdma_fabric_hugepages asks for 4 of 2Mi: keep one"
    assert previewed(kernel, hugepages={"2Mi": 4})["plan"]["notices"] == [wanted] * is_told
    assert previewed(kernel, hugepages={"1Gi": 1})["plan"]["notices"].count(wanted) == 0
