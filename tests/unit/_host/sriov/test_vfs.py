# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""VFs of igb and mlx5 in the simulated kernel: made, removed, set up, disturbed at every write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.vf_settings import deterministic_mac
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import HostError
from ansible_collections.rdma.fabric.plugins.module_utils._host.run import baseline
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.sweeps import first_of
from ansible_collections.rdma.fabric.tests.unit._host import igb
from ansible_collections.rdma.fabric.tests.unit._host.igb import (
    ALLOWED,
    MAC,
    OTHER,
    PF,
    VF0,
    VF1,
    applied,
    booted,
    functions,
    wish,
    with_functions,
)
from ansible_collections.rdma.fabric.tests.unit._host.kernel import vfs
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import changed_devices, sweep

EVERYTHING = {
    "mac": "deterministic",
    "vlan": 100,
    "trust": True,
    "spoofchk": False,
    "max_tx_rate": 500,
}


def settings(kernel: Kernel, name: str) -> list[dict[str, Any]]:
    shown = json.loads(kernel.run(("ip", "-json", "link", "show", "dev", name), 10).stdout)
    found: list[dict[str, Any]] = shown[0].get("vfinfo_list", [])
    return found


def written(kernel: Kernel) -> list[str]:
    return [line.rsplit("/", 1)[-1] for line in igb.what_changed(kernel) if "sriov_numvfs" in line]


class TestNumber:
    def test_functions_appear_with_their_interfaces(self) -> None:
        kernel = with_functions(4)
        assert list(functions(kernel)) == [VF0, VF1, "0000:01:10.4", "0000:01:10.6"]
        assert all(name.startswith("enp1s0f0v") for name in functions(kernel).values())

    def test_four_two_and_seven_follow_each_other_without_an_error(self) -> None:
        kernel = booted()
        for count, writes in ((4, ["4"]), (2, ["0", "2"]), (7, ["0", "7"]), (0, ["0"])):
            outcome = applied(kernel, wish({"pci": PF, "vfs": count}, **ALLOWED))
            assert not outcome.get("failed"), outcome["msg"]
            assert written(kernel) == [f"sriov_numvfs = {number}" for number in writes]
            assert len(functions(kernel)) == count
            kernel.revive()

    def test_a_port_whose_driver_ignores_numbers_while_it_is_down_is_brought_up(self) -> None:
        kernel = booted(igb.guest(driver="bnxt_en"))
        for count in (2, 0):
            kernel.tree.add_file(f"{kernel.realpath('/sys/class/net/enp1s0f0')}/flags", "0x1002\n")
            outcome = applied(kernel, wish({"pci": PF, "vfs": count}, **ALLOWED))
            assert not outcome.get("failed"), outcome["msg"]
            assert "brings the port up" in outcome["executed"][0]["line"]
            assert len(functions(kernel)) == count
            kernel.revive()

    def test_the_present_number_is_never_written(self) -> None:
        kernel = with_functions(4)
        applied(kernel, wish({"pci": PF, "vfs": 4}, **ALLOWED))
        assert kernel.mutations == []

    def test_nothing_is_destroyed_without_consent(self) -> None:
        kernel = with_functions(4)
        applied(kernel, wish({"pci": PF, "vfs": 2}))
        assert (kernel.mutations, len(functions(kernel))) == ([], 4)

    def test_the_mtu_of_new_functions_is_set_once_they_are_there(self) -> None:
        kernel = booted()
        desired = wish({"pci": PF, "vfs": 3, "mtu": 9000, "vf_mtu": 9000})
        outcome = applied(kernel, desired)
        assert not outcome.get("failed"), outcome["msg"]
        assert [kernel.read(f"/sys/class/net/{name}/mtu") for name in functions(kernel).values()] == ["9000\n"] * 3

    def test_an_entry_about_a_function_to_come_is_set_up_by_the_run_that_makes_it(self) -> None:
        kernel = booted()
        desired = wish({"pci": PF, "vfs": 2}, {"pci": VF0, "mtu": 1400})
        shown = igb.previewed(kernel, desired)["plan"]
        assert [step for step in shown["steps"] if step["status"] == "refused"] == []
        assert [said for said in shown["notices"] if said.startswith(f"{VF0}: a VF that {PF} ")]
        outcome = applied(kernel, desired)
        assert not outcome.get("failed"), outcome["msg"]
        assert ([each["id"] for each in outcome["executed"]][-1], outcome["plan"]["steps"]) == (f"mtu:{VF0}", [])
        assert kernel.read("/sys/class/net/enp1s0f0v0/mtu") == "1400\n"
        assert [said for said in outcome["plan"]["notices"] if "does not have yet" in said] == []
        kernel.revive()
        assert (applied(kernel, desired)["changed"], kernel.mutations) == (False, [])

    def test_an_entry_about_one_more_function_is_set_up_by_the_run_that_makes_it(self) -> None:
        kernel = with_functions(1)
        (first,) = functions(kernel)
        desired = wish({"pci": PF, "vfs": 2}, {"pci": first, "mtu": 1400}, {"pci": VF1, "mtu": 1300}, **ALLOWED)
        shown = igb.previewed(kernel, desired)["plan"]
        assert [step for step in shown["steps"] if step["status"] == "refused"] == []
        assert [said[: len(VF1)] for said in shown["notices"] if "does not have yet" in said] == [VF1]
        outcome = applied(kernel, desired)
        assert not outcome.get("failed"), outcome["msg"]
        assert [kernel.read(f"/sys/class/net/enp1s0f0v{number}/mtu") for number in (0, 1)] == ["1400\n", "1300\n"]

    @pytest.mark.parametrize("entry", [{"pci": "0000:01:1f.0"}, {"current_name": "enp1s0f0v0"}])
    def test_an_entry_that_no_function_to_come_is_known_to_be_is_refused(self, entry: dict[str, str]) -> None:
        shown = igb.previewed(booted(), wish({"pci": PF, "vfs": 2}, {**entry, "mtu": 1400}))
        (refused,) = [step for step in shown["plan"]["steps"] if step["status"] == "refused"]
        assert "a VF that this plan makes is set up by the run that makes it" in refused["detail"]

    def test_an_entry_about_a_function_that_is_made_anew_is_named_and_holds_after_the_run(self) -> None:
        kernel = with_functions(4)
        applied(kernel, wish({"pci": VF0, "mtu": 1400}))
        desired = wish({"pci": PF, "vfs": 2}, {"pci": VF0, "mtu": 1400}, **ALLOWED)
        outcome = applied(kernel, desired)
        assert f"notice: {VF0} (enp1s0f0v0): this plan destroys the VFs of {PF}" in str(outcome["diff"])
        assert outcome["plan"]["steps"] == []
        assert [each["id"] for each in outcome["executed"]][-1] == f"mtu:{VF0}"
        assert kernel.read("/sys/class/net/enp1s0f0v0/mtu") == "1400\n"

    def test_entries_about_functions_that_stay_are_not_named(self) -> None:
        kernel = with_functions(4)
        outcome = applied(kernel, wish({"pci": PF, "vfs": 2}, {"pci": VF0, "mtu": 1400}))
        assert "destroys the VFs" not in str(outcome["diff"])

    @pytest.mark.parametrize(
        ("prepare", "says"),
        [
            ({"sriov_totalvfs": "7", "code": "ENOMEM"}, "Above 4G Decoding"),
            ({"sriov_totalvfs": "7", "code": "ENOSPC"}, "MSI-X"),
            ({"sriov_totalvfs": "7", "code": "EIO"}, "syndrome"),
            ({"sriov_totalvfs": "7", "code": "ETIMEDOUT"}, "firmware"),
            ({"sriov_totalvfs": "7", "code": "EINVAL"}, "BIOS"),
            ({"sriov_totalvfs": "7", "code": "EBUSY"}, "in use"),
            ({"sriov_totalvfs": "7", "code": "ERANGE"}, "NUM_OF_VFS"),
            ({"sriov_totalvfs": "7", "code": "ENOENT"}, "no driver is bound"),
        ],
    )
    def test_each_error_of_the_driver_has_its_cause_and_next_step(self, prepare: dict[str, str], says: str) -> None:
        kernel = booted()
        kernel.disturb(_first_write(), prepare["code"])
        outcome = applied(kernel, wish({"pci": PF, "vfs": 4}))
        assert outcome["failed"]
        assert says in outcome["msg"] and "next: " in outcome["msg"], outcome["msg"]

    def test_a_driver_that_hangs_is_given_up_after_its_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kernel = booted()
        real = Kernel.set_attribute

        def hanging(self: Kernel, path: str, text: str, timeout: float) -> None:
            if path.endswith("sriov_numvfs"):
                self.sleep(timeout)
                raise HostError("ETIMEDOUT", path)
            real(self, path, text, timeout)

        monkeypatch.setattr(Kernel, "set_attribute", hanging)
        outcome = applied(kernel, wish({"pci": PF, "vfs": 4}))
        assert outcome["failed"] and "devlink health" in outcome["msg"]
        assert kernel.now() >= 120

    def test_links_that_do_not_come_are_waited_for_and_taken_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kernel = booted()
        monkeypatch.setattr(vfs, "_add_function", lambda *_arguments: None)
        outcome = applied(kernel, wish({"pci": PF, "vfs": 2}))
        assert outcome["failed"] and "2 VFs of 0000:01:00.0" in outcome["msg"]
        assert kernel.read(f"{vfs.PCI}/{PF}/sriov_numvfs") == "0\n"

    def test_functions_that_do_not_know_their_physical_one_are_not_there_yet(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kernel = booted()
        real = vfs._add_function

        def half_linked(machine: Kernel, physical: str, number: int) -> None:
            real(machine, physical, number)
            machine.tree.discard(f"{vfs.PCI}/{VF0}/physfn")

        monkeypatch.setattr(vfs, "_add_function", half_linked)
        assert applied(kernel, wish({"pci": PF, "vfs": 1}))["failed"]

    def test_a_number_that_fails_gives_the_former_one_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kernel = with_functions(4)
        real = vfs._add_function

        def only_few(machine: Kernel, physical: str, number: int) -> None:
            if number < 4:
                real(machine, physical, number)

        monkeypatch.setattr(vfs, "_add_function", only_few)
        outcome = applied(kernel, wish({"pci": PF, "vfs": 7}, **ALLOWED))
        assert outcome["failed"]
        assert len(functions(kernel)) == 4
        assert "written 4 to" in str(outcome["failed_step"]["undone"]) or "write 4 to" in str(outcome["failed_step"])


def _first_write() -> int:
    """The number of the first write to sriov_numvfs in a run over the guest."""
    kernel = booted()
    applied(kernel, wish({"pci": PF, "vfs": 4}))
    return next(number for number, mutation in enumerate(kernel.mutations) if "sriov_numvfs" in mutation.what)


class TestSettings:
    def test_new_functions_get_all_that_is_asked_for(self) -> None:
        kernel = booted()
        outcome = applied(kernel, wish({"pci": PF, "vfs": 2, "vf_settings": EVERYTHING}))
        assert not outcome.get("failed"), outcome["msg"]
        first, second = settings(kernel, "enp1s0f0")
        assert (first["address"], second["address"]) == (deterministic_mac(MAC, 0), deterministic_mac(MAC, 1))
        assert (first["vlan_list"], first["trust"], first["spoofchk"]) == ([{"vlan": 100}], True, False)
        assert first["rate"]["max_tx"] == 500
        names = functions(kernel)
        assert kernel.read(f"/sys/class/net/{names[VF0]}/address").strip() == deterministic_mac(MAC, 0)
        kernel.revive()
        assert applied(kernel, wish({"pci": PF, "vfs": 2, "vf_settings": EVERYTHING}))["plan"]["steps"] == []
        assert kernel.mutations == []

    def test_only_what_differs_is_set(self) -> None:
        kernel = booted()
        applied(kernel, wish({"pci": PF, "vfs": 2, "vf_settings": {"vlan": 7}}))
        kernel.run(("ip", "link", "set", "dev", "enp1s0f0", "vf", "1", "vlan", "9"), 10)
        kernel.revive()
        applied(kernel, wish({"pci": PF, "vfs": 2, "vf_settings": {"vlan": 7}}))
        assert [line for line in igb.what_changed(kernel) if line.startswith("run ip")] == [
            "run ip link set dev enp1s0f0 vf 1 vlan 7"
        ]

    def test_a_new_address_of_a_present_function_needs_consent_and_binds_it_again(self) -> None:
        kernel = with_functions(2)
        kernel.tree.add_file(f"/sys/class/net/{functions(kernel)[VF1]}/flags", "0x1003\n")
        desired = {"pci": PF, "vfs": 2, "vf_settings": {"mac": {"1": "02:aa:00:00:00:01"}}}
        outcome = applied(kernel, wish(desired))
        assert [step["status"] for step in outcome["plan"]["steps"]] == ["needs_consent"]
        assert kernel.mutations == []
        outcome = applied(kernel, wish(desired, **ALLOWED))
        assert not outcome.get("failed"), outcome["msg"]
        name = functions(kernel)[VF1]
        assert kernel.read(f"/sys/class/net/{name}/address") == "02:aa:00:00:00:01\n"
        assert not any(VF0 in line for line in igb.what_changed(kernel)), "the other VF is left alone"

    @pytest.mark.parametrize("wanted", [{"trust": True}, {"mac": {"0": "02:aa:00:00:00:00"}}])
    def test_a_function_in_a_pod_keeps_nobody_waiting(self, wanted: dict[str, Any]) -> None:
        kernel = with_functions(2)
        vfs.to_another_namespace(kernel, VF1)
        desired = wish({"pci": PF, "vfs": 2, "vf_settings": wanted}, **ALLOWED)
        started = kernel.now()
        outcome = applied(kernel, desired)
        assert not outcome.get("failed"), outcome["msg"]
        assert kernel.now() - started < 5
        kernel.revive()
        assert applied(kernel, desired)["plan"]["steps"] == []

    @pytest.mark.parametrize("wanted", [{"vlan": 7}, {"trust": True}, {"mac": {"1": "02:aa:00:00:00:01"}}])
    def test_a_function_in_a_pod_keeps_what_the_pod_was_given(self, wanted: dict[str, Any]) -> None:
        """sriov-cni sets the functions of pods up through the port, as libvirt does those of machines."""
        kernel = with_functions(2)
        vfs.to_another_namespace(kernel, VF1)
        outcome = applied(kernel, wish({"pci": PF, "vf_settings": wanted}, **ALLOWED))
        assert [line for line in igb.what_changed(kernel) if " vf 1 " in line] == []
        assert "VF 1 keeps other vf_settings" in str(outcome["plan"]["notices"])
        assert outcome["plan"]["steps"] == []

    def test_a_removal_waits_for_what_a_pod_has(self) -> None:
        kernel = booted()
        kernel.set_attribute(f"{vfs.PCI}/{PF}/sriov_numvfs", "2", 1)
        kernel.sleep(10)
        applied(kernel, wish({"pci": PF, "vf_settings": {"vlan": 7}}))
        vfs.to_another_namespace(kernel, VF1)
        outcome = applied(kernel, wish(), igb.REMOVE)
        refused = [step["id"] for step in outcome["plan"]["steps"] if step["status"] == "refused"]
        assert f"vfs:{PF}:settings" in refused
        assert settings(kernel, "enp1s0f0")[1]["vlan_list"] == [{"vlan": 7}]

    def test_a_removal_brings_back_what_functions_were_like_that_stay(self) -> None:
        kernel = booted()
        kernel.set_attribute(f"{vfs.PCI}/{PF}/sriov_numvfs", "2", 1)
        kernel.run(("ip", "link", "set", "dev", "enp1s0f0", "vf", "1", "vlan", "9"), 10)
        kernel.sleep(10)
        before = settings(kernel, "enp1s0f0")
        for wanted in ({"vlan": 7}, {"vlan": 8, "trust": True, "mac": "deterministic"}):
            assert not applied(kernel, wish({"pci": PF, "vf_settings": wanted}, **ALLOWED)).get("failed")
        outcome = applied(kernel, wish(**ALLOWED), igb.REMOVE)
        assert not outcome.get("failed"), outcome["msg"]
        assert settings(kernel, "enp1s0f0") == before
        assert outcome["plan"]["steps"] == [] and not kernel.exists(baseline.PATH)

    def test_functions_that_go_are_not_set_back(self) -> None:
        kernel = with_functions(2)
        applied(kernel, wish({"pci": PF, "vfs": 2, "vf_settings": {"vlan": 7}}, **ALLOWED))
        kernel.revive()
        outcome = applied(kernel, wish(**ALLOWED), igb.REMOVE)
        assert [step["id"] for step in outcome["executed"]] == [f"vfs:{PF}"]

    def test_an_interface_that_does_not_come_back_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kernel = with_functions(2)
        monkeypatch.setattr(vfs, "_add_interface", lambda *_arguments: None)
        outcome = applied(kernel, wish({"pci": PF, "vfs": 2, "vf_settings": {"mac": "deterministic"}}))
        assert outcome["failed"] and f"the interfaces of the VFs of {PF}" in outcome["msg"]

    def test_functions_that_a_killed_run_left_without_driver_are_bound_again(self) -> None:
        kernel = booted()
        entry = {"pci": PF, "vfs": 2, "vf_settings": {"mac": "deterministic"}}
        applied(kernel, wish(entry))
        kernel.set_attribute(f"{vfs.PCI}/{PF}/virtfn1/driver/unbind", VF1, 1)
        kernel.revive()
        (step,) = igb.previewed(kernel, wish(entry))["plan"]["steps"]
        assert (step["action"], step["status"]) == ("bind VF 1 to the driver", "planned")
        applied(kernel, wish(entry))
        assert functions(kernel)[VF1]

    def test_a_function_that_could_not_be_set_up_has_its_interface_again(self) -> None:
        kernel = with_functions(2)
        entry = {"pci": PF, "vfs": 2, "vf_settings": {"mac": "deterministic"}}
        trial = with_functions(2)
        applied(trial, wish(entry))
        lines = [mutation.what for mutation in trial.mutations]
        kernel.disturb(next(number for number, line in enumerate(lines) if line.startswith("ip link set")), "EIO")
        assert applied(kernel, wish(entry))["failed"]
        kernel.sleep(5)
        assert all(functions(kernel).values()), "the step left a VF without its driver"

    def test_a_setting_that_the_driver_lacks_is_told(self) -> None:
        kernel = booted()
        outcome = applied(kernel, wish({"pci": PF, "vfs": 1, "vf_settings": {"link_state": "enable"}}))
        assert outcome["failed"]
        assert "leave it out of vf_settings" in outcome["msg"]

    def test_settings_follow_the_port_through_a_rename_in_the_same_run(self) -> None:
        kernel = booted()
        outcome = applied(kernel, wish({"pci": PF, "name": "rail0", "vfs": 1, "vf_settings": {"trust": True}}))
        assert not outcome.get("failed"), outcome["msg"]
        assert settings(kernel, "rail0")[0]["trust"] is True

    def test_functions_that_the_kernel_shall_not_bind_stay_unbound(self) -> None:
        tree = igb.guest()
        tree.attributes(tree.place(PF), {"sriov_drivers_autoprobe": 0})
        kernel = booted(tree)
        outcome = applied(kernel, wish({"pci": PF, "vfs": 1, "vf_settings": {"mac": "deterministic"}}))
        assert not outcome.get("failed"), outcome["msg"]
        assert vfs.driver_of(kernel, VF0) is None
        assert settings(kernel, "enp1s0f0")[0]["address"] == deterministic_mac(MAC, 0)

    def test_addresses_for_numbers_that_do_not_exist_are_noticed(self) -> None:
        kernel = with_functions(1)
        desired = wish({"pci": PF, "vf_settings": {"mac": {"5": "02:aa:00:00:00:05"}}})
        assert "no effect" in igb.previewed(kernel, desired)["plan"]["notices"][0]

    @pytest.mark.parametrize(
        ("printed", "says"),
        [
            ("", "trust is None, not True"),
            ("[{", "can't be read"),
            ('[{"vfinfo_list": [{"vf": 1}]}]', "trust is None, not True"),
            ('["x"]', "trust is None, not True"),
            ("{}", "trust is None, not True"),
        ],
    )
    def test_a_port_that_does_not_tell_is_set_up_and_then_found_out(
        self, printed: str, says: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kernel = with_functions(1)
        real = Kernel.run

        def cut_off(self: Kernel, argv: Any, timeout: float) -> Any:
            result = real(self, argv, timeout)
            return result._replace(stdout=printed) if "show" in argv else result

        monkeypatch.setattr(Kernel, "run", cut_off)
        outcome = applied(kernel, wish({"pci": PF, "vf_settings": {"trust": True}}))
        assert outcome["failed"] and says in outcome["msg"]


class TestDeterministicAddresses:
    def test_they_are_local_single_and_stable(self) -> None:
        macs = [deterministic_mac(mac, number) for mac in (MAC, igb.OTHER_MAC) for number in range(64)]
        assert len(set(macs)) == 128
        assert all(int(mac[:2], 16) & 3 == 2 for mac in macs)
        # A release that changed them would change every function's address: this is a promise.
        assert deterministic_mac("A0:88:C2:47:11:D0", 3) == deterministic_mac("a0:88:c2:47:11:d0", 3)
        assert deterministic_mac("a0:88:c2:47:11:d0", 0) == "9a:32:ec:db:1d:42"

    def test_a_member_of_a_bond_keeps_its_own(self) -> None:
        kernel = booted()
        applied(kernel, wish({"pci": OTHER, "vfs": 1, "vf_settings": {"mac": "deterministic"}}))
        mac = settings(kernel, "enp1s0f1")[0]["address"]
        kernel.tree.add_file("/sys/class/net/enp1s0f1/address", f"{MAC}\n")
        kernel.tree.add_file("/sys/class/net/enp1s0f1/permaddr", f"{igb.OTHER_MAC}\n")
        kernel.revive()
        assert (
            applied(kernel, wish({"pci": OTHER, "vfs": 1, "vf_settings": {"mac": "deterministic"}}))["plan"]["steps"]
            == []
        )
        assert settings(kernel, "enp1s0f1")[0]["address"] == mac


SWEPT = {
    "created": (0, {"pci": PF, "vfs": 3}),
    "renewed": (4, {"pci": PF, "vfs": 2}),
    "removed": (3, {"pci": PF, "vfs": 0}),
    "set up": (0, {"pci": PF, "vfs": 2, "vf_settings": EVERYTHING}),
    "changed": (2, {"pci": PF, "vfs": 2, "vf_settings": EVERYTHING, "mtu": 4000, "vf_mtu": 4000}),
}


@pytest.mark.parametrize("case", first_of(SWEPT))
def test_whatever_disturbs_a_run_the_next_one_gets_there(case: str) -> None:
    before, entry = SWEPT[case]

    def start() -> Kernel:
        return with_functions(before) if before else booted()

    assert sweep(start, lambda kernel: applied(kernel, wish(entry, **ALLOWED))) >= 1


@pytest.mark.slow
def test_whatever_disturbs_a_run_over_a_host_with_eight_rails_the_next_one_gets_there() -> None:
    rail = {"pci": "0000:18:00.0", "name": "rail0", "mtu": 9000, "vf_mtu": 9000, "vfs": 2}
    entry = {**rail, "vf_settings": {**EVERYTHING, "link_state": "enable"}}

    def start() -> Kernel:
        return Kernel(FLEET["roce-h100-01"]().document())

    assert sweep(start, lambda kernel: applied(kernel, wish(entry)), errors=("EIO",)) >= 8


def test_removal_brings_the_former_number_back() -> None:
    kernel = booted()
    before = kernel.state()
    applied(kernel, wish({"pci": PF, "vfs": 2, "vf_settings": {"trust": True}}))
    kernel.revive()
    outcome = applied(kernel, wish(**ALLOWED), igb.REMOVE)
    assert not outcome.get("failed"), outcome["msg"]
    assert changed_devices(before, kernel.state()) == []
