# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands on the ports of a driver: brought back by a reload, or a reason to leave it to a reboot."""

from __future__ import annotations

from typing import Any, Callable, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.own_files import JOURNAL
from ansible_collections.rdma.fabric.tests.unit._host.driver.hosts import driver_host
from ansible_collections.rdma.fabric.tests.unit._host.driver.test_driver_apply import run, runs_vendor
from ansible_collections.rdma.fabric.tests.unit._host.kernel import stack
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.vfs import MODE

PORT = "eno5"
Change = Callable[[Kernel], None]


def upper(name: str, kind: str, *, on: str = PORT, is_master: bool = False, told: bool = True) -> Change:
    """An interface that stands on another one; where sysfs does not tell its kind, netlink does."""

    def change(kernel: Kernel) -> None:
        uevent = f"DEVTYPE={kind}" if told else ""
        stack.add_virtual(
            kernel, name, mtu="1500", flags="0x1003", address="02:00:00:00:00:09", type="1", uevent=uevent
        )
        network = stack.network_of(kernel)
        stack.keep(kernel, stack.NETWORK, {**network, "kinds": {**network.get("kinds", {}), name: kind}})
        stack.stand_on(kernel, on, name, is_master=is_master)

    return change


def filtering_bridge(kernel: Kernel) -> None:
    upper("br0", "bridge", is_master=True)(kernel)
    kernel.tree.add_file(f"{stack.NET}/br0/bridge/vlan_filtering", "1\n")


def partition(kernel: Kernel) -> None:
    place = f"{kernel.tree.realpath(f'{stack.NET}/{PORT}')}".rsplit("/", 1)[0]
    attributes = {"type": "32", "flags": "0x1003", "mtu": "2044", "address": "00:01", "parent": PORT}
    for key, value in attributes.items():
        kernel.tree.add_file(f"{place}/ib0.8001/{key}", f"{value}\n")
    kernel.tree.add_link(f"{stack.NET}/ib0.8001", f"../..{place[len('/sys') :]}/ib0.8001")


def sub_function(kernel: Kernel) -> None:
    place = kernel.tree.realpath(f"{stack.NET}/{PORT}").rsplit("/net/", 1)[0]
    kernel.tree.add_file(f"{place}/mlx5_core.sf.4/sfnum", "88\n")
    kernel.tree.add_link("/sys/bus/auxiliary/devices/mlx5_core.sf.4", f"../../..{place[len('/sys') :]}/mlx5_core.sf.4")


def address_of_a_pod(kernel: Kernel) -> None:
    network = stack.network_of(kernel)
    own = kernel.read(f"{stack.NET}/{PORT}/address").strip()
    stack.keep(kernel, stack.NETWORK, {**network, "filters": {PORT: [own, "0a:58:0a:f4:01:07"]}})


def load_of(outcome: Mapping[str, Any]) -> dict[str, Any]:
    return next(step for step in outcome["plan"]["steps"] if step["id"] == "driver:load")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (upper("ovs-system", "openvswitch", is_master=True, told=False), "ovs-system (openvswitch) on eno5"),
        (upper("team0", "team", is_master=True, told=False), "team0 (team) on eno5"),
        (upper("mv0", "macvlan"), "mv0 (macvlan) on eno5"),
        (upper("iv0", "ipvlan", told=False), "iv0 (ipvlan) on eno5"),
        (upper("mv0", "macvlan", on="vlan20"), "mv0 (macvlan) on vlan20"),
        (upper("vlan20.7", "vlan", on="vlan20"), "vlan20.7 (vlan) on vlan20"),
        (upper("unknown0", "", told=False), "unknown0 (virtual) on eno5"),
        (filtering_bridge, "eno5 is a port of br0, a bridge that filters VLANs"),
        (partition, "ib0.8001 (ipoib-child) on 0000:"),
        (sub_function, "mlx5_core.sf.4 (sub-function) on 0000:"),
        (address_of_a_pod, "eno5 takes frames for 0a:58:0a:f4:01:07"),
    ],
)
def test_what_would_be_lost_leaves_the_reload_to_a_reboot(change: Change, named: str) -> None:
    kernel = driver_host()
    change(kernel)
    outcome = run(kernel)
    step = load_of(outcome)
    assert (step["status"], outcome["reboot_required"]) == ("needs_reboot", True)
    assert named in step["detail"] and "next: reboot" in step["detail"]
    assert not runs_vendor(kernel)
    assert not any(mutation.what.startswith("modprobe -r") for mutation in kernel.mutations)
    assert not kernel.exists(JOURNAL)


@pytest.mark.parametrize("mode", ["legacy", "switchdev"])
def test_devlink_tells_whether_a_port_with_a_switch_id_has_representors_to_lose(mode: str) -> None:
    kernel = driver_host()
    port = kernel.tree.realpath(f"{stack.NET}/{PORT}")
    kernel.tree.errors.pop(f"{port}/phys_switch_id", None)
    kernel.tree.add_file(f"{port}/phys_switch_id", "e41d2d0003a1b2c3\n")
    if mode == "switchdev":
        kernel.tree.add_file(f"{port.rsplit('/net/', 1)[0]}/{MODE}", mode)
    left = run(kernel)["plan"]["steps"]
    assert ["is in switchdev mode" in step["detail"] for step in left] == ([True] if mode == "switchdev" else [])
    assert runs_vendor(kernel) is (mode == "legacy")


@pytest.mark.parametrize(("kind", "told"), [("bond", True), ("bridge", True), ("vrf", False)])
def test_a_port_goes_back_to_its_master(kind: str, told: bool) -> None:
    kernel = driver_host()
    upper("master0", kind, is_master=True, told=told)(kernel)
    kernel.tree.add_file(f"{stack.NET}/{PORT}/mtu", "9000\n")
    outcome = run(kernel)
    assert not outcome.get("failed"), outcome["msg"]
    assert runs_vendor(kernel)
    assert kernel.link(f"{stack.NET}/{PORT}/master").endswith("/master0")
    assert kernel.read(f"{stack.NET}/{PORT}/mtu") == "9000\n"


def test_an_uplink_that_is_named_by_its_vlan_is_one() -> None:
    kernel = driver_host()
    outcome = run(kernel, protected=["vlan20"])
    assert "vlan20 carries the uplink" in load_of(outcome)["detail"]


def test_the_filter_of_a_bonds_port_is_the_bonds() -> None:
    kernel = driver_host()
    network = stack.network_of(kernel)
    stack.keep(kernel, stack.NETWORK, {**network, "filters": {"ens2f1": ["0a:58:0a:f4:01:07"]}})
    assert not run(kernel).get("failed")
    assert runs_vendor(kernel)
