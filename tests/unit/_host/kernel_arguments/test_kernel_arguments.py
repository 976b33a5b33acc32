# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel arguments: written once for the next boot by what the distribution has, read back, pending until a reboot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.next_boot import Menu, entry_of_grub
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.own_files import (
    DROP_IN,
    PENDING_REBOOT_FILE,
    RECORD,
    drop_in,
    listed,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.arguments import (
    contains,
    count,
    grouped,
    vendor_problem,
    words_of,
)
from ansible_collections.rdma.fabric.tests.sweeps import first_of
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep
from ansible_collections.rdma.fabric.tests.unit._host.kernel.system import ENTRY, reboot
from ansible_collections.rdma.fabric.tests.unit._host.system_hosts import (
    CHECK,
    DEBIAN_FAMILY,
    DISTRIBUTIONS,
    RED_HAT_FAMILY,
    REMOVE,
    applied,
    host,
    previewed,
    systemd_boot,
)

WISH: dict[str, Any] = {"kernel_arguments": ["iommu=pt", "intel_iommu=on"]}
RUNNING = "root=UUID=4c1f7c52 ro quiet"


def default_line(text: str, environment: str = "") -> list[str] | None:
    """What the entry that GRUB takes by default has."""
    chosen = entry_of_grub(Menu(text, environment, "grubenv"), once=False)
    return chosen.entry.line if chosen is not None else None


def next_line(kernel: Kernel) -> list[str]:
    """What the default entry of any of the boot loaders has."""
    for place in ("/boot/grub/grub.cfg", "/boot/grub2/grub.cfg"):
        if kernel.exists(place):
            return default_line(kernel.read(place)) or []
    entries = "/boot/loader/entries"
    text = kernel.read(f"{entries}/{kernel.list(entries)[-1]}")
    return next(line for line in text.splitlines() if line.startswith("options")).split()[1:]


def the_step(outcome: Mapping[str, Any]) -> dict[str, Any]:
    (step,) = [step for step in outcome["plan"]["steps"] if step["concern"] == "kernel_arguments"]
    return dict(step)


def every_host() -> list[Any]:
    hosts = [pytest.param(lambda name=name: host(name), id=name) for name in DISTRIBUTIONS]
    return [*hosts, pytest.param(systemd_boot, id="systemd-boot")]


class TestEveryBootLoader:
    @pytest.mark.parametrize("start", every_host())
    def test_the_next_boot_gets_them_and_the_running_one_waits(self, start: Any) -> None:
        kernel = start()
        outcome = applied(kernel, **WISH)
        assert not outcome.get("failed"), outcome["msg"]
        assert [word for word in next_line(kernel) if "iommu" in word] == WISH["kernel_arguments"]
        assert "quiet" in next_line(kernel), "what others set stays"
        assert (outcome["reboot_required"], the_step(outcome)["status"]) == (True, "needs_reboot")

    @pytest.mark.parametrize("start", every_host())
    def test_by_themselves_they_only_prepare_a_reboot(self, start: Any) -> None:
        kernel = start()
        assert previewed(kernel, **WISH)["reboot_only"] is True
        assert previewed(kernel, **WISH, limits={"memlock": "unlimited"})["reboot_only"] is False
        assert previewed(kernel)["reboot_only"] is False
        assert previewed(kernel, replace(CHECK, reboots=True), **WISH)["reboot_only"] is False, "the reboot follows"
        applied(kernel, **WISH)
        assert previewed(kernel, **WISH)["reboot_only"] is False, "nothing is left but the reboot"

    @pytest.mark.parametrize("start", every_host())
    def test_a_second_run_writes_nothing_while_the_reboot_is_due(self, start: Any) -> None:
        kernel = start()
        applied(kernel, **WISH)
        kernel.revive()
        outcome = applied(kernel, **WISH)
        assert (outcome["changed"], kernel.mutations) == (False, [])
        assert outcome["reboot_required"]

    @pytest.mark.parametrize("start", every_host())
    def test_after_the_reboot_nothing_is_left_to_do(self, start: Any) -> None:
        kernel = start()
        applied(kernel, **WISH)
        reboot(kernel, " ".join(next_line(kernel)))
        outcome = applied(kernel, **WISH)
        assert (outcome["changed"], outcome["reboot_required"], outcome["plan"]["steps"]) == (False, False, [])

    @pytest.mark.parametrize("start", every_host())
    def test_a_host_that_comes_back_without_them_is_not_rebooted_again(self, start: Any) -> None:
        """Its boot loader started an old entry; runs of every night may reboot it."""
        kernel = start()
        assert applied(kernel, **WISH)["reboot_required"]
        reboot(kernel, RUNNING)
        for _night in range(2):
            kernel.revive()
            outcome = applied(kernel, **WISH)
            assert (outcome["reboot_required"], outcome["failed"], kernel.mutations) == (False, True, [])
            step = the_step(outcome)
            assert (step["status"], step["action"]) == (
                "refused",
                "reboot into it: iommu=pt intel_iommu=on set for the next boot",
            )
            assert "without effect: check the boot loader's default entry" in step["detail"]
        reboot(kernel, " ".join(next_line(kernel)))
        assert applied(kernel, **WISH)["plan"]["steps"] == []
        assert not kernel.exists(PENDING_REBOOT_FILE)

    def test_what_is_asked_for_since_waits_for_a_reboot_of_its_own(self) -> None:
        kernel = host()
        applied(kernel, **WISH)
        reboot(kernel, RUNNING)
        assert not applied(kernel, **WISH)["reboot_required"]
        assert applied(kernel, kernel_arguments=["iommu=pt"])["reboot_required"]

    @pytest.mark.parametrize("start", every_host())
    def test_taking_them_out_works_as_well(self, start: Any) -> None:
        kernel = start()
        before = next_line(kernel)
        applied(kernel, **WISH)
        reboot(kernel, " ".join(next_line(kernel)))
        outcome = applied(kernel)
        assert not outcome.get("failed"), outcome["msg"]
        assert next_line(kernel) == before
        assert outcome["reboot_required"], "the running kernel still has them"
        assert not kernel.exists(DROP_IN) and not kernel.exists(RECORD)
        assert not applied(kernel)["changed"]
        reboot(kernel, " ".join(next_line(kernel)))
        assert not applied(kernel)["reboot_required"]

    @pytest.mark.parametrize("start", every_host())
    def test_one_of_two_can_be_taken_out(self, start: Any) -> None:
        kernel = start()
        applied(kernel, **WISH)
        applied(kernel, kernel_arguments=["iommu=pt"])
        assert [word for word in next_line(kernel) if "iommu" in word] == ["iommu=pt"]
        assert not applied(kernel, kernel_arguments=["iommu=pt"])["changed"]

    @pytest.mark.parametrize("start", every_host())
    def test_sizes_of_huge_pages_and_their_numbers_are_set_as_given(self, start: Any) -> None:
        pages = ["hugepagesz=1G", "hugepages=4", "hugepagesz=2M", "hugepages=4"]
        kernel = start()
        given = [pages[0], "iommu=pt", *pages[1:], "quiet"]
        outcome = applied(kernel, kernel_arguments=given)
        assert not outcome.get("failed"), outcome["msg"]
        assert " ".join(next_line(kernel)).endswith(" ".join(["iommu=pt", *pages]))
        kernel.revive()
        assert not applied(kernel, kernel_arguments=given)["changed"]
        applied(kernel, kernel_arguments=["iommu=pt", *pages[:2]])
        assert " ".join(next_line(kernel)).endswith(" ".join(["iommu=pt", *pages[:2]]))

    @pytest.mark.parametrize("start", every_host())
    def test_removal_takes_exactly_ours(self, start: Any) -> None:
        kernel = start()
        before = kernel.state()["files"]
        applied(kernel, **WISH)
        outcome = applied(kernel, run=REMOVE)
        assert not outcome.get("failed"), outcome["msg"]
        kernel.tree.discard("/run/rdma-fabric")
        after = kernel.state()["files"]
        assert {path for path in {**before, **after} if before.get(path) != after.get(path)} <= set(), (
            "the host is as it was"
        )

    @pytest.mark.slow
    @pytest.mark.parametrize("start", [every_host()[0], every_host()[4], every_host()[-1]])
    def test_whatever_disturbs_a_run_the_next_one_ends_where_a_calm_one_does(self, start: Any) -> None:
        assert sweep(start, lambda kernel: applied(kernel, **WISH)) > 3

    @pytest.mark.parametrize("start", first_of(every_host()[place].values[0] for place in (0, 4, -1)))
    def test_whatever_disturbs_taking_out_the_next_run_ends_it(self, start: Any) -> None:
        def begun() -> Kernel:
            kernel: Kernel = start()
            # Killed between the removal of the last file and of its directory, a run leaves the empty directory.
            kernel.tree.add_file("/etc/rdma-fabric/other", "")
            applied(kernel, **WISH)
            reboot(kernel, " ".join(next_line(kernel)))
            kernel.revive()
            return kernel

        assert sweep(begun, applied) > 3


class TestGrub:
    @pytest.mark.parametrize("distribution", DEBIAN_FAMILY)
    def test_a_drop_in_of_ours_adds_to_what_is_there(self, distribution: str) -> None:
        kernel = host(distribution)
        applied(kernel, **WISH)
        assert kernel.read(DROP_IN).splitlines()[1:] == [
            "# arguments: iommu=pt intel_iommu=on",
            'GRUB_CMDLINE_LINUX_DEFAULT="${GRUB_CMDLINE_LINUX_DEFAULT} iommu=pt intel_iommu=on"',
        ]

    def test_an_argument_that_somebody_else_sets_is_left_to_them(self) -> None:
        kernel = host()
        kernel.tree.add_file("/etc/default/grub", 'GRUB_CMDLINE_LINUX_DEFAULT="quiet iommu=pt"\n')
        kernel.run(["update-grub"], 1)
        applied(kernel, **WISH)
        assert listed(kernel.read(DROP_IN)) == ["intel_iommu=on"]
        assert not applied(kernel, **WISH)["changed"]

    def test_a_later_file_that_sets_the_whole_line_is_noticed(self) -> None:
        kernel = host()
        kernel.tree.add_file("/etc/default/grub.d/99-mine.cfg", 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n')
        outcome = applied(kernel, **WISH)
        assert outcome["failed"]
        assert "lacks iommu=pt intel_iommu=on" in outcome["failed_step"]["error"]
        assert "/etc/default/grub.d" in outcome["failed_step"]["error"]
        assert not kernel.exists(DROP_IN), "it was taken back"

    def test_suse_reads_no_drop_ins_so_its_file_is_left_to_its_owner(self) -> None:
        kernel = host("sles-15")
        step = the_step(previewed(kernel, **WISH))
        assert step["status"] == "refused"
        assert "/etc/default/grub is yours" in step["detail"]
        assert applied(kernel, **WISH)["failed"]
        assert not kernel.exists(DROP_IN)

    def test_suse_with_drop_ins_is_served(self) -> None:
        kernel = host("sles-15")
        kernel.tree.add_file("/usr/sbin/grub2-mkconfig", "for x in ${sysconfdir}/default/grub.d/*.cfg")
        outcome = applied(kernel, **WISH)
        assert not outcome.get("failed"), outcome["msg"]
        assert contains(next_line(kernel), "iommu=pt")
        assert (
            "run grub2-mkconfig" in outcome["executed"][0]["line"] or "grub2-mkconfig" in outcome["executed"][0]["line"]
        )

    def test_a_configuration_that_can_not_be_read_back_is_no_success(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kernel = host()
        real = kernel.run

        def on_a_failing_disk(argv: Any, timeout: float) -> Any:
            result = real(argv, timeout)
            if argv[0] == "update-grub":
                kernel.tree.errors["/boot/grub/grub.cfg"] = "EIO"
            return result

        monkeypatch.setattr(kernel, "run", on_a_failing_disk)
        outcome = applied(kernel, **WISH)
        assert "can't be read back" in outcome["failed_step"]["error"]


class TestOtherLoaders:
    @pytest.mark.parametrize("distribution", RED_HAT_FAMILY)
    def test_grubby_is_asked_and_a_file_remembers_what_is_ours(self, distribution: str) -> None:
        kernel = host(distribution)
        applied(kernel, **WISH)
        assert ("run", "grubby --update-kernel=ALL --args=iommu=pt intel_iommu=on") in kernel.mutations
        assert listed(kernel.read(RECORD)) == ["iommu=pt", "intel_iommu=on"]

    @pytest.mark.parametrize(
        ("line", "wish", "after"),
        [
            ("pci=noaer quiet", {"kernel_arguments": ["pci=realloc"]}, "quiet pci=noaer pci=realloc"),
            ("iommu=soft quiet", {"kernel_arguments": ["iommu=pt"]}, "quiet iommu=soft iommu=pt"),
            ("hugepages=8 quiet", {"hugepages": {"1Gi": 4}}, "quiet hugepages=8 hugepagesz=1G hugepages=4"),
            (
                "hugepagesz=2M hugepages=4 quiet",
                {"hugepages": {"1Gi": 4}},
                "quiet hugepagesz=2M hugepages=4 hugepagesz=1G hugepages=4",
            ),
        ],
    )
    def test_grubby_leaves_what_others_set_of_the_same_name(self, line: str, wish: Any, after: str) -> None:
        kernel = host("rocky-9")
        entry = ENTRY.format(version="5.14.0")
        kernel.tree.add_file(entry, f"options root=UUID=4c1f7c52 {line}\n")
        outcome = applied(kernel, **wish)
        assert not outcome.get("failed"), outcome["msg"]
        assert next_line(kernel) == f"root=UUID=4c1f7c52 {after}".split()
        reboot(kernel, " ".join(next_line(kernel)))
        booted = applied(kernel, **wish)["plan"]["steps"]
        assert [step["id"] for step in booted if step["concern"] == "kernel_arguments"] == []
        gone = applied(kernel)
        assert (gone.get("failed"), gone["reboot_required"]) == (None, True)
        assert sorted(next_line(kernel)) == sorted(f"root=UUID=4c1f7c52 {line}".split())
        assert not applied(kernel)["changed"]

    def test_ostree_is_refused_with_its_tool(self) -> None:
        kernel = host("rocky-9")
        kernel.tree.add_file("/run/ostree-booted", "")
        step = the_step(previewed(kernel, **WISH))
        assert (step["status"], "rpm-ostree kargs" in step["detail"]) == ("refused", True)

    @pytest.mark.parametrize(
        ("grub_cfg", "advice"),
        [
            (True, "to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub, run transactional-update grub.cfg, and reboot"),
            (False, "to /etc/kernel/cmdline, run sdbootutil update-all-entries, and reboot"),
        ],
    )
    def test_a_read_only_snapshot_is_refused_with_the_program_that_makes_the_next(
        self, grub_cfg: bool, advice: str
    ) -> None:
        """openSUSE MicroOS: grub2-mkconfig has no place to write to."""
        kernel = host("sles-15.6")
        kernel.tree.add_file("/usr/sbin/transactional-update", "")
        kernel.tree.add_file("/proc/self/mountinfo", "22 1 0:20 /@/.snapshots/1/snapshot / ro - btrfs /dev/sda3 rw\n")
        if not grub_cfg:
            kernel.tree.discard("/boot/grub2/grub.cfg")
        step = the_step(previewed(kernel, **WISH))
        assert (step["status"], advice in step["detail"]) == ("refused", True)

    @pytest.mark.parametrize(
        ("kernel", "file"), [(host(), "GRUB_CMDLINE_LINUX_DEFAULT"), (systemd_boot(), "/etc/kernel/cmdline")]
    )
    def test_a_proxmox_host_does_not_start_with_the_entries_that_it_shows(self, kernel: Kernel, file: str) -> None:
        """Its /boot/grub/grub.cfg "is NOT read when booting", as proxmox-kernel-helper writes into it."""
        kernel.tree.add_file("/etc/kernel/proxmox-boot-uuids", "8C21-73A0\n")
        step = the_step(previewed(kernel, **WISH))
        assert (step["status"], f"add the arguments to {file}" in step["detail"]) == ("refused", True)
        assert "run proxmox-boot-tool refresh, and reboot" in step["detail"]
        reboot(kernel, f"{RUNNING} iommu=pt intel_iommu=on")
        assert previewed(kernel, **WISH)["plan"]["steps"] == []

    def test_without_a_known_loader_it_is_refused(self) -> None:
        kernel = host()
        kernel.tree.discard("/usr/sbin/grub-mkconfig")
        assert "no supported boot loader was found" in the_step(previewed(kernel, **WISH))["detail"]

    def test_what_the_running_line_has_needs_no_loader(self) -> None:
        kernel = host()
        kernel.tree.discard("/usr/sbin/grub-mkconfig")
        reboot(kernel, f"{RUNNING} iommu=pt intel_iommu=on")
        assert previewed(kernel, **WISH)["plan"]["steps"] == []

    def test_systemd_boot_makes_the_entry_of_each_kernel_again(self) -> None:
        kernel = systemd_boot()
        applied(kernel, **WISH)
        assert kernel.read("/etc/kernel/cmdline") == "root=UUID=4c1f7c52 ro quiet iommu=pt intel_iommu=on\n"
        assert "iommu=pt" in kernel.read(ENTRY.format(version="6.12.0"))

    def test_a_line_with_a_secret_is_left_to_its_owner(self) -> None:
        kernel = systemd_boot()
        kernel.tree.add_file("/etc/kernel/cmdline", "root=/dev/sda1 api_key=hunter2\n")
        outcome = previewed(kernel, **WISH)
        assert "secret" in the_step(outcome)["detail"]
        assert "hunter2" not in str(outcome)

    def test_without_kernel_install_it_is_refused(self) -> None:
        kernel = systemd_boot()
        kernel.tree.discard("/usr/bin/kernel-install")
        assert "kernel-install" in the_step(previewed(kernel, **WISH))["detail"]


class TestVendors:
    def refusal(self, kernel: Kernel, argument: str) -> str:
        found = previewed(kernel, kernel_arguments=[argument])["plan"]["steps"]
        return "".join(step["detail"] for step in found if step["status"] == "refused")

    def test_an_argument_of_the_other_vendor_is_refused_with_the_right_one(self) -> None:
        kernel = host()
        assert "intel_iommu=on is the one" in self.refusal(kernel, "amd_iommu=force_enable")
        kernel.tree.add_file("/proc/cpuinfo", "vendor_id\t: AuthenticAMD\n")
        assert "iommu=pt" in self.refusal(kernel, "intel_iommu=on")
        assert not self.refusal(kernel, "iommu=pt")

    @pytest.mark.parametrize(
        ("argument", "machine", "vendor", "part"),
        [
            ("intel_iommu=on", "x86_64", "GenuineIntel", ""),
            ("intel_iommu=on", "x86_64", None, ""),
            ("intel_iommu=on", "x86_64", "HygonGenuine", "iommu=pt"),
            ("iommu=pt", "aarch64", None, "iommu.passthrough=1"),
            ("iommu.passthrough=1", "aarch64", None, ""),
            ("pci=realloc", "aarch64", None, ""),
        ],
    )
    def test_who_understands_what(self, argument: str, machine: str, vendor: str | None, part: str) -> None:
        problem = vendor_problem(argument, machine, vendor)
        assert bool(problem) == bool(part)
        assert part in problem

    def test_the_others_are_set_all_the_same(self) -> None:
        kernel = host()
        kernel.tree.add_file("/proc/cpuinfo", "vendor_id\t: AuthenticAMD\n")
        outcome = applied(kernel, **WISH)
        assert outcome["failed"], "a refused step fails a strict run"
        assert contains(next_line(kernel), "iommu=pt")
        assert not contains(next_line(kernel), "intel_iommu=on")


class TestLines:
    def test_the_last_of_a_name_counts(self) -> None:
        assert contains(["iommu=off", "iommu=pt"], "iommu=pt")
        assert not contains(["iommu=pt", "iommu=off"], "iommu=pt")
        assert contains(["transparent-hugepage=never"], "transparent_hugepage=never")
        assert contains(["pci=realloc", "pci=noaer"], "pci=realloc")

    def test_pages_and_their_size_are_one_argument(self) -> None:
        line = ["hugepagesz=2M", "hugepages=512", "hugepagesz=1G", "hugepages=4"]
        assert contains(line, "hugepagesz=1G hugepages=4")
        assert not contains(line, "hugepagesz=1G hugepages=512")
        assert grouped(["iommu=pt", *line]) == ["iommu=pt", "hugepagesz=2M hugepages=512", "hugepagesz=1G hugepages=4"]
        assert count([*line, *line], "hugepagesz=1G hugepages=4") == 2

    def test_a_quoted_argument_stays_whole(self) -> None:
        assert words_of('a "b c"="d e" f="g h') == ["a", '"b c"="d e"', 'f="g h']

    def test_what_is_listed_comes_back(self) -> None:
        arguments = ["iommu=pt", "hugepagesz=1G hugepages=4"]
        assert listed(drop_in(arguments, arguments)) == arguments
        assert listed("nothing of ours") == []


MENU = """
function load_video {
  insmod all_video
}
if [ "${{next_entry}}" ] ; then
   set default="${{next_entry}}"
else
   set default="{default}"
fi
menuentry 'First' --class x $menuentry_id_option 'id-first' {{
\tif [ x$grub_platform = xxen ]; then insmod xzio; fi
\tlinux\t/vmlinuz-2 root=/dev/sda first
}}
submenu "Advanced" $menuentry_id_option 'id-advanced' {{
\tmenuentry 'Second' --id 'id-second' {{
\t\tlinuxefi /vmlinuz-2 second
\t}}
\tmenuentry 'Third' $menuentry_id_option 'id-third' {{
\t\tlinux /vmlinuz-1 third "quoted thing"
\t}}
}}
menuentry 'Last' {{
\tchainloader +1
}}
"""


class TestGrubMenu:
    @pytest.mark.parametrize(
        ("default", "environment", "word"),
        [
            ("0", "", "first"),
            ("1", "", "second"),
            ("1>1", "", "third"),
            ("Advanced>Third", "", "third"),
            ("id-advanced>id-third", "", "third"),
            ("id-first", "", "first"),
            ("9", "", "first"),
            ("gone", "", "first"),
            ("", "", "first"),
            ("${saved_entry}", "saved_entry=id-advanced>id-second\n", "second"),
            ("${saved_entry}", "saved_entry=\n", "first"),
            ("${saved_entry}", "# GRUB Environment Block\n####", "first"),
        ],
    )
    def test_the_entry_that_boots_by_default(self, default: str, environment: str, word: str) -> None:
        line = default_line(MENU.replace("{{", "{").replace("}}", "}").replace("{default}", default), environment)
        assert line is not None
        assert word in line

    def test_an_entry_without_a_kernel_has_no_line(self) -> None:
        text = MENU.replace("{{", "{").replace("}}", "}").replace("{default}", "2")
        assert default_line(text, "") is None

    @pytest.mark.parametrize(
        "text", ["", "}\n}\n}", "menuentry", "menuentry 'x' {", "{" * 2000, "linux", "submenu 'a' {\n}"]
    )
    def test_any_file_can_be_read(self, text: str) -> None:
        assert default_line(text, "") is None


class TestRdmaMode:
    MODE = "/sys/module/ib_core/parameters/netns_mode"

    def notices(self, kernel: Kernel, mode: str) -> list[str]:
        return [said for said in previewed(kernel, netns_mode=mode)["plan"]["notices"] if "RDMA is in" in said]

    @pytest.mark.parametrize(
        ("mode", "argument"), [("exclusive", "ib_core.netns_mode=0"), ("shared", "ib_core.netns_mode=1")]
    )
    def test_the_next_boot_brings_it_and_removal_takes_it_back(self, mode: str, argument: str) -> None:
        kernel = host()
        before = next_line(kernel)
        outcome = applied(kernel, netns_mode=mode)
        assert not outcome.get("failed"), outcome["msg"]
        assert next_line(kernel) == [*before, argument]
        assert (outcome["reboot_required"], the_step(outcome)["status"]) == (True, "needs_reboot")
        reboot(kernel, " ".join(next_line(kernel)))
        assert applied(kernel, netns_mode=mode)["plan"]["steps"] == []
        kernel.revive()
        assert (applied(kernel, netns_mode=mode)["plan"]["steps"], kernel.mutations) == ([], [])
        applied(kernel, REMOVE)
        assert next_line(kernel) == before

    def test_another_mode_replaces_it(self) -> None:
        kernel = host()
        applied(kernel, netns_mode="exclusive")
        applied(kernel, netns_mode="shared")
        assert [word for word in next_line(kernel) if "netns" in word] == ["ib_core.netns_mode=1"]

    def test_a_mode_that_was_changed_since_the_boot_is_told(self) -> None:
        kernel = host()
        kernel.tree.add_file(self.MODE, "Y\n")
        assert self.notices(kernel, "exclusive") == [], "it waits for the boot"
        applied(kernel, netns_mode="exclusive")
        reboot(kernel, " ".join(next_line(kernel)))
        (said,) = self.notices(kernel, "exclusive")
        assert "shared mode" in said and "rdma system set netns" in said
        kernel.tree.add_file(self.MODE, "N\n")
        assert self.notices(kernel, "exclusive") == []
