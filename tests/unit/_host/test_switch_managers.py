# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ConnectX-7 functions that manage the NVSwitches of a B200 or B300 are no NICs of the fabric, and are left alone."""

from __future__ import annotations

import base64

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import HostState
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import record
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.next_boot import forecast
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.explained import remedy_of
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.system_hosts import document, function, previewed

GPU, MANAGER, RAIL = "0000:36:00.0", "0000:05:00.0", "0000:e0:00.0"
H100, B200 = "2330", "2901"
SERIAL = b"MT2412X00001"
# Tags and keywords (PN, SN) of vital product data are those of the PCI specification, SMDL=SW_MNG is the field that the
# fabric manager looks for (its nvidia-fabricmanager-start.sh; bottlerocket-os/bottlerocket-core-kit, ghostdog).
VPD = b"\x82\x20\x00Nvidia ConnectX-7 Single Port IB\x90\x30\x00PN\x0aP3734-A00X" + b"SN\x0c" + SERIAL
OF_A_MANAGER = VPD + b"VU\x0bSMDL=SW_MNG"


def host(gpu: str = B200, *, readable: bool = True, driver: str = "nvidia") -> Kernel:
    """A host with a GPU and two functions of ConnectX-7, one of which manages switches."""
    kernel = Kernel(document("ubuntu-24.04"))
    function(kernel, GPU, f"10DE:{gpu.upper()}", "30200", driver)
    for address, data in ((MANAGER, OF_A_MANAGER), (RAIL, VPD)):
        function(kernel, address, "15B3:1021", "20700", "mlx5_core")
        if readable:
            kernel.tree.add_file(f"/sys/bus/pci/devices/{address}/vpd", data)
    return kernel


def test_they_are_told_and_have_neither_distance_nor_rail() -> None:
    facts = gather(host())
    assert facts["nvlink"]["managers"] == [MANAGER]
    assert {MANAGER, RAIL} <= {nic["address"] for nic in facts["nics"]}
    assert RAIL in facts["distances"] and MANAGER not in facts["distances"]
    assert MANAGER not in {rail["nic"] for rail in facts["rails"]}
    assert MANAGER not in facts["pcie"]["functions"]


def test_an_entry_for_one_is_refused_and_for_a_rail_is_not() -> None:
    refused = {
        step["id"]: step["detail"]
        for step in previewed(host(), interfaces=[{"pci": MANAGER, "vfs": 4}, {"pci": RAIL}])["plan"]["steps"]
        if step["status"] == "refused"
    }
    (name,) = refused
    assert MANAGER in name
    assert "the fabric manager manages this host's NVSwitches through it" in refused[name]
    assert "remove the entry" in remedy_of(refused[name], {})


def test_they_are_no_nics_either_where_all_gpus_are_passed_through_to_guests() -> None:
    facts = gather(host(driver="vfio-pci"))
    assert (facts["nvlink"]["managers"], facts["nvlink"]["service"]) == ([MANAGER], None)
    actual = HostState(facts)
    assert actual.switch_managers == {MANAGER}
    assert forecast(actual) == ("", [])
    steps = previewed(host(driver="vfio-pci"), interfaces=[{"pci": MANAGER, "vfs": 4}])["plan"]["steps"]
    assert [step["status"] for step in steps if MANAGER in step["id"]] == ["refused"]


def test_the_gpus_of_a_rack_that_guests_have_need_no_imex() -> None:
    assert gather(host("2941"))["nvlink"]["service"] == "nvidia-imex"
    assert "nvlink" not in gather(host("2941", driver="nvgrace_gpu_vfio_pci"))


def test_guests_with_all_gpus_leave_nothing_to_tell_of_nvlink_without_them() -> None:
    assert "nvlink" not in gather(host(readable=False, driver="vfio-pci"))


@pytest.mark.parametrize("kernel", [host(H100), host(readable=False)], ids=["switches on PCI", "no right to read"])
def test_elsewhere_they_are_nics_like_others(kernel: Kernel) -> None:
    facts = gather(kernel)
    assert MANAGER in facts["distances"]
    assert facts.get("nvlink", {"managers": []})["managers"] == []


def test_a_recording_has_the_sign_and_no_serial_number() -> None:
    recorded = record(host(), "gpu01")
    data = {path: base64.b64decode(text) for path, text in recorded["binary"].items() if path.endswith("/vpd")}
    assert {path.split("/")[-2]: found for path, found in data.items()} == {MANAGER: b"SW_MNG", RAIL: b""}
    assert SERIAL.decode() not in str(recorded)
