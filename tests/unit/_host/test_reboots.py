# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reboot is held back where the next kernel would not come up as asked for, and told where it did not come up."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.pending_reboot import (
    KERNEL,
    leads_to_reboot,
    missed_kernel,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import Step, digest, make_step
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import HostState
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.next_boot import UNKNOWN
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.own_files import PENDING_REBOOT_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.next_boot import hold_reboots
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import desired, two_ports
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep
from ansible_collections.rdma.fabric.tests.unit._host.kernel.system import reboot
from ansible_collections.rdma.fabric.tests.unit._host.system_hosts import (
    APPLY,
    DEBIAN_FAMILY,
    REMOVE,
    applied,
    host,
    previewed,
    systemd_boot,
)

OLD, NEW = "6.1.0", "6.1.0-37-amd64"
WISH: Any = {"kernel_arguments": ["iommu=pt"]}
WITH, WITHOUT = "root=UUID=4c1f7c52 ro quiet iommu=pt", "root=UUID=4c1f7c52 ro quiet"
INITRD = f"/boot/initrd.img-{NEW}"
ANY_RUN = pytest.mark.parametrize("run", [APPLY, replace(APPLY, strict=False)], ids=["strict", "not-strict"])


def two_kernels(distribution: str = "debian-12", **without: str) -> Kernel:
    """A host that runs one kernel, and whose boot loader is to take a newer one."""
    kernel = host(distribution)
    for release in (OLD, NEW):
        kernel.tree.add_file(f"/lib/modules/{release}/modules.dep", "")
        kernel.tree.add_file(f"/boot/initrd.img-{release}", "")
        kernel.tree.add_file(f"/boot/vmlinuz-{release}", "")
    for path in without.values():
        kernel.tree.discard(path)
    return kernel


def waiting() -> Kernel:
    """Such a host, which waits for its reboot."""
    kernel = two_kernels()
    assert applied(kernel, **WISH)["reboot_required"]
    kernel.revive()
    return kernel


def statuses(outcome: Mapping[str, Any]) -> dict[str, str]:
    return {step["id"]: step["status"] for step in outcome["plan"]["steps"]}


def of_boot(outcome: Mapping[str, Any]) -> list[str]:
    return [said for said in outcome["plan"]["notices"] if "next boot" in said]


def detail(outcome: Mapping[str, Any], step_id: str) -> str:
    return next(str(step["detail"]) for step in outcome["plan"]["steps"] if step["id"] == step_id)


class TestBefore:
    @pytest.mark.parametrize("distribution", DEBIAN_FAMILY)
    def test_a_complete_kernel_is_rebooted_into_and_named(self, distribution: str) -> None:
        kernel = two_kernels(distribution)
        outcome = applied(kernel, **WISH)
        assert (outcome["reboot_required"], outcome.get("failed")) == (True, None)
        (notice,) = of_boot(outcome)
        assert (
            f"the next boot starts kernel {NEW} by the entry Linux (taken by" in notice and f"{OLD} runs now" in notice
        )
        reboot(kernel, WITH, NEW)
        assert applied(kernel, **WISH)["plan"]["steps"] == []
        assert not kernel.exists(PENDING_REBOOT_FILE)

    @pytest.mark.parametrize(
        ("path", "problem", "says"),
        [
            (f"/boot/vmlinuz-{NEW}", None, ""),
            (INITRD, "files", f"names /initrd.img-{NEW}, which is not there; next: update-initramfs -c -k {NEW}"),
            (f"/lib/modules/{NEW}/modules.dep", "modules", f"or run depmod -a {NEW}"),
        ],
    )
    @ANY_RUN
    def test_what_a_kernel_lacks_holds_the_reboot_back(
        self, run: Any, path: str, problem: str | None, says: str
    ) -> None:
        kernel = two_kernels()
        applied(kernel, **WISH)
        kernel.tree.discard(path)
        outcome = applied(kernel, run, **WISH)
        if problem is None:
            # The menu still has the entry of an image that is gone.
            problem, says = "files", f"names /vmlinuz-{NEW}, which is not there"
        assert outcome["reboot_required"] is False
        assert statuses(outcome) == {"kernel_arguments:reboot": "refused", f"reboot:{problem}": "refused"}
        assert says in detail(outcome, f"reboot:{problem}")
        assert detail(outcome, "kernel_arguments:reboot") == "held back: the reboot is refused"
        assert outcome.get("failed", False) is run.strict
        kernel.tree.add_file(path, "")
        assert applied(kernel, **WISH)["reboot_required"], "nothing is remembered of it"

    def test_what_can_not_be_read_of_the_next_kernel_holds_the_reboot_back(self) -> None:
        kernel = waiting()
        path = f"/lib/modules/{NEW}/modules.builtin"
        kernel.tree.errors[path] = "EIO"
        outcome = applied(kernel, **WISH)
        assert statuses(outcome) == {"kernel_arguments:reboot": "refused", f"reboot:{path}": "refused"}
        assert f"{path} can't be read (EIO" in detail(outcome, f"reboot:{path}")
        del kernel.tree.errors[path]
        assert applied(kernel, **WISH)["reboot_required"], "nothing is remembered of it"

    def test_a_kernel_that_kexec_would_start_instead_holds_the_reboot_back(self) -> None:
        kernel = waiting()
        kernel.tree.add_file("/sys/kernel/kexec_loaded", "1\n")
        outcome = applied(kernel, **WISH)
        assert statuses(outcome) == {"kernel_arguments:reboot": "refused", "reboot:kexec": "refused"}
        assert "kexec --unload, and run again" in detail(outcome, "reboot:kexec")
        kernel.tree.add_file("/sys/kernel/kexec_loaded", "0\n")
        assert applied(kernel, **WISH)["reboot_required"], "nothing is remembered of it"

    def test_check_mode_tells_before_anything_is_set(self) -> None:
        kernel = two_kernels(gone=INITRD)
        kernel.run(["update-grub"], 1.0)
        outcome = previewed(kernel, **WISH)
        assert statuses(outcome) == {
            "kernel_arguments:/etc/default/grub.d/90-rdma-fabric.cfg": "planned",
            "reboot:files": "refused",
        }
        assert kernel.mutations[1:] == []

    def test_an_entry_without_a_ram_disk_is_a_full_boot(self) -> None:
        kernel = two_kernels(gone=INITRD)
        applied(kernel, **WISH)
        menu = "/boot/grub/grub.cfg"
        kernel.tree.add_file(menu, kernel.read(menu).replace(f"\tinitrd\t/initrd.img-{NEW}\n", ""))
        running = f"/boot/initrd.img-{OLD}"
        assert f"and the running kernel has one ({running})" in detail(applied(kernel, **WISH), "reboot:initrd")
        kernel.tree.discard(running)
        assert applied(kernel, **WISH)["reboot_required"], "nor has the running one"

    def test_systemd_boot_is_read_as_well(self) -> None:
        kernel = systemd_boot()
        assert applied(kernel, **WISH)["reboot_required"]
        kernel.tree.discard("/boot/4c1f7c52/6.12.0/initrd")
        outcome = applied(kernel, **WISH)
        assert "names /4c1f7c52/6.12.0/initrd, which is not there" in detail(outcome, "reboot:files")

    def test_a_kernel_for_one_boot_is_said(self) -> None:
        kernel = two_kernels()
        applied(kernel, **WISH)
        menu = kernel.read("/boot/grub/grub.cfg")
        header = 'if [ "${next_entry}" ] ; then\n   set default="${next_entry}"\nelse\n'
        body = menu.replace('set default="0"\n', '   set default="0"\nfi\n')
        kernel.tree.add_file("/boot/grub/grub.cfg", f"{header}{body}")
        kernel.tree.add_file("/boot/grub/grubenv", "next_entry=gnulinux-advanced>gnulinux-recovery\n")
        (notice,) = of_boot(applied(kernel, **WISH))
        assert "next_entry of /boot/grub/grubenv), for that boot only" in notice

    def test_what_no_file_tells_is_named(self) -> None:
        kernel = host("rocky-9")
        outcome = applied(kernel, **WISH)
        assert outcome["reboot_required"]
        assert any("it was not checked for completeness" in said for said in outcome["plan"]["notices"])

    def test_a_host_that_needs_no_reboot_is_not_looked_at(self) -> None:
        kernel = two_kernels(gone=INITRD)
        kernel.run(["update-grub"], 1.0)
        outcome = applied(kernel, limits={"memlock": "unlimited"})
        assert (outcome.get("failed"), of_boot(outcome)) == (None, [])
        assert "next_boot" not in outcome["facts"]

    def test_a_removal_is_held_back_too(self) -> None:
        kernel = waiting()
        reboot(kernel, WITH, NEW)
        kernel.tree.discard(INITRD)
        outcome = applied(kernel, REMOVE)
        assert (outcome["failed"], outcome["reboot_required"]) == (True, False)
        assert not kernel.exists(PENDING_REBOOT_FILE)


class TestAfter:
    @ANY_RUN
    def test_a_host_that_runs_its_old_kernel_has_failed_whatever_came_with_it(self, run: Any) -> None:
        kernel = waiting()
        reboot(kernel, WITH)
        first = applied(kernel, run, **WISH)
        assert (first["failed"], first["changed"], kernel.exists("/var/lib/rdma-fabric/reached.json")) == (
            True,
            False,
            False,
        )
        for _night in range(2):
            kernel.revive()
            outcome = applied(kernel, run, **WISH)
            assert (outcome["failed"], outcome["reboot_required"], kernel.mutations) == (True, False, [])
            assert statuses(outcome) == {KERNEL: "refused"}
            assert (
                f"refused: reboot kernel {NEW}: start it - the host was started since and runs {OLD}" in outcome["msg"]
            )
            assert f"still takes {NEW}" in outcome["msg"] and "no run reboots it again" in outcome["msg"]
        reboot(kernel, WITH, NEW)
        assert applied(kernel, **WISH)["plan"]["steps"] == []
        assert not kernel.exists(PENDING_REBOOT_FILE)

    def test_the_entry_that_brought_the_old_kernel_is_named(self) -> None:
        kernel = waiting()
        reboot(kernel, WITH)
        menu = "/boot/grub/grub.cfg"
        kernel.tree.add_file(menu, kernel.read(menu).replace(NEW, OLD).replace('"0"', '"${saved_entry}"'))
        kernel.tree.add_file("/boot/grub/grubenv", "saved_entry=gnulinux-simple\n")
        assert (
            f"the boot loader takes {OLD} by the entry Linux (taken by saved_entry of /boot/grub/grubenv)"
            in applied(kernel, **WISH)["msg"]
        )
        kernel.tree.discard(menu)
        assert "look at which entry the boot loader takes by default" in applied(kernel, **WISH)["msg"]

    def test_nothing_is_rebooted_for_what_is_asked_for_since(self) -> None:
        kernel = waiting()
        reboot(kernel, WITH)
        outcome = applied(kernel, kernel_arguments=["iommu=pt", "intel_iommu=on"])
        assert (outcome["failed"], outcome["reboot_required"]) == (True, False)
        assert statuses(outcome) == {"kernel_arguments:reboot": "refused", KERNEL: "refused"}

    def test_who_stays_on_the_old_kernel_removes_the_file_as_it_says(self) -> None:
        kernel = waiting()
        reboot(kernel, WITH)
        assert f"to stay on {OLD}, remove {PENDING_REBOOT_FILE}" in applied(kernel, **WISH)["msg"]
        kernel.tree.discard(PENDING_REBOOT_FILE)
        assert applied(kernel, **WISH)["plan"]["steps"] == []

    def test_a_newer_kernel_that_was_installed_meanwhile_is_fine(self) -> None:
        kernel = waiting()
        reboot(kernel, WITH, "6.1.0-40-amd64")
        assert applied(kernel, **WISH)["plan"]["steps"] == []
        assert not kernel.exists(PENDING_REBOOT_FILE)

    def test_the_kernel_that_is_next_by_then_is_the_one_that_is_expected(self) -> None:
        kernel = waiting()
        newer = "6.1.0-40-amd64"
        menu = "/boot/grub/grub.cfg"
        kernel.tree.add_file(menu, kernel.read(menu).replace(NEW, newer))
        for path in (f"/boot/vmlinuz-{newer}", f"/boot/initrd.img-{newer}", f"/lib/modules/{newer}/modules.dep"):
            kernel.tree.add_file(path, "")
        applied(kernel, **WISH)
        kernel.revive()
        assert (applied(kernel, **WISH)["reboot_required"], kernel.mutations) == (True, [])
        reboot(kernel, WITH, NEW)
        assert f"reboot kernel {newer}: start it" in applied(kernel, **WISH)["msg"]

    def test_both_are_told_of_a_host_that_came_up_without_either(self) -> None:
        kernel = waiting()
        reboot(kernel, WITHOUT)
        assert statuses(applied(kernel, **WISH)) == {"kernel_arguments:reboot": "refused", KERNEL: "refused"}

    def test_a_task_about_another_concern_tells_it_and_forgets_nothing(self) -> None:
        kernel = waiting()
        reboot(kernel, WITH)
        of_limits = replace(APPLY, concerns=("limits",))
        assert applied(kernel, of_limits, limits={"memlock": "unlimited"})["failed"] is True
        assert statuses(applied(kernel, **WISH)) == {KERNEL: "refused"}

    def test_going_back_and_removing_are_not_kept_from_it(self) -> None:
        kernel = waiting()
        reboot(kernel, WITH)
        before = copy.deepcopy(kernel)
        back = applied(kernel, replace(APPLY, state="previous"), **WISH)
        assert KERNEL not in statuses(back)
        gone = applied(before, REMOVE)
        assert KERNEL not in statuses(gone) and not before.exists(PENDING_REBOOT_FILE)

    def test_who_has_gone_back_is_not_held_to_it_any_more(self) -> None:
        kernel = two_kernels()
        applied(kernel, limits={"memlock": "unlimited"})
        assert applied(kernel, **WISH)["reboot_required"]
        reboot(kernel, WITHOUT)
        back = applied(kernel, replace(APPLY, state="previous"), **WISH)
        assert (back.get("failed"), back["previous_known"]) == (None, True), back["msg"]
        assert not kernel.exists(PENDING_REBOOT_FILE)

    def test_whatever_disturbs_a_run_the_kernel_is_remembered_in_the_end(self) -> None:
        assert sweep(two_kernels, lambda kernel: applied(kernel, **WISH)) > 3

    @pytest.mark.parametrize("to", [3, None, {}, {"expected": NEW}])
    def test_an_entry_of_another_form_is_no_reason_to_refuse(self, to: Any) -> None:
        assert missed_kernel({KERNEL: {"to": to, "boot_id": "x", "this_boot": False}}, "9.9") == ""


def step(concern: str, **changes: Any) -> Step:
    return make_step(concern, "x", target="x", action="x", before="a", after="b", reason="x", **changes)


READY: Any = {**UNKNOWN, "kernel": "6.8.0-51-generic", "entry": "Ubuntu", "named_by": "its place", "modules": True}


class TestPlainData:
    """What is refused is decided by facts alone."""

    def held(self, next_boot: dict[str, Any], *steps: Step, missed: str = "", system: Any = None) -> Any:
        facts = two_ports(next_boot={**READY, **next_boot})
        facts["system"]["os"].update(system or {})
        context = Context(desired(), HostState(facts), earlier=steps)
        plan: Any = {"format": 1, "steps": list(steps), "notices": [], "digest": digest(steps)}
        return hold_reboots(plan, context, missed, {}, runs=True)

    @pytest.mark.parametrize(
        ("concern", "status", "leads"),
        [
            ("driver", "needs_reboot", True),
            ("firmware", "planned", True),
            ("firmware", "needs_consent", False),
            ("firmware_image", "planned", True),
            ("kernel_arguments", "planned", True),
            ("mtu", "planned", False),
            ("kernel_arguments", "refused", False),
        ],
    )
    def test_which_steps_lead_to_a_reboot(self, concern: str, status: str, leads: bool) -> None:
        assert leads_to_reboot(step(concern, status=status)) is leads

    def test_other_steps_are_left_as_they_are_and_the_digest_tells(self) -> None:
        steps = (step("mtu"), step("firmware", status="needs_reboot", detail="a reset"))
        plan = self.held({"lacks": ["tg3"]}, *steps)
        assert [each["status"] for each in plan["steps"]] == ["planned", "refused", "refused"]
        assert plan["steps"][1]["detail"] == "a reset; held back: the reboot is refused"
        assert plan["digest"] == digest(plan["steps"])
        assert plan["steps"][0] == steps[0]

    @pytest.mark.parametrize(
        ("system", "way"),
        [
            ({}, "install linux-modules-extra-6.8.0-51-generic"),
            ({"id": "debian", "version_id": "12"}, "have the boot loader take the kernel of linux-image-amd64"),
            ({"id": "rocky", "version_id": "9.4"}, "install kernel-modules-6.8.0-51-generic"),
            ({"id": "gentoo", "version_id": ""}, "install the package with its modules"),
        ],
    )
    def test_a_driver_of_nics_that_is_missing_comes_with_a_way_to_it(self, system: Any, way: str) -> None:
        refused = self.held({"lacks": ["igb", "tg3"]}, step("firmware"), system=system)["steps"][-1]
        assert "it has no igb, tg3, which" in refused["detail"] and f"next: {way}" in refused["detail"]

    def test_a_gpu_driver_that_is_not_built_for_the_next_kernel_holds_the_reboot_back(self) -> None:
        plan = self.held({"lacks": ["mlx5_ib", "nvidia"]}, step("firmware"))
        assert [each["id"] for each in plan["steps"][1:]] == ["reboot:nics", "reboot:gpus"]
        assert "it has no mlx5_ib, which NICs of this host use now" in plan["steps"][1]["detail"]
        assert "dkms autoinstall -k 6.8.0-51-generic" in plan["steps"][2]["detail"]

    @pytest.mark.parametrize(
        ("system", "command"),
        [
            ({}, "next: update-initramfs -c -k 6.8.0-51-generic where"),
            ({"id": "rocky", "version_id": "9.4"}, "next: dracut --force --kver 6.8.0-51-generic where"),
            ({"id": "sles", "version_id": "15.7"}, "next: dracut --force --kver 6.8.0-51-generic where"),
            ({"id": "gentoo", "version_id": ""}, "next: make it (update-initramfs -c -k"),
        ],
    )
    def test_what_makes_a_ram_disk_is_the_distributions(self, system: Any, command: str) -> None:
        refused = self.held({"absent": ["/initrd.img"]}, step("firmware"), system=system)["steps"][-1]
        assert command in refused["detail"]
