# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Firmware values in the simulated kernel: set for the next boot, waited for, given up after a reboot, brought back."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.persisted import boot_entries
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.firmware.parameters import same
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.firmware import bluefield_mode, parse
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.own_files import SET_SINCE_BOOT, record_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import plan_with_context
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import parse_host_variables
from ansible_collections.rdma.fabric.tests.fixtures.hosts.firmware import TOOL, bluefield3, connectx7, query_text
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host import igb
from ansible_collections.rdma.fabric.tests.unit._host.families import ETHERNET, FAMILIES, INFINIBAND, PF, Family
from ansible_collections.rdma.fabric.tests.unit._host.kernel import firmware
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep
from ansible_collections.rdma.fabric.tests.unit._host.mlx5 import (
    BLUEFIELD3,
    CHECK,
    REMOVE,
    applied,
    booted,
    done,
    the_step,
    wish,
)

SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
STEP = f"firmware:{PF}"
WAITING = f"{STEP}:reboot"
ALLOWED = {"rdma_fabric_allow_firmware": True, "rdma_fabric_allow_vf_reset": True}
MORE = {"NUM_OF_VFS": 32, "ADVANCED_PCI_SETTINGS": True}


def host() -> Kernel:
    kernel = booted()
    firmware.install(kernel, PF, connectx7("ETH(2)"))
    return kernel


def bluefield(mode: str) -> Kernel:
    kernel = booted(BLUEFIELD3)
    firmware.install(kernel, PF, bluefield3(mode), "BlueField-3")
    return kernel


def values(kernel: Kernel, name: str) -> tuple[str, str]:
    """Value now and of the next boot."""
    _default, now, following = firmware.parameters(kernel, PF)[name]
    return now, following


def rebooted(kernel: Kernel, resets: bool = True) -> Kernel:
    """The host after a reboot that resets the card, or does not."""
    if resets:
        firmware.reset(kernel, PF)
    kernel.tree.discard("/run/rdma-fabric")
    kernel.revive()
    return kernel


def tool_calls(kernel: Kernel) -> list[str]:
    return [line[len("run ") :] for line in igb.what_changed(kernel) if TOOL in line]


class TestSetting:
    def test_values_are_set_for_the_next_boot_and_wait_for_it(self) -> None:
        kernel = host()
        outcome = applied(kernel, wish(ALLOWED, firmware=MORE))
        assert not outcome.get("failed"), outcome["msg"]
        assert tool_calls(kernel) == [f"{TOOL} -y -d {PF} set NUM_OF_VFS=32 ADVANCED_PCI_SETTINGS=True"]
        assert values(kernel, "NUM_OF_VFS") == ("16", "32")
        assert (outcome["reboot_required"], the_step(outcome, WAITING)["status"]) == (True, "needs_reboot")

    def test_a_value_that_waits_is_not_set_again(self) -> None:
        kernel = host()
        done(kernel, wish(ALLOWED, firmware=MORE))
        outcome = applied(kernel, wish(ALLOWED, firmware=MORE))
        assert (outcome["changed"], kernel.mutations, outcome["reboot_required"]) == (False, [], True)

    def test_a_reboot_that_resets_the_card_ends_it(self) -> None:
        kernel = host()
        done(kernel, wish(ALLOWED, firmware=MORE))
        assert applied(rebooted(kernel), wish(ALLOWED, firmware=MORE))["plan"]["steps"] == []

    def test_a_value_that_a_reboot_did_not_bring_stops_the_loop(self) -> None:
        kernel = host()
        done(kernel, wish(ALLOWED, firmware=MORE))
        outcome = applied(rebooted(kernel, resets=False), wish(ALLOWED, firmware=MORE))
        step = the_step(outcome, WAITING)
        assert (step["status"], outcome["reboot_required"]) == ("refused", False)
        assert f"mstfwreset -d {PF} reset" in step["detail"] and "power cycle" in step["detail"]
        assert kernel.mutations == []

    def test_a_value_that_somebody_else_changed_waits_again_once_we_set_it(self) -> None:
        kernel = host()
        done(kernel, wish(ALLOWED, firmware=MORE))
        rebooted(kernel, resets=False)
        done(kernel, wish(ALLOWED, firmware={"NUM_OF_VFS": 64}))
        outcome = applied(kernel, wish(ALLOWED, firmware={"NUM_OF_VFS": 64}))
        assert the_step(outcome, WAITING)["status"] == "needs_reboot"

    def test_what_somebody_else_set_for_the_next_boot_is_told_unless_it_only_affects_traffic(self) -> None:
        kernel = host()
        for pair in ("LINK_TYPE_P1=IB", "ROCE_CC_PRIO_MASK_P1=0", "NUM_OF_VFS=8"):
            firmware.mstconfig(kernel, [TOOL, "-y", "-d", PF, "set", pair])
        (notice,) = applied(kernel, wish(firmware={"NUM_OF_VFS": 8}))["plan"]["notices"]
        assert "the card starts next with LINK_TYPE_P1 IB(1) (now ETH(2)), which nothing here asks for" in notice
        assert f"take it back: mstconfig -d {PF} set LINK_TYPE_P1=2" in notice

    def test_nothing_is_set_without_consent(self) -> None:
        kernel = host()
        step = the_step(applied(kernel, wish(firmware=MORE)), STEP)
        assert (step["status"], step["consent"]) == ("needs_consent", "rdma_fabric_allow_firmware")
        assert kernel.mutations == []

    def test_values_that_are_there_cost_no_step(self) -> None:
        wanted = {"NUM_OF_VFS": "0x10", "SRIOV_EN": True, "LINK_TYPE_P1": "eth", "ATS_ENABLED": "false"}
        assert applied(host(), wish(firmware=wanted))["plan"]["steps"] == []

    def test_only_cards_that_are_asked_for_are_read_and_each_once(self) -> None:
        assert gather(host())["firmware"] == {"tool": None, "set_since_boot": {}, "cards": {}}
        facts = gather(host(), desired=wish(firmware={"NUM_OF_VFS": 8}))["firmware"]
        assert facts["cards"][PF[:-2]]["parameters"] == {
            "SRIOV_EN": ["True(1)"] * 3,
            "NUM_OF_VFS": ["16"] * 3,
        }
        asked: list[Any] = []

        class Counting(RecordedHost):
            def run(self, argv: Any, timeout: float) -> CommandResult:
                asked.append(argv)
                return super().run(argv, timeout)

        entries = [{"pci": f"0000:29:00.{port}", "firmware": {"NUM_OF_VFS": 8}} for port in (0, 1)]
        gather(Counting(FLEET["roce-h100-01"]().document()), desired=igb.wish(*entries))
        assert [argv[-2:] for argv in asked if argv[0] == TOOL] == [("0000:29:00.0", "query")]

    def test_cards_are_asked_at_the_same_time(self) -> None:
        both = threading.Barrier(2, timeout=20)

        class Slow(RecordedHost):
            def run(self, argv: Any, timeout: float) -> CommandResult:
                if argv[0] == TOOL:
                    both.wait()
                return super().run(argv, timeout)

        entries = [{"pci": address, "firmware": {"NUM_OF_VFS": 8}} for address in ("0000:18:00.0", "0000:40:00.0")]
        cards = gather(Slow(FLEET["roce-h100-01"]().document()), desired=igb.wish(*entries))["firmware"]["cards"]
        assert [card["problem"] for card in cards.values()] == ["", ""]

    def test_the_boot_unit_has_nothing_to_do_with_it(self) -> None:
        desired = wish(ALLOWED, firmware=MORE)
        _plan, context = plan_with_context(desired, gather(host(), desired=desired))
        assert boot_entries(context) == []


class TestRefusals:
    def detail(self, kernel: Kernel, *entries: dict[str, Any], **variables: Any) -> str:
        desired = igb.wish(*(entries or ({"pci": PF, "firmware": MORE},)), **{**ALLOWED, **variables})
        step = the_step(applied(kernel, desired), STEP)
        assert step["status"] == "refused" and tool_calls(kernel) == []
        return str(step["detail"])

    def test_absent_tools_are_named(self) -> None:
        detail = self.detail(booted())
        assert "mstconfig (package mstflint) nor mlxconfig" in detail

    def test_a_card_that_the_tool_does_not_reach(self) -> None:
        kernel = booted()
        kernel.tree.add_file(TOOL, "")
        assert f"-E- Failed to open the device {PF}" in self.detail(kernel)

    def test_lockdown_is_told_with_the_command_to_run(self) -> None:
        kernel = booted()
        kernel.tree.add_file(TOOL, "")
        kernel.tree.add_file("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
        detail = self.detail(kernel)
        assert f"mstconfig -y -d {PF} set NUM_OF_VFS=32 ADVANCED_PCI_SETTINGS=True" in detail
        assert "mlx5_fwctl" in detail

    @pytest.mark.parametrize(
        ("cmdline", "variable", "signs"),
        [
            ("quiet lockdown=integrity", b"\6\0\0\0\1", ", and lockdown=integrity and Secure Boot is on: mount"),
            ("quiet", b"\6\0\0\0\0", "is not mounted: mount"),
        ],
    )
    def test_without_securityfs_lockdown_may_be_the_cause(self, cmdline: str, variable: bytes, signs: str) -> None:
        kernel = booted()
        kernel.tree.add_file(TOOL, "")
        kernel.tree.discard("/sys/kernel/security/lockdown")
        kernel.tree.add_file("/proc/cmdline", cmdline)
        kernel.tree.add_file(SECURE_BOOT, variable)
        detail = self.detail(kernel)
        assert "lockdown may forbid access" in detail and "mlx5_fwctl" not in detail
        assert signs in detail and detail.endswith("mount -t securityfs securityfs /sys/kernel/security, and run again")

    def test_a_kernel_without_lockdown_is_not_suspected(self) -> None:
        kernel = booted()
        kernel.tree.add_file(TOOL, "")
        kernel.tree.discard("/sys/kernel/security/lockdown")
        kernel.tree.add_file("/sys/kernel/security/lsm", "capability\n")
        assert "lockdown" not in self.detail(kernel)

    def test_an_unknown_parameter_is_told_with_the_nearest(self) -> None:
        detail = self.detail(host(), {"pci": PF, "firmware": {"NUM_OF_VF": 8}})
        assert detail == "it has no NUM_OF_VF (nearest: NUM_OF_VFS)"

    def test_what_the_card_does_not_tell_has_no_present_value(self) -> None:
        desired = igb.wish({"pci": PF, "firmware": {"NUM_OF_VF": 8, "SRIOV_EN": True}}, **ALLOWED)
        action = the_step(applied(host(), desired), STEP)["action"]
        assert action.startswith("set NUM_OF_VF=8, SRIOV_EN=True (now ")

    def test_two_ports_of_one_card_that_disagree(self) -> None:
        host_of_two = Kernel(FLEET["roce-h100-01"]().document())
        entries = [{"pci": f"0000:aa:00.{port}", "firmware": {"NUM_OF_VFS": 8 + port}} for port in (0, 1)]
        outcome = applied(host_of_two, igb.wish(*entries, **ALLOWED))
        assert "NUM_OF_VFS is 8 and 9" in the_step(outcome, "firmware:0000:aa:00.0")["detail"]

    def test_a_card_of_another_vendor(self) -> None:
        outcome = applied(igb.booted(), igb.wish({"pci": igb.PF, "firmware": MORE}, **ALLOWED))
        assert "not a PF of an NVIDIA card" in the_step(outcome, f"firmware:{igb.PF}")["detail"]

    def test_another_link_type_of_the_uplink(self) -> None:
        entry = {"pci": PF, "firmware": {"LINK_TYPE_P1": "IB"}}
        assert "rdma_fabric_allow_uplink_change" in self.detail(
            host(), entry, rdma_fabric_protected_interfaces=["enp24s0f0np0"]
        )


@pytest.mark.parametrize("family", [pytest.param(family, id=family.name) for family in FAMILIES])
def test_the_values_of_every_family_are_set_and_come_with_a_reboot(family: Family) -> None:
    kernel = booted(family)
    known = bluefield3("NIC") if family.name.startswith("BlueField") else connectx7("ETH(2)")
    firmware.install(kernel, PF, known, family.name)
    done(kernel, wish(ALLOWED, firmware=MORE))
    assert applied(rebooted(kernel), wish(ALLOWED, firmware=MORE))["plan"]["steps"] == []
    assert values(kernel, "NUM_OF_VFS") == ("32", "32")


BLUEFIELDS = [family for family in FAMILIES if family.name.startswith("BlueField")]


@pytest.mark.parametrize("family", [pytest.param(family, id=family.name) for family in BLUEFIELDS])
def test_every_bluefield_tells_its_mode(family: Family) -> None:
    for known, status in (("DPU", "refused"), ("NIC", "planned")):
        kernel = booted(family)
        firmware.install(kernel, PF, bluefield3(known), family.name)
        outcome = preview(kernel, wish(eswitch_mode="switchdev"), CHECK, None)
        assert the_step(outcome, f"eswitch:{PF}")["status"] == status


class TestBluefield:
    def test_dpu_mode_keeps_the_e_switch_and_the_values_from_the_host(self) -> None:
        outcome = applied(bluefield("DPU"), wish(ALLOWED, eswitch_mode="switchdev", firmware={"NUM_OF_VFS": 4}))
        for step_id in (f"eswitch:{PF}", STEP):
            step = the_step(outcome, step_id)
            assert step["status"] == "refused" and "the BlueField-3 is in DPU mode" in step["detail"]

    def test_nic_mode_gives_the_host_both(self) -> None:
        kernel = bluefield("NIC")
        outcome = done(kernel, wish(ALLOWED, eswitch_mode="switchdev", firmware={"NUM_OF_VFS": 4}))
        assert [entry["id"] for entry in outcome["executed"]] == [STEP, f"eswitch:{PF}"]
        assert any("is in NIC mode" in notice for notice in outcome["plan"]["notices"])

    def test_the_mode_itself_can_be_asked_for_in_dpu_mode(self) -> None:
        kernel = bluefield("DPU")
        done(kernel, wish(ALLOWED, firmware={"INTERNAL_CPU_OFFLOAD_ENGINE": "DISABLED"}))
        assert values(kernel, "INTERNAL_CPU_OFFLOAD_ENGINE") == ("ENABLED(0)", "DISABLED(1)")

    @pytest.mark.parametrize(
        ("link_layer", "entry", "step_id"),
        [
            (ETHERNET, {"vfs": 2, "vf_settings": {"trust": True}}, f"vfs:{PF}:settings"),
            (INFINIBAND, {"vfs": 2, "vf_guids": "deterministic"}, f"guids:{PF}"),
        ],
    )
    def test_dpu_mode_makes_functions_and_sets_none_of_them_up(
        self, link_layer: str, entry: dict[str, Any], step_id: str
    ) -> None:
        kernel = booted(BLUEFIELD3, link_layer)
        firmware.install(kernel, PF, bluefield3("DPU"), "BlueField-3")
        outcome = applied(kernel, wish(ALLOWED, **entry))
        assert [step["id"] for step in outcome["executed"]] == [f"vfs:{PF}"]
        step = the_step(outcome, step_id)
        assert step["status"] == "refused" and "the BlueField-3 is in DPU mode" in step["detail"]
        freed = booted(BLUEFIELD3, link_layer)
        firmware.install(freed, PF, bluefield3("NIC"), "BlueField-3")
        assert done(freed, wish(ALLOWED, **entry))["plan"]["steps"] == []

    @pytest.mark.parametrize(
        ("mode", "engine", "number"), [("DPU", "DISABLED", 4), ("NIC", "ENABLED", 4), ("NIC", "DISABLED", 32)]
    )
    def test_a_host_that_its_card_restricts_sets_no_firmware(self, mode: str, engine: str, number: int) -> None:
        kernel = bluefield(mode)
        firmware.restrict(kernel, PF)
        values_wanted = {"INTERNAL_CPU_OFFLOAD_ENGINE": engine, "NUM_OF_VFS": number}
        outcome = applied(kernel, wish(ALLOWED, firmware=values_wanted))
        step = the_step(outcome, STEP)
        assert step["status"] == "refused" and "restricts this host (zero trust)" in step["detail"]
        assert kernel.mutations == []
        assert any(f"is in {mode} mode; the BlueField-3 restricts" in notice for notice in outcome["plan"]["notices"])

    def test_a_restricted_host_whose_tool_shows_nothing_is_told_why(self) -> None:
        kernel = booted(BLUEFIELD3)
        kernel.tree.add_file(TOOL, "")
        firmware.restrict(kernel, PF)
        step = the_step(applied(kernel, wish(ALLOWED, firmware=MORE)), STEP)
        assert "can't be read" in step["detail"] and "restricts this host" in step["detail"]
        switch = the_step(applied(kernel, wish(eswitch_mode="switchdev")), f"eswitch:{PF}")
        assert switch["status"] == "refused" and "restricts this host" in switch["detail"]

    def test_a_privileged_host_is_refused_nothing(self) -> None:
        kernel = bluefield("NIC")
        firmware.restrict(kernel, PF, "PRIVILEGED")
        done(kernel, wish(ALLOWED, eswitch_mode="switchdev", firmware={"NUM_OF_VFS": 4}))

    def test_a_mode_that_is_not_known_is_told_before_anything_is_tried(self) -> None:
        notices = preview(booted(BLUEFIELD3), wish(eswitch_mode="switchdev"), CHECK, None)["plan"]["notices"]
        assert any("mode of the BlueField (DPU or NIC) is unknown (neither mstconfig" in notice for notice in notices)
        assert not any(
            "not known" in notice for notice in preview(booted(), wish(vfs=2), CHECK, None)["plan"]["notices"]
        )

    def test_what_the_driver_does_not_let_the_host_do_has_its_cause(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The kernel's eswitch.c answers EPERM to a host without the e-switch."""
        refusal = CommandResult(2, "", "RTNETLINK answers: Operation not permitted\n")
        real = Kernel.run
        monkeypatch.setattr(
            Kernel, "run", lambda self, argv, timeout: refusal if "vf" in argv else real(self, argv, timeout)
        )
        outcome = applied(booted(BLUEFIELD3), wish(vfs=1, vf_settings={"trust": True}))
        assert outcome["failed"] and "DPU mode" in outcome["msg"] and "next: " in outcome["msg"]

    def test_an_unknown_mode_is_left_to_the_driver_to_refuse(self) -> None:
        assert bluefield_mode({}) is None
        assert bluefield_mode({"INTERNAL_CPU_OFFLOAD_ENGINE": ["ENABLED(0)"] * 3}) is None
        kernel = booted(BLUEFIELD3)
        done(kernel, wish(eswitch_mode="switchdev"))


@pytest.mark.parametrize(
    ("wanted", "says"), [({"NUM_OF_VFS": 4096}, "show_confs"), ({"NUM_OF_VFS": 8}, "doesn't support")]
)
def test_what_the_tool_complains_of_has_a_next_step(
    wanted: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = host()
    if says == "doesn't support":
        complaint = CommandResult(3, "", "-E- The Device doesn't support NUM_OF_VFS parameter\n")
        real = Kernel.run
        monkeypatch.setattr(
            Kernel, "run", lambda self, argv, timeout: complaint if "set" in argv else real(self, argv, timeout)
        )
    outcome = applied(kernel, wish(ALLOWED, firmware=wanted))
    assert outcome["failed"] and says in outcome["msg"] and "next: " in outcome["msg"], outcome["msg"]


def test_a_value_that_the_tool_takes_and_does_not_keep_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firmware, "_word", lambda _wanted, known: known[2])
    kernel = host()
    outcome = applied(kernel, wish(ALLOWED, firmware={"NUM_OF_VFS": 8}))
    assert outcome["failed"] and "NUM_OF_VFS of the next boot is 16" in outcome["msg"]


def test_more_functions_than_the_firmware_offers_are_told_with_the_value_to_set() -> None:
    step = the_step(applied(host(), wish(vfs=12)), f"vfs:{PF}")
    assert "firmware of this entry: NUM_OF_VFS 12" in step["detail"]


def test_functions_that_the_next_boot_offers_wait_for_it() -> None:
    kernel = host()
    entry: dict[str, Any] = {"vfs": 12, "firmware": {"NUM_OF_VFS": 16}}
    firmware.install(kernel, PF, {**connectx7("ETH(2)"), "NUM_OF_VFS": ("8", "8", "8")})
    outcome = applied(kernel, wish(ALLOWED, **entry))
    assert not outcome.get("failed"), outcome["msg"]
    assert (the_step(outcome, f"vfs:{PF}")["status"], outcome["reboot_required"]) == ("needs_reboot", True)
    rebooted(kernel)
    kernel.tree.add_file(f"/sys/bus/pci/devices/{PF}/sriov_totalvfs", "16\n")
    done(kernel, wish(ALLOWED, **entry))
    assert kernel.read(f"/sys/bus/pci/devices/{PF}/sriov_numvfs") == "12\n"


def test_functions_beyond_what_the_next_boot_offers_are_refused() -> None:
    host_of_two = Kernel(FLEET["roce-h100-01"]().document())
    first = {"pci": "0000:aa:00.0", "firmware": {"NUM_OF_VFS": 32}}
    of_another_card = {"pci": "0000:c0:00.0", "firmware": {"NUM_OF_VFS": 64}}
    outcome = applied(
        host_of_two, igb.wish(first, of_another_card, {"pci": "0000:aa:00.1", "vfs": 64}, **ALLOWED), CHECK
    )
    assert [(step["id"], step["status"]) for step in outcome["plan"]["steps"]] == [
        ("firmware:0000:aa:00.0", "planned"),
        ("firmware:0000:c0:00.0", "planned"),
        ("vfs:0000:aa:00.1", "refused"),
    ]
    unallowed = the_step(applied(host(), wish(vfs=32, firmware={"NUM_OF_VFS": 32})), f"vfs:{PF}")
    assert unallowed["status"] == "refused", "the value is not set, so the next boot does not offer them"


@pytest.mark.slow
def test_whatever_disturbs_a_run_the_next_one_gets_there() -> None:
    assert sweep(host, lambda kernel: applied(kernel, wish(ALLOWED, firmware=MORE))) >= 3


def test_removal_brings_the_former_values_back() -> None:
    kernel = host()
    done(kernel, wish(ALLOWED, firmware=MORE))
    done(kernel, wish(ALLOWED), REMOVE)
    assert values(kernel, "NUM_OF_VFS") == ("16", "16")
    assert values(kernel, "ADVANCED_PCI_SETTINGS") == ("False(0)", "False(0)")
    assert applied(kernel, wish(ALLOWED), CHECK)["plan"]["steps"] == []


def test_removal_brings_back_what_several_runs_have_set() -> None:
    kernel = host()
    done(kernel, wish(ALLOWED, firmware={"NUM_OF_VFS": 32}))
    done(kernel, wish(ALLOWED, firmware={"ADVANCED_PCI_SETTINGS": True, "NUM_OF_VFS": 64}))
    done(kernel, wish(ALLOWED), REMOVE)
    assert values(kernel, "NUM_OF_VFS") == ("16", "16")
    assert values(kernel, "ADVANCED_PCI_SETTINGS") == ("False(0)", "False(0)")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-E- Failed to open device",
        "Configurations:   Next Boot\n   NUM_OF_VFS   16\n",
        "Configurations:   Default  Current  Next Boot\n   NUM_OF_VFS   16\n   lower  1 2 3\n   X\n",
        query_text(PF, connectx7("ETH(2)"))[:200],
    ],
)
def test_a_text_that_is_no_table_of_three_values_tells_nothing(text: str) -> None:
    assert parse(text) == {}


def test_marks_before_a_name_are_none_of_it() -> None:
    rows = ("*   A_B   1  2  3", " RO  C_D  True(1) True(1) True(1)", "(RO) E[1] 0 0 0")
    table = "\n".join(("Configurations:   Default  Current  Next Boot", *rows))
    assert parse(table) == {"A_B": ["1", "2", "3"], "C_D": ["True(1)"] * 3, "E[1]": ["0"] * 3}


@pytest.mark.parametrize("text", [None, "", "[", "[]", '{"set": 3}', '{"set": {"x": 1}}'])
def test_a_broken_record_remembers_nothing(text: str | None) -> None:
    assert record_of(text) == {}
    kernel = host()
    kernel.tree.add_file(SET_SINCE_BOOT, text or "")
    assert gather(kernel, desired=wish(firmware=MORE))["firmware"]["set_since_boot"] == {}


@pytest.mark.parametrize(
    ("shown", "wanted", "equal"),
    [
        ("ETH(2)", "eth", True),
        ("ETH(2)", "2", True),
        ("ETH(2)", "IB", False),
        ("True(1)", "True", True),
        ("False(0)", "True", False),
        ("16", "0x10", True),
        ("16", "1", False),
        ("DEVICE_DEFAULT(0)", "False", True),
        ("N/A", "0", False),
    ],
)
def test_values_are_equal_by_word_or_number(shown: str, wanted: str, equal: bool) -> None:
    assert same(shown, wanted) is equal


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("NUM_OF_VFS=8", "a mapping of parameters"),
        ({"num_of_vfs": 8}, "names are in capitals"),
        ({"A[1]": 8}, "names are in capitals"),
        ({7: 8}, "names are in capitals"),
        ({"NUM_OF_VFS": -1}, "a number, true, false or one word"),
        ({"NUM_OF_VFS": 1.5}, "a number, true, false or one word"),
        ({"NUM_OF_VFS": [8]}, "a number, true, false or one word"),
        ({"NUM_OF_VFS": "8; reboot"}, "a number, true, false or one word"),
        ({"NUM_OF_VFS": ""}, "a number, true, false or one word"),
        ({"NUM_OF_VFS": None}, "a number, true, false or one word"),
    ],
)
def test_bad_wishes_are_told_before_anything_is_touched(given: Any, says: str) -> None:
    variables = {"rdma_fabric_interfaces": [{"pci": PF, "firmware": given}]}
    _desired, violations, _notices = parse_host_variables("gpu01", variables)
    assert len(violations) == 1 and says in str(violations[0])


@pytest.mark.parametrize(
    ("vfs", "given", "path", "says"),
    [
        (4, {"NUM_OF_VFS": 2}, "NUM_OF_VFS", "offers 2 VFs, and vfs of the same entry asks for 4"),
        (4, {"NUM_OF_VFS": "0x3"}, "NUM_OF_VFS", "offers 3 VFs"),
        (4, {"NUM_OF_VFS": 16, "SRIOV_EN": False}, "SRIOV_EN", "switches SR-IOV off"),
        (1, {"SRIOV_EN": "FALSE"}, "SRIOV_EN", "switches SR-IOV off"),
        (1, {"SRIOV_EN": 0}, "SRIOV_EN", "switches SR-IOV off"),
    ],
)
def test_functions_that_the_same_entry_takes_away_at_boot_are_a_contradiction(
    vfs: int, given: dict[str, Any], path: str, says: str
) -> None:
    variables = {"rdma_fabric_interfaces": [{"pci": PF, "vfs": vfs, "firmware": given}]}
    (violation,) = parse_host_variables("gpu01", variables)[1]
    assert (violation.path, says in violation.problem) == (f"[0].firmware.{path}", True)


@pytest.mark.parametrize(
    ("vfs", "given"),
    [
        (4, {"NUM_OF_VFS": 4, "SRIOV_EN": True}),
        (4, {"NUM_OF_VFS": "DEVICE_DEFAULT"}),
        (4, {"LINK_TYPE_P1": "ETH"}),
        (0, {"NUM_OF_VFS": 0, "SRIOV_EN": False}),
        (None, {"NUM_OF_VFS": 2, "SRIOV_EN": False}),
    ],
)
def test_firmware_that_offers_enough_is_no_contradiction(vfs: int | None, given: dict[str, Any]) -> None:
    variables = {"rdma_fabric_interfaces": [{"pci": PF, "vfs": vfs, "firmware": given}]}
    assert parse_host_variables("gpu01", variables)[1] == []
