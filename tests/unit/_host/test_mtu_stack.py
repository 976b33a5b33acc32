# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MTUs of bonds, their ports, functions of those and VLANs: from the bottom up and from the top down, in one run."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.arm import touches_uplink
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import make_plan, plan_with_context
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import (
    Facts,
    desired,
    interface,
    netdev,
    steps_of,
    two_ports,
    with_functions,
)
from ansible_collections.rdma.fabric.tests.unit._host.igb import PF, REMOVE, VF0, applied, booted, wish
from ansible_collections.rdma.fabric.tests.unit._host.kernel.link import MOST_OF_IGB, NET
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.stack import add_virtual
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep

RAIL = "0000:18:00.0"
PORT, FUNCTION = "enp1s0f0", "enp1s0f0v0"


def bond_of(state: Facts, *ports: str, name: str = "bond0", mtu: int = 1500) -> Facts:
    """The same host with a bond of some of its interfaces, all with that MTU."""
    for entry in state["netdevs"]:
        if entry["name"] in ports:
            entry.update(master=name, mtu=mtu)
    state["netdevs"].append(netdev(name, None, kind="bond", mtu=mtu, lower=sorted(ports)))
    return state


def on(state: Facts, lower: str, name: str, mtu: int = 1500, kind: str = "vlan") -> Facts:
    state["netdevs"].append(netdev(name, None, kind=kind, mtu=mtu, lower=[lower]))
    return state


def mtu_steps(state: Facts, *wanted: Any, **changes: Any) -> list[Any]:
    return steps_of(make_plan(desired(*wanted, **changes), state), "mtu")


def ids(steps: list[Any]) -> list[str]:
    return [step["id"].split(":", 1)[1] for step in steps]


class TestOrder:
    @pytest.mark.parametrize("kind", ["vlan", "macvlan"])
    @pytest.mark.parametrize("name", ["backend", "zeta"])
    def test_what_stands_on_a_bond_is_raised_after_and_lowered_before_it(self, name: str, kind: str) -> None:
        for now, wanted, order in ((1500, 9000, ["bond0", name]), (9000, 1500, [name, "bond0"])):
            state = on(bond_of(two_ports(), "ens1", mtu=now), "bond0", name, now, kind)
            both = [interface(current_name=each, mtu=wanted) for each in ("bond0", name)]
            steps = mtu_steps(state, *both)
            assert (ids(steps), {step["status"] for step in steps}) == (order, {"planned"})

    @pytest.mark.parametrize(("now", "wanted"), [(1500, 9000), (9000, 1500)])
    def test_a_whole_stack_is_set_in_order(self, now: int, wanted: int) -> None:
        state = with_functions(two_ports(), RAIL, 1, mtu=now)
        state["netdevs"][0]["mtu"] = now
        state = on(on(bond_of(state, "v18n0", name="a0", mtu=now), "a0", "a1", now), "a1", "a2", now)
        names = [interface(current_name=name, mtu=wanted) for name in ("a0", "a1", "a2")]
        order = [RAIL, "a0", "a1", "a2"]
        steps = mtu_steps(state, *names, interface(pci=RAIL, mtu=wanted))
        assert ids(steps) == (order if wanted > now else order[::-1])
        assert {step["status"] for step in steps} == {"planned"}

    def test_facts_that_go_in_circles_are_planned_all_the_same(self) -> None:
        state = bond_of(bond_of(two_ports(), "ens1", "bond1"), "bond0", name="bond1")
        state["netdevs"][-1].update(master="bond0", lower=["bond0"])
        on(state, "vlan1", "vlan0")
        on(state, "vlan0", "vlan1")
        names = [interface(current_name=name, mtu=9000) for name in ("bond0", "bond1", "vlan0", "vlan1")]
        assert len(mtu_steps(state, *names)) == 4


class TestPorts:
    def bonded(self, mtu: int, vf_mtu: int) -> Facts:
        return bond_of(with_functions(two_ports(), RAIL, 2, mtu=vf_mtu), "ens1", "ens2", mtu=mtu)

    def test_functions_are_lowered_before_the_bond_of_their_port_unasked(self) -> None:
        steps = mtu_steps(
            self.bonded(9000, 9000), interface(current_name="bond0", mtu=1500), interface(pci=RAIL, vfs=2)
        )
        assert [(step["id"], step["to"]) for step in steps] == [
            (f"mtu:{RAIL}:vfs", {"0": 1500, "1": 1500}),
            ("mtu:bond0", 1500),
        ]

    @pytest.mark.parametrize("of_port", [{}, {"mtu": 9000}])
    def test_functions_are_raised_after_the_bond_of_their_port(self, of_port: dict[str, int]) -> None:
        wanted = interface(pci=RAIL, vf_mtu=9000, **of_port)
        steps = mtu_steps(self.bonded(1500, 1500), interface(current_name="bond0", mtu=9000), wanted)
        assert [(step["id"], step["status"]) for step in steps] == [
            ("mtu:bond0", "planned"),
            (f"mtu:{RAIL}:vfs", "planned"),
        ]

    def test_functions_above_the_bond_are_refused_with_the_bonds_name(self) -> None:
        (step,) = mtu_steps(self.bonded(1500, 1500), interface(pci=RAIL, vf_mtu=9000))
        assert (step["status"], "give bond0 mtu 9000" in step["detail"]) == ("refused", True)

    def test_a_port_that_is_to_have_another_mtu_than_its_bond_is_refused(self) -> None:
        for of_bond in (1500, 4200):
            wanted = [interface(current_name="bond0", mtu=of_bond), interface(pci=RAIL, mtu=9000)]
            refused = [step for step in mtu_steps(self.bonded(1500, 1500), *wanted) if step["status"] == "refused"]
            assert [step["id"] for step in refused] == [f"mtu:{RAIL}"]
            assert "it belongs to bond0" in refused[0]["detail"]

    def test_a_bond_on_functions_can_not_exceed_their_physical_one(self) -> None:
        state = bond_of(with_functions(two_ports(), RAIL, 1), "v18n0")
        (step,) = mtu_steps(state, interface(current_name="bond0", mtu=9000))
        assert step["status"] == "refused"
        assert "its member v18n0: its PF 0000:18:00.0 carries 1500" in step["detail"]

    def test_a_bond_is_limited_by_its_ports(self) -> None:
        (step,) = mtu_steps(self.bonded(1500, 1500), interface(current_name="bond0", mtu=9979))
        assert (step["status"], "mlx5 carries at most 9978" in step["detail"]) == ("refused", True)

    def test_a_bond_with_an_uplink_among_its_ports_is_refused_until_it_is_allowed(self) -> None:
        state = self.bonded(1500, 1500)
        state["uplinks"] = [{"netdev": "ens2", "pci": "0000:40:00.0", "reasons": ["default route"]}]
        (step,) = mtu_steps(state, interface(current_name="bond0", mtu=9000))
        assert (step["status"], "carries the uplink" in step["detail"]) == ("refused", True)
        allowed = desired(interface(current_name="bond0", mtu=9000), consents={"uplink_change": True})
        plan, context = plan_with_context(allowed, state)
        (step,) = steps_of(plan, "mtu")
        assert (step["status"], touches_uplink(context, step)) == ("planned", True)


class TestAbove:
    @pytest.mark.parametrize("kept_by", ["bond", "uplink"])
    def test_nothing_is_built_on_a_function_whose_common_step_is_refused(self, kept_by: str) -> None:
        state = on(with_functions(two_ports(), RAIL, 2, mtu=1500), "v18n0", "top", kind="macvlan")
        state["netdevs"][0]["mtu"] = 9000
        if kept_by == "bond":
            bond_of(state, "v18n1")
        else:
            state["uplinks"] = [{"netdev": "v18n1", "pci": "0000:18:00.2", "reasons": ["default route"]}]
        port = interface(pci=RAIL, mtu=9000, vf_mtu=4000, vfs=2)
        steps = mtu_steps(state, port, interface(current_name="top", mtu=4000))
        assert {step["id"]: step["status"] for step in steps} == {
            f"mtu:{RAIL}:vfs": "refused",
            "mtu:top": "refused",
        }
        assert "it stands on v18n0, which carries 1500" in steps[-1]["detail"]

    def test_a_vlan_above_what_it_stands_on_is_refused_with_what_to_raise(self) -> None:
        state = on(bond_of(two_ports(), "ens1"), "bond0", "backend")
        (step,) = mtu_steps(state, interface(current_name="backend", mtu=9000))
        assert (step["status"], step["detail"]) == (
            "refused",
            "it stands on bond0, which carries 1500; give that one mtu 9000",
        )

    def test_a_vlan_on_a_function_may_have_what_its_port_gives_the_function(self) -> None:
        state = on(with_functions(two_ports(), RAIL, 1), "v18n0", "backend")
        steps = mtu_steps(
            state, interface(current_name="backend", mtu=9000), interface(pci=RAIL, mtu=9000, vf_mtu=9000)
        )
        assert ids(steps) == [RAIL, f"{RAIL}:vfs", "backend"]
        assert {step["status"] for step in steps} == {"planned"}


def bonded_guest() -> Kernel:
    """The guest with two functions on a port that is in a bond, and a VLAN on the bond."""
    kernel = booted()
    for name, kind in (("bond0", "bond"), ("backend", "vlan")):
        add_virtual(kernel, name, mtu="1500", flags="0x1003", address="02:00:00:00:00:0a", type="1", ifindex="9")
        kernel.tree.add_file(f"{NET}/{name}/uevent", f"DEVTYPE={kind}\n")
    for lower, upper in ((PORT, "bond0"), ("bond0", "backend")):
        above, below = kernel.realpath(f"{NET}/{upper}"), kernel.realpath(f"{NET}/{lower}")
        kernel.tree.add_link(f"{below}/upper_{upper}", above)
        kernel.tree.add_link(f"{above}/lower_{lower}", below)
    kernel.tree.add_link(f"{kernel.realpath(f'{NET}/{PORT}')}/master", kernel.realpath(f"{NET}/bond0"))
    return kernel


def wished(mtu: int) -> Any:
    return wish(
        {"current_name": "backend", "mtu": mtu},
        {"current_name": "bond0", "mtu": mtu},
        {"pci": PF, "vfs": 2, "vf_mtu": mtu},
    )


def mtus(kernel: Kernel) -> set[str]:
    return {kernel.read(f"{NET}/{name}/mtu").strip() for name in ("backend", "bond0", PORT, FUNCTION)}


class TestOnTheKernel:
    def test_it_takes_what_is_planned_up_and_down(self) -> None:
        kernel = bonded_guest()
        for mtu in (9000, 4200, 9000):
            outcome = applied(kernel, wished(mtu))
            assert (outcome.get("failed"), outcome["plan"]["steps"], mtus(kernel)) == (None, [], {str(mtu)})
        assert not applied(kernel, wish(rdma_fabric_allow_vf_reset=True), REMOVE).get("failed")
        assert not kernel.exists(f"/sys/bus/pci/devices/{VF0}")
        assert {kernel.read(f"{NET}/{name}/mtu") for name in ("backend", "bond0", PORT)} == {"1500\n"}

    def test_what_a_driver_does_not_take_is_refused_with_its_limit_and_nothing_changes(self) -> None:
        kernel = bonded_guest()
        steps = applied(kernel, wished(9700))["plan"]["steps"]
        refused = {step["id"]: step["detail"] for step in steps if step["status"] == "refused"}
        assert str(MOST_OF_IGB) in refused["mtu:bond0"]
        assert (len(refused), mtus(kernel)) == (len(steps), {"1500"})

    def test_whatever_disturbs_a_run_the_next_one_gets_there(self) -> None:
        assert sweep(bonded_guest, lambda kernel: applied(kernel, wished(9000))) > 4
