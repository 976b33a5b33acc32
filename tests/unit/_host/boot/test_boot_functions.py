# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""VFs over a reboot: the kernel forgets them, the boot unit makes them again before the network."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.concerns import ORDER
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.own_files import PENDING_REBOOT_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import BOOT_SPEC_FILE, RESULT_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.run import baseline
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.at_boot import start
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HostSpec
from ansible_collections.rdma.fabric.tests.unit._host.igb import APPLY, PF, VF0, applied, booted, wish
from ansible_collections.rdma.fabric.tests.unit._host.kernel.boot import with_disk_of
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.vfs import PCI

EVERYTHING: Run = replace(APPLY, concerns=ORDER)
SETTINGS = {"mac": "deterministic", "vlan": 5, "spoofchk": False}


def rebooted(kernel: Kernel) -> Kernel:
    """The guest as the kernel makes it, with the files that were there."""
    return with_disk_of(booted(), kernel)


@pytest.mark.parametrize(
    "wanted",
    [
        {"vfs": 4},
        {"vfs": 4, "mtu": 9000, "vf_mtu": 9000, "state": "up"},
        {"vfs": 2, "vf_settings": SETTINGS},
    ],
)
def test_a_rebooted_host_is_what_it_was_before_anything_uses_it(wanted: dict[str, Any]) -> None:
    desired = wish({"pci": PF, **wanted})
    before = booted()
    assert not applied(before, desired, EVERYTHING).get("failed")
    kernel = rebooted(before)
    assert not kernel.exists(f"/sys/bus/pci/devices/{VF0}")
    start(kernel, kernel)
    assert json.loads(kernel.read(RESULT_FILE))["problems"] == []
    assert kernel.exists(f"/sys/bus/pci/devices/{VF0}")
    kernel.revive()
    outcome = applied(kernel, desired, EVERYTHING)
    assert (outcome["changed"], outcome["executed"], kernel.mutations) == (False, [], [])


def test_another_number_is_what_the_next_boot_brings() -> None:
    kernel = booted()
    for count in (4, 2, 7):
        desired = wish({"pci": PF, "vfs": count}, rdma_fabric_allow_vf_reset=True)
        assert not applied(kernel, desired, EVERYTHING).get("failed")
        assert json.loads(kernel.read(BOOT_SPEC_FILE))["interfaces"] == [{"pci": PF, "vfs": count}]
    kernel = rebooted(kernel)
    start(kernel, kernel)
    assert kernel.read(f"/sys/bus/pci/devices/{PF}/sriov_numvfs").strip() == "7"


# A function with an entry of its own: there only once the boot unit has made it.
OWN = {"mtu": 4200, "state": "up"}
OF_THE_PORT = {"pci": PF, "vfs": 2, "mtu": 9000}
SHORT = 10.0


def prepared(*entries: dict[str, Any], runs: int = 2) -> tuple[Kernel, HostSpec]:
    """The guest after a reboot that follows ``runs`` runs, of which the second finds all as it is to be."""
    kernel, desired = booted(), wish(*entries)
    for _run in range(runs):
        assert "failed_step" not in applied(kernel, desired, EVERYTHING)
        kernel.revive()
    return rebooted(kernel), desired


def started(kernel: Kernel) -> dict[str, Any]:
    began = kernel.now()
    start(kernel, kernel)
    result: dict[str, Any] = json.loads(kernel.read(RESULT_FILE))
    return {**result, "seconds": kernel.now() - began}


def net(kernel: Kernel, address: str) -> str:
    (name,) = kernel.list(f"/sys/bus/pci/devices/{address}/net")
    return f"/sys/class/net/{name}"


@pytest.mark.parametrize("selector", [{"pci": VF0}, {"current_name": "enp1s0f0v0"}])
def test_a_function_with_an_entry_of_its_own_is_set_up_once_it_is_made(selector: dict[str, Any]) -> None:
    kernel, desired = prepared(OF_THE_PORT, {**selector, **OWN})
    kept = kernel.read(baseline.PATH)
    result = started(kernel)
    assert (result["problems"], result["seconds"] < SHORT) == ([], True)
    assert "create 2 VFs" in result["executed"][0] and "MTU to 4200" in str(result["executed"])
    assert (kernel.read(baseline.PATH), kernel.exists(PENDING_REBOOT_FILE)) == (kept, False)
    assert kernel.read(f"{net(kernel, VF0)}/mtu") == "4200\n"
    assert int(kernel.read(f"{net(kernel, VF0)}/flags"), 16) & 1
    kernel.revive()
    outcome = applied(kernel, desired, EVERYTHING)
    assert (outcome["changed"], kernel.mutations) == (False, [])


@pytest.mark.parametrize("selector", [{"pci": VF0}, {"current_name": "enp1s0f0v0"}])
def test_one_run_makes_a_function_and_sets_up_its_entry_for_each_boot(selector: dict[str, Any]) -> None:
    kernel, desired = prepared(OF_THE_PORT, {**selector, **OWN}, runs=1)
    result = started(kernel)
    assert (result["problems"], result["seconds"] < SHORT) == ([], True)
    assert kernel.read(f"{net(kernel, VF0)}/mtu") == "4200\n"
    kernel.revive()
    assert (applied(kernel, desired, EVERYTHING)["msg"], kernel.mutations) == ("nothing to do", [])


def test_a_function_that_is_not_made_is_told_without_a_wait() -> None:
    kernel, _desired = prepared(OF_THE_PORT, {"pci": VF0, **OWN})
    kernel.tree.add_file(f"/sys/bus/pci/devices/{PF}/sriov_totalvfs", "0\n")
    result = started(kernel)
    assert result["problems"][0] == f"{VF0}: there is no such PCI function"
    assert "create 2 VFs" in result["problems"][1]
    assert result["seconds"] < SHORT


def test_a_function_whose_interface_does_not_come_is_told_after_a_short_wait() -> None:
    kernel, _desired = prepared(OF_THE_PORT, {"pci": VF0, **OWN})
    kernel.tree.add_file(f"/sys/bus/pci/devices/{PF}/sriov_drivers_autoprobe", "0\n")
    result = started(kernel)
    assert f"{VF0}: no driver is bound to it after 30 seconds" in result["problems"]


def test_functions_get_their_mtu_before_whoever_raises_the_port_has_started() -> None:
    before, desired = booted(), wish({"pci": PF, "vfs": 2, "vf_mtu": 9000})
    before.tree.add_file(f"{net(before, PF)}/mtu", "9000\n")
    assert not applied(before, desired, EVERYTHING).get("failed")
    kernel = rebooted(before)
    assert kernel.read(f"{net(kernel, PF)}/mtu") == "1500\n"
    assert started(kernel)["problems"] == []
    assert kernel.read(f"{net(kernel, VF0)}/mtu") == "9000\n"
    kernel.revive()
    assert (applied(kernel, desired, EVERYTHING)["msg"], kernel.mutations) == ("nothing to do", [])


@pytest.mark.slow
def test_whatever_disturbs_the_start_is_told_and_the_next_run_gets_there() -> None:
    entries = (OF_THE_PORT, {"pci": VF0, **OWN})
    calm, desired = prepared(*entries)
    start(calm, calm)
    count, executed = len(calm.mutations), started(calm)["executed"]
    assert executed == []
    for number in range(count):
        kernel, _desired = prepared(*entries)
        kernel.disturb(number, "EIO")
        outcome = start(kernel, kernel)
        complete = kernel.read(f"{net(kernel, VF0)}/mtu") == "4200\n" if kernel.exists(f"{PCI}/{VF0}/net") else False
        assert complete or any("next:" in problem for problem in outcome.problems), number
        kernel.revive()
        # Where the start made no functions, a run makes them and sets them up.
        _made, _set_up, again = (applied(kernel, desired, EVERYTHING) for _run in range(3))
        assert (again["msg"], kernel.read(f"{net(kernel, VF0)}/mtu")) == ("nothing to do", "4200\n"), number
