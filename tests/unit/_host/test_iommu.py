# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The IOMMUs of both vendors, passing through, translating or off: facts, kernel arguments, GPUDirect."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import record
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import make_plan
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.fixtures.hosts.h100 import rail_address, roce
from ansible_collections.rdma.fabric.tests.fixtures.hosts.tree import Tree

PASSTHROUGH, LAZY, STRICT = "identity", "DMA-FQ", "DMA"
TABLES = "/sys/firmware/acpi/tables"


class Vendor(NamedTuple):
    """A vendor's processors: how they are called, the firmware's table, the units of the kernel's driver."""

    kind: str
    processor: str
    table: str
    unit: str


INTEL = Vendor("intel", "GenuineIntel", "DMAR", "dmar")
AMD = Vendor("amd", "AuthenticAMD", "IVRS", "ivhd")
BOTH = [pytest.param(INTEL, id="intel"), pytest.param(AMD, id="amd")]
ANY = [*BOTH, pytest.param(None, id="none")]


def node(vendor: Vendor | None, domain: str | None, *, line: str = "ro quiet", boots_with: str = "grub") -> Tree:
    """A node of eight GPUs with RoCE: ``domain`` is how its IOMMU treats devices, None that no IOMMU is on.

    Without a vendor the firmware shows none, and the processor is Intel's.
    """
    tree = roce("node", 1, "composed for a test")
    tree.files["/proc/cmdline"] = f"BOOT_IMAGE=/vmlinuz root=UUID=4c1f7c52 {line}\n"
    tree.files["/proc/cpuinfo"] = f"processor\t: 0\nvendor_id\t: {(vendor or INTEL).processor}\n"
    tree.links = {path: target for path, target in tree.links.items() if not path.endswith("/iommu_group")}
    if vendor is not None:
        tree.files[f"{TABLES}/{vendor.table}"] = ""
    if vendor is not None and domain is not None:
        tree.dirs += [f"/sys/class/iommu/{vendor.unit}{number}" for number in range(4)]
        for rail in range(8):
            tree.links[f"{tree.place(rail_address(rail))}/iommu_group"] = f"/sys/kernel/iommu_groups/{rail}"
            tree.files[f"/sys/kernel/iommu_groups/{rail}/type"] = f"{domain}\n"
    if boots_with == "grub":
        tree.files.update(
            {
                "/usr/sbin/update-grub": "",
                "/usr/sbin/grub-mkconfig": "for x in ${sysconfdir}/default/grub.d/*.cfg ; do . ${x} ; done\n",
                "/boot/grub/grub.cfg": f"menuentry 'Linux' {{\n\tlinux /vmlinuz root=UUID=4c1f7c52 {line}\n}}\n",
            }
        )
    return tree


def planned(tree: Tree, *arguments: str) -> Any:
    desired = check_spec({"kernel_arguments": list(arguments)})
    return make_plan(desired, gather(RecordedHost(tree.document()), desired=desired))


def remarks_of(tree: Tree, *arguments: str) -> list[str]:
    return [notice for notice in planned(tree, *arguments)["notices"] if "no effect" in notice]


def gpudirect_remarks(tree: Tree) -> list[str]:
    return [notice for notice in planned(tree)["notices"] if "IOMMU translates" in notice]


class TestFacts:
    @pytest.mark.parametrize("vendor", BOTH)
    @pytest.mark.parametrize("domain", [PASSTHROUGH, LAZY, STRICT])
    def test_an_iommu_that_is_on(self, vendor: Vendor, domain: str) -> None:
        facts = gather(RecordedHost(node(vendor, domain).document()))
        assert facts["system"]["iommu"] == {"active": vendor.kind, "firmware": vendor.kind}
        rails = [nic for nic in facts["nics"] if nic["address"] in {rail_address(rail) for rail in range(8)}]
        assert {nic["iommu"] and nic["iommu"]["type"] for nic in rails} == {domain}

    @pytest.mark.parametrize("vendor", ANY)
    def test_one_that_is_off_and_none(self, vendor: Vendor | None) -> None:
        facts = gather(RecordedHost(node(vendor, None).document()))
        assert facts["system"]["iommu"] == {"active": None, "firmware": vendor.kind if vendor else None}
        assert {nic["iommu"] and nic["iommu"]["type"] for nic in facts["nics"]} == {None}

    @pytest.mark.parametrize(
        ("unit", "kind"),
        [("smmu3.0x0000000042000000", "arm"), ("arm-smmu-v3.5.auto", "arm"), ("s390.0", "other")],
    )
    def test_other_architectures(self, unit: str, kind: str) -> None:
        tree = node(None, None)
        tree.dirs.append(f"/sys/class/iommu/{unit}")
        assert gather(RecordedHost(tree.document()))["system"]["iommu"]["active"] == kind

    @pytest.mark.parametrize("vendor", BOTH)
    def test_a_recording_tells_the_same(self, vendor: Vendor) -> None:
        first = RecordedHost(node(vendor, LAZY).document())
        again = RecordedHost(record(first, "other"))
        assert gather(again)["system"]["iommu"] == gather(first)["system"]["iommu"]


class TestKernelArguments:
    @pytest.mark.parametrize("vendor", BOTH)
    @pytest.mark.parametrize("domain", [PASSTHROUGH, LAZY, STRICT])
    def test_where_it_is_on_nothing_is_missing(self, vendor: Vendor, domain: str) -> None:
        plan = planned(node(vendor, domain), "iommu=pt")
        (step,) = [step for step in plan["steps"] if step["concern"] == "kernel_arguments"]
        assert (step["status"], step["to"]) == ("planned", ["iommu=pt"])
        assert remarks_of(node(vendor, domain), "iommu=pt") == []

    def test_intels_is_off_until_it_is_switched_on(self) -> None:
        (remark,) = remarks_of(node(INTEL, None), "iommu=pt")
        assert remark.startswith("iommu=pt will have no effect") and remark.endswith("without intel_iommu=on; add it")
        assert remarks_of(node(INTEL, None), "iommu=pt", "intel_iommu=on") == []
        assert remarks_of(node(INTEL, None, line="intel_iommu=on"), "iommu=pt") == []

    def test_amds_is_on_by_itself(self) -> None:
        assert remarks_of(node(AMD, None), "iommu=pt") == []

    def test_an_argument_of_the_other_vendor_is_refused(self) -> None:
        (refused,) = [s for s in planned(node(AMD, STRICT), "intel_iommu=on")["steps"] if s["status"] == "refused"]
        assert "AuthenticAMD" in refused["detail"]
        (refused,) = [s for s in planned(node(INTEL, STRICT), "amd_iommu=off")["steps"] if s["status"] == "refused"]
        assert "GenuineIntel" in refused["detail"]

    @pytest.mark.parametrize(
        ("vendor", "off"),
        [(INTEL, "intel_iommu=off"), (AMD, "amd_iommu=off"), (AMD, "iommu=soft intel_iommu=off")],
    )
    def test_what_switches_it_off_elsewhere_is_named(self, vendor: Vendor, off: str) -> None:
        (remark,) = remarks_of(node(vendor, None, line=off), "iommu=pt")
        assert off.rsplit(maxsplit=1)[-1] in remark and "take it out" in remark

    def test_an_argument_that_replaces_the_one_that_switches_it_off(self) -> None:
        assert remarks_of(node(AMD, None, line="iommu=off"), "iommu=pt") == []

    def test_a_firmware_without_one_is_told_of(self) -> None:
        (remark,) = remarks_of(node(None, None), "iommu=pt", "intel_iommu=on")
        assert "iommu=pt, intel_iommu=on" in remark and "VT-d" in remark and "BIOS" in remark

    @pytest.mark.parametrize("arguments", [(), ("quiet",), ("iommu=off",), ("intel_iommu=off",)])
    def test_who_wants_none_is_told_nothing(self, arguments: tuple[str, ...]) -> None:
        assert remarks_of(node(None, None), *arguments) == []

    def test_another_architecture_has_other_arguments(self) -> None:
        tree = node(None, None)
        tree.attributes("/proc/sys/kernel", {"arch": "aarch64"})
        assert remarks_of(tree, "iommu.passthrough=1") == []


class TestGpuDirect:
    @pytest.mark.parametrize("vendor", BOTH)
    @pytest.mark.parametrize("domain", [LAZY, STRICT])
    def test_translated_addresses_are_told(self, vendor: Vendor, domain: str) -> None:
        (remark,) = gpudirect_remarks(node(vendor, domain))
        assert rail_address(0) in remark and "4 more" in remark and "iommu=pt" in remark

    @pytest.mark.parametrize("vendor", BOTH)
    @pytest.mark.parametrize("domain", [PASSTHROUGH, None])
    def test_passed_through_or_off_there_is_nothing_to_tell(self, vendor: Vendor, domain: str | None) -> None:
        assert gpudirect_remarks(node(vendor, domain)) == []

    @pytest.mark.parametrize("driver", ["vfio-pci", "mlx5_vfio_pci"])
    def test_a_nic_that_a_guest_has_is_not_told(self, driver: str) -> None:
        tree = node(INTEL, STRICT)
        place = tree.place(rail_address(0))
        tree.files[f"{place}/uevent"] = tree.files[f"{place}/uevent"].replace("DRIVER=mlx5_core", f"DRIVER={driver}")
        (remark,) = gpudirect_remarks(tree)
        assert rail_address(0) not in remark and "3 more" in remark
