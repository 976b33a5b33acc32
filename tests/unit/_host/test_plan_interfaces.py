# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.links.mtu import roce_mtu
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import describe
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import make_plan
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.explained import remedy_of
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import (
    desired,
    facts,
    facts_after,
    interface,
    ipoib,
    netdev,
    nic,
    steps_of,
    two_ports,
    vf,
    with_functions,
)

PF = "0000:18:00.0"
OTHER = "0000:40:00.0"
UPLINK = "0000:02:00.0"


def plan_steps(concern: str, state: Any, *interfaces: Any, **changes: Any) -> list[Any]:
    return steps_of(make_plan(desired(*interfaces, **changes), state), concern)


def the_step(concern: str, state: Any, *interfaces: Any, **changes: Any) -> Any:
    steps = plan_steps(concern, state, *interfaces, **changes)
    assert len(steps) == 1, steps
    return steps[0]


CONSENTED = {"vf_reset": True, "uplink_change": True}


class TestMatching:
    @pytest.mark.parametrize("selector", [{"pci": "0000:18:00.1"}, {"current_name": "ens3"}])
    def test_an_unknown_one_is_refused(self, selector: dict[str, str]) -> None:
        step = the_step("naming", two_ports(), interface(**selector, mtu=9000))
        assert (step["status"], step["detail"]) == ("refused", "this host has no such interface")

    @pytest.mark.parametrize(
        ("driver", "rdma", "is_lent"),
        [("igb", [], True), ("mlx5_core", ["mlx5_0"], True), ("mlx5_core", [], False), ("vfio-pci", [], False)],
    )
    def test_one_that_a_pod_has_whole_is_left_alone_until_it_is_back(
        self, driver: str, rdma: list[str], is_lent: bool
    ) -> None:
        state = two_ports()
        state["nics"][0].update(driver=driver, rdma=rdma, netdevs=[])
        state["netdevs"] = [each for each in state["netdevs"] if each["pci"] != PF]
        plan = make_plan(desired(interface(pci=PF, name="rail0", mtu=9000)), state)
        notice = f"{PF}: its interface is in another network namespace: what is asked of it is checked once it is back"
        assert ([step["status"] for step in plan["steps"]], notice in plan["notices"]) == (
            ([], True) if is_lent else (["refused"], False)
        )
        # What it was before the first run cannot be given back to it there.
        removal = desired(interface(pci=PF, name="ens1"), removing=True)
        assert [step["status"] for step in make_plan(removal, state)["steps"]] == ["refused"]

    def test_a_mac_finds_the_physical_interface_only(self) -> None:
        state = two_ports()
        state["netdevs"].append(netdev("bond0", None, kind="bond", mac="a0:88:c2:47:11:d0"))
        assert the_step("mtu", state, interface(mac="a0:88:c2:47:11:d0", mtu=9000))["id"] == f"mtu:{PF}"

    def test_a_mac_of_several_interfaces_is_refused(self) -> None:
        state = two_ports()
        state["netdevs"][1]["mac"] = state["netdevs"][0]["mac"]
        step = the_step("naming", state, interface(mac="a0:88:c2:47:11:d0", mtu=9000))
        assert step["detail"] == "ens1, ens2 all have this address; select the interface by pci"

    def test_an_infiniband_interface_is_found_by_its_port_guid(self) -> None:
        state = facts([nic(PF, "ibp24s0")], [ipoib("ibp24s0", PF, mtu=2044)])
        other_queue_pair = "00:00:99:99:fe:80:00:00:00:00:00:00:a0:88:c2:03:00:b1:7e:26"
        for mac in (other_queue_pair, "a0:88:c2:03:00:b1:7e:26"):
            assert the_step("mtu", state, interface(mac=mac, mtu=4092))["id"] == f"mtu:{PF}"

    def test_two_entries_for_one_interface_are_refused_together(self) -> None:
        steps = make_plan(desired(interface(pci=PF, mtu=9000), interface(current_name="ens1", mtu=4200)), two_ports())[
            "steps"
        ]
        assert [step["status"] for step in steps] == ["refused"]
        assert steps[0]["reason"] == f"current_name ens1 and pci {PF} are one interface"
        assert f"choose between current_name ens1 and pci {PF} - merge them into one entry" in describe(steps[0])

    @pytest.mark.parametrize(
        ("driver", "why"),
        [
            ("vfio-pci", "bound to vfio-pci"),
            (None, "no driver"),
            ("mlx5_core", "another network namespace"),
            ("mlx5_core", "load ib_ipoib"),
            ("mlx5_core", "of a Socket Direct card, select the first half"),
        ],
    )
    def test_a_function_without_interface_is_refused(self, driver: str | None, why: str) -> None:
        state = facts([nic(PF, driver=driver, rdma=[])])
        steps = make_plan(desired(interface(pci=PF, name="rail0", mtu=9000)), state)["steps"]
        assert [(step["concern"], step["status"]) for step in steps] == [("naming", "refused")]
        assert why in f"{steps[0]['detail']}{remedy_of(steps[0]['detail'], {})}"

    def test_representors_are_not_the_interface_of_the_function(self) -> None:
        state = facts(
            [nic(PF, "ens1", netdevs=["ens1", "ens1_0"])],
            [netdev("ens1", PF, switch_id="a1"), netdev("ens1_0", PF, port_name="pf0vf0", switch_id="a1")],
        )
        assert the_step("mtu", state, interface(pci=PF, mtu=9000))["target"] == f"{PF} (ens1)"

    @pytest.mark.parametrize("kind", ["ipoib-child", "representor", "sub-function"])
    def test_an_entry_about_what_lies_beside_a_port_leaves_the_port_alone(self, kind: str) -> None:
        child = netdev("child", PF, kind=kind, port_name="pf0vf0" if kind == "representor" else None)
        state = facts([nic(PF, "ens1")], [netdev("ens1", PF), child])
        wanted = desired(interface(current_name="child", mtu=1400, state="down"), interface(pci=PF, mtu=9000))
        steps = [step for step in make_plan(wanted, state)["steps"] if step["concern"] in {"naming", "mtu", "link"}]
        assert [(step["id"], step["to"]) for step in steps] == [
            ("mtu:child", 1400),
            (f"mtu:{PF}", 9000),
            ("link:child", "down"),
        ]

    def test_an_interface_found_by_its_old_name_is_found_again_after_the_rename(self) -> None:
        wanted = desired(interface(current_name="ens1", name="rail0", mtu=9000))
        state = two_ports()
        assert make_plan(wanted, facts_after(make_plan(wanted, state), state))["steps"] == []


class TestNaming:
    def test_a_rename_is_for_now_and_every_boot(self) -> None:
        step = the_step("naming", two_ports(), interface(pci=PF, name="rail0"))
        assert (step["from"], step["to"], step["when"], step["status"]) == ("ens1", "rail0", "now+boot", "planned")
        assert step["action"] == "rename ens1 to rail0"
        assert "/etc/systemd/network/05-rdma-fabric-0000-18-00.0.link" in step["detail"]

    @pytest.mark.parametrize(
        ("kernel", "says"),
        [("6.8.0-45-generic", "its link stays up"), ("5.14.0-427.el9", "traffic on ens1"), ("", "traffic on ens1")],
    )
    def test_a_rename_of_an_interface_in_use_says_what_becomes_of_its_link(self, kernel: str, says: str) -> None:
        state = two_ports()
        state["system"]["kernel"] = kernel
        interrupts = the_step("naming", state, interface(pci=PF, name="rail0"))["interrupts"]
        assert says in interrupts
        assert ("IPv6 addresses" in interrupts) is (says != "its link stays up")
        state["netdevs"][0]["up"] = False
        assert the_step("naming", state, interface(pci=PF, name="rail0"))["interrupts"] == "nothing"

    def test_later_steps_print_the_new_name(self) -> None:
        plan = make_plan(desired(interface(pci=PF, name="rail0", mtu=9000, vfs=2)), two_ports())
        targets = [step["target"] for step in plan["steps"] if step["concern"] != "boot"]
        assert targets == [f"{PF} (ens1)", f"{PF} (rail0)", f"{PF} (rail0)"]

    def test_the_uplink_is_renamed_at_boot_only_and_only_by_consent(self) -> None:
        step = the_step("naming", two_ports(), interface(pci=UPLINK, name="mgmt0"))
        assert (step["when"], step["status"], step["consent"]) == (
            "boot",
            "needs_consent",
            "rdma_fabric_allow_uplink_change",
        )
        assert "default route" in step["detail"]
        step = the_step("naming", two_ports(), interface(pci=UPLINK, name="mgmt0"), consents=CONSENTED)
        assert (step["when"], step["status"]) == ("boot", "planned")

    def test_a_rename_at_boot_leaves_the_name_of_later_steps(self) -> None:
        wanted = interface(pci=UPLINK, name="mgmt0", state="down")
        assert the_step("link", two_ports(), wanted, consents=CONSENTED)["target"] == f"{UPLINK} (eno1)"

    def test_a_name_held_by_an_interface_that_keeps_it_is_refused(self) -> None:
        step = the_step("naming", two_ports(), interface(pci=PF, name="ens2"))
        assert step["status"] == "refused"
        assert OTHER in step["detail"]

    def test_a_name_held_by_an_uplink_is_refused_even_when_that_is_renamed_at_boot(self) -> None:
        steps = plan_steps(
            "naming",
            two_ports(),
            interface(pci=PF, name="eno1"),
            interface(pci=UPLINK, name="mgmt0"),
            consents=CONSENTED,
        )
        assert {step["id"]: step["status"] for step in steps} == {
            f"naming:{PF}": "refused",
            f"naming:{UPLINK}": "planned",
        }

    def test_names_are_freed_before_they_are_given(self) -> None:
        steps = plan_steps("naming", two_ports(), interface(pci=PF, name="ens2"), interface(pci=OTHER, name="rail1"))
        assert [(step["from"], step["to"]) for step in steps] == [("ens2", "rail1"), ("ens1", "ens2")]
        assert all(step["status"] == "planned" for step in steps)

    def test_exchanged_names_go_through_a_temporary_one(self) -> None:
        steps = plan_steps("naming", two_ports(), interface(pci=PF, name="ens2"), interface(pci=OTHER, name="ens1"))
        assert [step["status"] for step in steps] == ["planned", "planned"]
        assert "ens2 is parked as rdmatmp0 first" in steps[0]["detail"]
        assert "parked" not in steps[1]["detail"]

    def test_a_circle_of_three_frees_each_name_in_turn(self) -> None:
        state = two_ports()
        state["nics"].append(nic("0000:4f:00.0", "ens3"))
        state["netdevs"].append(netdev("ens3", "0000:4f:00.0"))
        wanted = {PF: "ens2", OTHER: "ens3", "0000:4f:00.0": "ens1"}
        steps = plan_steps("naming", state, *(interface(pci=pci, name=name) for pci, name in wanted.items()))
        taken = {"ens1", "ens2", "ens3"}
        for step in steps:
            if "parked" in step["detail"]:
                taken.remove(step["to"])
            assert step["to"] not in taken
            taken.discard(step["from"])
            taken.add(step["to"])
        assert len(steps) == 3

    def test_a_refusal_takes_along_what_waits_for_the_name(self) -> None:
        steps = plan_steps("naming", two_ports(), interface(pci=PF, name="ens2"), interface(pci=OTHER, name="eno1"))
        assert [step["status"] for step in steps] == ["refused", "refused"]

    def test_an_interface_without_pci_function_is_not_renamed(self) -> None:
        state = facts([], [netdev("bond0", None, kind="bond")])
        step = the_step("naming", state, interface(current_name="bond0", name="storage0"))
        assert (step["status"], "PCI" in step["detail"]) == ("refused", True)

    def test_switchdev_names_by_port_and_not_by_path_alone(self) -> None:
        state = facts([nic(PF, "ens1")], [netdev("ens1", PF, switch_id="a1")])
        assert "/etc/udev/rules.d/" in the_step("naming", state, interface(pci=PF, name="rail0"))["detail"]


class TestFunctions:
    def test_functions_are_created(self) -> None:
        step = the_step("vfs", two_ports(), interface(pci=PF, vfs=4))
        assert step["action"] == "create 4 VFs (now 0)"
        assert (step["from"], step["to"], step["status"]) == (0, 4, "planned")
        assert step["interrupts"].startswith("traffic on ens1 for a moment")

    def test_an_equal_number_needs_no_step(self) -> None:
        plan = make_plan(desired(interface(pci=PF, vfs=2)), with_functions(two_ports(), PF, 2))
        assert steps_of(plan, "vfs") == []

    @pytest.mark.parametrize("count", [0, 1, 4])
    def test_existing_functions_are_not_destroyed_without_consent(self, count: int) -> None:
        state = with_functions(two_ports(), PF, 2)
        step = the_step("vfs", state, interface(pci=PF, vfs=count))
        assert (step["status"], step["consent"]) == ("needs_consent", "rdma_fabric_allow_vf_reset")
        assert "0000:18:00.1, 0000:18:00.2" in step["interrupts"]
        allowed = the_step("vfs", state, interface(pci=PF, vfs=count), consents={**CONSENTED, "uplink_change": False})
        assert allowed["status"] == "planned"

    def test_a_new_number_is_written_over_zero(self) -> None:
        detail = the_step("vfs", with_functions(two_ports(), PF, 2), interface(pci=PF, vfs=4))["detail"]
        assert detail.index("writes 0") < detail.index("writes 4")

    def test_more_than_the_device_offers_is_refused(self) -> None:
        assert the_step("vfs", two_ports(), interface(pci=PF, vfs=16))["status"] == "planned"
        step = the_step("vfs", two_ports(), interface(pci=PF, vfs=17))
        assert (step["status"], "at most 16" in step["detail"]) == ("refused", True)

    @pytest.mark.parametrize("sriov", [None, {"total": 0, "enabled": 0, "vfs": []}])
    def test_a_device_without_the_capability_is_refused(self, sriov: Any) -> None:
        step = the_step("vfs", facts([nic(PF, sriov=sriov)]), interface(pci=PF, vfs=1))
        assert (step["status"], "NUM_OF_VFS" in step["detail"]) == ("refused", True)

    def test_none_wanted_of_a_device_without_the_capability_is_no_step(self) -> None:
        assert make_plan(desired(interface(pci=PF, vfs=0)), facts([nic(PF, sriov=None)]))["steps"] == []

    def test_a_virtual_function_has_none_itself(self) -> None:
        step = the_step("vfs", with_functions(two_ports(), PF, 1), interface(pci="0000:18:00.1", vfs=2))
        assert (step["status"], PF in step["detail"]) == ("refused", True)

    def test_a_guest_skips_them_with_a_notice(self) -> None:
        state = facts([vf("0000:00:05.0", None, "ens5")], [netdev("ens5", "0000:00:05.0")])
        plan = make_plan(desired(interface(pci="0000:00:05.0", vfs=4)), state)
        assert plan["steps"] == []
        assert "sriov_totalvfs" in plan["notices"][0]

    def test_a_device_without_driver_is_refused(self) -> None:
        assert "driver" in the_step("vfs", facts([nic(PF, driver=None)]), interface(pci=PF, vfs=1))["detail"]

    def test_the_uplink_is_refused_until_it_is_allowed(self) -> None:
        state = two_ports()
        state["uplinks"] = [{"netdev": "ens1", "pci": PF, "reasons": ["default route"]}]
        step = the_step("vfs", state, interface(pci=PF, vfs=2))
        assert (step["status"], "rdma_fabric_allow_uplink_change" in step["detail"]) == ("refused", True)
        assert the_step("vfs", state, interface(pci=PF, vfs=2), consents=CONSENTED)["status"] == "planned"

    def test_a_function_that_is_the_uplink_protects_its_physical_one(self) -> None:
        state = with_functions(two_ports(), PF, 2)
        state["uplinks"] = [{"netdev": "v18n0", "pci": "0000:18:00.1", "reasons": ["default route"]}]
        only_reset = {"vf_reset": True, "uplink_change": False}
        assert the_step("vfs", state, interface(pci=PF, vfs=4), consents=only_reset)["status"] == "refused"

    def test_a_function_given_to_a_virtual_machine_is_not_destroyed_by_any_consent(self) -> None:
        state = with_functions(two_ports(), PF, 2)
        function = next(entry for entry in state["nics"] if entry["address"] == "0000:18:00.2")
        function.update(driver="vfio-pci", netdevs=[])
        step = the_step("vfs", state, interface(pci=PF, vfs=4), consents=CONSENTED)
        assert (step["status"], "0000:18:00.2: it is bound to vfio-pci" in step["detail"]) == ("refused", True)

    def test_a_function_moved_to_a_pod_is_not_destroyed_by_any_consent(self) -> None:
        state = with_functions(two_ports(), PF, 2)
        next(entry for entry in state["nics"] if entry["address"] == "0000:18:00.1").update(netdevs=[])
        step = the_step("vfs", state, interface(pci=PF, vfs=0), consents=CONSENTED)
        assert (step["status"], "network namespace" in step["detail"]) == ("refused", True)

    def test_switchdev_is_refused(self) -> None:
        state = facts([nic(PF, "ens1")], [netdev("ens1", PF, switch_id="a1")])
        assert "switchdev" in the_step("vfs", state, interface(pci=PF, vfs=2))["detail"]

    def test_an_interface_without_pci_function_is_refused(self) -> None:
        state = facts([], [netdev("bond0", None, kind="bond")])
        assert the_step("vfs", state, interface(current_name="bond0", vfs=1))["status"] == "refused"


class TestMtu:
    def test_the_mtu_is_set(self) -> None:
        step = the_step("mtu", two_ports(), interface(pci=PF, mtu=9000))
        assert (step["from"], step["to"], step["status"]) == (1500, 9000, "planned")
        assert "traffic on ens1" in step["interrupts"]

    def test_an_equal_mtu_needs_no_step(self) -> None:
        assert steps_of(make_plan(desired(interface(pci=PF, mtu=1500)), two_ports()), "mtu") == []

    def test_an_mtu_that_can_not_be_read_is_set(self) -> None:
        state = two_ports()
        state["netdevs"][0]["mtu"] = None
        assert the_step("mtu", state, interface(pci=PF, mtu=1500))["status"] == "planned"

    def test_a_link_that_is_down_interrupts_nothing(self) -> None:
        state = two_ports()
        state["netdevs"][0]["up"] = False
        assert the_step("mtu", state, interface(pci=PF, mtu=9000))["interrupts"] == "nothing"

    def test_it_is_raised_on_the_physical_function_first(self) -> None:
        state = with_functions(two_ports(), PF, 2, mtu=1500)
        steps = plan_steps("mtu", state, interface(pci=PF, mtu=9000, vf_mtu=9000))
        assert [step["id"] for step in steps] == [f"mtu:{PF}", f"mtu:{PF}:vfs"]

    def test_it_is_lowered_on_the_virtual_functions_first(self) -> None:
        state = with_functions(two_ports(), PF, 2, mtu=9000)
        state["netdevs"][0]["mtu"] = 9000
        steps = plan_steps("mtu", state, interface(pci=PF, mtu=1500, vf_mtu=1500))
        assert [step["id"] for step in steps] == [f"mtu:{PF}:vfs", f"mtu:{PF}"]

    def test_functions_follow_a_lowered_physical_one_unasked(self) -> None:
        state = with_functions(two_ports(), PF, 2, mtu=9000)
        state["netdevs"][0]["mtu"] = 9000
        first, second = plan_steps("mtu", state, interface(pci=PF, mtu=1500))
        assert (first["id"], first["to"]) == (f"mtu:{PF}:vfs", {"0": 1500, "1": 1500})
        assert second["id"] == f"mtu:{PF}"

    def test_a_function_selected_itself_keeps_the_order(self) -> None:
        state = with_functions(two_ports(), PF, 1, mtu=1500)
        function = interface(pci="0000:18:00.1", mtu=9000)
        steps = plan_steps("mtu", state, function, interface(pci=PF, mtu=9000))
        assert [step["id"] for step in steps] == [f"mtu:{PF}", "mtu:0000:18:00.1"]

    @pytest.mark.parametrize(
        ("now", "wanted", "order"),
        [(1500, 9000, [f"mtu:{PF}", "mtu:ens1.100"]), (9000, 1500, ["mtu:ens1.100", f"mtu:{PF}"])],
    )
    def test_a_vlan_never_exceeds_what_it_stands_on(self, now: int, wanted: int, order: list[str]) -> None:
        state = two_ports()
        state["netdevs"][0]["mtu"] = now
        state["netdevs"].append(netdev("ens1.100", None, kind="vlan", mtu=now))
        vlan = interface(current_name="ens1.100", mtu=wanted)
        steps = plan_steps("mtu", state, vlan, interface(pci=PF, mtu=wanted))
        assert [step["id"] for step in steps] == order

    @pytest.mark.parametrize("now", [1500, 9000])
    def test_a_function_above_its_physical_one_is_refused(self, now: int) -> None:
        state = with_functions(two_ports(), PF, 1, mtu=now)
        step = the_step("mtu", state, interface(pci="0000:18:00.1", mtu=9000))
        assert (step["status"], PF in step["detail"]) == ("refused", True)

    def test_functions_above_an_unchanged_physical_one_are_refused(self) -> None:
        step = the_step("mtu", with_functions(two_ports(), PF, 2), interface(pci=PF, vf_mtu=9000))
        assert (step["status"], "give it mtu 9000" in step["detail"]) == ("refused", True)

    def test_functions_the_plan_creates_get_their_mtu(self) -> None:
        steps = plan_steps("mtu", two_ports(), interface(pci=PF, mtu=9000, vf_mtu=9000, vfs=4))
        assert [step["id"] for step in steps] == [f"mtu:{PF}", f"mtu:{PF}:vfs"]
        assert "new VFs 0 to 3 to 9000" in steps[1]["action"]

    def test_new_functions_start_with_the_mtu_of_their_kind_of_link(self) -> None:
        infiniband = facts([nic(PF, "ibp24s0", link_layer="InfiniBand")], [ipoib("ibp24s0", PF)])
        wanted = interface(pci=PF, vf_mtu=1500, vfs=2)
        assert [step["id"] for step in plan_steps("mtu", infiniband, wanted)] == [f"mtu:{PF}:vfs"]
        assert plan_steps("mtu", two_ports(), wanted) == []

    def test_new_functions_of_a_lowered_port_follow_it_in_the_same_run(self) -> None:
        functions = plan_steps("mtu", two_ports(), interface(pci=PF, mtu=1280, vfs=2))[1]
        assert (functions["id"], functions["to"]) == (f"mtu:{PF}:vfs", {"0": 1280, "1": 1280})

    def test_functions_that_need_consent_are_not_counted_on(self) -> None:
        state = with_functions(two_ports(), PF, 2)
        _pf, functions = plan_steps("mtu", state, interface(pci=PF, mtu=9000, vf_mtu=9000, vfs=4))
        assert "v18n0, v18n1" in functions["action"]

    def test_an_mtu_for_functions_that_do_not_exist_is_noticed(self) -> None:
        plan = make_plan(desired(interface(pci=PF, vf_mtu=1500)), two_ports())
        assert plan["steps"] == []
        assert "no VFs" in plan["notices"][0]

    @pytest.mark.parametrize(("mtu", "status"), [(9978, "planned"), (9979, "refused")])
    def test_mlx5_carries_9978_bytes(self, mtu: int, status: str) -> None:
        assert the_step("mtu", two_ports(), interface(pci=PF, mtu=mtu))["status"] == status

    def test_limits_of_other_drivers_are_theirs(self) -> None:
        step = the_step("mtu", two_ports(), interface(pci=UPLINK, mtu=9990), consents=CONSENTED)
        assert step["status"] == "planned"

    @pytest.mark.parametrize(
        ("now", "mtu", "status"),
        [(2044, 4092, "planned"), (2044, 4093, "refused"), (4093, 65520, "planned"), (4093, 65521, "refused")],
    )
    def test_ipoib_has_limits_by_its_mode(self, now: int, mtu: int, status: str) -> None:
        state = facts([nic(PF, "ibp24s0", link_layer="InfiniBand")], [ipoib("ibp24s0", PF, mtu=now)])
        assert the_step("mtu", state, interface(pci=PF, mtu=mtu))["status"] == status

    def test_above_2044_ipoib_depends_on_the_partition(self) -> None:
        state = facts([nic(PF, "ibp24s0", link_layer="InfiniBand")], [ipoib("ibp24s0", PF, mtu=2044)])
        assert "partition" in the_step("mtu", state, interface(pci=PF, mtu=4092))["detail"]

    def test_a_member_of_a_bond_is_left_to_the_bond(self) -> None:
        state = two_ports()
        state["netdevs"][0]["master"] = "bond0"
        state["netdevs"].append(netdev("bond0", None, kind="bond"))
        step = the_step("mtu", state, interface(pci=PF, mtu=9000))
        assert (step["status"], "bond0" in step["detail"]) == ("refused", True)

    def test_a_bond_itself_can_be_set(self) -> None:
        state = facts([], [netdev("bond0", None, kind="bond")])
        assert the_step("mtu", state, interface(current_name="bond0", mtu=9000))["id"] == "mtu:bond0"

    def test_the_uplink_is_refused_until_it_is_allowed(self) -> None:
        assert the_step("mtu", two_ports(), interface(pci=UPLINK, mtu=9000))["status"] == "refused"
        assert the_step("mtu", two_ports(), interface(pci=UPLINK, mtu=9000), consents=CONSENTED)["status"] == "planned"

    def test_a_member_of_the_uplink_bond_is_an_uplink(self) -> None:
        state = two_ports()
        state["uplinks"] = [{"netdev": "bond0", "pci": None, "reasons": ["default route"]}]
        state["netdevs"].append(netdev("bond0", None, kind="bond"))
        state["netdevs"][0]["master"] = "bond0"
        step = the_step("link", state, interface(pci=PF, state="down"))
        assert (step["status"], "part of bond0: default route" in step["detail"]) == ("refused", True)

    @pytest.mark.parametrize(
        ("mtu", "ib_mtu"), [(1280, 1024), (1500, 1024), (2143, 1024), (2144, 2048), (4191, 2048), (4192, 4096)]
    )
    def test_roce_gets_the_largest_infiniband_mtu_that_fits(self, mtu: int, ib_mtu: int) -> None:
        assert roce_mtu(mtu) == ib_mtu
        notices = make_plan(desired(interface(pci=PF, mtu=mtu)), two_ports())["notices"]
        assert [f"an InfiniBand MTU of {ib_mtu};" in notice for notice in notices] == [True] * (ib_mtu < 4096)

    def test_a_port_without_rdma_gets_no_roce_hint(self) -> None:
        state = facts([nic(PF, "ens1", rdma=[])], [netdev("ens1", PF)])
        assert make_plan(desired(interface(pci=PF, mtu=1500)), state)["notices"] == []


class TestLink:
    @pytest.mark.parametrize(("state", "up", "steps"), [("up", True, 0), ("up", False, 1), ("down", False, 0)])
    def test_the_link_gets_the_wanted_state(self, state: str, up: bool, steps: int) -> None:
        actual = two_ports()
        actual["netdevs"][0]["up"] = up
        assert len(plan_steps("link", actual, interface(pci=PF, state=state))) == steps

    def test_taking_a_link_down_interrupts_it(self) -> None:
        step = the_step("link", two_ports(), interface(pci=PF, state="down"))
        assert (step["status"], "ens1" in step["interrupts"]) == ("planned", True)

    def test_the_uplink_never_goes_down(self) -> None:
        step = the_step("link", two_ports(), interface(pci=UPLINK, state="down"), consents=CONSENTED)
        assert step["status"] == "refused"

    def test_a_bond_of_the_uplink_never_goes_down(self) -> None:
        state = two_ports()
        state["netdevs"].append(netdev("bond0", None, kind="bond"))
        state["netdevs"][0]["master"] = "bond0"
        step = the_step("link", state, interface(current_name="bond0", state="down"), protected_interfaces=["ens1"])
        assert (step["status"], "rdma_fabric_protected_interfaces" in step["detail"]) == ("refused", True)

    def test_an_uplink_named_by_the_user_never_goes_down(self) -> None:
        step = the_step("link", two_ports(), interface(pci=PF, state="down"), protected_interfaces=["ens1"])
        assert (step["status"], "rdma_fabric_protected_interfaces" in step["detail"]) == ("refused", True)
