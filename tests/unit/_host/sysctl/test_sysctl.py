# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of /proc/sys: now, at boot, for interfaces with old and new names, and against what other files say."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.kernel.sysctl import shared_subnets
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.settings import parse_addresses
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.sysctls import parse
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.baseline import FILE as ORIGINALS
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.sysctls import FILE, same_value
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import interface
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep
from ansible_collections.rdma.fabric.tests.unit._host.system_hosts import (
    CHECK_REMOVAL,
    REMOVE,
    applied,
    host,
    previewed,
)

WISH: dict[str, Any] = {
    "sysctls": {
        "net.core.rmem_max": 67108864,
        "net.ipv4.conf.ens2f0.rp_filter": 2,
        "net.ipv4.tcp_rmem": "4096 87380 67108864",
    }
}
RMEM = "/proc/sys/net/core/rmem_max"


def steps(outcome: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(step["id"], step["status"]) for step in outcome["plan"]["steps"]]


def refusals(outcome: Mapping[str, Any]) -> list[str]:
    return [step["detail"] for step in outcome["plan"]["steps"] if step["status"] == "refused"]


class TestNowAndAtBoot:
    def test_it_is_set_now_and_kept(self) -> None:
        kernel = host()
        outcome = applied(kernel, **WISH)
        assert not outcome.get("failed"), outcome["msg"]
        assert kernel.read(RMEM) == "67108864\n"
        assert kernel.read("/proc/sys/net/ipv4/tcp_rmem") == "4096\t87380\t67108864\n"
        assert kernel.read(FILE).splitlines()[1:] == [
            "net.core.rmem_max = 67108864",
            "net.ipv4.conf.ens2f0.rp_filter = 2",
            "net.ipv4.tcp_rmem = 4096 87380 67108864",
        ]

    def test_a_second_run_changes_nothing(self) -> None:
        kernel = host()
        applied(kernel, **WISH)
        kernel.revive()
        assert applied(kernel, **WISH)["changed"] is False
        assert kernel.mutations == []

    def test_after_a_reboot_only_the_running_host_is_set(self) -> None:
        kernel = host()
        applied(kernel, **WISH)
        kernel.tree.add_file(RMEM, "212992\n")
        assert steps(previewed(kernel, **WISH)) == [("sysctl:net.core.rmem_max", "planned")]

    def test_a_file_that_somebody_changed_is_written_again(self) -> None:
        kernel = host()
        applied(kernel, **WISH)
        kernel.tree.add_file(FILE, kernel.read(FILE).replace("67108864", "1"))
        assert steps(previewed(kernel, **WISH)) == [(f"sysctl:{FILE}", "planned")]

    def test_values_are_compared_as_numbers(self) -> None:
        assert same_value("4096\t131072 6291456", "4096 131072 6291456")
        assert same_value("007", "7")
        assert not same_value("1 2", "12")
        assert not same_value("core", "")

    def test_what_is_not_wanted_any_more_leaves_the_file(self) -> None:
        kernel = host()
        applied(kernel, **WISH)
        outcome = applied(kernel, sysctls={"net.core.rmem_max": 67108864})
        assert "tcp_rmem" not in kernel.read(FILE)
        assert any("stays until the reboot" in step["line"] for step in outcome["executed"])
        applied(kernel)
        assert not kernel.exists(FILE)

    def test_removal_brings_the_values_back(self) -> None:
        kernel = host()
        before = kernel.state()
        applied(kernel, **WISH)
        outcome = applied(kernel, run=REMOVE)
        assert not outcome.get("failed"), outcome["msg"]
        assert kernel.read(RMEM) == "212992\n"
        assert {path: text for path, text in kernel.state()["files"].items() if text.strip()} == {
            path: text for path, text in before["files"].items() if text.strip()
        }

    def test_whatever_disturbs_a_run_the_next_one_ends_where_a_calm_one_does(self) -> None:
        assert sweep(host, lambda kernel: applied(kernel, **WISH)) > 6


class TestRefusals:
    def test_a_setting_that_the_kernel_does_not_have(self) -> None:
        outcome = previewed(host(), sysctls={"net.core.rmem_maximum": 1})
        (step,) = outcome["plan"]["steps"]
        assert step["status"] == "refused"
        assert "/proc/sys/net/core/rmem_maximum" in step["detail"]

    def test_on_a_host_that_tells_nothing_it_is_planned(self) -> None:
        kernel = host()
        kernel.tree.discard("/proc/sys")
        assert steps(previewed(kernel, sysctls={"net.core.rmem_max": 1}))[0] == (
            "sysctl:net.core.rmem_max",
            "planned",
        )

    @pytest.mark.parametrize(
        ("path", "refused"),
        [
            ("/etc/sysctl.d/99-mine.conf", True),
            ("/run/sysctl.d/95-mine.conf", True),
            ("/usr/lib/sysctl.d/99-vendor.conf", True),
            ("/etc/sysctl.d/10-mine.conf", False),
            ("/etc/sysctl.d/99-mine.txt", False),
        ],
    )
    def test_a_file_applied_later_is_named(self, path: str, refused: bool) -> None:
        kernel = host()
        kernel.tree.add_file(path, "# mine\nnet/core/rmem_max=1\n")
        details = refusals(previewed(kernel, sysctls={"net.core.rmem_max": 2}))
        assert bool(details) is refused
        assert all(path in detail for detail in details)

    @pytest.mark.parametrize(
        ("main", "profile", "refused"),
        [
            ("reapply_sysctl = 0\n", "[sysctl]\nnet.core.rmem_max=1\n", True),
            ("# 1 by default\n#reapply_sysctl = 0\n", "[sysctl]\nnet.core.rmem_max=1\n", False),
            ("reapply_sysctl = 0\n", "[sysctl]\nnet.core.rmem_max=>1\nnet.core.wmem_max=1\n", False),
        ],
    )
    def test_tuned_sets_its_own_after_all_files_unless_it_applies_them_again(
        self, main: str, profile: str, refused: bool
    ) -> None:
        """redhat-performance/tuned, pull request 226 and issue 816."""
        kernel, path = host(), "/usr/lib/tuned/site/tuned.conf"
        kernel.tree.add_file("/etc/tuned/tuned-main.conf", main)
        kernel.tree.add_file("/etc/tuned/active_profile", "site\n")
        kernel.tree.add_file("/etc/systemd/system/multi-user.target.wants/tuned.service", "")
        kernel.tree.add_file(path, profile)
        details = refusals(previewed(kernel, sysctls={"net.core.rmem_max": 2}))
        assert [path in each for each in details] == [True] * refused

    @pytest.mark.parametrize("runs", ["yes", "no"])
    def test_the_vendors_driver_service_sets_its_own_after_all_files(self, runs: str) -> None:
        """openibd: sysctl_perf_tuning load."""
        kernel = host()
        kernel.tree.add_file("/etc/infiniband/openib.conf", f"ONBOOT=yes\nRUN_SYSCTL={runs}\n")
        script = '\t/sbin/sysctl -q -w net.ipv4.tcp_rmem="4096 87380 4194304"\n'
        kernel.tree.add_file("/sbin/sysctl_perf_tuning", script)
        details = refusals(previewed(kernel, sysctls={"net.ipv4.tcp_rmem": "4096 131072 67108864"}))
        assert bool(details) is (runs == "yes")
        assert all("RUN_SYSCTL=yes" in each and "sets it to 4096 87380 4194304" in each for each in details)

    def test_a_later_file_that_sets_the_same_is_fine(self) -> None:
        kernel = host()
        kernel.tree.add_file("/etc/sysctl.d/99-mine.conf", "net.core.rmem_max = 2")
        assert not [
            step
            for step in previewed(kernel, sysctls={"net.core.rmem_max": 2})["plan"]["steps"]
            if step["status"] == "refused"
        ]

    def test_a_file_in_etc_hides_the_vendors_of_the_same_name(self) -> None:
        kernel = host()
        kernel.tree.add_file("/usr/lib/sysctl.d/99-vendor.conf", "net.core.rmem_max = 1")
        kernel.tree.add_link("/etc/sysctl.d/99-vendor.conf", "/dev/null")
        kernel.tree.add_file("/dev/null", "")
        assert not [
            step
            for step in previewed(kernel, sysctls={"net.core.rmem_max": 2})["plan"]["steps"]
            if step["status"] == "refused"
        ]

    def test_sysctl_conf_counts_at_boot_only_where_a_link_leads_to_it(self) -> None:
        kernel = host()
        kernel.tree.add_file("/etc/sysctl.conf", "net.core.rmem_max=1\n")
        outcome = previewed(kernel, sysctls={"net.core.rmem_max": 2})
        assert refusals(outcome) == []
        assert "sysctl --system" in outcome["plan"]["notices"][0]
        kernel.tree.add_link("/etc/sysctl.d/99-sysctl.conf", "../sysctl.conf")
        outcome = previewed(kernel, sysctls={"net.core.rmem_max": 2})
        (refusal,) = refusals(outcome)
        assert "/etc/sysctl.d/99-sysctl.conf" in refusal
        assert outcome["plan"]["notices"] == []

    def test_wildcards_and_exclusions_of_others_never_win_over_a_name(self) -> None:
        text = "net.ipv4.conf.*.rp_filter = 1\n-net.ipv4.conf.all.rp_filter\n; a = 1\n#x=1\nbroken\n-vm.swappiness=3\n"
        assert [tuple(found) for found in parse(text)] == [("vm.swappiness", "3")]

    @pytest.mark.parametrize("text", ["\x00\x01=\x02", "=" * 5000, "a" * 70000, "../../etc=1", "\u202e=1\n"])
    def test_any_file_can_be_parsed(self, text: str) -> None:
        assert parse(text) == []


class TestErrors:
    def failure(self, kernel: Kernel, value: Any) -> str:
        outcome = applied(kernel, sysctls={"net.core.rmem_max": value})
        assert outcome["failed"]
        return str(outcome["failed_step"]["error"])

    def test_a_value_that_the_kernel_refuses(self) -> None:
        kernel = host()
        assert "the kernel refuses the value; next:" in self.failure(kernel, "many")
        assert not kernel.exists(FILE), "what the kernel refuses is not kept for the next boot"

    @pytest.mark.parametrize(("code", "part"), [("EACCES", "container"), ("EPERM", "become"), ("EROFS", "read only")])
    def test_what_may_not_be_written_is_explained(self, code: str, part: str) -> None:
        calm = host()
        applied(calm, sysctls={"net.core.rmem_max": 5})
        kernel = host()
        kernel.disturb([mutation.kind for mutation in calm.mutations].index("attribute"), code)
        assert part in self.failure(kernel, 5)

    def test_a_value_that_does_not_stay_is_noticed_and_taken_back(self) -> None:
        """The kernel rounds some values (net.core.rmem_max has a least one): that is no success."""
        kernel = host()
        kernel.tree.add_file("/proc/sys/net/core/rounded", "4096\n")
        outcome = applied(kernel, sysctls={"net.core.rounded": 4097})
        assert "4096, not 4097" in outcome["failed_step"]["error"]
        assert outcome["failed_step"]["undone"] == ["write 4096 to /proc/sys/net/core/rounded"]


class TestInterfaces:
    def test_a_setting_follows_the_name_that_the_plan_gives(self) -> None:
        wish: dict[str, Any] = {
            "interfaces": [interface(pci="0000:37:00.0", name="rail0")],
            "sysctls": {"net.ipv4.conf.rail0.rp_filter": 2},
        }
        outcome = previewed(host(), **wish)
        step = next(step for step in outcome["plan"]["steps"] if step["concern"] == "sysctl")
        assert (step["target"], step["from"], step["to"]) == ("net.ipv4.conf.rail0.rp_filter", "1", "2")

    RENAMED: ClassVar[dict[str, Any]] = {
        "interfaces": [interface(pci="0000:37:00.0", name="rail0"), interface(pci="0000:37:00.1", name="rail1")],
        "sysctls": {"net.ipv4.conf.rail0.rp_filter": 2, "net.ipv4.conf.rail1.rp_filter": 0},
    }

    @staticmethod
    def renamed() -> Kernel:
        kernel = host()
        outcome = applied(kernel, **TestInterfaces.RENAMED)
        assert not outcome.get("failed"), outcome["msg"]
        kernel.revive()
        return kernel

    def test_removal_brings_the_values_back_under_the_former_names(self) -> None:
        before = host().state()
        kernel = self.renamed()
        shown = previewed(kernel, run=CHECK_REMOVAL)
        outcome = applied(kernel, run=REMOVE)
        assert not outcome.get("failed"), outcome["msg"]
        assert outcome["diff"] == shown["diff"] and refusals(shown) == []
        assert [kernel.read(f"/proc/sys/net/ipv4/conf/ens2f{port}/rp_filter") for port in (0, 1)] == ["1\n", "1\n"]
        assert {path for path in kernel.state()["files"] if "/conf/" in path} == {
            path for path in before["files"] if "/conf/" in path
        }

    @pytest.mark.slow
    def test_a_disturbed_removal_that_ends_after_the_renames_is_completed_by_the_next(self) -> None:
        assert sweep(self.renamed, lambda kernel: applied(kernel, run=REMOVE)) > 6

    def test_another_name_finds_the_value_of_before_the_first_run(self) -> None:
        kernel = self.renamed()
        applied(
            kernel,
            interfaces=[interface(pci="0000:37:00.0", name="fabric0"), interface(pci="0000:37:00.1", name="rail0")],
            sysctls={"net.ipv4.conf.fabric0.rp_filter": 0, "net.ipv4.conf.rail0.rp_filter": 2},
        )
        assert [kernel.read(f"/proc/sys/net/ipv4/conf/{name}/rp_filter") for name in ("fabric0", "rail0")] == [
            "0\n",
            "2\n",
        ]
        applied(kernel, run=REMOVE)
        assert [kernel.read(f"/proc/sys/net/ipv4/conf/ens2f{port}/rp_filter") for port in (0, 1)] == ["1\n", "1\n"]

    def test_what_an_earlier_version_kept_by_the_name_is_the_value_that_comes_back(self) -> None:
        """It kept what was before its first run; what this one adds by the address is a value of ours."""
        kernel = host()
        applied(kernel, sysctls={"net.ipv4.conf.ens2f0.arp_ignore": 1})
        kept = ORIGINALS.parse(kernel.read(ORIGINALS.path))
        first = kept["settings"].pop("sysctl:net/ipv4/conf/0000:37:00.0/arp_ignore")
        kept["settings"]["sysctl:net.ipv4.conf.ens2f0.arp_ignore"] = first
        kernel.tree.add_file(ORIGINALS.path, ORIGINALS.text(kept))
        applied(kernel, sysctls={"net.ipv4.conf.ens2f0.arp_ignore": 2})
        applied(kernel, run=REMOVE)
        assert kernel.read("/proc/sys/net/ipv4/conf/ens2f0/arp_ignore") == "0\n"

    def test_a_wish_by_the_name_wins_over_one_by_the_address(self) -> None:
        kernel = host()
        applied(kernel, sysctls={"net.ipv4.conf.ens2f0.arp_ignore": 1, "net/ipv4/conf/0000:37:00.0/arp_ignore": 2})
        assert kernel.read("/proc/sys/net/ipv4/conf/ens2f0/arp_ignore") == "1\n"

    def test_the_name_that_the_plan_takes_away_is_refused(self) -> None:
        wish: dict[str, Any] = {
            "interfaces": [interface(pci="0000:37:00.0", name="rail0")],
            "sysctls": {"net.ipv4.conf.ens2f0.rp_filter": 2},
        }
        (step,) = [step for step in previewed(host(), **wish)["plan"]["steps"] if step["concern"] == "sysctl"]
        assert step["status"] == "refused"
        assert "net.ipv4.conf.rail0.rp_filter" in step["detail"]

    def test_an_interface_that_is_not_there_is_set_when_it_appears(self) -> None:
        kernel = host()
        outcome = applied(kernel, sysctls={"net.ipv4.conf.rail7.rp_filter": 2})
        assert not outcome.get("failed")
        assert "net.ipv4.conf.rail7.rp_filter = 2" in kernel.read(FILE)
        assert "no interface rail7" in outcome["plan"]["notices"][0]
        assert steps(outcome) == []

    def test_the_value_of_all_interfaces_hides_a_smaller_one(self) -> None:
        kernel = host()
        kernel.tree.add_file("/proc/sys/net/ipv4/conf/all/rp_filter", "1\n")
        wish = {"net.ipv4.conf.ens2f0.rp_filter": 0}
        (notice,) = previewed(kernel, sysctls=wish)["plan"]["notices"]
        assert "net.ipv4.conf.all.rp_filter is 1" in notice
        assert previewed(kernel, sysctls={**wish, "net.ipv4.conf.all.rp_filter": 0})["plan"]["notices"] == []


ADDRESSES = "ip -json address show"


def with_addresses(**addresses: str) -> Kernel:
    links = []
    for name, cidr in addresses.items():
        local, _slash, length = cidr.partition("/")
        links.append({"ifname": name, "addr_info": [{"family": "inet", "local": local, "prefixlen": int(length)}]})
    kernel = host()
    kernel._commands[ADDRESSES] = {"rc": 0, "stdout": json.dumps(links), "stderr": ""}
    return kernel


class TestMultirail:
    RAILS: ClassVar[list[dict[str, Any]]] = [interface(pci="0000:37:00.0", name="rail0"), interface(pci="0000:37:00.1")]

    def test_rails_in_one_subnet_get_their_settings(self) -> None:
        kernel = with_addresses(ens2f0="10.0.0.1/24", ens2f1="10.0.0.2/24", eno1="192.168.0.5/24")
        found = previewed(kernel, interfaces=self.RAILS, multirail_sysctls=True)["plan"]["steps"]
        assert [(step["target"], step["to"]) for step in found if step["concern"] == "sysctl"][:6] == [
            ("net.ipv4.conf.ens2f1.arp_announce", "2"),
            ("net.ipv4.conf.ens2f1.arp_ignore", "1"),
            ("net.ipv4.conf.ens2f1.rp_filter", "2"),
            ("net.ipv4.conf.rail0.arp_announce", "2"),
            ("net.ipv4.conf.rail0.arp_ignore", "1"),
            ("net.ipv4.conf.rail0.rp_filter", "2"),
        ]

    def test_a_subnet_for_each_rail_needs_none(self) -> None:
        kernel = with_addresses(ens2f0="10.0.0.1/24", ens2f1="10.0.1.2/24")
        plan = previewed(kernel, interfaces=self.RAILS, multirail_sysctls=True)["plan"]
        assert not [step for step in plan["steps"] if step["concern"] == "sysctl"]
        assert "share a subnet" in plan["notices"][-1]

    def test_the_uplink_of_the_same_subnet_is_left_alone(self) -> None:
        kernel = with_addresses(ens2f0="10.0.0.1/24", eno1="10.0.0.5/24")
        plan = previewed(kernel, interfaces=self.RAILS, multirail_sysctls=True)["plan"]
        assert not [step for step in plan["steps"] if step["concern"] == "sysctl"]

    def test_an_explicit_value_wins(self) -> None:
        kernel = with_addresses(ens2f0="10.0.0.1/24", ens2f1="10.0.0.2/24")
        wish = {"net.ipv4.conf.ens2f1.rp_filter": 0}
        plan = previewed(kernel, interfaces=self.RAILS[1:], multirail_sysctls=True, sysctls=wish)["plan"]
        assert [step["to"] for step in plan["steps"] if step["target"].endswith("ens2f1.rp_filter")] == ["0"]

    def routed(self, *networks: tuple[str, str], ignore: str = "0", ignore_of_all: str = "0") -> Kernel:
        """The host with these direct routes: the interface, and the network as /proc/net/route has it."""
        kernel = host()
        lines = "".join(
            f"{name}\t{network}\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n" for name, network in networks
        )
        kernel.tree.add_file("/proc/net/route", kernel.read("/proc/net/route") + lines)
        for name in ("ens2f0", "ens2f1"):
            kernel.tree.add_file(f"/proc/sys/net/ipv4/conf/{name}/arp_ignore", f"{ignore}\n")
        kernel.tree.add_file("/proc/sys/net/ipv4/conf/all/arp_ignore", f"{ignore_of_all}\n")
        return kernel

    SHARED = (("ens2f0", "0000000A"), ("ens2f1", "0000000A"))

    def test_rails_in_one_subnet_that_nobody_asked_about_are_named(self) -> None:
        plan = previewed(self.routed(*self.SHARED), interfaces=self.RAILS)["plan"]
        (notice,) = [text for text in plan["notices"] if "in one subnet" in text]
        assert notice.startswith("rail0, ens2f1 are in one subnet (10.0.0.0/24), and with arp_ignore 0")
        assert "next: rdma_fabric_multirail_sysctls: true" in notice
        for few in ([], self.RAILS[1:]):
            (text,) = previewed(self.routed(*self.SHARED), interfaces=few)["plan"]["notices"]
            assert (
                "next: list all of them in rdma_fabric_interfaces and set rdma_fabric_multirail_sysctls: true" in text
            )
        assert not [step for step in plan["steps"] if step["concern"] == "sysctl"]

    @pytest.mark.parametrize(
        ("networks", "wish", "ignored"),
        [
            ((("ens2f0", "0000000A"), ("ens2f1", "0001000A")), {}, {}),
            ((("ens2f0", "0000000A"), ("eno1", "0000000A")), {}, {}),
            (SHARED, {"multirail_sysctls": True}, {}),
            (SHARED, {}, {"ignore": "1"}),
            (SHARED, {}, {"ignore_of_all": "2"}),
        ],
        ids=["two subnets", "the uplink", "asked for", "set by hand", "set for all"],
    )
    def test_others_are_not(self, networks: Any, wish: dict[str, Any], ignored: dict[str, str]) -> None:
        kernel = self.routed(*networks, **ignored)
        kernel._commands[ADDRESSES] = with_addresses(ens2f0="10.0.0.1/24", ens2f1="10.0.0.2/24")._commands[ADDRESSES]
        plan = previewed(kernel, **{"interfaces": self.RAILS, **wish})["plan"]
        assert not [text for text in plan["notices"] if "in one subnet" in text]

    def test_a_removal_names_none(self) -> None:
        kernel = self.routed(*self.SHARED)
        assert not [text for text in previewed(kernel, run=CHECK_REMOVAL)["plan"]["notices"] if "in one subnet" in text]

    def test_unknown_addresses_are_said(self) -> None:
        kernel = host()
        kernel._commands[ADDRESSES] = {"rc": 1, "stdout": "", "stderr": ""}
        assert (
            "can't be read" in previewed(kernel, interfaces=self.RAILS, multirail_sysctls=True)["plan"]["notices"][-1]
        )

    @pytest.mark.parametrize(
        "text", ["", "{}", "[7]", '[{"ifname": 7}]', '[{"ifname": "a", "addr_info": [7]}]', "[" * 9000]
    )
    def test_any_answer_of_ip_can_be_parsed(self, text: str) -> None:
        assert not any((parse_addresses(text) or {}).values())

    def test_point_to_point_and_link_local_networks_are_no_shared_subnet(self) -> None:
        assert shared_subnets({"a": ["10.0.0.0/31"], "b": ["10.0.0.1/31"]}) == []
        assert shared_subnets({"a": ["169.254.0.1/16"], "b": ["169.254.0.2/16"]}) == []
        assert shared_subnets({"a": ["10.0.0.1/24", "x/y", "fd00::1/64"], "b": ["10.0.0.9/24"]}) == [["a", "b"]]
