# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A driver for the kernel that the next boot starts, often another one: unattended upgrades install it.

Without a build for it the host comes up without the vendor's driver.
"""

from __future__ import annotations

from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.driver.next_boot import problems
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import HostState
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import assess
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.sweeps import first_of
from ansible_collections.rdma.fabric.tests.unit._host.driver.hosts import (
    EACH_FAMILY,
    EVERY_SYSTEM,
    NEXT_KERNELS,
    SYSTEMS,
    boots,
    driver_host,
    give_kernel,
    image_of,
)
from ansible_collections.rdma.fabric.tests.unit._host.driver.test_driver_apply import WANTED, ran, run
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import ofed, request
from ansible_collections.rdma.fabric.tests.unit._host.kernel import stack
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep

LATER: dict[str, Any] = {**WANTED, "reload": "never"}


def with_vendor(system: str, **driver: Any) -> Kernel:
    """A host that runs the vendor's driver on its only kernel."""
    kernel = driver_host(system)
    assert not run(kernel, **driver).get("failed")
    kernel.revive()
    return kernel


def held(kernel: Kernel, release: str) -> Any:
    """What the initial RAM disk of a kernel holds, and whether it is older than the driver."""
    return (stack.stack_of(kernel) or {})["images"][release]


def on_disk(kernel: Kernel, release: str) -> str:
    info = stack.info_of(kernel, "mlx5_core", release)
    return str(info["filename"]) if info is not None else "none"


def with_headers(known: dict[str, Any]) -> dict[str, Any]:
    """The stack where the headers of the running kernel are installed; SUSE's package has one name for all kernels."""
    return {**known, "installed": {**known["installed"], "kernel-default-devel": "1.0-1"}}


def steps(outcome: Mapping[str, Any]) -> dict[str, str]:
    return {step["id"]: step["status"] for step in outcome["plan"]["steps"]}


def refusals(outcome: Mapping[str, Any]) -> list[str]:
    return [step["detail"] for step in outcome["plan"]["steps"] if step["id"].startswith("reboot:")]


@pytest.mark.parametrize("system", EVERY_SYSTEM)
class TestEveryDistribution:
    def test_a_driver_that_waits_for_the_boot_is_built_for_the_kernel_that_it_starts(self, system: str) -> None:
        kernel = driver_host(system)
        release = give_kernel(kernel, system)
        outcome = run(kernel, **LATER)
        assert not outcome.get("failed"), outcome["msg"]
        assert (steps(outcome), outcome["reboot_required"]) == ({"driver:load": "needs_reboot"}, True)
        assert "/updates/dkms/" in on_disk(kernel, release)
        assert held(kernel, release) == {"stale": False, "holds": "updates/dkms"}
        running = SYSTEMS[system][1]
        assert f"the next boot starts kernel {release}" in outcome["plan"]["notices"][0]
        assert f"{running} runs now" in outcome["plan"]["notices"][0]
        kernel.revive()
        assert (run(kernel, **LATER)["changed"], kernel.mutations) == (False, [])

    def test_a_kernel_that_was_installed_since_gets_headers_driver_and_ram_disk(self, system: str) -> None:
        kernel = with_vendor(system)
        before = ran(kernel)
        release = give_kernel(kernel, system)
        outcome = run(kernel)
        assert [entry["id"] for entry in outcome["executed"]] == [f"driver:build:{release}", f"driver:initrd:{release}"]
        assert kernel.exists(f"/lib/modules/{release}/build/Makefile")
        assert "/updates/dkms/" in on_disk(kernel, release)
        assert held(kernel, release) == {"stale": False, "holds": "updates/dkms"}
        assert not [line for line in ran(kernel) if SYSTEMS[system][1] in line and line not in before]
        kernel.revive()
        assert (run(kernel)["changed"], kernel.mutations) == (False, [])

    def test_headers_that_nobody_offers_are_noticed_and_refuse_a_reboot(self, system: str) -> None:
        kernel = with_vendor(system)
        release = give_kernel(kernel, system, offers=False)
        kernel.revive()
        outcome = run(kernel)
        (notice,) = outcome["plan"]["notices"]
        assert (outcome["changed"], outcome.get("failed"), kernel.mutations) == (False, None, [])
        assert f"can't be built for {release}" in notice and "add the repository that has it" in notice
        kernel = driver_host(system)
        give_kernel(kernel, system, offers=False)
        kernel.tree.add_file(f"/lib/modules/{SYSTEMS[system][1]}/build/Makefile", "")
        stack.keep(kernel, stack.STACK, with_headers(stack.stack_of(kernel) or {}))
        outcome = run(kernel, **LATER)
        assert (outcome["failed"], outcome["reboot_required"]) == (True, False)
        assert steps(outcome) == {"driver:load": "refused", "reboot:driver": "refused"}
        (detail,) = refusals(outcome)
        assert f"can't be built for {release}" in detail
        package = {
            "apt": f"linux-headers-{release}",
            "dnf": f"kernel-devel-{release}",
            "zypper": "kernel-default-devel",
        }
        assert package[SYSTEMS[system][2]] in detail
        assert outcome["plan"]["notices"][0].startswith("the next boot starts"), "nothing is said twice"

    def test_going_back_takes_the_builds_of_both_kernels(self, system: str) -> None:
        kernel = driver_host(system)
        release = give_kernel(kernel, system)
        assert not run(kernel).get("failed")
        outcome = run(kernel, state="absent")
        assert not outcome.get("failed"), outcome["msg"]
        for each in (SYSTEMS[system][1], release):
            assert "/kernel/" in on_disk(kernel, each)
            assert held(kernel, each) == {"stale": False, "holds": "kernel"}
        kernel.revive()
        assert (run(kernel, state="absent")["changed"], kernel.mutations) == (False, [])


@pytest.mark.parametrize("system", EACH_FAMILY)
class TestInitialRamDisk:
    def built(self, system: str) -> tuple[Kernel, str]:
        kernel = driver_host(system)
        release = give_kernel(kernel, system)
        assert not run(kernel).get("failed")
        kernel.revive()
        return kernel, release

    def images(self, kernel: Kernel, **changes: Any) -> None:
        known = stack.stack_of(kernel) or {}
        known["images"].update(changes)
        stack.keep(kernel, stack.STACK, known)

    @pytest.mark.parametrize("image", [{"stale": False, "holds": "kernel"}, {"stale": True, "holds": "updates/dkms"}])
    def test_one_with_another_driver_is_made_again(self, system: str, image: dict[str, Any]) -> None:
        kernel, release = self.built(system)
        self.images(kernel, **{release: image})
        outcome = run(kernel)
        assert [entry["id"] for entry in outcome["executed"]] == [f"driver:initrd:{release}"]
        assert held(kernel, release) == {"stale": False, "holds": "updates/dkms"}
        assert not run(kernel)["changed"]

    def test_one_without_any_driver_leaves_it_to_the_disk(self, system: str) -> None:
        kernel, release = self.built(system)
        self.images(kernel, **{release: {"stale": False, "holds": None}})
        assert run(kernel)["changed"] is False

    def test_one_that_still_has_it_when_it_is_made_again_is_no_success(
        self, system: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kernel, release = self.built(system)
        wrong = {"stale": False, "holds": "kernel"}
        self.images(kernel, **{release: wrong})
        known = kernel.run

        def run_it(argv: Any, timeout: float) -> Any:
            result = known(argv, timeout)
            if argv[0] in {"update-initramfs", "dracut"}:
                self.images(kernel, **{release: wrong})
            return result

        monkeypatch.setattr(kernel, "run", run_it)
        outcome = run(kernel)
        assert outcome["failed"] is True
        assert f"{image_of(SYSTEMS[system][2], release)} was rebuilt and still has another mlx5_core" in outcome["msg"]


@pytest.mark.parametrize("system", EACH_FAMILY)
def test_a_host_without_the_programs_that_look_into_it_is_judged_by_its_age(system: str) -> None:
    kernel = driver_host(system)
    release = give_kernel(kernel, system)
    kernel.absent |= {"lsinitramfs", "lsinitrd"}
    assert not run(kernel).get("failed")
    assert held(kernel, release) == {"stale": False, "holds": "updates/dkms"}
    kernel.revive()
    assert (run(kernel)["changed"], kernel.mutations) == (False, [])


def test_modules_that_came_built_are_not_there_for_the_next_kernel() -> None:
    """Weak modules of RHEL are linked for each kernel that they fit; a new minor release has none."""
    kernel = with_vendor("rocky-9", **WANTED, build="precompiled")
    kernel.tree.discard("/var/lib/dkms/mlnx-ofa_kernel")
    release = give_kernel(kernel, "rocky-9")
    outcome = run(kernel, **LATER, build="precompiled")
    (notice,) = outcome["plan"]["notices"]
    assert "still the kernel's own" in notice and f"weak-modules --add-kernel {release}" in notice
    weak = f"/lib/modules/{release}/updates/dkms/mlx5_core.ko"
    kernel.tree.add_file(weak, stack.module_file("v", version="24.10-1.1.4", depends="", srcversion="V"))
    assert run(kernel, **LATER, build="precompiled")["plan"]["notices"] == []


def test_a_driver_that_stays_by_its_policy_has_to_be_there_for_the_next_kernel_in_any_release() -> None:
    kernel = with_vendor("ubuntu-24.04")
    release = give_kernel(kernel, "ubuntu-24.04")
    wanted = check_spec({"requests": [request(driver={**ofed("25.10-1.2.8.0-0"), "auto_upgrade": False})]})
    how = Run(check=True, diff=True, mode="apply", recorded=False, concerns=("driver",))

    def found() -> list[str]:
        return problems(Context(wanted, HostState(assess(kernel, wanted, how, None).facts)), ())

    (problem,) = found()
    assert f"it was not built for {release}" in problem
    run(kernel)
    kernel.revive()
    assert found() == []


def test_the_kernels_own_driver_has_to_be_there_for_the_next_kernel() -> None:
    kernel = driver_host()
    release = give_kernel(kernel, "ubuntu-24.04")
    kernel.tree.discard(f"/lib/modules/{release}/kernel/mlx5_core.ko")
    (notice,) = run(kernel, flavour="inbox")["plan"]["notices"]
    assert f"there is no mlx5_core for kernel {release}" in notice
    assert notice.endswith(f"install linux-modules-extra-{release}")


def test_a_driver_container_brings_its_driver_itself() -> None:
    kernel = driver_host()
    give_kernel(kernel, "ubuntu-24.04")
    outcome = run(kernel, **WANTED, source="container")
    assert [notice for notice in outcome["plan"]["notices"] if "next boot" in notice] == []


def test_what_dkms_has_built_already_is_no_failure() -> None:
    """Debian's packages of headers have DKMS build for their kernel; it may end with 5 when asked for that again."""
    kernel = with_vendor("debian-12")
    release = give_kernel(kernel, "debian-12")
    assert not run(kernel).get("failed")
    assert kernel.run(("dkms", "install", "mlnx-ofed-kernel/24.10-1.1.4", "-k", release), 1.0).rc == 5


def test_what_a_run_leaves_to_do_for_the_next_kernel_keeps_it_from_the_reboot(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = driver_host()
    release = give_kernel(kernel, "ubuntu-24.04")
    known = kernel.run

    def run_it(argv: Any, timeout: float) -> Any:
        result = known(argv, timeout)
        if argv[0] == "update-initramfs":
            # Somebody else installs modules meanwhile.
            stack.age(kernel, release)
        return result

    monkeypatch.setattr(kernel, "run", run_it)
    outcome = run(kernel, **LATER)
    assert (outcome["failed"], outcome["reboot_required"]) == (True, False)
    assert f"next: update-initramfs -u -k {release}" in refusals(outcome)[0]


def test_a_build_that_fails_ends_the_run_with_its_cause_and_before_the_reboot() -> None:
    kernel = with_vendor("ubuntu-24.04")
    release = give_kernel(kernel, "ubuntu-24.04", headers=True)
    kernel.tree.discard("/var/lib/dkms/mlnx-ofed-kernel/24.10-1.1.4/6.8.0-45-generic/x86_64")
    kernel.tree.add_file("/var/lib/dkms/mlnx-ofed-kernel/24.07/6.8.0-45-generic/x86_64/module/mlx5_core.ko", "")
    kernel.tree.discard("/var/lib/dkms/mlnx-ofed-kernel/24.10-1.1.4")
    outcome = run(kernel)
    assert outcome["failed"] is True
    assert f"dkms install mlnx-ofed-kernel/24.07 -k {release}" in outcome["msg"]


def test_where_the_boot_loader_takes_the_running_kernel_the_other_is_left_alone() -> None:
    kernel = with_vendor("ubuntu-24.04")
    give_kernel(kernel, "ubuntu-24.04")
    boots(kernel, "apt", SYSTEMS["ubuntu-24.04"][1])
    kernel.revive()
    assert (run(kernel)["changed"], kernel.mutations) == (False, [])


def test_without_a_word_of_the_boot_loader_the_newest_kernel_is_taken_to_be_next() -> None:
    kernel = with_vendor("ubuntu-24.04")
    release = give_kernel(kernel, "ubuntu-24.04")
    kernel.tree.discard("/boot/grub/grub.cfg")
    assert f"driver:build:{release}" in [entry["id"] for entry in run(kernel)["executed"]]


@pytest.mark.slow
@pytest.mark.parametrize("system", EACH_FAMILY)
def test_whatever_disturbs_it_the_next_run_gets_there(system: str) -> None:
    def start() -> Kernel:
        kernel = driver_host(system)
        give_kernel(kernel, system)
        return kernel

    assert sweep(start, run) > 30


@pytest.mark.parametrize("system", first_of(EACH_FAMILY))
def test_whatever_disturbs_a_build_for_the_next_kernel_the_next_run_ends_it(system: str) -> None:
    def start() -> Kernel:
        kernel = with_vendor(system)
        give_kernel(kernel, system)
        kernel.revive()
        return kernel

    assert sweep(start, run) >= 3
    assert NEXT_KERNELS[SYSTEMS[system][2]]
