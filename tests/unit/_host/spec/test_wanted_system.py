# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host's variables may say about kernel arguments, sysctls, limits and huge pages."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import (
    HostSpec,
    check_spec,
    parse_host_variables,
)
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation


def violations_of(**variables: Any) -> list[Violation]:
    prefixed = {f"rdma_fabric_{name}": value for name, value in variables.items()}
    return parse_host_variables("gpu01", prefixed)[1]


def the_problem(**variables: Any) -> Violation:
    found = violations_of(**variables)
    assert len(found) == 1, [violation.sentence() for violation in found]
    return found[0]


def accepted(**variables: Any) -> HostSpec:
    prefixed = {f"rdma_fabric_{name}": value for name, value in variables.items()}
    desired, violations, _notices = parse_host_variables("gpu01", prefixed)
    assert violations == []
    assert check_spec(desired) == desired, "what was parsed is accepted again"
    return desired


def notices_of(**variables: Any) -> list[str]:
    prefixed = {f"rdma_fabric_{name}": value for name, value in variables.items()}
    return [notice.problem for notice in parse_host_variables("gpu01", prefixed)[2]]


class TestKernelArguments:
    def test_they_keep_their_order(self) -> None:
        given = ["iommu=pt", "intel_iommu=on", "pci=realloc", "nosmt", "isolcpus=2-5,8"]
        assert accepted(kernel_arguments=given)["kernel_arguments"] == given

    @pytest.mark.parametrize(
        "hostile",
        [
            "",
            "iommu=pt quiet",
            "iommu=pt\nroot=/dev/sda1",
            'iommu="pt"',
            "iommu='pt'",
            "iommu=pt;reboot",
            "iommu=$(reboot)",
            "iommu=`reboot`",
            "iommu=pt\\",
            "iommu=pt#",
            "iommu=pt&",
            "iommu={a}",
            "--",
            "-x",
            "=on",
            "iommu=",
            "iommu=p\u200bt",
            "iommu=pt\x00",
            "x=" + "a" * 600,
        ],
    )
    def test_what_a_shell_or_boot_loader_would_take_for_syntax_is_refused(self, hostile: str) -> None:
        assert the_problem(kernel_arguments=[hostile]).path == "[0]"

    @pytest.mark.parametrize(
        "argument",
        [
            "root=/dev/sda1",
            "rootfstype=ext4",
            "ro",
            "rw",
            "init=/bin/sh",
            "rdinit=/bin/sh",
            "console=ttyS0",
            "console=null",
            "BOOT_IMAGE=/vmlinuz",
            "resume=/dev/sda2",
            "single",
            "emergency",
            "systemd.unit=rescue.target",
            "systemd.mask=sshd.service",
            "rd.break",
            "rd.luks.uuid=0",
            "mem=1G",
            "maxcpus=0",
            "acpi=off",
            "fips=1",
            "ostree=/x",
        ],
    )
    def test_what_could_leave_a_host_unbootable_or_unreachable_is_refused_by_name(self, argument: str) -> None:
        problem = the_problem(kernel_arguments=[argument]).problem
        assert "is refused" in problem
        assert argument.split("=", maxsplit=1)[0] in problem

    @pytest.mark.parametrize(
        "pair",
        [
            ["iommu=pt", "iommu=off"],
            ["iommu=pt", "intel_iommu=off"],
            ["intel_iommu=on", "amd_iommu=off"],
            ["intel_iommu=on", "iommu=off"],
            ["iommu=pt", "iommu.passthrough=0"],
            ["isolcpus=1", "isolcpus=2"],
            ["transparent_hugepage=always", "transparent-hugepage=never"],
        ],
    )
    def test_contradictions_are_named(self, pair: list[str]) -> None:
        problem = the_problem(kernel_arguments=pair).problem
        assert pair[0] in problem
        assert pair[1] in problem

    def test_what_may_stand_several_times_may(self) -> None:
        accepted(kernel_arguments=["pci=realloc", "pci=noaer"])

    def test_amd_has_no_such_option(self) -> None:
        assert "iommu=pt" in the_problem(kernel_arguments=["amd_iommu=on"]).problem

    @pytest.mark.parametrize("value", ["iommu=pt", {"iommu": "pt"}, 5, [7], [None], [["iommu=pt"]]])
    def test_other_types_are_refused(self, value: Any) -> None:
        the_problem(kernel_arguments=value)

    def test_one_given_twice_is_taken_once(self) -> None:
        assert accepted(kernel_arguments=["iommu=pt", "iommu=pt"])["kernel_arguments"] == ["iommu=pt"]


class TestSysctls:
    @pytest.mark.parametrize(
        ("given", "canonical"),
        [
            ("net.core.rmem_max", "net.core.rmem_max"),
            ("net/core/rmem_max", "net.core.rmem_max"),
            ("net.ipv4.conf.rail0/100.rp_filter", "net/ipv4/conf/rail0.100/rp_filter"),
            ("net/ipv4/conf/rail0.100/rp_filter", "net/ipv4/conf/rail0.100/rp_filter"),
            ("net.ipv4.conf.rail-0.rp_filter", "net.ipv4.conf.rail-0.rp_filter"),
        ],
    )
    def test_each_spelling_of_a_name_means_the_same(self, given: str, canonical: str) -> None:
        assert accepted(sysctls={given: 1})["sysctls"] == {canonical: "1"}

    def test_two_spellings_must_agree(self) -> None:
        assert accepted(sysctls={"net.core.rmem_max": 1, "net/core/rmem_max": "1"})["sysctls"] == {
            "net.core.rmem_max": "1"
        }
        problem = the_problem(sysctls={"net.core.rmem_max": 1, "net/core/rmem_max": 2}).problem
        assert "2 contradicts 1" in problem

    @pytest.mark.parametrize(
        "name",
        [
            "",
            "net",
            "net..core",
            "net.core.",
            ".net.core.x",
            "/net/core/x",
            "net/../../etc/passwd",
            "net.//../etc/passwd",
            "net/./core/x",
            "net.core.x\nkernel.panic",
            "net.core.x = 1;",
            "net.core.'x'",
            'net.core."x"',
            "net.ipv4.conf.*.rp_filter",
            "nett.core.rmem_max",
            "-net.core.rmem_max",
        ],
    )
    def test_hostile_and_wrong_names_are_refused(self, name: str) -> None:
        the_problem(sysctls={name: 1})

    def test_a_wrong_root_names_the_nearest(self) -> None:
        assert the_problem(sysctls={"nett.core.rmem_max": 1}).hint == "did you mean net?"

    @pytest.mark.parametrize(
        "value",
        ["", " ", "1\n2", "1;2", '"1"', "'1'", "$(x)", "`x`", "1#", "a\\", "a\tb", "1  2", " 1", "\u202e1", "9" * 300],
    )
    def test_hostile_values_are_refused(self, value: str) -> None:
        the_problem(sysctls={"net.core.rmem_max": value})

    @pytest.mark.parametrize("value", [True, None, 1.5, [1], {"a": 1}])
    def test_other_types_are_refused(self, value: Any) -> None:
        the_problem(sysctls={"net.core.rmem_max": value})

    @pytest.mark.parametrize("value", ["net.core.rmem_max=1", ["net.core.rmem_max"], 7, {5: 1}])
    def test_it_must_be_a_mapping(self, value: Any) -> None:
        the_problem(sysctls=value)

    @pytest.mark.parametrize("name", ["kernel.modules_disabled", "vm.nr_hugepages", "kernel/kexec_load_disabled"])
    def test_what_can_not_be_taken_back_or_has_another_variable_is_refused(self, name: str) -> None:
        assert "is refused" in the_problem(sysctls={name: 1}).problem

    def test_several_numbers_stay_in_one_value(self) -> None:
        assert accepted(sysctls={"net.ipv4.tcp_rmem": "4096 131072 6291456"})["sysctls"] == {
            "net.ipv4.tcp_rmem": "4096 131072 6291456"
        }

    def test_taking_forwarding_away_deserves_a_look(self) -> None:
        assert "pods" in notices_of(sysctls={"net.ipv4.ip_forward": 0})[0]
        assert notices_of(sysctls={"net.ipv4.ip_forward": 1}) == []

    @pytest.mark.parametrize("value", ["yes", 1, [True]])
    def test_the_multirail_set_is_switched_by_a_boolean(self, value: Any) -> None:
        the_problem(multirail_sysctls=value)
        assert accepted(multirail_sysctls=True)["multirail_sysctls"] is True


class TestLimits:
    @pytest.mark.parametrize("value", ["unlimited", 65536, 8388608, None])
    def test_memlock_is_unlimited_or_kibibytes(self, value: Any) -> None:
        assert accepted(limits={"memlock": value})["limits"] == {"memlock": value, "nofile": None}

    @pytest.mark.parametrize("value", ["infinity", "-1", "64M", "65536", -1, 0, 63, 2**60, True, 1.5, ["unlimited"]])
    def test_anything_else_is_refused(self, value: Any) -> None:
        the_problem(limits={"memlock": value})

    def test_systemds_word_gets_the_right_one(self) -> None:
        assert the_problem(limits={"memlock": "infinity"}).hint == "write unlimited"

    def test_a_small_one_deserves_a_look(self) -> None:
        assert "register memory" in notices_of(limits={"memlock": 8192})[0]

    @pytest.mark.parametrize("value", ["unlimited", 100, 2**21, -1])
    def test_open_files_that_would_lock_everybody_out_are_refused(self, value: Any) -> None:
        the_problem(limits={"nofile": value})

    def test_unknown_ones_are_refused(self) -> None:
        assert the_problem(limits={"memloc": 65536}).hint == "did you mean memlock?"


class TestRdmaMode:
    @pytest.mark.parametrize("mode", ["shared", "exclusive"])
    def test_it_is_one_of_two(self, mode: str) -> None:
        assert accepted(netns_mode=mode)["netns_mode"] == mode

    @pytest.mark.parametrize("mode", ["Exclusive", "", True, 0, ["shared"], "netns"])
    def test_anything_else_is_refused(self, mode: Any) -> None:
        assert the_problem(netns_mode=mode).source == "host gpu01: rdma_fabric_netns_mode"

    def test_the_kernel_argument_for_it_has_one_owner(self) -> None:
        problem = the_problem(netns_mode="shared", kernel_arguments=["ib_core.netns_mode=0"])
        assert "rdma_fabric_netns_mode" in problem.problem
        assert accepted(kernel_arguments=["ib_core.netns_mode=0"])["netns_mode"] is None


class TestHugepages:
    def test_pages_are_given_for_the_host_or_per_node(self) -> None:
        wanted = {"1Gi": 4, "2Mi": {0: 512, "1": 256}}
        assert accepted(hugepages=wanted)["hugepages"] == {"1Gi": 4, "2Mi": {"0": 512, "1": 256}}

    @pytest.mark.parametrize("size", ["1G", "2M", "3Mi", "", "1gi", "../2Mi"])
    def test_an_unknown_size_is_refused(self, size: str) -> None:
        the_problem(hugepages={size: 1})

    @pytest.mark.parametrize("pages", [-1, "4", True, 1.5, None, [4], {}, {"0": -1}, {"a": 1}, {"-1": 1}, {True: 1}])
    def test_other_numbers_are_refused(self, pages: Any) -> None:
        the_problem(hugepages={"2Mi": pages})

    def test_the_same_node_twice(self) -> None:
        assert "twice" in the_problem(hugepages={"2Mi": {0: 1, "0": 2}}).problem

    def test_kernel_arguments_for_them_have_one_owner(self) -> None:
        problem = the_problem(hugepages={"1Gi": 4}, kernel_arguments=["iommu=pt", "hugepages=4"])
        assert "rdma_fabric_hugepages" in problem.problem
        assert problem.source == "host gpu01: rdma_fabric_kernel_arguments"


class TestModulesOfPeerMemory:
    @pytest.mark.parametrize("module", ["nvidia-peermem", "nvidia_peermem", "nv_peer_mem"])
    @pytest.mark.parametrize("wanted", [{"state": "absent"}, {"mechanism": "dma-buf"}, {}])
    def test_one_variable_decides_on_them(self, module: str, wanted: dict[str, str]) -> None:
        problem = the_problem(peer_memory=wanted, kernel_modules=["ib_umad", module])
        assert problem.sentence().count("rdma_fabric_peer_memory") == 1 and module in problem.problem
        assert problem.source == "host gpu01: rdma_fabric_kernel_modules"

    def test_without_it_they_are_modules_like_others(self) -> None:
        assert accepted(kernel_modules=["nvidia-peermem"])["peer_memory"] is None
