# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCIe between NICs and GPUs: registers read from configuration space, and what is said about them."""

from __future__ import annotations

import base64
import re
import struct

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.pcie.remarks import remarks
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import HostState
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.pci import bridges_between
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.shapes import Gpu, Nic
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.pci_config import registers, without_identity
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import record
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.pcie import PcieSpec
from ansible_collections.rdma.fabric.tests.fixtures.hosts.h100 import dgx
from ansible_collections.rdma.fabric.tests.fixtures.hosts.tree import Link, Tree
from ansible_collections.rdma.fabric.tests.unit._host.families import FAMILIES, PF, host_with

SERIAL = bytes.fromhex("a088c20300471234")
UNASKED: PcieSpec = {"acs": None, "max_read_request": None}
NOTHING = dict.fromkeys(("acs", "ats", "max_read_request", "max_payload", "relaxed_ordering"))


def space(*, device_control: int = 0x2810, acs: int | None = 0x001D, ats: int | None = None) -> bytes:
    """A configuration space of 4 KiB: power management, Express, and serial number, ACS, ATS behind 0x100."""
    config = bytearray(4096)
    config[0x06] = 0x10
    config[0x34] = 0x50
    config[0x50:0x52] = bytes([0x01, 0x60])
    config[0x60:0x62] = bytes([0x10, 0x00])
    struct.pack_into("<H", config, 0x68, device_control)
    extended = [(0x0003, SERIAL, 4)]
    extended += [(0x000D, struct.pack("<H", acs), 6)] if acs is not None else []
    extended += [(0x000F, struct.pack("<H", ats), 6)] if ats is not None else []
    for number, (identity, data, at) in enumerate(extended):
        offset = 0x100 + 0x20 * number
        following = offset + 0x20 if number + 1 < len(extended) else 0
        struct.pack_into("<I", config, offset, identity | 1 << 16 | following << 20)
        config[offset + at : offset + at + len(data)] = data
    return bytes(config)


def put(tree: Tree, address: str, config: bytes) -> None:
    tree.binary[f"{tree.place(address)}/config"] = base64.b64encode(config).decode("ascii")


class TestRegisters:
    def test_they_are_found_behind_other_capabilities(self) -> None:
        assert registers(space(device_control=0x5930, ats=0x8000)) == {
            "acs": 0x001D,
            "ats": True,
            "max_read_request": 4096,
            "max_payload": 256,
            "relaxed_ordering": True,
        }
        found = registers(space(device_control=0x2000, acs=None))
        assert (found["acs"], found["relaxed_ordering"], found["max_read_request"]) == (None, False, 512)

    def test_without_root_nothing_is_known(self) -> None:
        assert registers(space()[:64]) == NOTHING

    @pytest.mark.parametrize(
        "config",
        [
            b"",
            b"\xff" * 4096,
            b"\x00" * 4096,
            space()[:0x102],
            space()[:0x69],
            # Capabilities that lead in a circle, or out of the space.
            space()[:0x50] + bytes([0x01, 0x50]) + space()[0x52:],
            space()[:0x100] + struct.pack("<I", 0x000D | 0x100 << 20) * 16,
            space()[:0x100] + struct.pack("<I", 0x000D | 0xFFF << 20),
        ],
    )
    def test_a_damaged_space_ends_the_reading_and_nothing_else(self, config: bytes) -> None:
        assert registers(config).keys() == NOTHING.keys()
        assert len(without_identity(config)) == len(config)

    def test_what_is_recorded_tells_the_same_and_identifies_nobody(self) -> None:
        config = space(ats=0x8000)
        assert SERIAL in config
        kept = without_identity(config)
        assert SERIAL not in kept
        assert registers(kept) == registers(config)


@pytest.fixture
def node() -> Tree:
    return dgx("node", 1, "composed for a test")


def remarks_of(tree: Tree) -> list[str]:
    return remarks(HostState(gather(RecordedHost(tree.document()))), UNASKED)


def nearest(tree: Tree) -> tuple[Nic, Gpu]:
    """A NIC and a GPU behind one switch."""
    facts = gather(RecordedHost(tree.document()))
    rail = facts["rails"][0]
    nic = next(nic for nic in facts["nics"] if nic["address"] == rail["nic"])
    return nic, next(gpu for gpu in facts["gpus"] if gpu["address"] == rail["gpu"])


class TestRemarks:
    def test_a_healthy_host_is_not_talked_about(self, node: Tree) -> None:
        assert remarks_of(node) == []

    def test_redirecting_bridges_between_nic_and_gpu_are_named(self, node: Tree) -> None:
        nic, gpu = nearest(node)
        (bridge, *_others) = bridges_between(nic["path"], gpu["path"])
        put(node, bridge, space(acs=0x001D))
        (remark,) = remarks_of(node)
        assert "ACS" in remark
        assert bridge in remark
        assert f"{nic['address']} and {gpu['address']}" in remark
        assert gather(RecordedHost(node.document()))["pcie"]["bridges"][bridge] == 0x001D

    def test_acs_without_redirection_is_fine(self, node: Tree) -> None:
        nic, gpu = nearest(node)
        for bridge in bridges_between(nic["path"], gpu["path"]):
            put(node, bridge, space(acs=0x0011))
        assert remarks_of(node) == []

    def test_a_bridge_above_both_redirects_nothing_between_them(self, node: Tree) -> None:
        nic, gpu = nearest(node)
        above = [part for part in nic["path"] if part in gpu["path"]][1]
        put(node, above, space(acs=0x001D))
        assert remarks_of(node) == []

    def test_fewer_lanes_and_a_slower_link_are_told(self, node: Tree) -> None:
        nic, gpu = nearest(node)
        node.attributes(node.place(nic["address"]), {"current_link_width": 8, "current_link_speed": "16.0 GT/s PCIe"})
        node.attributes(node.place(gpu["address"]), {"current_link_speed": "2.5 GT/s PCIe"})
        narrow, slow = remarks_of(node)
        assert f"{nic['address']} (x8 of x16)" in narrow
        assert f"{nic['address']} (16 of 32 GT/s)" in slow
        assert gpu["address"] not in slow, "an idle GPU slows its link down"

    def test_a_link_at_all_that_its_slot_can_is_no_flaw(self, node: Tree) -> None:
        nic, _gpu = nearest(node)
        node.attributes(node.place(nic["address"]), {"current_link_width": 8, "current_link_speed": "16.0 GT/s PCIe"})
        node.slot(nic["address"], Link("16.0 GT/s PCIe", 8, "16.0 GT/s PCIe", 8))
        assert remarks_of(node) == []

    def test_a_link_below_its_slot_is_measured_by_that(self, node: Tree) -> None:
        nic, _gpu = nearest(node)
        node.attributes(node.place(nic["address"]), {"current_link_width": 4, "current_link_speed": "8.0 GT/s PCIe"})
        node.slot(nic["address"], Link("8.0 GT/s PCIe", 4, "16.0 GT/s PCIe", 8))
        narrow, slow = remarks_of(node)
        assert f"{nic['address']} (x4 of x8)" in narrow
        assert f"{nic['address']} (8 of 16 GT/s)" in slow

    @pytest.mark.parametrize(("device", "told"), [("2330", True), ("2941", False)])
    def test_the_slot_of_a_gpu_on_nvlink_c2c_is_no_bottleneck(self, node: Tree, device: str, told: bool) -> None:
        _nic, gpu = nearest(node)
        base = node.place(gpu["address"])
        node.files[f"{base}/uevent"] = re.sub(
            r"PCI_ID=10DE:\w{4}", f"PCI_ID=10DE:{device}", node.files[f"{base}/uevent"]
        )
        node.attributes(base, {"current_link_width": 1})
        assert any("fewer lanes" in remark for remark in remarks_of(node)) is told

    def test_translated_addresses_are_told(self, node: Tree) -> None:
        nic, _gpu = nearest(node)
        node.links[f"{node.place(nic['address'])}/iommu_group"] = "/sys/kernel/iommu_groups/7"
        node.files["/sys/kernel/iommu_groups/7/type"] = "DMA-FQ\n"
        (remark,) = remarks_of(node)
        assert nic["address"] in remark
        assert "iommu=pt" in remark

    def test_an_arm_host_is_advised_what_its_kernel_knows(self, node: Tree) -> None:
        """The plan refuses iommu=pt there: kernel-parameters.txt has iommu= for x86 and PowerPC."""
        nic, _gpu = nearest(node)
        node.links[f"{node.place(nic['address'])}/iommu_group"] = "/sys/kernel/iommu_groups/7"
        node.files["/sys/kernel/iommu_groups/7/type"] = "DMA-FQ\n"
        node.files["/proc/sys/kernel/arch"] = "aarch64\n"
        (remark,) = remarks_of(node)
        assert "iommu.passthrough=1" in remark and "iommu=pt" not in remark

    def test_short_reads_are_told(self, node: Tree) -> None:
        nic, _gpu = nearest(node)
        put(node, nic["address"], space(device_control=0x0810, acs=None))
        (remark,) = remarks_of(node)
        assert "128 bytes" in remark

    def test_relaxed_ordering_that_is_off_is_told_where_gpus_are(self, node: Tree) -> None:
        nic, gpu = nearest(node)
        put(node, nic["address"], space(device_control=0x2800, acs=None))
        put(node, gpu["address"], space(device_control=0x2800, acs=None))
        (remark,) = remarks_of(node)
        assert f"relaxed ordering is switched off for {nic['address']};" in remark
        alone = host_with(next(family for family in FAMILIES if family.name == "ConnectX-7"))
        put(alone, PF, space(device_control=0x2800, acs=None))
        assert remarks_of(alone) == []

    def test_many_are_counted_not_listed(self, node: Tree) -> None:
        for nic in gather(RecordedHost(node.document()))["nics"]:
            if nic["vendor"] == "15b3" and nic["pf"] is None:
                node.attributes(node.place(nic["address"]), {"current_link_width": 4})
        (remark,) = remarks_of(node)
        assert "more" in remark
        assert len(remark) < 300

    def test_a_recording_without_registers_has_nothing_to_tell(self, node: Tree) -> None:
        document = node.document()
        document["binary"] = {path: data for path, data in document["binary"].items() if not path.endswith("/config")}
        assert remarks(HostState(gather(RecordedHost(document))), UNASKED) == []


def test_a_recording_keeps_the_registers_and_no_serial_number(node: Tree) -> None:
    nic, _gpu = nearest(node)
    put(node, nic["address"], space(device_control=0x5810))
    again = record(RecordedHost(node.document()), "other")
    assert SERIAL not in b"".join(base64.b64decode(data) for data in again["binary"].values())
    found = gather(RecordedHost(again))["pcie"]["functions"][nic["address"]]
    assert found["max_read_request"] == 4096
