# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ACS and MaxReadReq, set on a host in memory: only on the way, only by consent, at boot again, and back."""

from __future__ import annotations

import json
from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import BOOT_SPEC_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.pci_config import read_request_bits
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import record
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.at_boot import start
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HostSpec, parse_host_variables
from ansible_collections.rdma.fabric.tests.fixtures.hosts.h100 import CONNECTX7_ETHERNET, H100
from ansible_collections.rdma.fabric.tests.fixtures.hosts.parts import SWITCH_PORT, add_root_port
from ansible_collections.rdma.fabric.tests.fixtures.hosts.tree import Tree
from ansible_collections.rdma.fabric.tests.unit._host.families import FAMILIES, PF, host_with
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.pcie import (
    FIXED,
    acs_of,
    device_control_of,
    put_space,
    restart,
    space,
)
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import settled, sweep

APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
CHECK = Run(check=True, diff=True, mode="apply", recorded=False)
REMOVE = Run(check=False, diff=True, mode="apply", recorded=False, state="absent")
CX7 = next(family for family in FAMILIES if family.name == "ConnectX-7")
ROOT, UPSTREAM, NIC_PORT, GPU_PORT, OTHER_PORT = (
    "0000:15:01.0",
    "0000:16:00.0",
    "0000:17:00.0",
    "0000:17:01.0",
    "0000:17:02.0",
)
NIC, GPU, FAR_PORT = "0000:40:00.0", "0000:1b:00.0", "0000:80:01.0"
ON_THE_WAY = (NIC_PORT, GPU_PORT)
GIVEN_AWAY = "../../../../devices/pci0000:98/0000:99:00.0"
DIRECT = {"acs": "direct"}
BOTH = {"acs": "direct", "max_read_request": 4096}


def node(family: Any = CX7) -> Tree:
    """A NIC and a GPU below one switch, a third port of it, and another root port; ACS is on everywhere.

    The card of the family's own host, below another root port, is not on any way.
    """
    tree = host_with(family)
    switch = f"pci0000:15/{ROOT}/{UPSTREAM}"
    tree.bridge(switch, SWITCH_PORT, 0)
    for port in (NIC_PORT, GPU_PORT, OTHER_PORT):
        tree.bridge(f"{switch}/{port}", SWITCH_PORT, 0)
        put_space(tree, port, space(acs=0x001D))
    tree.function(f"{switch}/{NIC_PORT}/{NIC}", CONNECTX7_ETHERNET, "mlx5_core", 0)
    tree.function(f"{switch}/{GPU_PORT}/{GPU}", H100, "nvidia", 0)
    add_root_port(tree, "pci0000:80", FAR_PORT, 1)
    for port in (ROOT, FAR_PORT):
        put_space(tree, port, space(acs=0x001D))
    put_space(tree, NIC, space(device_control=0x2810))
    put_space(tree, PF, space(device_control=0x5810))
    tree.files["/proc/cpuinfo"] = "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu vme sse2\n"
    return tree


def wish(pcie: Any, consent: bool = True, **variables: Any) -> HostSpec:
    given = {"rdma_fabric_pcie": pcie, "rdma_fabric_allow_acs_change": consent, **variables}
    desired, violations, _notices = parse_host_variables("gpu01", given)
    assert violations == []
    return desired


def run(kernel: Kernel, desired: HostSpec, how: Run = APPLY) -> Mapping[str, Any]:
    return apply(kernel, desired, how, None, kernel)


def steps_of(outcome: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [step for step in outcome["plan"]["steps"] if step["concern"] == "pcie"]


def written(kernel: Kernel) -> list[str]:
    return [mutation.what for mutation in kernel.mutations if mutation.what.endswith("/config")]


class TestAcs:
    def test_unasked_it_is_only_told(self) -> None:
        kernel = Kernel(node().document())
        outcome = run(kernel, wish(None))
        assert (steps_of(outcome), written(kernel)) == ([], [])
        (told,) = [notice for notice in outcome["plan"]["notices"] if "ACS" in notice]
        assert all(port in told for port in ON_THE_WAY) and "rdma_fabric_pcie: {acs: direct}" in told
        assert ROOT not in told and OTHER_PORT not in told

    def test_without_consent_nothing_is_written_now_or_at_boot(self) -> None:
        kernel = Kernel(node().document())
        outcome = run(kernel, wish(DIRECT, consent=False))
        assert {(step["status"], step["consent"]) for step in steps_of(outcome)} == {
            ("needs_consent", "rdma_fabric_allow_acs_change")
        }
        assert kernel.mutations == []

    def test_only_bridges_on_the_way_lose_the_redirection_and_only_that(self) -> None:
        kernel = Kernel(node().document())
        outcome = run(kernel, wish(DIRECT))
        assert not outcome.get("failed"), outcome["msg"]
        assert [acs_of(kernel, bridge) for bridge in ON_THE_WAY] == [0x0001, 0x0001]
        assert [acs_of(kernel, bridge) for bridge in (ROOT, OTHER_PORT, FAR_PORT)] == [0x001D] * 3
        assert outcome["plan"]["steps"] == []
        assert not any("ACS" in notice for notice in outcome["plan"]["notices"])
        kernel.revive()
        again = run(kernel, wish(DIRECT))
        assert (again["changed"], kernel.mutations) == (False, [])

    def test_what_is_shown_is_what_is_done(self) -> None:
        kernel = Kernel(node().document())
        shown = preview(kernel, wish(BOTH), CHECK, None)
        done = run(kernel, wish(BOTH))
        assert [entry["line"] for entry in done["executed"]] == shown["diff"]["prepared"].splitlines()

    def test_the_original_values_come_back(self) -> None:
        kernel = Kernel(node().document())
        at_first = settled(kernel)
        run(kernel, wish(BOTH))
        outcome = run(kernel, wish(BOTH), REMOVE)
        assert not outcome.get("failed"), outcome["msg"]
        assert settled(kernel) == at_first

    def test_a_bridge_without_these_bits_needs_nothing(self) -> None:
        tree = node()
        put_space(tree, NIC_PORT, space(acs=0x0011))
        put_space(tree, GPU_PORT, space(acs=None))
        assert steps_of(run(Kernel(tree.document()), wish(DIRECT))) == []


class TestRefusals:
    @pytest.mark.parametrize(
        ("path", "text", "part"),
        [
            ("/proc/cpuinfo", "vendor_id\t: AuthenticAMD\nflags\t\t: fpu hypervisor lahf_lm\n", "a virtual machine"),
            ("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n", "locked down (integrity)"),
        ],
    )
    def test_where_registers_can_not_be_set(self, path: str, text: str, part: str) -> None:
        tree = node()
        tree.files[path] = text
        kernel = Kernel(tree.document())
        steps = steps_of(run(kernel, wish(BOTH)))
        assert {(step["status"], part in step["detail"]) for step in steps} == {("refused", True)}
        assert len(steps) == 3 and written(kernel) == []
        assert not kernel.exists(BOOT_SPEC_FILE), "nothing is tried at boot either"

    def test_an_arm_guest_is_told_by_its_firmware(self) -> None:
        tree = node()
        tree.files["/proc/cpuinfo"] = "processor\t: 0\nCPU implementer\t: 0x41\n"
        tree.files["/sys/class/dmi/id/sys_vendor"] = "QEMU\n"
        assert all("virtual machine" in step["detail"] for step in steps_of(run(Kernel(tree.document()), wish(DIRECT))))

    @pytest.mark.parametrize("driver", ["vfio-pci", "mlx5_vfio_pci", "nvgrace_gpu_vfio_pci"])
    def test_whoever_relies_on_the_isolation_is_named(self, driver: str) -> None:
        tree = node()
        tree.links[f"/sys/bus/pci/drivers/{driver}/0000:99:00.0"] = GIVEN_AWAY
        kernel = Kernel(tree.document())
        steps = steps_of(run(kernel, wish(DIRECT)))
        assert {(step["status"], "0000:99:00.0" in step["detail"]) for step in steps} == {("refused", True)}
        assert written(kernel) == []

    def test_functions_that_are_to_go_to_guests_need_it_as_well(self) -> None:
        interfaces = [{"pci": PF, "vfs": 2, "vf_driver": "vfio-pci"}]
        outcome = preview(Kernel(node().document()), wish(DIRECT, rdma_fabric_interfaces=interfaces), CHECK, None)
        assert all("vf_driver" in step["detail"] for step in steps_of(outcome))

    @pytest.mark.parametrize("name", ["ConnectX-8", "ConnectX-9"])
    def test_a_generation_that_needs_other_values_is_left_to_its_tool(self, name: str) -> None:
        tree = node()
        (family,) = [family for family in FAMILIES if family.name == name]
        uevent = f"{tree.place(NIC)}/uevent"
        tree.files[uevent] = tree.files[uevent].replace("15B3:1021", f"15B3:{family.pf}")
        steps = steps_of(run(Kernel(tree.document()), wish(DIRECT)))
        assert len(steps) == 2 and all("rdma_topo" in step["detail"] and NIC in step["detail"] for step in steps)


def test_a_recording_tells_of_processor_and_guests_what_the_host_does() -> None:
    tree = node()
    tree.files["/proc/cpuinfo"] = "vendor_id\t: AuthenticAMD\nflags\t\t: fpu hypervisor\n"
    tree.links["/sys/bus/pci/drivers/vfio-pci/0000:99:00.0"] = GIVEN_AWAY
    again = RecordedHost(record(RecordedHost(tree.document()), "other"))
    pcie = gather(again)["pcie"]
    assert (pcie["virtual"], pcie["passed_through"]) == (True, ["0000:99:00.0"])
    desired = wish(None, rdma_fabric_kernel_arguments=["intel_iommu=on"])
    (refused,) = [s for s in preview(again, desired, CHECK, None)["plan"]["steps"] if s["status"] == "refused"]
    assert "AuthenticAMD" in refused["detail"]


class TestReadRequest:
    @pytest.mark.parametrize(
        ("size", "bits"),
        [(128, 0x0000), (256, 0x1000), (512, 0x2000), (1024, 0x3000), (2048, 0x4000), (4096, 0x5000)],
    )
    def test_each_size_has_its_bits(self, size: int, bits: int) -> None:
        assert read_request_bits(size) == bits

    def test_it_is_set_on_cards_that_differ_and_needs_no_consent(self) -> None:
        kernel = Kernel(node().document())
        outcome = run(kernel, wish({"max_read_request": 4096}, consent=False))
        assert not outcome.get("failed"), outcome["msg"]
        assert [device_control_of(kernel, address) for address in (NIC, PF)] == [0x5810, 0x5810]
        assert len(written(kernel)) == 1
        assert acs_of(kernel, NIC_PORT) == 0x001D

    def test_a_card_that_keeps_its_value_is_an_error_with_the_cause(self) -> None:
        kernel = Kernel(node().document())
        kernel.tree.add_file(FIXED, json.dumps([kernel.realpath(f"/sys/bus/pci/devices/{NIC}/config")]))
        outcome = run(kernel, wish({"max_read_request": 4096}))
        assert outcome["failed"] and f"{NIC} has 512, not 4096" in outcome["msg"] and "next: " in outcome["msg"]


class TestAtBoot:
    def test_the_boot_unit_sets_them_again(self) -> None:
        kernel = Kernel(node().document())
        run(kernel, wish(BOTH))
        assert json.loads(kernel.read(BOOT_SPEC_FILE))["pcie"] == BOTH
        restart(kernel, (ROOT, OTHER_PORT, FAR_PORT, *ON_THE_WAY), NIC)
        outcome = start(kernel, kernel)
        assert outcome.problems == ()
        assert [acs_of(kernel, bridge) for bridge in ON_THE_WAY] == [0x0001, 0x0001]
        assert acs_of(kernel, OTHER_PORT) == 0x001D
        assert device_control_of(kernel, NIC) == 0x5810

    def test_a_consent_is_given_once(self) -> None:
        kernel = Kernel(node().document())
        run(kernel, wish(DIRECT))
        kernel.revive()
        assert run(kernel, wish(DIRECT, consent=False))["changed"] is False
        assert json.loads(kernel.read(BOOT_SPEC_FILE))["pcie"] == DIRECT

    def test_what_is_clear_already_is_not_cleared_at_boot_without_consent(self) -> None:
        tree = node()
        for bridge in ON_THE_WAY:
            put_space(tree, bridge, space(acs=0x0001))
        kernel = Kernel(tree.document())
        assert run(kernel, wish(DIRECT, consent=False))["changed"] is False
        assert run(kernel, wish(DIRECT))["changed"] is True
        assert json.loads(kernel.read(BOOT_SPEC_FILE))["pcie"] == DIRECT

    def test_what_is_no_longer_asked_for_is_no_longer_set(self) -> None:
        kernel = Kernel(node().document())
        run(kernel, wish(BOTH))
        run(kernel, wish({"max_read_request": 4096}))
        assert json.loads(kernel.read(BOOT_SPEC_FILE))["pcie"] == {"max_read_request": 4096}
        run(kernel, wish(None))
        assert not kernel.exists(BOOT_SPEC_FILE)

    def test_a_function_that_went_to_a_guest_meanwhile_keeps_its_isolation(self) -> None:
        kernel = Kernel(node().document())
        run(kernel, wish(DIRECT))
        restart(kernel, ON_THE_WAY, NIC)
        kernel.tree.add_link("/sys/bus/pci/drivers/vfio-pci/0000:99:00.0", GIVEN_AWAY)
        outcome = start(kernel, kernel)
        assert [acs_of(kernel, bridge) for bridge in ON_THE_WAY] == [0x001D, 0x001D]
        assert any("0000:99:00.0" in problem for problem in outcome.problems)


class TestBadDays:
    @pytest.mark.parametrize(
        ("code", "part"),
        [
            ("EPERM", "the kernel is locked down"),
            ("EPERM", "mount -t securityfs securityfs /sys/kernel/security"),
            ("EACCES", "next: run as root"),
            ("EIO", "dmesg"),
            ("ENODEV", "lspci"),
        ],
    )
    def test_a_write_that_fails_has_its_cause(self, code: str, part: str) -> None:
        kernel = Kernel(node().document())
        calm = Kernel(node().document())
        run(calm, wish(DIRECT))
        number = next(n for n, mutation in enumerate(calm.mutations) if mutation.what.endswith("/config"))
        kernel.disturb(number, code)
        outcome = run(kernel, wish(DIRECT))
        assert outcome["failed"] and part in outcome["msg"] and "next: " in outcome["msg"]

    @pytest.mark.slow
    def test_whatever_disturbs_it_the_next_run_gets_there(self) -> None:
        assert sweep(lambda: Kernel(node().document()), lambda kernel: run(kernel, wish(BOTH))) > 5

    def test_whatever_disturbs_the_removal_the_next_run_ends_it(self) -> None:
        def changed() -> Kernel:
            kernel = Kernel(node().document())
            run(kernel, wish(BOTH))
            kernel.revive()
            return kernel

        assert sweep(changed, lambda kernel: run(kernel, wish(None), REMOVE), ("EIO", "EROFS")) > 5

    @pytest.mark.parametrize(
        ("value", "part"),
        [
            ("direct", "a mapping of acs"),
            ({"acs": True}, "not direct"),
            ({"acs": "off"}, "known: direct"),
            ({"acs": "Direct"}, "did you mean direct?"),
            ({"asc": "direct"}, "did you mean acs?"),
            ({"max_read_request": "4096"}, "a whole number"),
            ({"max_read_request": True}, "a whole number"),
            ({"max_read_request": 0}, "is none of 128"),
            ({"max_read_request": 8192}, "is none of 128"),
            ({"max_read_request": 4096.0}, "a whole number"),
            ({1: 2}, "a key is text"),
            ([], "a mapping of acs"),
        ],
    )
    def test_bad_input(self, value: Any, part: str) -> None:
        _desired, violations, _notices = parse_host_variables("gpu01", {"rdma_fabric_pcie": value})
        assert violations and all(violation.source.endswith("rdma_fabric_pcie") for violation in violations)
        assert any(part in f"{violation.problem} {violation.hint}" for violation in violations), violations

    def test_all_that_is_wrong_is_told_at_once(self) -> None:
        value = {"acs": 1, "max_read_request": 3, "other": None}
        _desired, violations, _notices = parse_host_variables("gpu01", {"rdma_fabric_pcie": value})
        assert len(violations) == 3
