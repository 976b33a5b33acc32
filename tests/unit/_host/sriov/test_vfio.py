# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Functions bound to vfio-pci in the simulated kernel: given away, taken back, held by programs, refused, disturbed."""

from __future__ import annotations

import json
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.concerns import ORDER
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.vf_settings import deterministic_mac
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import RESULT_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.run import baseline
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.at_boot import start
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import parse_host_variables
from ansible_collections.rdma.fabric.tests.unit._host.families import ETHERNET, INFINIBAND, MAC, PF, host_with
from ansible_collections.rdma.fabric.tests.unit._host.kernel import kmods, vfs
from ansible_collections.rdma.fabric.tests.unit._host.kernel.boot import with_disk_of
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep
from ansible_collections.rdma.fabric.tests.unit._host.kernel.system import GRUB_TEMPLATE
from ansible_collections.rdma.fabric.tests.unit._host.mlx5 import (
    ALLOWED,
    APPLY,
    CHECK,
    CONNECTX7,
    REMOVE,
    applied,
    booted,
    done,
    drivers,
    functions,
    the_step,
    wish,
)

STEP = f"vfs:{PF}:driver"
GIVEN: dict[str, Any] = {"vfs": 2, "vf_driver": "vfio-pci"}
BACK: dict[str, Any] = {"vfs": 2, "vf_driver": "netdevice"}


def given() -> Kernel:
    kernel = booted()
    done(kernel, wish(**GIVEN))
    return kernel


def process(kernel: Kernel, pid: int, name: str, opened: str) -> None:
    kernel.tree.add_link("/proc/1/fd/0", "/dev/null")
    kernel.tree.add_file(f"/proc/{pid}/comm", f"{name}\n")
    kernel.tree.add_link(f"/proc/{pid}/fd/7", opened)


class TestGiving:
    def test_new_functions_are_bound_to_vfio(self) -> None:
        kernel = given()
        assert drivers(kernel) == ["vfio-pci", "vfio-pci"]
        assert all(not kernel.exists(f"{vfs.PCI}/{function}/net") for function in functions(kernel))
        assert [vfs.override_of(kernel, function) for function in functions(kernel)] == ["vfio-pci"] * 2

    def test_a_second_run_does_nothing(self) -> None:
        kernel = given()
        assert applied(kernel, wish(**GIVEN))["plan"]["steps"] == []
        assert kernel.mutations == []

    def test_addresses_are_set_before(self) -> None:
        kernel = booted()
        outcome = done(kernel, wish(**GIVEN, vf_settings={"mac": "deterministic"}))
        assert [entry["id"] for entry in outcome["executed"]] == [f"vfs:{PF}", f"vfs:{PF}:settings", STEP]
        (link,) = json.loads(kernel.run(("ip", "-json", "link", "show", "dev", "enp24s0f0np0"), 10).stdout)
        assert [entry["address"] for entry in link["vfinfo_list"]] == [deterministic_mac(MAC, n) for n in range(2)]
        assert drivers(kernel) == ["vfio-pci", "vfio-pci"]

    def test_an_address_given_later_reaches_a_function_that_stays_with_vfio(self) -> None:
        kernel = given()
        process(kernel, 2, "kthreadd", "/dev/null")
        done(kernel, wish(ALLOWED, **GIVEN, vf_settings={"mac": {"1": "02:aa:00:00:00:01"}}))
        assert drivers(kernel) == ["vfio-pci", "vfio-pci"]

    def test_settings_reach_functions_that_nobody_has_open_and_no_others(self) -> None:
        kernel = given()
        process(kernel, 2, "kthreadd", "/dev/null")
        done(kernel, wish(**GIVEN, vf_settings={"vlan": 100}))
        outcome = done(kernel, wish(**GIVEN, vf_settings={"vlan": 200}))
        assert [entry["id"] for entry in outcome["executed"]] == [f"vfs:{PF}:settings"]
        group = kernel.link(f"{vfs.PCI}/{functions(kernel)[0]}/iommu_group").rsplit("/", 1)[1]
        process(kernel, 77, "qemu", f"/dev/vfio/{group}")
        outcome = applied(kernel, wish(**GIVEN, vf_settings={"vlan": 300}))
        assert [step["to"] for step in outcome["plan"]["steps"]] == []
        assert "VF 0 keeps other vf_settings" in str(outcome["plan"]["notices"])

    def test_a_removal_sets_functions_back_that_were_with_vfio_before(self) -> None:
        kernel = given()
        process(kernel, 2, "kthreadd", "/dev/null")
        kernel.remove(baseline.PATH)
        done(kernel, wish(vf_settings={"vlan": 100}))
        done(kernel, wish(), REMOVE)
        assert not kernel.exists(baseline.PATH)

    def test_functions_with_interfaces_need_consent(self) -> None:
        kernel = booted()
        done(kernel, wish(vfs=2))
        step = the_step(applied(kernel, wish(**GIVEN)), STEP)
        assert (step["status"], step["consent"]) == ("needs_consent", "rdma_fabric_allow_vf_reset")
        done(kernel, wish(ALLOWED, **GIVEN))
        assert drivers(kernel) == ["vfio-pci", "vfio-pci"]

    def test_they_come_back_to_their_interfaces(self) -> None:
        kernel = given()
        process(kernel, 2, "kthreadd", "/dev/null")
        done(kernel, wish(ALLOWED, **BACK, mtu=4000, vf_mtu=4000))
        assert drivers(kernel) == ["mlx5_core", "mlx5_core"]
        names = [kernel.list(f"{vfs.PCI}/{function}/net")[0] for function in functions(kernel)]
        assert [kernel.read(f"/sys/class/net/{name}/mtu") for name in names] == ["4000\n"] * 2

    def test_one_comes_back_while_another_is_in_a_pod(self) -> None:
        kernel = given()
        process(kernel, 2, "kthreadd", "/dev/null")
        done(kernel, wish(ALLOWED, **BACK))
        first, second = functions(kernel)
        vfs.to_another_namespace(kernel, second)
        kernel.set_attribute(f"{vfs.PCI}/{first}/driver/unbind", first, 1)
        kernel.set_attribute(f"{vfs.PCI}/{first}/driver_override", "vfio-pci", 1)
        kernel.set_attribute("/sys/bus/pci/drivers_probe", first, 1)
        assert drivers(kernel) == ["vfio-pci", "mlx5_core"]
        done(kernel, wish(ALLOWED, **BACK))
        assert kernel.list(f"{vfs.PCI}/{first}/net")

    def test_functions_that_the_kernel_shall_not_bind_are_bound_to_vfio_all_the_same(self) -> None:
        tree = host_with(CONNECTX7)
        tree.attributes(tree.place(PF), {"sriov_drivers_autoprobe": 0})
        kernel = Kernel(tree.document())
        done(kernel, wish(**GIVEN))
        assert drivers(kernel) == ["vfio-pci", "vfio-pci"]

    def test_switchdev_mode_leaves_them_with_vfio(self) -> None:
        kernel = booted()
        done(kernel, wish(**GIVEN, eswitch_mode="switchdev"))
        assert drivers(kernel) == ["vfio-pci", "vfio-pci"]


class TestHolders:
    def test_who_has_a_function_open_is_named(self) -> None:
        kernel = given()
        group = kernel.realpath(f"{vfs.PCI}/{functions(kernel)[1]}/iommu_group").rsplit("/", 1)[1]
        process(kernel, 4711, "qemu-system-x86", f"/dev/vfio/{group}")
        step = the_step(applied(kernel, wish(ALLOWED, vfs=4)), f"vfs:{PF}")
        assert step["status"] == "refused"
        assert step["detail"] == f"{functions(kernel)[1]}: it is held by qemu-system-x86 (pid 4711) through vfio"

    def test_a_device_file_of_its_own_is_looked_at_too(self) -> None:
        kernel = given()
        kernel.tree.add_file(f"{vfs.PCI}/{functions(kernel)[0]}/vfio-dev/vfio3/dev", "511:3\n")
        process(kernel, 815, "dpdk-testpmd", "/dev/vfio/devices/vfio3")
        assert "dpdk-testpmd (pid 815)" in the_step(applied(kernel, wish(ALLOWED, **BACK)), STEP)["detail"]

    def test_functions_that_nobody_has_open_are_free(self) -> None:
        kernel = given()
        process(kernel, 99, "bash", "/dev/pts/0")
        done(kernel, wish(ALLOWED, **{**GIVEN, "vfs": 4}))
        assert drivers(kernel) == ["vfio-pci"] * 4

    def test_without_a_look_at_other_processes_nothing_is_taken_for_free(self) -> None:
        step = the_step(applied(given(), wish(ALLOWED, vfs=4)), f"vfs:{PF}")
        assert step["status"] == "refused" and "a virtual machine or a DPDK program may hold it" in step["detail"]


QUIET: dict[str, dict[str, Any]] = {
    ETHERNET: {**GIVEN, "eswitch_mode": "switchdev"},
    INFINIBAND: {"vfs": 2, "vf_guids": "deterministic"},
}


@pytest.mark.parametrize("link_layer", QUIET)
def test_a_host_that_is_as_it_shall_be_is_not_searched_for_users(
    link_layer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = QUIET[link_layer]
    kernel = booted(link_layer=link_layer)
    done(kernel, wish(**entry))
    listed: list[str] = []
    real = Kernel.list

    def listing(self: Kernel, path: str) -> list[str]:
        listed.append(path)
        return real(self, path)

    monkeypatch.setattr(Kernel, "list", listing)
    assert applied(kernel, wish(**entry))["plan"]["steps"] == []
    assert "/proc" not in listed


class TestIommu:
    def detail(self, firmware: str | None = None, files: Mapping[str, str] = MappingProxyType({})) -> str:
        tree = host_with(CONNECTX7)
        for path in [path for path in tree.links if path.endswith("/iommu_group")]:
            del tree.links[path]
        if firmware:
            tree.binary[f"/sys/firmware/acpi/tables/{firmware}"] = ""
        tree.files.update(files)
        kernel = Kernel(tree.document())
        outcome = applied(kernel, wish(**GIVEN), replace(APPLY, concerns=ORDER))
        step = the_step(outcome, STEP)
        assert step["status"] == "refused"
        assert not any("driver_override" in mutation.what for mutation in kernel.mutations)
        return str(step["detail"])

    def test_without_one_the_bios_comes_first(self) -> None:
        detail = self.detail()
        assert "in the BIOS" in detail and "rdma_fabric_kernel_arguments: [iommu=pt]" in detail

    def test_the_arguments_are_those_of_the_vendor(self) -> None:
        assert "[intel_iommu=on, iommu=pt], and reboot" in self.detail("DMAR")
        assert "AMD-Vi" in self.detail("IVRS") and "kernel_arguments" not in self.detail("IVRS")

    def test_what_switches_it_off_has_to_go(self) -> None:
        line = {"/proc/cmdline": "root=/dev/sda1 amd_iommu=off\n"}
        assert "take amd_iommu=off out of the kernel line" in self.detail("IVRS", line)

    @pytest.mark.parametrize("firmware", [None, "IORT"])
    def test_no_argument_switches_one_of_arm_on(self, firmware: str | None) -> None:
        """iommu=pt is for x86: rdma_fabric_kernel_arguments refuses it there."""
        detail = self.detail(firmware, {"/proc/sys/kernel/arch": "aarch64\n"})
        assert "SMMU" in detail and "iommu=pt" not in detail and "VT-d" not in detail


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["intel_iommu=on", "iommu=pt"], "needs_reboot"),
        # It leaves Intel's off (the kernel's drivers/iommu/intel), so the reboot would be for nothing.
        (["iommu=pt"], "refused"),
    ],
)
def test_functions_wait_for_the_boot_that_switches_the_iommu_on(arguments: list[str], status: str) -> None:
    tree = host_with(CONNECTX7)
    for path in [path for path in tree.links if path.endswith("/iommu_group")]:
        del tree.links[path]
    tree.binary["/sys/firmware/acpi/tables/DMAR"] = ""
    tree.files.update(
        {
            "/etc/default/grub": 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n',
            "/usr/sbin/update-grub": "",
            "/usr/sbin/grub-mkconfig": "for x in ${sysconfdir}/default/grub.d/*.cfg ; do . ${x} ; done\n",
            "/boot/grub/grub.cfg": GRUB_TEMPLATE.format(line="quiet"),
            "/boot/vmlinuz-6.1.0": "",
            "/boot/initrd.img-6.1.0": "",
        }
    )
    tree.dirs.append("/etc/default/grub.d")
    desired = wish({"rdma_fabric_kernel_arguments": arguments}, **GIVEN)
    outcome = preview(Kernel(tree.document()), desired, replace(CHECK, concerns=ORDER), None)
    changes = [step for step in outcome["plan"]["steps"] if step["concern"] == "kernel_arguments"]
    assert [step["status"] for step in changes] == ["planned"], changes
    assert the_step(outcome, STEP)["status"] == status


def test_a_kernel_without_the_module_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kmods, "MISSING", "vfio_pci")
    kernel = booted()
    outcome = applied(kernel, wish(**GIVEN))
    assert outcome["failed"] and "vfio" in outcome["msg"] and "linux-modules-extra" in outcome["msg"]
    assert drivers(kernel) == ["mlx5_core", "mlx5_core"]


@pytest.mark.parametrize(
    ("before", "entry", "former"), [({"vfs": 2}, GIVEN, "mlx5_core"), (GIVEN, BACK, "vfio-pci")], ids=["given", "back"]
)
def test_functions_that_their_driver_does_not_take_fail_the_step_and_get_the_former_one(
    before: dict[str, Any], entry: dict[str, Any], former: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = booted()
    process(kernel, 2, "kthreadd", "/dev/null")
    done(kernel, wish(**before))
    real = vfs.bind

    def bind(kernel: Kernel, address: str) -> None:
        if bool(vfs.override_of(kernel, address)) == (former == "vfio-pci"):
            real(kernel, address)

    monkeypatch.setattr(vfs, "bind", bind)
    outcome = applied(kernel, wish(ALLOWED, **entry))
    assert outcome["failed"] and "VF 0 is bound to no driver, VF 1 is bound to no driver" in outcome["msg"]
    assert drivers(kernel) == [former] * 2


SWEPT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "given": ({}, {"vfs": 1, "vf_driver": "vfio-pci"}),
    "given later": ({"vfs": 1}, {"vfs": 1, "vf_driver": "vfio-pci"}),
    "taken back": ({"vfs": 1, "vf_driver": "vfio-pci"}, {"vfs": 1, "vf_driver": "netdevice"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", SWEPT)
def test_whatever_disturbs_a_run_the_next_one_gets_there(case: str) -> None:
    before, entry = SWEPT[case]

    def begin() -> Kernel:
        kernel = booted()
        process(kernel, 2, "kthreadd", "/dev/null")
        if before:
            done(kernel, wish(**before))
        return kernel

    assert sweep(begin, lambda kernel: applied(kernel, wish(ALLOWED, **entry)), errors=("EIO", "EBUSY")) >= 3


def test_removal_brings_the_former_drivers_back() -> None:
    kernel = given()
    process(kernel, 2, "kthreadd", "/dev/null")
    done(kernel, wish(ALLOWED), REMOVE)
    assert functions(kernel) == []
    done(kernel, wish(vfs=2))
    kernel.tree.discard("/var/lib/rdma-fabric")
    done(kernel, wish(ALLOWED, **GIVEN))
    done(kernel, wish(ALLOWED), REMOVE)
    assert drivers(kernel) == ["mlx5_core", "mlx5_core"]


def test_removal_gives_functions_back_to_vfio_that_it_had_before() -> None:
    kernel = given()
    process(kernel, 2, "kthreadd", "/dev/null")
    kernel.tree.discard("/var/lib/rdma-fabric")
    done(kernel, wish(ALLOWED, **BACK))
    done(kernel, wish(ALLOWED), REMOVE)
    assert drivers(kernel) == ["vfio-pci", "vfio-pci"]


def test_a_rebooted_host_gives_them_away_again() -> None:
    kernel = booted()
    done(kernel, wish(**GIVEN), replace(APPLY, concerns=ORDER))
    fresh = with_disk_of(booted(), kernel)
    start(fresh, fresh)
    assert json.loads(fresh.read(RESULT_FILE))["problems"] == []
    assert drivers(fresh) == ["vfio-pci", "vfio-pci"]


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"vf_driver": "vfio"}, "did you mean vfio-pci?"),
        ({"vf_driver": False}, "netdevice or vfio-pci"),
        ({"vf_driver": {}}, "netdevice or vfio-pci"),
        ({"vf_driver": "vfio-pci", "vf_mtu": 1500}, "such VFs have no interface here"),
    ],
)
def test_bad_wishes_are_told_before_anything_is_touched(entry: dict[str, Any], says: str) -> None:
    given_entry = {"pci": PF, "vfs": 2, **entry}
    _desired, violations, _notices = parse_host_variables("gpu01", {"rdma_fabric_interfaces": [given_entry]})
    assert len(violations) == 1 and says in str(violations[0])


class TestWithoutFunctions:
    """A wish for vfio-pci that comes to nothing is said, for a run would end green otherwise."""

    def test_a_port_without_functions_and_without_a_number_of_them_is_told(self) -> None:
        plan = applied(booted(), wish(vf_driver="vfio-pci"), CHECK)["plan"]
        (told,) = [each for each in plan["notices"] if "vf_driver" in each]
        assert "vf_driver has no effect, there are no VFs; next: ask for vfs as well" in told
        assert plan["steps"] == []

    @pytest.mark.parametrize("asked", [{"vfs": 0, "vf_driver": "vfio-pci"}, {"vf_driver": "netdevice"}, GIVEN])
    def test_others_are_not(self, asked: dict[str, Any]) -> None:
        assert "vf_driver has no effect" not in str(applied(booted(), wish(**asked), CHECK)["plan"]["notices"])
        kernel = given()
        assert "vf_driver has no effect" not in str(applied(kernel, wish(vf_driver="vfio-pci"))["plan"]["notices"])
