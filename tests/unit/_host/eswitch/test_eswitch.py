# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""E-switches of mlx5 in the simulated kernel: read, switched with functions, refused, disturbed, brought back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Sequence

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.persisted import boot_entries
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.concerns import ORDER
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.eswitch import (
    SHOW_DEVICES,
    parse,
    parse_failed_reloads,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import record
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.at_boot import start
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import plan_with_context
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import parse_host_variables
from ansible_collections.rdma.fabric.tests.fixtures.hosts.firmware import connectx7
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.sweeps import first_of
from ansible_collections.rdma.fabric.tests.unit._host import igb
from ansible_collections.rdma.fabric.tests.unit._host.families import FAMILIES, INFINIBAND, PF, Family, host_with
from ansible_collections.rdma.fabric.tests.unit._host.kernel import eswitch, firmware, vfs
from ansible_collections.rdma.fabric.tests.unit._host.kernel.boot import with_disk_of
from ansible_collections.rdma.fabric.tests.unit._host.kernel.eswitch import OFFLOAD, mode_of, steering_of
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep
from ansible_collections.rdma.fabric.tests.unit._host.mlx5 import (
    ALLOWED,
    APPLY,
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

STEP = f"eswitch:{PF}"
EVERYTHING = replace(APPLY, concerns=ORDER)
PORT = "enp24s0f0np0"


def switched(count: int = 2) -> Kernel:
    """The host in switchdev mode with functions, as a run of ours leaves it."""
    kernel = booted()
    done(kernel, wish(vfs=count, eswitch_mode="switchdev"))
    return kernel


def mode(kernel: Kernel) -> str:
    return mode_of(kernel, PF)


def order_of(kernel: Kernel) -> list[str]:
    """What was done about functions, drivers and the mode, in short words."""
    words = {"sriov_numvfs": "number", "unbind": "unbind", "drivers_probe": "bind"}
    found = []
    for line in igb.what_changed(kernel):
        if "devlink" in line:
            found.append(line.rsplit(" ", 1)[1])
        found += [f"{word} {line.rsplit(' ', 1)[1]}" for name, word in words.items() if f"/{name} = " in line]
    return found


class TestSwitching:
    def test_functions_are_made_before_switchdev_and_bound_after_it(self) -> None:
        kernel = booted()
        outcome = applied(kernel, wish(vfs=2, eswitch_mode="switchdev"))
        assert not outcome.get("failed"), outcome["msg"]
        first, second = functions(kernel)
        assert order_of(kernel) == [
            "number 2",
            f"unbind {first}",
            f"unbind {second}",
            "switchdev",
            f"bind {first}",
            f"bind {second}",
        ]
        assert (mode(kernel), drivers(kernel)) == ("switchdev", ["mlx5_core", "mlx5_core"])
        assert kernel.read(f"/sys/class/net/{PORT}/phys_switch_id")

    def test_a_second_run_does_nothing(self) -> None:
        kernel = switched()
        assert applied(kernel, wish(vfs=2, eswitch_mode="switchdev"))["plan"]["steps"] == []
        assert kernel.mutations == []

    def test_another_number_goes_through_legacy_mode_and_back(self) -> None:
        kernel = switched(2)
        outcome = applied(kernel, wish(ALLOWED, vfs=3, eswitch_mode="switchdev"))
        assert not outcome.get("failed"), outcome["msg"]
        order = [line for line in order_of(kernel) if "bind" not in line]
        assert order == ["legacy", "number 0", "number 3", "switchdev"]
        assert (mode(kernel), drivers(kernel)) == ("switchdev", ["mlx5_core"] * 3)

    def test_back_to_legacy_mode_with_another_number_is_one_step(self) -> None:
        kernel = switched(2)
        outcome = done(kernel, wish(ALLOWED, vfs=4, eswitch_mode="legacy"))
        assert [entry["id"] for entry in outcome["executed"]] == [f"vfs:{PF}"]
        assert (mode(kernel), len(drivers(kernel))) == ("legacy", 4)

    def test_settings_of_legacy_mode_come_after_that_mode(self) -> None:
        kernel = switched(2)
        settings = {"vlan": 100, "trust": True, "spoofchk": False}
        outcome = done(kernel, wish(ALLOWED, vfs=2, eswitch_mode="legacy", vf_settings=settings))
        assert [entry["id"] for entry in outcome["executed"]][:2] == [STEP, f"vfs:{PF}:settings"]
        assert (mode(kernel), outcome["plan"]["steps"]) == ("legacy", [])

    def test_they_wait_for_the_mode_also_where_the_number_waits(self) -> None:
        kernel = switched(2)
        for count in (2, 3):
            outcome = applied(kernel, wish(vfs=count, eswitch_mode="legacy", vf_settings={"trust": True}))
            steps = {step["id"]: step for step in outcome["plan"]["steps"]}
            assert not outcome.get("failed"), outcome["msg"]
            assert {steps[STEP]["status"], steps[f"vfs:{PF}:settings"]["status"]} == {"needs_consent"}
            assert steps[f"vfs:{PF}:settings"]["consent"] == steps[STEP]["consent"]
            assert mode(kernel) == "switchdev"

    def test_they_are_not_tried_where_the_mode_is_refused(self) -> None:
        kernel = switched(2)
        (representor, _other) = sorted(
            name for name in kernel.list("/sys/class/net") if name.startswith(f"{PORT[:8]}r")
        )
        kernel.tree.add_link(f"/sys/class/net/{representor}/master", "../../../virtual/net/br0")
        outcome = applied(kernel, wish(ALLOWED, vfs=2, eswitch_mode="legacy", vf_settings={"trust": True}))
        steps = {step["id"]: step["status"] for step in outcome["plan"]["steps"]}
        assert (steps[STEP], steps[f"vfs:{PF}:settings"]) == ("refused", "refused")

    def test_a_switch_id_in_legacy_mode_keeps_no_number_away(self) -> None:
        kernel = booted()
        place = f"{kernel.realpath(f'/sys/class/net/{PORT}')}/phys_switch_id"
        kernel.tree.errors.pop(place, None)
        kernel.tree.add_file(place, "e41d2d0003a1b2c3\n")
        for count in (2, 3):
            done(kernel, wish(ALLOWED, vfs=count))
            assert (mode(kernel), len(drivers(kernel))) == ("legacy", count)
        done(kernel, wish(ALLOWED), REMOVE)
        assert drivers(kernel) == []

    def test_the_mtu_of_functions_is_set_again_where_they_were_bound_again(self) -> None:
        kernel = booted()
        done(kernel, wish(vfs=2, mtu=9000, vf_mtu=9000))
        done(kernel, wish(ALLOWED, vfs=2, mtu=9000, vf_mtu=9000, eswitch_mode="switchdev"))
        names = [kernel.list(f"{vfs.PCI}/{PF}/virtfn{number}/net")[0] for number in range(2)]
        assert [kernel.read(f"/sys/class/net/{name}/mtu").strip() for name in names] == ["9000", "9000"]

    def test_a_port_without_functions_is_switched_too(self) -> None:
        kernel = booted()
        done(kernel, wish(eswitch_mode="switchdev"))
        assert mode(kernel) == "switchdev"

    def test_a_run_that_was_ended_half_way_leaves_no_function_unbound_for_long(self) -> None:
        kernel = switched(2)
        kernel.set_attribute(f"{vfs.PCI}/{PF}/virtfn1/driver/unbind", kernel.link(f"{vfs.PCI}/{PF}/virtfn1")[3:], 1)
        kernel.revive()
        outcome = done(kernel, wish(vfs=2, eswitch_mode="switchdev"))
        assert [entry["id"] for entry in outcome["executed"]] == [STEP]
        assert drivers(kernel) == ["mlx5_core", "mlx5_core"]

    def test_such_a_function_comes_back_while_another_is_in_a_pod(self) -> None:
        kernel = switched(2)
        first, second = functions(kernel)
        vfs.to_another_namespace(kernel, first)
        kernel.set_attribute(f"{vfs.PCI}/{second}/driver/unbind", second, 1)
        kernel.revive()
        done(kernel, wish(vfs=2, eswitch_mode="switchdev"))
        assert kernel.list(f"{vfs.PCI}/{second}/net")


class TestOffload:
    """Rules of tc and Open vSwitch in the hardware, where the driver can do it."""

    ID = f"{STEP}:offload"

    def host(self, told: str = "off") -> Kernel:
        kernel = booted()
        kernel.tree.add_file(f"{vfs.PCI}/{PF}/{OFFLOAD}", f"{told}\n")
        return kernel

    def test_it_is_switched_on_after_the_mode(self) -> None:
        kernel = self.host()
        outcome = done(kernel, wish(vfs=2, eswitch_mode="switchdev"))
        assert [entry["id"] for entry in outcome["executed"]] == [f"vfs:{PF}", STEP, self.ID]
        assert kernel.read(f"{vfs.PCI}/{PF}/{OFFLOAD}").strip() == "on"
        assert applied(kernel, wish(vfs=2, eswitch_mode="switchdev"))["plan"]["steps"] == []
        assert kernel.mutations == []

    def test_it_is_switched_on_where_the_mode_is_right_already(self) -> None:
        kernel = self.host()
        done(kernel, wish(vfs=2, eswitch_mode="switchdev"))
        kernel.tree.add_file(f"{vfs.PCI}/{PF}/{OFFLOAD}", "off\n")
        outcome = done(kernel, wish(vfs=2, eswitch_mode="switchdev"))
        assert [entry["id"] for entry in outcome["executed"]] == [self.ID]

    @pytest.mark.parametrize("told", ["off [fixed]", "on", "on [fixed]", "off [requested on]"])
    def test_what_is_on_or_fixed_is_left_alone(self, told: str) -> None:
        outcome = done(self.host(told), wish(vfs=1, eswitch_mode="switchdev"))
        assert self.ID not in [entry["id"] for entry in outcome["executed"]]

    def test_it_waits_with_the_mode(self) -> None:
        kernel = self.host()
        done(kernel, wish(vfs=2))
        steps = applied(kernel, wish(vfs=2, eswitch_mode="switchdev"))["plan"]["steps"]
        assert [(step["id"], step["status"]) for step in steps] == [(STEP, "needs_consent")]
        assert kernel.mutations == []

    def test_in_legacy_mode_nobody_asks(self) -> None:
        kernel = self.host()
        assert applied(kernel, wish(eswitch_mode="legacy"))["plan"]["steps"] == []
        assert "offload" not in gather(kernel, desired=wish(eswitch_mode="legacy"))["eswitch"][PF]

    def test_without_ethtool_the_mode_is_set_all_the_same(self) -> None:
        kernel = self.host()
        kernel.absent.add("ethtool")
        done(kernel, wish(vfs=1, eswitch_mode="switchdev"))
        assert mode(kernel) == "switchdev"

    def test_a_driver_that_does_not_take_it_is_explained(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kernel = self.host()
        desired = wish(eswitch_mode="switchdev")
        monkeypatch.setattr(f"{eswitch.__name__}.features", self._stubborn)
        outcome = applied(kernel, desired)
        assert outcome["failed"] and "does not offload rules now" in outcome["msg"] and "next: " in outcome["msg"]

    @staticmethod
    def _stubborn(_kernel: Kernel, _name: str, words: Sequence[str]) -> CommandResult:
        told = CommandResult(0, "Features for x:\nhw-tc-offload: off\n", "")
        return told if words[0] == "-k" else CommandResult(1, "", "Could not change any device features\n")

    @pytest.mark.parametrize("later", [None, "legacy"])
    def test_removal_takes_it_back_with_mode_and_functions(self, later: str | None) -> None:
        kernel = self.host()
        done(kernel, wish(ALLOWED, vfs=2, eswitch_mode="switchdev"))
        if later:
            done(kernel, wish(ALLOWED, vfs=2, eswitch_mode=later))
        outcome = done(kernel, wish(ALLOWED), REMOVE)
        assert outcome["plan"]["steps"] == []
        assert (mode(kernel), drivers(kernel)) == ("legacy", [])
        assert kernel.read(f"{vfs.PCI}/{PF}/{OFFLOAD}").strip() == "off"
        assert not kernel.exists("/var/lib/rdma-fabric/baseline.json")

    def test_a_recorded_host_tells_it(self) -> None:
        kernel = self.host()
        desired = wish(eswitch_mode="switchdev")
        assert gather(RecordedHost(record(kernel, "recorded")), desired=desired)["eswitch"][PF]["offload"] is False


@pytest.mark.parametrize("family", [pytest.param(family, id=family.name) for family in FAMILIES])
def test_every_family_is_brought_to_switchdev_mode_and_back(family: Family) -> None:
    kernel = booted(family)
    done(kernel, wish(vfs=2, eswitch_mode="switchdev"))
    assert (mode(kernel), drivers(kernel)) == ("switchdev", ["mlx5_core"] * 2)
    done(kernel, wish(ALLOWED, vfs=0, eswitch_mode="legacy"))
    assert (mode(kernel), drivers(kernel)) == ("legacy", [])


class TestFailedReload:
    """A device whose reload by devlink failed has nothing left but its driver."""

    def host(self, *, torn_down: bool = True) -> Kernel:
        kernel = booted()
        kernel.tree.add_file(f"{vfs.PCI}/{PF}/{eswitch.RELOAD_FAILED}", "")
        if torn_down:
            vfs.remove_interfaces(kernel, PF)
        return kernel

    @pytest.mark.parametrize("entry", [{"vfs": 2}, {"eswitch_mode": "switchdev"}])
    def test_what_needs_the_device_is_refused_with_the_next_step(self, entry: dict[str, Any]) -> None:
        kernel = self.host()
        outcome = applied(kernel, wish(**entry))
        assert {step["status"] for step in outcome["plan"]["steps"]} == {"refused"}
        (detail,) = {step["detail"] for step in outcome["plan"]["steps"]}
        assert f"read the kernel's log (dmesg) for the cause, then devlink dev reload pci/{PF}" in detail
        assert outcome["plan"]["notices"] == [f"{PF}: {detail}"]
        assert kernel.mutations == []

    def test_its_firmware_needs_no_driver(self) -> None:
        kernel = self.host()
        firmware.install(kernel, PF, connectx7("ETH(2)"))
        outcome = applied(kernel, wish({"rdma_fabric_allow_firmware": True}, vfs=2, firmware={"NUM_OF_VFS": 32}))
        assert kernel.read(f"{vfs.PCI}/{PF}/sriov_numvfs") == "0\n"
        assert f"firmware:{PF}" in [entry["id"] for entry in outcome["executed"]]

    def test_what_came_back_is_not_held_back(self) -> None:
        kernel = self.host(torn_down=False)
        outcome = applied(kernel, wish(vfs=2, eswitch_mode="switchdev"))
        assert not outcome.get("failed"), outcome["msg"]
        assert any("it has recovered since" in notice for notice in outcome["plan"]["notices"])
        assert mode(kernel) == "switchdev"

    def test_another_device_is_not_held_back(self) -> None:
        kernel = booted()
        kernel.tree.add_file(f"{vfs.PCI}/{igb.PF}/{eswitch.RELOAD_FAILED}", "")
        outcome = done(kernel, wish(eswitch_mode="switchdev"))
        assert (mode(kernel), [notice for notice in outcome["plan"]["notices"] if "reload" in notice]) == (
            "switchdev",
            [],
        )

    def test_a_recorded_host_tells_it(self) -> None:
        recorded = RecordedHost(record(self.host(), "recorded"))
        for entry in ({"vfs": 2}, {"eswitch_mode": "switchdev"}):
            desired = wish(**entry)
            assert gather(recorded, desired=desired)["eswitch"][PF]["reload_failed"] is True

    @pytest.mark.parametrize(("entry", "count"), [({"mtu": 9000}, 0), ({"vfs": 2}, 0), ({"eswitch_mode": "legacy"}, 1)])
    def test_nobody_asks_where_devlink_is_not_needed(self, entry: dict[str, Any], count: int) -> None:
        asked: list[Sequence[str]] = []

        class Watched(Kernel):
            def run(self, argv: Sequence[str], timeout: float) -> CommandResult:
                asked.append(tuple(argv))
                return super().run(argv, timeout)

        gather(Watched(host_with(CONNECTX7).document()), desired=wish(**entry))
        assert asked.count(SHOW_DEVICES) == count

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (f'{{"dev": {{"pci/{PF}": {{"reload_failed": true}}, "pci/0000:01:00.0": {{}}}}}}', {PF}),
            (f'{{"dev": {{"pci/{PF}": {{"index": 1, "reload_failed": true}}}}}}', {PF}),
            ('{"dev": {"netdevsim/netdevsim10": {"reload_failed": true}}}', set()),
            (f'{{"dev": {{"pci/{PF}": {{"reload_failed": false}}}}}}', set()),
            (f'{{"dev": {{"pci/{PF}": null}}}}', set()),
            ('{"dev": []}', set()),
            ('{"dev": {"pci/0000:', set()),
            ("", set()),
        ],
    )
    def test_what_devlink_prints(self, text: str, expected: set[str]) -> None:
        assert parse_failed_reloads(text) == expected


class TestRefusals:
    def refusal(self, kernel: Kernel, **entry: Any) -> str:
        outcome = applied(kernel, wish(ALLOWED, **entry))
        step = the_step(outcome, STEP)
        assert (step["status"], outcome["failed"]) == ("refused", True)
        assert not any("devlink" in line for line in igb.what_changed(kernel))
        return str(step["detail"])

    def test_functions_that_exist_need_consent(self) -> None:
        kernel = booted()
        done(kernel, wish(vfs=2))
        outcome = applied(kernel, wish(vfs=2, eswitch_mode="switchdev"))
        step = the_step(outcome, STEP)
        assert (step["status"], step["consent"]) == ("needs_consent", "rdma_fabric_allow_vf_reset")
        assert kernel.mutations == []

    def test_a_function_in_use_is_named(self) -> None:
        kernel = booted()
        done(kernel, wish(vfs=2))
        name = kernel.list(f"{vfs.PCI}/{PF}/virtfn1/net")[0]
        kernel.tree.discard(f"/sys/class/net/{name}")
        kernel.tree.discard(f"{vfs.PCI}/{PF}/virtfn1/net")
        assert "another network namespace" in self.refusal(kernel, vfs=2, eswitch_mode="switchdev")

    def test_a_representor_in_a_bridge_keeps_the_mode(self) -> None:
        kernel = switched()
        kernel.tree.add_link("/sys/class/net/enp24s0fr1/master", "../../../../../virtual/net/br0")
        assert "enp24s0fr1 in br0" in self.refusal(kernel, vfs=2, eswitch_mode="legacy")
        outcome = applied(kernel, wish(ALLOWED, vfs=4, eswitch_mode="switchdev"))
        assert "enp24s0fr1 in br0" in the_step(outcome, f"vfs:{PF}")["detail"]

    def test_another_driver_has_no_e_switch_of_ours(self) -> None:
        kernel = igb.booted()
        outcome = applied(kernel, igb.wish({"pci": igb.UPLINK, "eswitch_mode": "switchdev"}))
        assert "virtio-pci" in the_step(outcome, f"eswitch:{igb.UPLINK}")["detail"]

    def test_another_driver_keeps_its_functions_in_switchdev_mode(self) -> None:
        kernel = igb.booted()
        place = f"{kernel.realpath('/sys/class/net/enp1s0f0')}/phys_switch_id"
        kernel.tree.errors.pop(place, None)
        kernel.tree.add_file(place, "a0b1c2\n")
        outcome = applied(kernel, igb.wish({"pci": igb.PF, "vfs": 2, "eswitch_mode": "switchdev"}))
        step = the_step(outcome, f"vfs:{igb.PF}")
        assert (step["status"], "its e-switch is in switchdev mode" in step["detail"]) == ("refused", True)

    def test_an_infiniband_port_has_no_switchdev_mode(self) -> None:
        assert "InfiniBand" in self.refusal(booted(link_layer=INFINIBAND), eswitch_mode="switchdev")

    def test_without_devlink_the_mode_is_not_guessed(self) -> None:
        kernel = booted()
        kernel.absent.add("devlink")
        assert "devlink (iproute2) can't be run" in self.refusal(kernel, eswitch_mode="switchdev")

    @pytest.mark.parametrize(
        ("said", "quoted"),
        [
            ("kernel answers: Operation not permitted\n", "kernel answers: Operation not permitted"),
            # iproute2 ends what the driver says with a full stop (nl_dump_ext_ack); devlink adds the kernel's answer.
            (
                "Error: mlx5_core: Can't read it.\nkernel answers: Operation not permitted\n",
                "Error: mlx5_core: Can't read it; kernel answers: Operation not permitted",
            ),
        ],
    )
    def test_a_kernel_that_does_not_tell_the_mode_is_quoted(
        self, said: str, quoted: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        denied = CommandResult(1, "", said)
        real = Kernel.run
        monkeypatch.setattr(
            Kernel, "run", lambda self, argv, timeout: denied if argv[0] == "devlink" else real(self, argv, timeout)
        )
        detail = self.refusal(booted(), eswitch_mode="switchdev")
        assert f"devlink: {quoted}" in detail and "run as root" in detail

    def test_a_mode_that_nobody_gave_is_not_lost_with_a_new_number(self) -> None:
        kernel = switched()
        step = the_step(applied(kernel, wish(ALLOWED, vfs=4)), f"vfs:{PF}")
        assert step["status"] == "refused" and "eswitch_mode" in step["detail"]

    def test_the_uplink_is_left_alone(self) -> None:
        kernel = booted()
        outcome = applied(kernel, wish({"rdma_fabric_protected_interfaces": [PORT]}, eswitch_mode="switchdev"))
        assert "rdma_fabric_allow_uplink_change" in the_step(outcome, STEP)["detail"]


class TestFlowSteering:
    ASKED: ClassVar[dict[str, Any]] = {"vfs": 1, "eswitch_mode": "switchdev", "flow_steering_mode": "hmfs"}

    def test_it_is_set_before_switchdev_mode_and_once(self) -> None:
        kernel = booted()
        assert not applied(kernel, wish(**self.ASKED)).get("failed")
        assert [line for line in order_of(kernel) if "bind" not in line] == ["number 1", "runtime", "switchdev"]
        assert (steering_of(kernel, PF), mode(kernel)) == ("hmfs", "switchdev")
        assert applied(kernel, wish(**self.ASKED))["plan"]["steps"] == []

    @pytest.mark.parametrize("vfs", [0, 1])
    def test_a_removal_brings_it_back_in_legacy_mode(self, vfs: int) -> None:
        kernel = booted()
        done(kernel, wish(**{**self.ASKED, "vfs": vfs}))
        done(kernel, wish(ALLOWED), REMOVE)
        assert (steering_of(kernel, PF), mode(kernel)) == ("smfs", "legacy")

    def test_it_is_set_after_a_change_to_legacy_mode(self) -> None:
        kernel = switched(1)
        done(kernel, wish(ALLOWED, vfs=1, eswitch_mode="legacy", flow_steering_mode="dmfs"))
        assert (steering_of(kernel, PF), mode(kernel)) == ("dmfs", "legacy")

    @pytest.mark.parametrize(
        ("kernel", "says"), [(switched(1), "in legacy mode only"), (igb.booted(), "has no flow_steering_mode")]
    )
    def test_it_is_refused_where_the_kernel_refuses_it_and_not_kept(self, kernel: Kernel, says: str) -> None:
        desired = igb.wish({"pci": PF if "legacy" in says else igb.PF, "flow_steering_mode": "dmfs"})
        plan, context = plan_with_context(desired, gather(kernel, desired=desired))
        (step,) = [step for step in plan["steps"] if step["id"].endswith(":steering")]
        assert (step["status"], says in step["detail"], boot_entries(context)) == ("refused", True, [])

    def test_the_boot_unit_sets_it_again(self) -> None:
        before = booted()
        done(before, wish(**self.ASKED), EVERYTHING)
        kernel = with_disk_of(booted(), before)
        start(kernel, kernel)
        assert (steering_of(kernel, PF), mode(kernel)) == ("hmfs", "switchdev")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("EOPNOTSUPP", "NIC mode"),
        ("EINVAL", "dmesg"),
        ("EBUSY", "tc, OVS"),
        ("ENOMEM", "lower vfs"),
        ("EPERM", "Arm side"),
        ("EPERM", "Socket Direct"),
    ],
)
def test_each_error_of_the_driver_has_its_cause_and_next_step(code: str, says: str) -> None:
    trial = booted()
    applied(trial, wish(vfs=1, eswitch_mode="switchdev"))
    number = next(n for n, mutation in enumerate(trial.mutations) if "devlink" in mutation.what)
    kernel = booted()
    kernel.disturb(number, code)
    outcome = applied(kernel, wish(vfs=1, eswitch_mode="switchdev"))
    assert outcome["failed"] and says in outcome["msg"] and "next: " in outcome["msg"], outcome["msg"]
    assert (mode(kernel), drivers(kernel)) == ("legacy", ["mlx5_core"]), "the VF has its driver again"


SWEPT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "another steering": ({"vfs": 1}, {"vfs": 1, "eswitch_mode": "switchdev", "flow_steering_mode": "hmfs"}),
    "new VFs": ({}, {"vfs": 1, "eswitch_mode": "switchdev"}),
    "another number": ({"vfs": 1, "eswitch_mode": "switchdev"}, {"vfs": 2, "eswitch_mode": "switchdev"}),
    "back to legacy": ({"vfs": 1, "eswitch_mode": "switchdev"}, {"vfs": 1, "eswitch_mode": "legacy"}),
    "back to legacy with settings of it": (
        {"vfs": 1, "eswitch_mode": "switchdev"},
        {"vfs": 1, "eswitch_mode": "legacy", "vf_settings": {"trust": True}},
    ),
}


@pytest.mark.parametrize("case", first_of(SWEPT))
def test_whatever_disturbs_a_run_the_next_one_gets_there(case: str) -> None:
    before, entry = SWEPT[case]

    def start() -> Kernel:
        kernel = booted()
        if before:
            done(kernel, wish(**before))
        return kernel

    assert sweep(start, lambda kernel: applied(kernel, wish(ALLOWED, **entry)), errors=("EIO", "EBUSY")) >= 3


def test_removal_brings_the_former_mode_back() -> None:
    kernel = booted()
    done(kernel, wish(ALLOWED, vfs=2, eswitch_mode="switchdev"))
    done(kernel, wish(ALLOWED), REMOVE)
    assert (mode(kernel), drivers(kernel)) == ("legacy", [])
    theirs = switched(2)
    theirs.tree.discard("/var/lib/rdma-fabric")
    done(theirs, wish(ALLOWED, vfs=2, eswitch_mode="legacy"))
    done(theirs, wish(ALLOWED), REMOVE)
    assert mode(theirs) == "switchdev"


def test_the_boot_unit_makes_functions_and_mode_again() -> None:
    kernel = booted()
    desired = wish(vfs=2, eswitch_mode="switchdev")
    _plan, context = plan_with_context(desired, gather(kernel, desired=desired))
    assert boot_entries(context) == [{"pci": PF, "eswitch_mode": "switchdev", "vfs": 2}]
    kernel = booted()
    done(kernel, wish(vfs=2))
    desired = wish(vfs=2, eswitch_mode="switchdev")
    _plan, context = plan_with_context(desired, gather(kernel, desired=desired))
    assert boot_entries(context)[0]["eswitch_mode"] == "legacy", (
        "a mode that waits for consent does not come with a reboot"
    )


@pytest.mark.parametrize(
    "text",
    ["", "[]", "[{", '{"dev": 1}', '{"dev": {"pci/0000:18:00.0": []}}', '{"dev": {"pci/0000:18:00.0": {"mode": 7}}}'],
)
def test_what_devlink_cuts_off_tells_nothing(text: str) -> None:
    assert parse(text, PF)["mode"] is None


def test_older_devlink_has_another_word_for_encapsulation() -> None:
    text = f'{{"dev": {{"pci/{PF}": {{"mode": "switchdev", "inline-mode": "link", "encap": "enable"}}}}}}'
    assert parse(text, PF) == {"mode": "switchdev", "inline_mode": "link", "encap_mode": "enable", "problem": ""}


def test_only_ports_that_are_asked_for_are_read() -> None:
    kernel = booted()
    assert gather(kernel)["eswitch"] == {}
    assert gather(kernel, desired=wish(vfs=1))["eswitch"] == {}
    facts = gather(kernel, desired=wish(eswitch_mode="legacy"))
    assert facts["eswitch"] == {PF: {"mode": "legacy", "inline_mode": "none", "encap_mode": "basic", "problem": ""}}


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"eswitch_mode": "switch"}, "did you mean switchdev?"),
        ({"eswitch_mode": True}, "legacy or switchdev"),
        ({"eswitch_mode": ["legacy"]}, "legacy or switchdev"),
        ({"eswitch_mode": "switchdev", "vfs": 1, "vf_settings": {"vlan": 5}}, "not taken in switchdev mode"),
        ({"eswitch_mode": "switchdev", "vfs": 1, "vf_settings": {"trust": False}}, "not taken in switchdev mode"),
    ],
)
def test_bad_wishes_are_told_before_anything_is_touched(entry: dict[str, Any], says: str) -> None:
    _desired, violations, _notices = parse_host_variables("gpu01", {"rdma_fabric_interfaces": [{"pci": PF, **entry}]})
    assert len(violations) == 1
    assert says in str(violations[0])


def test_a_recorded_host_is_switched_though_the_recording_shows_its_former_mode() -> None:
    kernel, pci = Kernel(FLEET["roce-h100-01"]().document()), "0000:40:00.0"
    assert kernel.run(["devlink", "-j", "dev", "eswitch", "show", f"pci/{pci}"], 1.0).rc == 0
    entry = {"pci": pci, "vfs": 4, "eswitch_mode": "switchdev"}
    assert not applied(kernel, igb.wish(entry, **ALLOWED)).get("failed")
    assert mode_of(kernel, pci) == "switchdev"
    assert not applied(kernel, igb.wish(entry, **ALLOWED))["changed"]
