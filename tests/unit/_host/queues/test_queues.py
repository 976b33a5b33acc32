# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rings and channels in the simulated kernel: set, kept over a boot, refused, disturbed, brought back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.persisted import boot_entries
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.concerns import ORDER
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.queues import parse
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.arm import touches_uplink
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import BOOT_SPEC_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import record
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.at_boot import start
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import plan_with_context
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HostSpec, parse_host_variables
from ansible_collections.rdma.fabric.tests.unit._host import igb, mlx5
from ansible_collections.rdma.fabric.tests.unit._host.families import ETHERNET, NETDEVS, PF
from ansible_collections.rdma.fabric.tests.unit._host.kernel import eswitch, queues
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep
from ansible_collections.rdma.fabric.tests.unit._host.mlx5 import booted, the_step, wish

PORT = NETDEVS[ETHERNET]
OURS = ("naming", "queues", "leftovers")
APPLY: Run = replace(igb.APPLY, concerns=OURS)
REMOVE: Run = replace(igb.REMOVE, concerns=OURS)
STEP = f"queues:{PF}"
ALL = {"rx_ring": 8192, "tx_ring": 4096, "channels": 16}


def host() -> Kernel:
    kernel = booted()
    queues.install(kernel, PORT)
    return kernel


def done(kernel: Kernel, desired: HostSpec, run: Run = APPLY) -> Mapping[str, Any]:
    return mlx5.done(kernel, desired, run)


def applied(kernel: Kernel, desired: HostSpec) -> Mapping[str, Any]:
    return mlx5.applied(kernel, desired, APPLY)


class TestSetting:
    def test_rings_and_channels_are_set_once(self) -> None:
        kernel = host()
        outcome = applied(kernel, wish(queues=ALL))
        assert [line for line in igb.what_changed(kernel) if "ethtool" in line] == [
            f"run ethtool -G {PORT} rx 8192 tx 4096",
            f"run ethtool -L {PORT} combined 16",
        ]
        assert queues.numbers(kernel, PORT) == {"rx": 8192, "tx": 4096, "combined": 16}
        assert "the receive ring to 8192 (now 1024)" in outcome["diff"]["prepared"]
        kernel.revive()
        assert (applied(kernel, wish(queues=ALL))["plan"]["steps"], kernel.mutations) == ([], [])

    def test_only_what_differs_is_set(self) -> None:
        kernel = host()
        applied(kernel, wish(queues={"rx_ring": 1024, "channels": 8}))
        assert [line for line in igb.what_changed(kernel) if "ethtool" in line] == [f"run ethtool -L {PORT} combined 8"]

    def test_the_interface_is_found_by_its_new_name(self) -> None:
        kernel = host()
        done(kernel, wish(queues=ALL, name="rail0"))
        assert queues.numbers(kernel, "rail0")["rx"] == 8192

    def test_a_number_that_the_driver_rounds_is_told_and_taken_back(self) -> None:
        kernel = host()
        outcome = applied(kernel, wish(queues={"rx_ring": 5000}))
        assert outcome["failed"] and "rx_ring is 8192, not 5000: drivers round" in outcome["msg"]
        assert queues.numbers(kernel, PORT)["rx"] == 1024

    def test_removal_brings_back_what_several_runs_have_set(self) -> None:
        kernel = host()
        for asked in ({"channels": 16}, {"rx_ring": 4096}, {"channels": 8, "tx_ring": 2048}):
            done(kernel, wish(queues=asked))
        done(kernel, wish(), REMOVE)
        assert queues.numbers(kernel, PORT) == {"rx": 1024, "tx": 1024, "combined": 63}

    def test_removal_brings_the_former_numbers_back(self) -> None:
        kernel = host()
        done(kernel, wish(queues=ALL))
        done(kernel, wish(), REMOVE)
        assert queues.numbers(kernel, PORT) == queues.USUAL


class TestRefusals:
    def refusal(self, kernel: Kernel, variables: dict[str, Any] | None = None, **given: int) -> str:
        step = the_step(applied(kernel, wish(variables, queues=given)), STEP)
        assert (step["status"], kernel.mutations) == ("refused", [])
        return str(step["detail"])

    def test_more_than_the_driver_has(self) -> None:
        assert "rx_ring 9000 is above 8192" in self.refusal(host(), rx_ring=9000)

    def test_a_driver_that_does_not_tell(self) -> None:
        assert "does not tell channels" in self.refusal(booted(), channels=4)

    def test_without_ethtool(self) -> None:
        kernel = host()
        kernel.absent.add("ethtool")
        assert "ethtool is not installed" in self.refusal(kernel, channels=4)

    def test_the_uplink(self) -> None:
        uplink = {"rdma_fabric_protected_interfaces": [PORT]}
        assert "rdma_fabric_allow_uplink_change" in self.refusal(host(), uplink, channels=4)
        kernel = host()
        desired = wish({**uplink, "rdma_fabric_allow_uplink_change": True}, queues={"channels": 4})
        plan, context = plan_with_context(desired, gather(kernel, desired=desired), OURS)
        (step,) = plan["steps"]
        assert (step["status"], touches_uplink(context, step)) == ("planned", True)


class TestEswitch:
    def test_what_the_mode_takes_away_is_set_again_by_the_same_run(self) -> None:
        kernel, desired = host(), wish(queues={"channels": 63}, vfs=2, eswitch_mode="switchdev")
        run = replace(APPLY, concerns=("vfs", "eswitch", *OURS))
        outcome = mlx5.done(kernel, desired, run)
        assert outcome["plan"]["steps"] == []
        assert [each["id"] for each in outcome["executed"]][-1] == STEP
        assert queues.numbers(kernel, PORT)["combined"] == 63
        mlx5.applied(kernel, desired, run)
        assert kernel.mutations == []


class TestBoot:
    def test_the_boot_unit_sets_them_again(self) -> None:
        kernel = host()
        mlx5.done(kernel, wish(queues=ALL), replace(APPLY, concerns=ORDER))
        queues.install(kernel, PORT)
        start(kernel, kernel)
        assert queues.numbers(kernel, PORT) == {"rx": 8192, "tx": 4096, "combined": 16}

    def test_the_boot_unit_sets_what_the_mode_of_the_e_switch_takes_away(self) -> None:
        """The number of channels is the one that the port starts with, so the first look finds nothing to set."""
        kernel, desired = host(), wish(queues={"channels": 63}, vfs=2, eswitch_mode="switchdev")
        mlx5.done(kernel, desired, replace(APPLY, concerns=ORDER))
        rebooted = host()
        rebooted.tree.add_file(BOOT_SPEC_FILE, kernel.read(BOOT_SPEC_FILE))
        outcome = start(rebooted, rebooted)
        assert (outcome.problems, eswitch.mode_of(rebooted, PF)) == ((), "switchdev")
        assert queues.numbers(rebooted, PORT)["combined"] == 63

    def test_what_is_refused_is_not_kept(self) -> None:
        kernel = host()
        desired = wish(queues={"rx_ring": 9000}, eswitch_mode="legacy")
        _plan, context = plan_with_context(desired, gather(kernel, desired=desired))
        assert boot_entries(context) == [{"pci": PF, "eswitch_mode": "legacy"}]


class TestReading:
    def test_only_what_is_asked_for_is_read(self) -> None:
        kernel = host()
        assert gather(kernel, desired=wish(mtu=9000))["queues"] == {}
        facts = gather(kernel, desired=wish(queues={"channels": 4}))
        assert facts["queues"] == {PF: {"channels": {"now": 63, "most": 63}}}

    def test_a_recorded_host_tells_them(self) -> None:
        kernel = host()
        desired = wish(queues=ALL)
        assert (
            gather(RecordedHost(record(kernel, "recorded")), desired=desired)["queues"]
            == gather(kernel, desired=desired)["queues"]
        )

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "Pre-set maximums:\nRX:\t\t8192\n",
            "Current hardware settings:\nRX:\t\t1024\n",
            "Pre-set maximums:\nRX:\t\tn/a\nCurrent hardware settings:\nRX:\t\tn/a\n",
            "Pre-set maximums:\nRX:\t\t0\nCurrent hardware settings:\nRX:\t\t0\n",
            "Pre-set maximums:\nRX:\t\t99999999999\nCurrent hardware settings:\nRX:\t\t1\n",
        ],
    )
    def test_what_is_cut_off_or_not_there_tells_nothing(self, text: str) -> None:
        assert parse(text) == {}

    def test_other_rows_are_no_rings(self) -> None:
        text = (
            "Ring parameters for x:\nPre-set maximums:\nRX:\t\t8192\nRX Mini:\tn/a\nRX Jumbo:\t4\nTX:\t\t8192\n"
            "TX push buff len:\tn/a\nCurrent hardware settings:\nRX:\t\t1024\nRX Jumbo:\t2\nTX:\t\t512\nCQE Size:\t64\n"
        )
        assert parse(text) == {"rx_ring": {"now": 1024, "most": 8192}, "tx_ring": {"now": 512, "most": 8192}}


class TestInput:
    @pytest.mark.parametrize(
        ("given", "path"),
        [
            ({"rx_ring": 0}, "[0].queues.rx_ring"),
            ({"channels": -1}, "[0].queues.channels"),
            ({"tx_ring": 65537}, "[0].queues.tx_ring"),
            ({"tx_ring": "8192"}, "[0].queues.tx_ring"),
            ({"rx_ring": True}, "[0].queues.rx_ring"),
            ({"rx": 8192}, "[0].queues.rx"),
            (8192, "[0].queues"),
            ([8192], "[0].queues"),
        ],
    )
    def test_what_is_no_number_of_queues_is_refused(self, given: Any, path: str) -> None:
        found = parse_host_variables("gpu01", {"rdma_fabric_interfaces": [{"pci": PF, "queues": given}]})[1]
        assert [violation.path for violation in found] == [path]

    def test_nothing_given_is_nothing_asked(self) -> None:
        assert wish(queues={"rx_ring": None})["interfaces"][0]["queues"] is None


def test_whatever_disturbs_a_run_the_next_one_gets_there() -> None:
    assert sweep(host, lambda kernel: applied(kernel, wish(queues=ALL)), ("EIO", "EINVAL", "EBUSY")) >= 2
