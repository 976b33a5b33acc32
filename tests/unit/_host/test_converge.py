# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Applying a plan: what was shown is what is done, whatever disturbs it the next run gets there, and all goes back."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.kernel.modules import LOAD_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.max_mtu import details_command
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import (
    JOIN_ENABLED_BY,
    JOIN_UNIT_FILE,
    MARKER,
    BrokenState,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.run import baseline
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.sweeps import first_of
from ansible_collections.rdma.fabric.tests.unit._host.kernel.kmods import MISSING
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import settled, sweep

APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
CHECK = Run(check=True, diff=True, mode="apply", recorded=False)
REMOVE = Run(check=False, diff=True, mode="apply", recorded=False, state="absent")

# What is asked of a recorded host, by its name: module, MTU and link of ports that are no uplinks.
WISHES: dict[str, dict[str, Any]] = {
    "egx-01": {
        "kernel_modules": ["rdma_ucm", "ib-umad"],
        "interfaces": [
            {"pci": "0000:37:00.0", "mtu": 9000, "state": "down"},
            {"pci": "0000:37:00.1", "mtu": 4200, "state": "up"},
        ],
    },
    "roce-h100-01": {
        "kernel_modules": ["rdma_ucm"],
        "interfaces": [
            {"pci": "0000:18:00.0", "mtu": 9000},
            {"pci": "0000:29:00.0", "mtu": 1500, "state": "up"},
        ],
    },
    "vm-vf-01": {"interfaces": [{"pci": "0000:05:00.0", "mtu": 9000, "state": "down"}]},
    "cpu-01": {"kernel_modules": ["ib_umad", "ib_uverbs", "rdma_cm"]},
}


def host(name: str) -> Kernel:
    return Kernel(FLEET[name]().document())


def applied(kernel: Kernel, wish: dict[str, Any], run: Run = APPLY) -> Mapping[str, Any]:
    return apply(kernel, check_spec(wish), run, None, kernel)


def previewed(kernel: Kernel, wish: dict[str, Any], run: Run = CHECK) -> Mapping[str, Any]:
    return preview(kernel, check_spec(wish), run, None)


def settings(kernel: Kernel, netdev: str) -> tuple[str, int]:
    net = f"/sys/class/net/{netdev}"
    return kernel.read(f"{net}/mtu").strip(), int(kernel.read(f"{net}/flags"), 16) & 1


class TestApply:
    def test_the_host_gets_what_is_asked_for(self) -> None:
        kernel = host("egx-01")
        outcome = applied(kernel, WISHES["egx-01"])
        assert (outcome["changed"], outcome.get("failed")) == (True, None)
        assert settings(kernel, "ens2f0") == ("9000", 0)
        assert settings(kernel, "ens2f1") == ("4200", 1)
        assert kernel.read(LOAD_FILE).splitlines()[1:] == ["ib_umad", "rdma_ucm"]
        assert kernel.exists("/sys/module/ib_umad")
        assert outcome["plan"]["steps"] == []

    @pytest.mark.parametrize("name", WISHES)
    def test_what_was_shown_is_what_is_done_line_for_line(self, name: str) -> None:
        kernel = host(name)
        shown = previewed(kernel, WISHES[name])
        assert kernel.mutations == []
        done = applied(kernel, WISHES[name])
        assert shown["changed"] and done["changed"]
        assert done["diff"] == shown["diff"]
        assert [step["line"] for step in done["executed"]] == [
            line for line in shown["diff"]["prepared"].splitlines() if line.startswith("planned: ")
        ]

    @pytest.mark.parametrize("name", WISHES)
    def test_a_second_run_changes_nothing(self, name: str) -> None:
        kernel = host(name)
        applied(kernel, WISHES[name])
        kernel.revive()
        again = applied(kernel, WISHES[name])
        assert (again["changed"], again["msg"], kernel.mutations) == (False, "nothing to do", [])

    @pytest.mark.slow
    @pytest.mark.parametrize("name", WISHES)
    def test_whatever_disturbs_a_run_the_next_one_ends_where_a_calm_one_does(self, name: str) -> None:
        assert sweep(lambda: host(name), lambda kernel: applied(kernel, WISHES[name])) > 4

    def test_seconds_are_told_for_each_step(self) -> None:
        outcome = applied(host("cpu-01"), WISHES["cpu-01"])
        assert [sorted(step) for step in outcome["executed"]] == [["id", "line", "seconds"]] * 3


class TestFailures:
    def test_a_failed_step_ends_the_run_and_tells_everything(self) -> None:
        kernel = host("cpu-01")
        wish = {"kernel_modules": ["ib_umad", MISSING, "rdma_cm"]}
        outcome = applied(kernel, wish)
        assert (outcome["failed"], outcome["changed"]) == (True, True)
        assert [step["id"] for step in outcome["executed"]] == ["modules:ib_umad"]
        assert outcome["failed_step"]["id"] == f"modules:{MISSING}"
        assert "install the package" in outcome["failed_step"]["error"]
        assert [line.split(":")[1] for line in outcome["not_reached"]] == [" modules rdma_cm"]
        for part in ("1 of 3 steps executed", "not found in directory", "next: ", "not reached: 1"):
            assert part in outcome["msg"]

    def test_what_a_failed_step_has_done_is_taken_back(self) -> None:
        kernel = host("cpu-01")
        calm = host("cpu-01")
        applied(calm, {"kernel_modules": ["rdma_cm"]})
        kernel.disturb([m.what for m in calm.mutations].index("modprobe rdma_cm") + 1, "ENOSPC")
        outcome = applied(kernel, {"kernel_modules": ["rdma_cm"]})
        assert outcome["failed_step"]["undone"] == ["run rmmod rdma_cm"]
        assert not kernel.exists("/sys/module/rdma_cm")
        assert "the file system is full" in outcome["msg"]

    def test_what_can_not_be_taken_back_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kernel = host("egx-01")
        wish = {"interfaces": [{"pci": "0000:37:00.0", "mtu": 9000}]}

        def stuck(argv: Any, timeout: float) -> Any:
            result = Kernel.run(kernel, argv, timeout)
            if "set" in argv:
                kernel.tree.add_file("/sys/class/net/ens2f0/mtu", "1400\n")
            return result

        monkeypatch.setattr(kernel, "run", stuck)
        outcome = applied(kernel, wish)
        assert "verification failed: ens2f0 has an MTU of 1400, not 9000" in outcome["msg"]
        assert outcome["failed_step"]["undone"] == ["run ip link set dev ens2f0 mtu 1500"]

    @pytest.mark.parametrize("after", ["ens2f0", "ens2f1"], ids=["before-it-is-verified", "after-it-was-verified"])
    def test_an_mtu_that_another_program_changes_meanwhile_is_set_again(
        self, after: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """NetworkManager gives a VLAN the MTU of the device below it, a moment after that one has got another."""
        kernel = host("egx-01")
        wish = {"interfaces": [{"pci": f"0000:37:00.{port}", "mtu": 9000} for port in (0, 1)]}
        answers = [1400]

        def answered(argv: Any, timeout: float) -> Any:
            result = Kernel.run(kernel, argv, timeout)
            if "set" in argv and after in argv and answers:
                kernel.tree.add_file("/sys/class/net/ens2f0/mtu", f"{answers.pop()}\n")
            return result

        monkeypatch.setattr(kernel, "run", answered)
        outcome = applied(kernel, wish)
        assert (outcome.get("failed"), outcome["plan"]["steps"]) == (None, [])
        assert [kernel.read(f"/sys/class/net/ens2f{port}/mtu") for port in (0, 1)] == ["9000\n", "9000\n"]

    def test_an_interface_that_vanishes_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kernel = host("egx-01")
        seen = kernel.run

        def vanishing(argv: Any, timeout: float) -> Any:
            if "ens2f0" in argv:
                kernel.tree.discard("/sys/class/net/ens2f1")
                kernel.tree.discard("/sys/bus/pci/devices/0000:37:00.1/net")
            return seen(argv, timeout)

        monkeypatch.setattr(kernel, "run", vanishing)
        outcome = applied(kernel, WISHES["egx-01"])
        assert outcome["failed"] and "0000:37:00.1" in outcome["msg"] and "next: " in outcome["msg"]

    def test_a_missing_program_is_named(self) -> None:
        kernel = host("egx-01")
        kernel.absent.add("ip")
        outcome = applied(kernel, {"interfaces": [{"pci": "0000:37:00.0", "mtu": 9000}]})
        assert "the program is not installed" in outcome["msg"]

    def test_a_program_that_hangs_is_ended_and_named(self) -> None:
        kernel = host("egx-01")
        kernel.hanging.add("ip")
        outcome = applied(kernel, {"interfaces": [{"pci": "0000:37:00.0", "mtu": 9000}]})
        assert "ip: Connection timed out (ETIMEDOUT)" in outcome["msg"]

    def test_an_mtu_the_driver_does_not_carry_is_explained(self) -> None:
        wish = {"interfaces": [{"current_name": "ens3", "mtu": 65000}], "consents": {"uplink_change": True}}
        document = FLEET["cpu-01"]().document()
        # A kernel before 4.19 tells no limit.
        document["commands"][" ".join(details_command("ens3"))] = {"rc": 0, "stdout": "[{}]", "stderr": ""}
        outcome = applied(Kernel(document), wish)
        assert "mtu greater than device maximum" in outcome["msg"]
        assert "lower mtu in rdma_fabric_interfaces" in outcome["msg"]


class TestRefused:
    WISH: ClassVar = {"kernel_modules": ["rdma_ucm"], "interfaces": [{"current_name": "eno1", "state": "down"}]}

    def test_what_is_refused_stays_and_fails_a_strict_run_after_the_rest_is_done(self) -> None:
        kernel = host("egx-01")
        outcome = applied(kernel, self.WISH)
        assert settings(kernel, "eno1")[1] == 1
        assert (outcome["failed"], len(outcome["executed"])) == (True, 1)
        assert "rdma_fabric_host_strict: false" in outcome["msg"]
        assert "it carries the uplink" in outcome["msg"]
        again = applied(kernel, self.WISH)
        assert (again["failed"], again["changed"]) == (True, False)

    def test_a_run_that_is_not_strict_goes_on(self) -> None:
        run = Run(check=False, diff=True, mode="apply", recorded=False, strict=False)
        outcome = applied(host("egx-01"), self.WISH, run)
        assert ("failed" in outcome, outcome["summary"]["refused"], outcome["summary"]["executed"]) == (False, 1, 1)


class TestRemoval:
    @pytest.mark.parametrize("name", WISHES)
    def test_the_host_is_as_it_was_before_the_first_run(self, name: str) -> None:
        kernel = host(name)
        before = settled(kernel)
        applied(kernel, WISHES[name])
        assert settled(kernel) != before
        shown = previewed(kernel, {}, Run(check=True, diff=True, mode="apply", recorded=False, state="absent"))
        outcome = applied(kernel, {}, REMOVE)
        assert outcome.get("failed") is None, outcome["msg"]
        assert outcome["diff"] == shown["diff"]
        assert settled(kernel) == before
        kernel.revive()
        assert (applied(kernel, {}, REMOVE)["changed"], kernel.mutations) == (False, [])

    @pytest.mark.parametrize("name", first_of(sorted(WISHES)))
    def test_a_disturbed_removal_is_completed_by_the_next(self, name: str) -> None:
        def start() -> Kernel:
            kernel = host(name)
            applied(kernel, WISHES[name])
            kernel.revive()
            return kernel

        assert sweep(start, lambda kernel: applied(kernel, {}, REMOVE)) > 3

    def test_the_value_before_the_first_change_is_kept(self) -> None:
        kernel = host("egx-01")
        for mtu in (9000, 4200):
            applied(kernel, {"interfaces": [{"pci": "0000:37:00.0", "mtu": mtu}]})
        assert json.loads(kernel.read(baseline.PATH))["settings"] == {"mtu:0000:37:00.0": 1500}

    def test_a_setting_that_was_not_reached_is_not_kept(self) -> None:
        kernel = host("cpu-01")
        applied(kernel, {"kernel_modules": ["ib_umad", MISSING, "rdma_cm"]})
        kept = json.loads(kernel.read(baseline.PATH))["settings"]
        assert "modules:rdma_cm" not in kept

    def test_a_module_in_use_stays_and_is_told(self) -> None:
        kernel = host("cpu-01")
        applied(kernel, WISHES["cpu-01"])
        text = kernel.read("/proc/modules").replace("rdma_cm 16384 0 -", "rdma_cm 16384 1 rpcrdma,")
        kernel.tree.add_file("/proc/modules", text)
        outcome = applied(kernel, {}, REMOVE)
        assert "used by rpcrdma" in outcome["plan"]["notices"][0]
        assert not kernel.exists(baseline.PATH)

    def test_a_module_goes_without_those_that_it_needed(self) -> None:
        kernel = host("cpu-01")
        applied(kernel, WISHES["cpu-01"])
        needed = "mlx5_core 16384 1 rdma_cm, Live 0x0000000000000000\n"
        kernel.tree.add_file("/proc/modules", kernel.read("/proc/modules") + needed)
        kernel.tree.add_file("/sys/module/mlx5_core/refcnt", "1\n")
        outcome = applied(kernel, {}, REMOVE)
        assert outcome.get("failed") is None, outcome["msg"]
        assert not kernel.exists("/sys/module/rdma_cm") and kernel.exists("/sys/module/mlx5_core")

    def test_a_module_whose_devices_would_go_with_it_stays_and_is_told(self) -> None:
        kernel = host("cpu-01")
        applied(kernel, {"kernel_modules": ["mlx5_ib", "ib_ipoib"]})
        outcome = applied(kernel, {}, REMOVE)
        assert [step["id"] for step in outcome["executed"]] == [f"leftovers:{LOAD_FILE}"]
        assert all(kernel.exists(f"/sys/module/{name}") for name in ("mlx5_ib", "ib_ipoib"))
        told = [f"the kernel module {name} stays loaded until the next boot" for name in ("ib_ipoib", "mlx5_ib")]
        assert [notice.split(":")[0] for notice in outcome["plan"]["notices"]] == told
        kernel.revive()
        assert (applied(kernel, {}, REMOVE)["changed"], kernel.mutations) == (False, [])

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2, "settings": {}}', '{"format": 1, "settings": []}'])
    def test_kept_values_that_can_not_be_read_stop_the_run_before_anything_changes(self, text: str) -> None:
        kernel = host("cpu-01")
        kernel.tree.add_file(baseline.PATH, text)
        with pytest.raises(BrokenState, match="next: "):
            applied(kernel, WISHES["cpu-01"])
        assert kernel.mutations == []


class TestModulesAtBoot:
    def test_a_module_that_is_loaded_is_loaded_at_boot_as_well(self) -> None:
        kernel = host("cpu-01")
        kernel.run(["modprobe", "ib_umad"], 1)
        outcome = applied(kernel, {"kernel_modules": ["ib_umad"]})
        assert "load the kernel module ib_umad at every boot [boot;" in outcome["executed"][0]["line"]
        assert kernel.read(LOAD_FILE).endswith("\nib_umad\n")

    def test_a_file_that_somebody_changed_is_put_right(self) -> None:
        kernel = host("cpu-01")
        applied(kernel, {"kernel_modules": ["ib_umad"]})
        kernel.tree.add_file(LOAD_FILE, kernel.read(LOAD_FILE) + "# mine\n")
        assert len(applied(kernel, {"kernel_modules": ["ib_umad"]})["executed"]) == 1
        assert "mine" not in kernel.read(LOAD_FILE)

    def test_what_is_not_asked_for_any_more_leaves_the_file(self) -> None:
        kernel = host("cpu-01")
        applied(kernel, {"kernel_modules": ["ib_umad", "rdma_cm"]})
        applied(kernel, {"kernel_modules": ["rdma_cm"]})
        assert "ib_umad" not in kernel.read(LOAD_FILE)
        outcome = applied(kernel, {})
        assert [step["id"] for step in outcome["executed"]] == [f"leftovers:{LOAD_FILE}"]
        assert not kernel.exists(LOAD_FILE)

    def test_a_file_of_somebody_else_is_left_alone(self) -> None:
        kernel = host("cpu-01")
        kernel.tree.add_file("/etc/modules-load.d/rdma-fabric-notes.conf", "ib_umad\n")
        assert applied(kernel, {})["plan"]["steps"] == []


class TestJoinUnit:
    def test_the_unit_of_a_first_boot_stays_until_everything_is_taken_back(self) -> None:
        kernel = host("cpu-01")
        kernel.tree.add_file(JOIN_UNIT_FILE, f"# {MARKER}\n[Unit]\n")
        kernel.tree.add_file(JOIN_ENABLED_BY, "")
        applied(kernel, WISHES["cpu-01"])
        assert applied(kernel, {})["plan"]["steps"] == []
        assert kernel.exists(JOIN_UNIT_FILE) and kernel.exists(JOIN_ENABLED_BY)
        outcome = applied(kernel, {}, REMOVE)
        assert f"leftovers:{JOIN_UNIT_FILE}" in [step["id"] for step in outcome["executed"]]
        assert not kernel.exists(JOIN_UNIT_FILE) and not kernel.exists(JOIN_ENABLED_BY)

    def test_a_unit_of_somebody_else_is_left_alone(self) -> None:
        kernel = host("cpu-01")
        kernel.tree.add_file(JOIN_UNIT_FILE, "[Unit]\n")
        assert applied(kernel, {}, REMOVE)["plan"]["steps"] == []
