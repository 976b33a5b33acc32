# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan of RoCE QoS says: steps and their order, what a host can't have and why, remarks, the uplink."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.qos import plan as qos_plan
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import make_step
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import read_host
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.arm import touches_uplink
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import record
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import make_plan, plan_with_context
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.explained import remedy_of
from ansible_collections.rdma.fabric.tests.fixtures.hosts.firmware import bluefield3
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host import host_facts as given
from ansible_collections.rdma.fabric.tests.unit._host import igb
from ansible_collections.rdma.fabric.tests.unit._host.families import FAMILIES, INFINIBAND, PF, host_with
from ansible_collections.rdma.fabric.tests.unit._host.kernel import firmware, qos
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.qos.hosts import (
    CHECK,
    CONNECTX7,
    LOSSLESS,
    OLD_VENDOR,
    PORT,
    TREES,
    VENDOR,
    applied,
    host,
    previewed,
    refusals,
    wish,
)

MSTCONFIG = "/usr/bin/mstconfig"


def names(outcome: Any) -> list[str]:
    return [step["id"].split(":")[1] for step in outcome["plan"]["steps"]]


def planned(settings: Any, state: Any, **changes: Any) -> list[Any]:
    """The steps about a port of literal facts."""
    desired = given.desired(given.interface(pci=PF, qos=settings), **changes)
    return given.steps_of(make_plan(desired, state), "qos")


def with_port(state: Any, name: str = "ens1", **port: Any) -> Any:
    of_host = {"lldpad": False, "mlnx_qos": False, "configfs": False, "rdma_cm": False, "renamed": False}
    ports = {name: {"files": [], "dcb": "yes", "rdma": None, **port}}
    return {**state, "settings": {"qos": {**of_host, "ports": ports}}}


class TestSteps:
    def test_each_is_one_line_that_says_what_it_was_and_what_it_will_be(self) -> None:
        outcome = previewed(host(), LOSSLESS)
        assert [step["action"] for step in outcome["plan"]["steps"]] == [
            "set the owner of DCBX to os (now firmware)",
            "set global pause to rx off tx off (now rx on tx on)",
            "set trust to dscp (now pcp)",
            "set priorities of DSCPs to 0-7 -> 0, 8-15 -> 1, 16-23 -> 2, 24-31 -> 3, 32-39 -> 4, 40-45 -> 5, 46 -> 6, "
            "47 -> 5, 48-55 -> 6, 56-63 -> 7 (now 0-7 -> 0, 8-15 -> 1, 16-23 -> 2, 24-31 -> 3, 32-39 -> 4, 40-47 -> 5, "
            "48-55 -> 6, 56-63 -> 7)",
            "set the cable length to 20 m (now 7 m)",
            "set shares of priorities to 0 40%, 3 60%, 6 strict (now 0 vendor, 1 vendor, 2 vendor, 3 vendor, 4 vendor, "
            "5 vendor, 6 vendor, 7 vendor)",
            "set priority flow control to 3 (now off)",
            "set the ToS of RDMA-CM to 106 (now the kernel's own)",
        ]

    def test_what_holds_is_told_where_the_driver_is_to_be_loaded_anew(self) -> None:
        kernel = host()
        assert not applied(kernel, LOSSLESS).get("failed")
        facts, matched = read_host(kernel, None, (), wish(LOSSLESS))
        context = plan_with_context(wish(LOSSLESS), facts, ("qos",), matched)[1]
        load = make_step("driver", "load", action="load it", after="new", reason="it is asked for")
        steps, notices = qos_plan.plan(replace(context, earlier=(load,)))
        (line,) = [each for each in notices if "set again after the reload of its driver" in each]
        assert (steps, line.partition("away: ")[2].split(", ")[:3]) == (
            [],
            ["the owner of DCBX to os", "global pause to rx off tx off", "trust to dscp"],
        )
        assert line not in qos_plan.plan(replace(context, earlier=()))[1]

    def test_the_order_of_the_variables_does_not_matter(self) -> None:
        backwards = dict(reversed(list(LOSSLESS.items())))
        assert previewed(host(), backwards)["plan"]["digest"] == previewed(host(), LOSSLESS)["plan"]["digest"]

    def test_only_what_takes_the_link_down_says_so(self) -> None:
        steps = previewed(host(), LOSSLESS)["plan"]["steps"]
        cutting = {step["id"].split(":")[1] for step in steps if step["interrupts"] != "nothing"}
        assert cutting == {"pause", "pfc"}

    def test_global_pause_goes_off_for_flow_control_although_nobody_asked(self) -> None:
        outcome = previewed(host(), {"pfc": [3]})
        assert names(outcome) == ["pause", "pfc"]
        assert outcome["plan"]["steps"][0]["reason"] == (
            "priority flow control is requested, and global pause excludes it"
        )

    def test_global_pause_stays_where_flow_control_is_not_asked_for(self) -> None:
        assert names(previewed(host(), {"pfc": []})) == []
        assert names(previewed(host(), {"trust": "dscp"})) == ["trust"]

    def test_global_pause_that_can_not_be_told_is_left_alone(self) -> None:
        kernel = host()
        kernel.absent.add("ethtool")
        assert names(previewed(kernel, {"pfc": [3]})) == ["pfc"]
        assert "ethtool is not installed" in refusals(previewed(kernel, {"pause": False}))["pause"]

    def test_programs_are_asked_only_for_what_is_wanted(self) -> None:
        kernel = host(OLD_VENDOR)
        kernel.absent |= {"dcb", "ethtool", "mlnx_qos"}
        assert names(previewed(kernel, {"ecn": {3: True}, "cnp_dscp": 48})) == ["ecn", "cnp_dscp"]

    def test_a_host_that_nothing_is_asked_of_tells_nothing(self) -> None:
        assert "qos" not in previewed(host(), None)["facts"]["settings"]
        assert "qos" not in previewed(host(), {})["facts"]["settings"]

    def test_the_reason_names_the_variable(self) -> None:
        outcome = previewed(host(), {"tos": 104}, rdma_fabric_roce_qos={"tos": 106, "trust": "dscp"})
        assert [(step["to"], step["reason"]) for step in outcome["plan"]["steps"]] == [
            ("dscp", "rdma_fabric_roce_qos asks for trust"),
            (104, "rdma_fabric_interfaces asks for tos"),
        ]

    def test_an_interface_may_be_left_out(self) -> None:
        assert names(previewed(host(), False, rdma_fabric_roce_qos={"tos": 106})) == []

    def test_a_renamed_rdma_device_needs_its_directory_under_the_new_name(self) -> None:
        state = with_port(given.two_ports(), rdma={"name": "mlx5_0", "tos": 106, "traffic_class": None})
        state["rdma"] = [{"name": "mlx5_0", "pci": PF, "netdev": "ens1", "ports": []}]
        assert planned({"tos": 106}, state) == []
        entry = given.interface(pci=PF, rdma_name="rail0_rdma", qos={"tos": 106})
        (step,) = given.steps_of(make_plan(given.desired(entry), state), "qos")
        assert (step["from"], step["to"]) == (None, 106)


class TestRefusals:
    @pytest.mark.parametrize("setting", ["dcbx", "trust", "dscp_priority", "ets", "pfc"])
    def test_a_driver_without_dcb_is_named(self, setting: str) -> None:
        kernel = igb.booted()
        settings = {setting: LOSSLESS[setting], **({"trust": "dscp"} if setting == "dscp_priority" else {})}
        outcome = preview(kernel, igb.wish({"pci": igb.PF, "qos": settings}), CHECK, None)
        said = refusals(outcome)
        assert "the driver igb has no DCB operations (dcb: Operation not supported)" in said[setting]
        assert not [step for step in outcome["plan"]["steps"] if step["status"] == "planned"]

    def test_a_port_of_mlx5_without_dcb_is_told_of_its_other_owners(self) -> None:
        kernel = Kernel(host_with(CONNECTX7).document())
        assert "DPU mode, multi-host" in remedy_of(refusals(previewed(kernel, {"pfc": [3]}))["pfc"], {})

    def test_a_host_without_the_program_is_told_to_install_it(self) -> None:
        kernel = host()
        kernel.absent.add("dcb")
        assert "install iproute2 5.11 or newer" in refusals(previewed(kernel, {"trust": "dscp"}))["trust"]

    def test_old_files_of_the_vendor_need_no_program(self) -> None:
        kernel = host(OLD_VENDOR)
        kernel.absent.add("dcb")
        assert refusals(previewed(kernel, {"trust": "dscp", "dscp_priority": {26: 4}, "pfc": [4]})) == {}

    def test_what_only_the_vendors_driver_has_names_what_to_do_instead(self) -> None:
        said = refusals(previewed(host(), {"ecn": {3: False}, "traffic_class": 106, "cnp_dscp": 48, "cnp_priority": 6}))
        assert "ROCE_CC_PRIO_MASK_P1" in said["ecn"]
        assert "NCCL_IB_TC=106, UCX_IB_TRAFFIC_CLASS=106" in said["traffic_class"]
        assert "CNP_DSCP_P1" in said["cnp_dscp"] and "CNP_802P_PRIO_P1" in said["cnp_priority"]

    def test_more_priorities_than_the_card_carries(self) -> None:
        assert "2 lossless priorities at most" in refusals(previewed(host(pfc_cap=2), {"pfc": [2, 3, 4]}))["pfc"]
        assert refusals(previewed(host(pfc_cap=2), {"pfc": [2, 3]})) == {}

    def test_only_the_vendors_tool_gives_dcbx_back(self) -> None:
        kernel = host(dcbx=["host", "ieee"])
        kernel.tree.discard("/usr/bin/mlnx_qos")
        assert "only mlnx_qos" in refusals(previewed(kernel, {"dcbx": "firmware"}))["dcbx"]

    def test_a_length_is_for_mlx5(self) -> None:
        state = with_port(given.facts([given.nic(PF, "ens1", driver="bnxt_en")], [given.netdev("ens1", PF)]))
        (step,) = planned({"cable_length": 5}, state)
        assert "bnxt_en takes a delay in bit times" in step["detail"]

    def test_infiniband_has_its_own(self) -> None:
        kernel = Kernel(host_with(CONNECTX7, INFINIBAND).document())
        assert "subnet manager" in refusals(previewed(kernel, {"pfc": [3]}))["pfc"]

    def test_settings_of_the_host_pass_infiniband_by(self) -> None:
        kernel = Kernel(host_with(CONNECTX7, INFINIBAND).document())
        assert names(previewed(kernel, None, rdma_fabric_roce_qos={"pfc": [3], "tos": 106})) == []

    def test_a_virtual_function_has_a_device_and_no_port(self) -> None:
        state = given.facts([given.vf(PF, None, "ens1")], [given.netdev("ens1", PF)])
        state = with_port(state, rdma={"name": "mlx5_0", "tos": None, "traffic_class": None})
        found = {step["id"]: step["detail"] for step in planned({"pfc": [3], "tos": 106}, state)}
        assert "ask it of its PF" in found[f"qos:pfc:{PF}"]
        assert found[f"qos:tos:{PF}"] == ""

    def test_settings_of_the_host_reach_the_device_of_a_virtual_function_only(self) -> None:
        state = given.facts([given.vf(PF, None, "ens1")], [given.netdev("ens1", PF)])
        state = with_port(state, rdma={"name": "mlx5_0", "tos": None, "traffic_class": None})
        found = planned(None, state, roce_qos={"pfc": [3], "trust": "dscp", "tos": 106})
        assert [step["id"] for step in found] == [f"qos:tos:{PF}"]

    @pytest.mark.parametrize("setting", [{"trust": "dscp"}, {"tos": 106}])
    def test_a_bond_is_set_up_at_its_ports(self, setting: Any) -> None:
        state = with_port(given.facts([], [given.netdev("bond0", None, kind="bond")]), "bond0")
        desired = given.desired(given.interface(current_name="bond0", qos=setting))
        (step,) = given.steps_of(make_plan(desired, state), "qos")
        assert "it is a bond and has no port of its own" in step["detail"]

    def test_a_function_without_an_interface(self) -> None:
        state = given.facts([given.nic(PF, None, driver="vfio-pci")])
        (step,) = planned({"trust": "dscp"}, state)
        assert "no network interface" in step["detail"]

    def test_an_interface_without_rdma(self) -> None:
        kernel = igb.booted()
        outcome = preview(kernel, igb.wish({"pci": igb.PF, "qos": {"tos": 106}}), CHECK, None)
        assert "rdma link add" in refusals(outcome)["tos"]

    def test_a_kernel_without_rdma_cm_in_configfs(self) -> None:
        kernel = host()
        kernel.run(("modprobe", "rdma_cm"), 10)
        kernel.tree.add_dir("/sys/kernel/config/target")
        assert "CONFIG_INFINIBAND_ADDR_TRANS_CONFIGFS" in refusals(previewed(kernel, {"tos": 106}))["tos"]

    @pytest.mark.parametrize("of_host", [False, True])
    def test_a_bluefield_in_dpu_mode_belongs_to_its_arm_side(self, of_host: bool) -> None:
        family = next(family for family in FAMILIES if family.name == "BlueField-3")
        kernel = Kernel(host_with(family).document())
        qos.add_dcb(kernel, PORT)
        kernel.tree.add_file(MSTCONFIG, "")
        values = {"INTERNAL_CPU_MODEL": "EMBEDDED_CPU(1)", "INTERNAL_CPU_OFFLOAD_ENGINE": "ENABLED(0)"}
        rows = "".join(f"  {name}  {value}  {value}  {value}\n" for name, value in values.items())
        shown = f"Configurations:   Default   Current   Next Boot\n{rows}"
        command = f"{MSTCONFIG} -e -d {PF} query"
        kernel._commands[command] = {"rc": 0, "stdout": shown, "stderr": ""}
        settings = {"pfc": [3], "trust": "dscp"}
        outcome = previewed(kernel, None, rdma_fabric_roce_qos=settings) if of_host else previewed(kernel, settings)
        assert set(refusals(outcome)) == {"pfc", "trust"}
        assert all("DPU mode" in why for why in refusals(outcome).values())

    def test_a_bluefield_that_restricts_its_host_owns_its_ports_in_nic_mode_too(self) -> None:
        kernel = Kernel(host_with(next(family for family in FAMILIES if family.name == "BlueField-3")).document())
        qos.add_dcb(kernel, PORT)
        firmware.install(kernel, PF, bluefield3("NIC"), "BlueField-3")
        assert refusals(previewed(kernel, {"pfc": [3]})) == {}
        firmware.restrict(kernel, PF)
        assert "restricts this host" in refusals(previewed(kernel, {"pfc": [3]}))["pfc"]

    @pytest.mark.parametrize("settings", [{"pfc": [3]}, {"pause": False}])
    def test_the_uplink_keeps_its_link_unless_it_is_allowed(self, settings: Any) -> None:
        state = with_port(given.two_ports(), pfc=[], pause={"rx": True, "tx": True})
        state["uplinks"] = [{"netdev": "ens1", "pci": PF, "reasons": ["default route"]}]
        assert all("it carries the uplink" in step["detail"] for step in planned(settings, state))
        allowed = given.desired(given.interface(pci=PF, qos=settings), consents={"uplink_change": True})
        plan, context = plan_with_context(allowed, state)
        steps = given.steps_of(plan, "qos")
        assert {step["status"] for step in steps} == {"planned"}
        assert all(touches_uplink(context, step) for step in steps)

    def test_what_leaves_the_link_alone_needs_no_consent_on_the_uplink(self) -> None:
        state = with_port(given.two_ports(), trust="pcp", dscp={})
        state["uplinks"] = [{"netdev": "ens1", "pci": PF, "reasons": ["default route"]}]
        desired = given.desired(given.interface(pci=PF, qos={"trust": "dscp"}))
        plan, context = plan_with_context(desired, state)
        (step,) = given.steps_of(plan, "qos")
        assert (step["status"], touches_uplink(context, step)) == ("planned", True)

    def test_what_holds_already_is_refused_to_nobody(self) -> None:
        kernel = host(pfc_cap=1, pfc=[2, 3], pause={"rx": False, "tx": False})
        assert names(previewed(kernel, {"pfc": [2, 3]})) == []


class TestNotices:
    @staticmethod
    def notices(kernel: Kernel, settings: Any) -> list[str]:
        found: list[str] = previewed(kernel, settings)["plan"]["notices"]
        return found

    @pytest.mark.parametrize("tree", TREES)
    def test_a_cable_length_is_told_with_what_makes_it_count(self, tree: str) -> None:
        """en_dcbnl.c, mlx5e_dcbnl_ieee_setpfc: without manual_buffer the length changes nothing."""
        kernel = host(tree, dcbx=["host", "ieee"])
        assert any("cable_length counts where" in said for said in self.notices(kernel, {"cable_length": 30}))
        assert not any("cable_length" in said for said in self.notices(kernel, {"pfc": [3]}))

    @pytest.mark.parametrize("tree", TREES)
    def test_flow_control_of_the_host_alone_is_said_to_be_none_until_it_is_set(self, tree: str) -> None:
        kernel = host(tree, dcbx=["host", "ieee"])
        assert any("the switch needs the same priorities" in said for said in self.notices(kernel, {"pfc": [3]}))
        applied(kernel, {"pfc": [3]})
        assert self.notices(kernel, {"pfc": [3]}) == []
        assert self.notices(kernel, {"pfc": []}) == []

    @pytest.mark.parametrize("path", ["/run/lldpad.pid", "/etc/systemd/system/multi-user.target.wants/lldpad.service"])
    def test_lldpad_is_named_where_it_would_interfere(self, path: str) -> None:
        kernel = host()
        kernel.tree.add_file(path, "")
        assert any("systemctl disable --now lldpad" in said for said in self.notices(kernel, {"trust": "dscp"}))
        assert self.notices(kernel, {"tos": 106}) == []

    def test_a_firmware_that_runs_dcbx_is_named(self) -> None:
        assert any("its firmware runs DCBX" in said for said in self.notices(host(), {"trust": "dscp"}))
        assert self.notices(host(), {"trust": "dscp", "dcbx": "os"}) == []
        assert self.notices(host(dcbx=["host", "ieee"]), {"trust": "dscp"}) == []

    def test_ecn_that_the_firmware_has_on_is_no_step_and_is_said(self) -> None:
        outcome = previewed(host(), {"ecn": {3: True}})
        assert names(outcome) == []
        (said,) = outcome["plan"]["notices"]
        assert "the firmware has it on for every priority unless ROCE_CC_PRIO_MASK_P1" in said
        assert previewed(host(VENDOR), {"ecn": {3: True}})["plan"]["notices"] == []

    def test_a_lossless_priority_without_room_for_what_is_under_way(self) -> None:
        kernel = host(VENDOR, dcbx=["host", "ieee"])
        applied(kernel, {"pfc": [3]})
        base = f"/sys/class/net/{PORT}/qos"
        text = kernel.read(f"{base}/prio2buffer")
        kernel.tree.add_file(f"{base}/prio2buffer", text.replace("3\t\t0", "3\t\t1"))
        sizes = kernel.read(f"{base}/buffer_size")
        small = sizes.replace("1\t0\t0\t\t0", "1\t20096\t18048\t\t16384")
        kernel.tree.add_file(f"{base}/buffer_size", small)
        (said,) = self.notices(kernel, {"pfc": [3]})
        assert "priority 3 is lossless with 2048 bytes of headroom, less than two frames of MTU 1500" in said
        kernel.tree.add_file(f"{base}/buffer_size", small.replace("18048", "12000"))
        assert self.notices(kernel, {"pfc": [3]}) == []


class TestRecordedHosts:
    @pytest.mark.parametrize("name", sorted(FLEET))
    def test_every_recorded_host_can_be_planned(self, name: str) -> None:
        kernel = Kernel(FLEET[name]().document())
        ports = [
            netdev
            for netdev in preview(kernel, wish(None), CHECK, None)["facts"]["netdevs"]
            if netdev["kind"] == "physical" and netdev["pci"]
        ]
        entries = [{"current_name": port["name"]} for port in ports]
        desired = igb.wish(*entries, rdma_fabric_roce_qos={**LOSSLESS, "traffic_class": 106})
        outcome = preview(kernel, desired, CHECK, None)
        assert not outcome.get("failed")
        ethernet = {port["name"] for port in ports if port["link_type"] == "ether"}
        assert bool(outcome["plan"]["steps"]) == bool(ethernet)

    @pytest.mark.parametrize("tree", TREES)
    def test_a_recording_is_planned_as_its_host_is(self, tree: str) -> None:
        kernel = host(tree)
        kernel.run(("modprobe", "rdma_cm"), 10)
        settings = {**LOSSLESS, "ecn": {3: True}, "cnp_dscp": 48, "traffic_class": 106}
        live = preview(kernel, wish(settings), CHECK, None)["plan"]
        recording = RecordedHost(record(kernel, "gpu01"))
        assert preview(recording, wish(settings), CHECK, None)["plan"]["steps"] == live["steps"]

    def test_a_damaged_answer_counts_as_none(self) -> None:
        for text in ("", "{", "[]", "7", '{"prio_pfc": 5}', '{"prio_pfc": [true]}', "[[1]]"):
            kernel = host()
            kernel._commands[f"dcb --json pfc show dev {PORT}"] = {"rc": 0, "stdout": text, "stderr": ""}
            (_pause, step) = previewed(kernel, {"pfc": [3]})["plan"]["steps"]
            assert step["from"] is None
