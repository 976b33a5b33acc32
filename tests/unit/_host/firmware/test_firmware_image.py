# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images of firmware in the simulated kernel: compared, saved, burned, waited for; what is refused and why."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.firmware_image import (
    device_query,
    parse,
    public_part,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import BOOT_ID
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import record
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HostSpec, parse_host_variables
from ansible_collections.rdma.fabric.tests.fixtures.hosts.firmware import FLINT, bluefield3, image_text
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host import igb
from ansible_collections.rdma.fabric.tests.unit._host.families import PF
from ansible_collections.rdma.fabric.tests.unit._host.kernel import firmware, flint
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep
from ansible_collections.rdma.fabric.tests.unit._host.mlx5 import (
    BLUEFIELD3,
    REMOVE,
    applied,
    booted,
    done,
    the_step,
    wish,
)

STEP = f"firmware_image:{PF}"
WAITING = f"{STEP}:reboot"
ALLOWED = {"rdma_fabric_allow_firmware_burn": True}
OLD, NEW = "28.39.1002", "28.43.1014"
FIRST = "11111111-2222-3333-4444-555555555555"
FILE = "/root/fw-ConnectX7.bin"
SAVED = f"/var/lib/rdma-fabric/firmware/{PF.replace(':', '-')}-{flint.PSID}-{OLD}"


def host(marks: str = "N/A", has: str = OLD, **image: str) -> Kernel:
    kernel = booted()
    kernel.tree.add_file(BOOT_ID, f"{FIRST}\n")
    flint.install(kernel, PF, flint.image(has, security=marks))
    flint.put(kernel, FILE, {**flint.image(NEW, security=marks), **image})
    return kernel


def asked(variables: dict[str, Any] | None = None, **image: Any) -> HostSpec:
    return wish(ALLOWED if variables is None else variables, firmware_image={"file": FILE, **image})


def burns(kernel: Kernel) -> list[str]:
    return [line[len("run ") :] for line in igb.what_changed(kernel) if line.endswith(" burn")]


def rebooted(kernel: Kernel, resets: bool = True) -> Kernel:
    """The host after a reboot that resets the card, or does not."""
    if resets:
        flint.reset(kernel, PF)
    kernel.tree.add_file(BOOT_ID, f"{FIRST[::-1]}\n")
    kernel.tree.discard("/run/rdma-fabric")
    kernel.revive()
    return kernel


class TestBurning:
    def test_an_image_is_burned_after_the_former_one_was_saved_and_waits_for_the_reboot(self) -> None:
        kernel = host()
        outcome = applied(kernel, asked())
        assert not outcome.get("failed"), outcome["msg"]
        assert burns(kernel) == [f"{FLINT} --no -d {PF} -i {FILE} burn"]
        assert flint.on_flash(kernel, PF)["version"] == NEW
        assert flint.in_file(kernel, f"{SAVED}.bin")["version"] == OLD
        assert f"mstflint -d {PF} -i {SAVED}.bin burn" in kernel.read(f"{SAVED}.txt")
        waiting = the_step(outcome, WAITING)
        assert (outcome["reboot_required"], waiting["status"]) == (True, "needs_reboot")
        assert (waiting["from"], waiting["to"]) == (OLD, NEW)

    def test_what_waits_is_not_burned_again(self) -> None:
        kernel = host()
        done(kernel, asked())
        outcome = applied(kernel, asked())
        assert (outcome["changed"], kernel.mutations, outcome["reboot_required"]) == (False, [], True)

    def test_a_reboot_that_resets_the_card_ends_it(self) -> None:
        kernel = host()
        done(kernel, asked())
        assert applied(rebooted(kernel), asked())["plan"]["steps"] == []

    def test_a_reboot_that_does_not_bring_it_names_the_reset_and_is_not_repeated(self) -> None:
        kernel = host()
        done(kernel, asked())
        outcome = applied(rebooted(kernel, resets=False), asked())
        step = the_step(outcome, WAITING)
        assert (step["status"], outcome["reboot_required"]) == ("refused", False)
        assert f"mstfwreset -d {PF} reset" in step["detail"]
        assert burns(kernel) == []

    def test_nothing_is_burned_without_its_own_consent(self) -> None:
        kernel = host()
        step = the_step(applied(kernel, asked({"rdma_fabric_allow_firmware": True})), STEP)
        assert (step["status"], step["consent"]) == ("needs_consent", "rdma_fabric_allow_firmware_burn")
        assert kernel.mutations == []

    def test_a_card_that_has_the_version_needs_neither_step_nor_file(self) -> None:
        kernel = host(has=NEW)
        assert applied(kernel, asked())["plan"]["steps"] == []
        kernel.tree.discard(FILE)
        assert applied(kernel, asked(version=NEW))["plan"]["steps"] == []

    def test_secure_firmware_is_burned_and_the_plan_says_that_nobody_can_read_it_back(self) -> None:
        kernel = host("secure-fw")
        step = the_step(applied(kernel, asked({})), STEP)
        assert f"keep the image of {OLD}" in step["undo"]
        done(kernel, asked())
        assert flint.on_flash(kernel, PF)["version"] == NEW
        assert not kernel.exists(f"{SAVED}.bin")

    def test_an_older_image_is_burned_where_that_is_asked_for(self) -> None:
        kernel = host(has="28.45.1200")
        done(kernel, asked(downgrade=True))
        assert flint.on_flash(kernel, PF)["version"] == NEW

    def test_both_ports_of_a_card_are_burned_once_and_cards_one_after_the_other(self) -> None:
        kernel = Kernel(FLEET["roce-h100-01"]().document())
        cards = ("0000:aa:00.0", "0000:18:00.0")
        for address in cards:
            flint.install(kernel, address, flint.image(OLD))
        flint.put(kernel, FILE, flint.image(NEW))
        ports = ["0000:aa:00.0", "0000:aa:00.1", "0000:18:00.0"]
        entries = [{"pci": port, "firmware_image": {"file": FILE}} for port in ports]
        outcome = applied(kernel, igb.wish(*entries, **ALLOWED, rdma_fabric_allow_uplink_change=True))
        assert not outcome.get("failed"), outcome["msg"]
        assert [line.split()[3] for line in burns(kernel)] == sorted(cards)

    def test_a_card_whose_burn_fails_keeps_the_others_from_being_written(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kernel = Kernel(FLEET["roce-h100-01"]().document())
        for address in ("0000:18:00.0", "0000:aa:00.0"):
            flint.install(kernel, address, flint.image(OLD))
        flint.put(kernel, FILE, flint.image(NEW))
        failing = CommandResult(1, "-E- Burning FS4 image failed: Rejected authentication\n", "")
        real = Kernel.run
        monkeypatch.setattr(
            Kernel, "run", lambda self, argv, timeout: failing if "burn" in argv else real(self, argv, timeout)
        )
        entries = [{"pci": f"0000:{bus}:00.0", "firmware_image": {"file": FILE}} for bus in ("18", "aa")]
        outcome = applied(kernel, igb.wish(*entries, **ALLOWED, rdma_fabric_allow_uplink_change=True))
        assert outcome["failed"] and "the card rejects the image" in outcome["msg"] and "next: " in outcome["msg"]
        assert flint.on_flash(kernel, "0000:aa:00.0")["version"] == OLD

    def test_the_function_that_answers_stands_for_its_card(self) -> None:
        """Of some ConnectX-7 with four functions two do not (Mellanox/nic-configuration-operator issue 496)."""
        kernel = Kernel(FLEET["roce-h100-01"]().document())
        flint.install(kernel, "0000:aa:00.1", flint.image(OLD))
        flint.put(kernel, FILE, flint.image(NEW))
        entry = {"pci": "0000:aa:00.0", "firmware_image": {"file": FILE}}
        done(kernel, igb.wish(entry, **ALLOWED, rdma_fabric_allow_uplink_change=True))
        assert flint.on_flash(kernel, "0000:aa:00.1")["version"] == NEW

    def test_removal_leaves_the_image(self) -> None:
        kernel = host()
        done(kernel, asked())
        done(kernel, wish(ALLOWED), REMOVE)
        assert flint.on_flash(kernel, PF)["version"] == NEW


class TestRefusals:
    def detail(self, kernel: Kernel, desired: HostSpec | None = None) -> str:
        step = the_step(applied(kernel, desired or asked()), STEP)
        assert step["status"] == "refused" and burns(kernel) == []
        return str(step["detail"])

    def test_an_image_of_another_product(self) -> None:
        detail = self.detail(host(psid="DEL0000000033"))
        assert f"PSID mismatch: {FILE} is for DEL0000000033, the card is {flint.PSID}" in detail

    def test_a_card_of_another_product_than_the_entry_says(self) -> None:
        assert "psid asks for NVD0000000079" in self.detail(host(), asked(psid="NVD0000000079"))

    def test_an_image_of_another_version_than_the_entry_says(self) -> None:
        assert f"{FILE} is {NEW}, and version asks for 28.45.1200" in self.detail(host(), asked(version="28.45.1200"))

    def test_an_older_image(self) -> None:
        assert "downgrade: true of firmware_image allows it" in self.detail(host(has="28.45.1200"))

    def test_an_unsigned_image_for_a_card_with_secure_firmware(self) -> None:
        assert "takes signed images alone" in self.detail(host("secure-fw", security="N/A"))

    def test_an_image_of_developers(self) -> None:
        assert "marked dev" in self.detail(host("secure-fw", security="secure-fw, dev"))

    def test_a_version_without_a_file(self) -> None:
        desired = wish(ALLOWED, firmware_image={"version": NEW})
        assert "the entry has no file" in self.detail(host(), desired)

    def test_a_file_that_is_not_there(self) -> None:
        kernel = host()
        kernel.tree.discard(FILE)
        assert f"{FILE} is not on this host: copy the image there" in self.detail(kernel)

    def test_a_host_without_the_tool(self) -> None:
        kernel = booted()
        flint.put(kernel, FILE, flint.image(NEW))
        assert "neither mstflint nor flint" in self.detail(kernel)

    def test_a_card_that_the_tool_does_not_reach_under_lockdown(self) -> None:
        kernel = booted()
        kernel.tree.add_file(FLINT, "")
        kernel.tree.add_file("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
        detail = self.detail(kernel)
        assert f"Cannot open Device: {PF}" in detail and f"mstflint -d {PF} -i {FILE} burn" in detail

    def test_functions_of_one_card_that_ask_for_different_images(self) -> None:
        kernel = Kernel(FLEET["roce-h100-01"]().document())
        flint.install(kernel, "0000:aa:00.0", flint.image(OLD))
        versions = {"0000:aa:00.0": NEW, "0000:aa:00.1": "28.45.1200"}
        entries = [{"pci": port, "firmware_image": {"version": version}} for port, version in versions.items()]
        step = the_step(applied(kernel, igb.wish(*entries, **ALLOWED)), "firmware_image:0000:aa:00.0")
        assert "share one flash, and their entries ask for different images" in step["detail"]

    def test_the_card_of_the_uplink(self) -> None:
        uplink = {"rdma_fabric_protected_interfaces": ["enp24s0f0np0"]}
        detail = self.detail(host(), asked({**ALLOWED, **uplink}))
        assert "its card carries the uplink" in detail and "rdma_fabric_allow_uplink_change: true allows it" in detail
        allowed = host()
        done(allowed, asked({**ALLOWED, **uplink, "rdma_fabric_allow_uplink_change": True}))
        assert flint.on_flash(allowed, PF)["version"] == NEW

    def test_what_somebody_else_burned_on_the_card_of_the_uplink_brings_no_reboot(self) -> None:
        kernel = host()
        done(kernel, asked())
        outcome = applied(kernel, asked({**ALLOWED, "rdma_fabric_protected_interfaces": ["enp24s0f0np0"]}))
        assert the_step(outcome, WAITING)["status"] == "refused" and not outcome["reboot_required"]

    def test_a_bluefield_in_dpu_mode(self) -> None:
        kernel = booted(BLUEFIELD3)
        firmware.install(kernel, PF, bluefield3("DPU"), "BlueField-3")
        flint.install(kernel, PF, flint.image("32.39.1002"))
        flint.put(kernel, FILE, flint.image("32.43.1014"))
        assert "is in DPU mode" in self.detail(kernel)

    def test_a_card_of_another_vendor(self) -> None:
        entry = {"pci": igb.PF, "firmware_image": {"version": NEW}}
        step = the_step(applied(igb.booted(), igb.wish(entry, **ALLOWED)), f"firmware_image:{igb.PF}")
        assert "not a PF of an NVIDIA card" in step["detail"]


def test_whatever_disturbs_a_run_the_next_one_gets_there() -> None:
    assert sweep(host, lambda kernel: applied(kernel, asked())) >= 4


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ("    Note: ...\n\n Do you want to continue ? (y/n) [n] : n\n", "may answer, so nothing was burned"),
        ("-E- PSID mismatch. Device PSID (A) differs from image PSID (B).\n", "for another product"),
        ("-E- Burning FS4 image failed: Rejected authentication\n", "rejects the image"),
        ("-E- Burning FS4 image failed: FW burn rejected: Invalid security version\n", "rejects the image"),
        ("-E- The firmware image was already updated on flash, pending reset.\n", "waits on the flash for a reset"),
    ],
)
def test_what_the_tool_complains_of_has_its_cause_and_a_next_step(
    told: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Kernel.run
    complaint = CommandResult(1, told, "")
    monkeypatch.setattr(
        Kernel, "run", lambda self, argv, timeout: complaint if "burn" in argv else real(self, argv, timeout)
    )
    outcome = applied(host(), asked())
    assert outcome["failed"] and says in outcome["msg"] and "next: " in outcome["msg"], outcome["msg"]


def test_an_image_that_was_not_saved_whole_keeps_the_card_from_being_burned(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = host()
    real = flint.put
    monkeypatch.setattr(flint, "put", lambda kernel, path, held: real(kernel, path, {**held, "version": "0.0"}))
    outcome = applied(kernel, asked())
    assert outcome["failed"] and "is not an image of the card" in outcome["msg"]
    assert flint.on_flash(kernel, PF)["version"] == OLD


def test_only_cards_that_are_asked_for_are_read() -> None:
    assert gather(host())["firmware_images"] == {"tool": None, "cards": {}, "files": {}}
    facts = gather(host("secure-fw"), desired=asked())["firmware_images"]
    assert facts["cards"][PF] == {
        "device": PF,
        "version": OLD,
        "running": OLD,
        "psid": flint.PSID,
        "security": "secure-fw",
        "problem": "",
    }
    assert facts["files"][FILE]["version"] == NEW


def test_a_recording_has_the_image_of_every_card_without_its_addresses() -> None:
    commands = record(host(), "gpu-01")["commands"]
    text = commands[" ".join(device_query(FLINT, PF))]["stdout"]
    assert f"FW Version:            {OLD}" in text and "Base" not in text
    assert parse(text) == parse(public_part(image_text(flint.image(OLD))))


@pytest.mark.parametrize("text", ["", "-E- Cannot open Device", "FW Version: latest\nPSID:\n", "FW Version:\n"])
def test_a_text_without_a_version_tells_nothing(text: str) -> None:
    assert (parse(text)["version"], parse(text)["running"]) == (None, None)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("28.43.1014", "a mapping of file, version, psid, downgrade"),
        ({}, "neither file nor version"),
        ({"psid": "MT_0000000838"}, "neither file nor version"),
        ({"file": "fw.bin"}, "is not an absolute path"),
        ({"file": "/root/../etc/x"}, "is not an absolute path"),
        ({"file": "/root/a b"}, "is not an absolute path"),
        ({"version": "28.43"}, "not a version of three numbers"),
        ({"version": 28.43}, "not the version of a firmware"),
        ({"version": NEW, "psid": "x y"}, "is not a PSID"),
        ({"version": NEW, "downgrade": "yes"}, "not true or false"),
        ({"version": NEW, "path": "/x"}, "path"),
    ],
)
def test_bad_wishes_are_told_before_anything_is_touched(given: Any, says: str) -> None:
    variables = {"rdma_fabric_interfaces": [{"pci": PF, "firmware_image": given}]}
    _desired, violations, _notices = parse_host_variables("gpu01", variables)
    assert len(violations) == 1 and says in str(violations[0])
