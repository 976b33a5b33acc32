# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What files of ours keep goes with the next boot once nothing asks for it, and the steps about them say what it is."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.orphaned import kept_no_longer, lost_with
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.kernel.modules import LOAD_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.memory.hugepages import TMPFILES_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import NOTHING, PLANNED
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.managers import ifupdown, netplan, network_manager
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import NETPLAN_FILE, UNIT_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec import sysctls
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.unit._host.full_hosts import HOSTS
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

APPLY = Run(check=False, diff=True, mode="apply", recorded=False, strict=False)
CHECK = Run(check=True, diff=True, mode="apply", recorded=False, strict=False)
ON = ", from the next boot on"
NETWORKD = "/etc/systemd/network"
RAIL, OTHER = f"{NETWORKD}/30-rail.network.d/90-rdma-fabric.conf", f"{NETWORKD}/20-other.network.d/90-rdma-fabric.conf"
OTHER_NAME = f"{NETWORKD}/05-rdma-fabric-0000-01-00.1.link"
RDMA_NAME = "/etc/udev/rules.d/60-rdma-fabric-0000-18-00.0.rules"
ROUTE: Any = {"to": "10.9.0.0/16", "via": "10.1.0.1", "table": 254, "metric": 0, "on-link": False}
RULE: Any = {"from": "10.1.0.2/32", "to": None, "table": 101, "priority": 30000}


@pytest.fixture(scope="module", name="brought")
def everything_applied() -> dict[str, Kernel]:
    """Bring each host to the state in which everything is asked of it."""
    kernels = {}
    for name, full in HOSTS.items():
        kernels[name] = full.host()
        apply(kernels[name], check_spec(copy.deepcopy(full.wish)), APPLY, None, kernels[name])
        kernels[name].revive()
    return kernels


def interrupts(kernel: Kernel, wish: dict[str, Any]) -> dict[str, str]:
    """Return what each step that would be executed interrupts, by its id, without those that interrupt nothing."""
    steps = preview(kernel, check_spec(wish), CHECK, None)["plan"]["steps"]
    found = {step["id"]: step["interrupts"] for step in steps if step["status"] == PLANNED}
    return {step: told for step, told in found.items() if told != NOTHING}


def without(host: str, *place: Any) -> dict[str, Any]:
    """Return all that is asked of a host but what stands at this place."""
    wish = copy.deepcopy(HOSTS[host].wish)
    within: Any = wish
    for key in place[:-1]:
        within = within[key]
    del within[place[-1]]
    return wish


@pytest.mark.parametrize(
    ("host", "place", "step", "told"),
    [
        ("igb", ("kernel_modules",), f"leftovers:{LOAD_FILE}", "the kernel modules ib_umad, rdma_ucm that it loads"),
        ("igb", ("sysctls",), f"leftovers:{sysctls.FILE}", "the sysctls net.core.rmem_max that it sets"),
        ("igb", ("hugepages",), f"leftovers:{TMPFILES_FILE}", "the huge pages that it reserves"),
        ("igb", ("interfaces", 1, "mtu"), f"boot:{OTHER}", "MTU 4200 that it no longer keeps"),
        ("igb", ("interfaces", 1, "state"), f"boot:{OTHER}", "state down that it no longer keeps"),
        ("igb", ("interfaces", 1, "name"), f"naming:{OTHER_NAME}", "what finds rail1 by its name"),
        ("mlx5", ("interfaces", 0, "rdma_name"), f"naming:{RDMA_NAME}", "what finds mlx5_rail0 by its name"),
        ("mlx5", ("pcie",), f"boot:{UNIT_FILE}", "max_read_request of PCIe that it sets"),
    ],
)
def test_what_nothing_asks_for_any_more_goes_with_the_next_boot_and_is_told(
    brought: dict[str, Kernel], host: str, place: tuple[Any, ...], step: str, told: str
) -> None:
    assert interrupts(brought[host], without(host, *place)) == {step: f"{told}{ON}"}


def test_an_mtu_that_the_boot_unit_keeps_for_functions_is_not_lost(brought: dict[str, Kernel]) -> None:
    assert interrupts(brought["igb"], without("igb", "interfaces", 0, "mtu")) == {}


def test_routes_go_with_the_entry_of_their_interface(brought: dict[str, Kernel]) -> None:
    found = interrupts(brought["igb"], without("igb", "interfaces"))
    assert found[f"leftovers:{RAIL}"] == f"MTU 9000, 2 routes and 1 rule that it keeps{ON}"
    assert found[f"leftovers:{OTHER}"] == f"MTU 4200 and state down that it keeps{ON}"


def test_files_of_every_manager_are_understood() -> None:
    device = network_manager.DeviceMtu("ether", 9000)
    addition = netplan.Addition(9000, "down", [ROUTE], [RULE])
    told = f"1 route and 1 rule that it keeps{ON}"
    for path, text, expected in (
        (network_manager.OWN_FILE, network_manager.file_text({"rail0": device}), f"MTU 9000 that it keeps{ON}"),
        (NETPLAN_FILE, netplan.file_text({"rail0": addition}), f"MTU 9000, state down, {told}"),
        (ifupdown.OWN_FILE, ifupdown.file_text({"rail0": 9000}, {"rail0": ([ROUTE], [RULE])}), f"MTU 9000, {told}"),
    ):
        assert lost_with(path, text) == expected


def test_a_value_that_takes_the_place_of_another_is_no_loss() -> None:
    texts = [ifupdown.file_text(mtus, {}) for mtus in ({"a": 9000, "b": 4200}, {"a": 9000, "b": 1500}, {"a": 9000})]
    assert kept_no_longer(texts[0], texts[1]) == NOTHING
    assert kept_no_longer(texts[0], texts[2]) == f"MTU 4200 that it no longer keeps{ON}"
