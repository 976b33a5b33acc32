# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The remarks on a fleet: each is derived from facts, and only where there is a reason."""

from __future__ import annotations

from typing import Any, Callable

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._report.remarks import KINDS, fleet_remarks
from ansible_collections.rdma.fabric.plugins.module_utils._report.topology import (
    built_alike,
    device_map,
    topology_classes,
    tree_devices,
)
from ansible_collections.rdma.fabric.tests.unit._report import sample_fleet

Facts = dict[str, Any]


def remarks_on(
    *fleet: Facts, expected: list[str] | None = None, unfinished: dict[str, str] | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Remarks by kind on hosts named host-0, host-1, ..."""
    documents = [sample_fleet.document(f"host-{index}", facts, []) for index, facts in enumerate(fleet)]
    found: dict[str, list[dict[str, Any]]] = {}
    classes = topology_classes([(each["host"], device_map(each["facts"])) for each in documents])
    for remark in fleet_remarks(documents, expected, unfinished or {}, built_alike(classes)):
        found.setdefault(remark["kind"], []).append(remark)
    return found


def h100(change: Callable[[Facts], Any] | None = None) -> Facts:
    facts = sample_fleet.h100_facts("h")
    if change:
        change(facts)
    return facts


def port(facts: Facts, index: int) -> dict[str, Any]:
    found: dict[str, Any] = facts["rdma"][index]["ports"][0]
    return found


def test_a_healthy_fleet_gets_no_remark() -> None:
    assert remarks_on(h100(), h100(), sample_fleet.plain_facts("p")) == {}


def test_a_rail_without_link_is_named_with_its_physical_state() -> None:
    found = remarks_on(h100(lambda facts: sample_fleet.port_down(facts, "0000:5e:00.0")))
    assert found["rail_down"][0]["devices"] == [
        {"address": "0000:5e:00.0", "name": "mlx5_5", "seen": "rail 3, down, Polling"}
    ]


def without_rdma(facts: Facts, index: int = 0) -> None:
    """Take the RDMA device of a NIC away."""
    nic = [nic for nic in facts["nics"] if nic["rdma"]][index]
    facts["rdma"] = [device for device in facts["rdma"] if device["name"] not in nic["rdma"]]
    nic["rdma"] = []


def test_a_nic_without_its_rdma_device_is_named_though_its_link_is_up() -> None:
    (remark,) = remarks_on(h100(without_rdma))["no_rdma_device"]
    assert [device["address"] for device in remark["devices"]] == ["0000:18:00.0"]


def test_a_host_without_mlx5_ib_has_no_rdma_device_at_all() -> None:
    def unload(facts: Facts) -> None:
        facts["modules"].pop("mlx5_ib", None)
        for _device in list(facts["rdma"]):
            without_rdma(facts)

    (remark,) = remarks_on(h100(unload))["no_rdma_device"]
    assert len(remark["devices"]) > 8
    assert {device["seen"] for device in remark["devices"]} == {"mlx5_ib is not loaded"}


def test_a_port_of_a_bond_shares_the_rdma_device_of_another() -> None:
    def bond(facts: Facts) -> None:
        name = next(nic for nic in facts["nics"] if nic["rdma"])["netdevs"][0]
        netdev = next(netdev for netdev in facts["netdevs"] if netdev["name"] == name)
        facts["netdevs"].append({**netdev, "name": "bond0", "kind": "bond", "pci": None})
        netdev["master"] = "bond0"
        without_rdma(facts)

    assert "no_rdma_device" not in remarks_on(h100(bond))


def test_a_member_of_a_bond_without_a_link_is_down_though_the_bond_s_rdma_device_is_active() -> None:
    def bond(facts: Facts) -> None:
        nic = next(nic for nic in facts["nics"] if nic["rdma"])
        netdev = next(netdev for netdev in facts["netdevs"] if netdev["name"] == nic["netdevs"][0])
        facts["netdevs"].append({**netdev, "name": "bond0", "kind": "bond", "pci": None})
        netdev.update(master="bond0", carrier=False)
        device = next(device for device in facts["rdma"] if device["name"] == nic["rdma"][0])
        device.update(name="mlx5_bond_0", netdev="bond0")
        assert {port["state"] for port in device["ports"]} == {"ACTIVE"}

    assert "rail_down" not in remarks_on(h100(lambda _facts: None))
    (remark,) = remarks_on(h100(bond))["rail_down"]
    assert [device["seen"] for device in remark["devices"]] == ["rail 0, down"]


class TestMissing:
    def lacking(self, count: int, whole: int = 3) -> dict[str, list[dict[str, Any]]]:
        """Remarks on a host that lacks so many GPUs, beside so many that have all."""

        def fall(facts: Facts) -> None:
            gone = {gpu["address"] for gpu in facts["gpus"][:count]}
            facts["gpus"] = [gpu for gpu in facts["gpus"] if gpu["address"] not in gone]
            facts["rails"] = [rail for rail in facts["rails"] if rail["gpu"] not in gone]

        return remarks_on(h100(fall), *(h100() for _host in range(whole)))

    @pytest.mark.parametrize(("count", "named"), [(1, 1), (2, 2), (3, 0)])
    def test_what_three_others_have_is_named_up_to_two_cards(self, count: int, named: int) -> None:
        remarks = self.lacking(count).get("device_missing", [])
        assert [len(remark["devices"]) for remark in remarks] == ([named] if named else [])
        if named:
            assert (remarks[0]["host"], remarks[0]["severity"]) == ("host-0", "attention")
            assert remarks[0]["devices"][0]["seen"] == "there on 3 machines built like this one"

    def test_each_device_is_named_with_its_place_and_model_in_their_order(self) -> None:
        def fall(facts: Facts) -> None:
            facts["gpus"] = facts["gpus"][1:]
            facts["rails"] = facts["rails"][1:]
            facts["nics"] = [nic for nic in facts["nics"] if nic["address"] != "0000:29:00.1"]
            facts["rdma"] = [device for device in facts["rdma"] if device["pci"] != "0000:29:00.1"]

        (remark,) = remarks_on(h100(fall), h100(), h100(), h100())["device_missing"]
        assert [(device["address"], device["name"]) for device in remark["devices"]] == [
            ("0000:1b:00.0", "H100 SXM5 80GB"),
            ("0000:29:00.1", "BlueField-3"),
        ]

    def test_of_several_builds_that_have_more_the_largest_counts(self) -> None:
        def without(count: int) -> Callable[[Facts], None]:
            def fall(facts: Facts) -> None:
                facts["gpus"], facts["rails"] = facts["gpus"][count:], facts["rails"][count:]

            return fall

        fleet = [h100(without(2)), *(h100(without(1)) for _host in range(3)), *(h100() for _host in range(6))]
        (remark,) = remarks_on(*fleet)["device_missing"]
        assert [device["seen"] for device in remark["devices"]] == ["there on 6 machines built like this one"] * 2

    def test_two_others_may_be_another_build(self) -> None:
        assert "device_missing" not in self.lacking(1, whole=2)

    def test_a_machine_with_a_device_that_the_others_have_not_is_another_build(self) -> None:
        def other(facts: Facts) -> None:
            facts["gpus"][0]["address"] = "0000:ff:00.0"

        assert "device_missing" not in remarks_on(h100(other), h100(), h100(), h100())


def test_a_port_outside_the_rails_is_a_note_only() -> None:
    found = remarks_on(h100(lambda facts: sample_fleet.port_down(facts, "0000:29:00.1", "Disabled")))
    assert list(found) == ["port_down"]
    assert found["port_down"][0]["severity"] == "note"


def test_a_trained_port_without_a_subnet_manager_is_told_from_a_dead_one() -> None:
    found = remarks_on(h100(lambda facts: port(facts, 0).update(state="INIT", sm_lid=0)))
    assert list(found) == ["no_subnet_manager"]


def test_one_dead_port_of_a_function_with_two_is_a_lame_rail() -> None:
    def add_dead_port(facts: Facts) -> None:
        dead = {**port(facts, 0), "port": 2, "state": "DOWN", "physical": "Polling"}
        facts["rdma"][0]["ports"].append(dead)

    assert remarks_on(h100(add_dead_port))["rail_down"][0]["devices"][0]["seen"] == (
        "rail 0, one port of several down, Polling"
    )


@pytest.mark.parametrize(
    ("link", "seen"),
    [
        (sample_fleet.pcie(speed=16.0), "16 GT/s x16 of 32 GT/s x16"),
        (sample_fleet.pcie(width=8), "32 GT/s x8 of 32 GT/s x16"),
    ],
)
def test_a_slow_or_narrow_pcie_link_of_a_nic_is_remarked(link: dict[str, Any], seen: str) -> None:
    found = remarks_on(h100(lambda facts: facts["nics"][2].update(link=link)))
    assert [device["seen"] for device in found["pcie_degraded"][0]["devices"]] == [seen]


@pytest.mark.parametrize(
    ("link", "kind", "seen"),
    [
        # At all that the slot can: nothing that needs attention.
        (
            {**sample_fleet.pcie(speed=16.0), "slot_speed_gts": 16.0},
            "slot_below_nic",
            "slot 16 GT/s x16, NIC 32 GT/s x16",
        ),
        ({**sample_fleet.pcie(width=8), "slot_width": 8}, "slot_below_nic", "slot 32 GT/s x8, NIC 32 GT/s x16"),
        # Below that.
        ({**sample_fleet.pcie(speed=8.0), "slot_speed_gts": 16.0}, "pcie_degraded", "8 GT/s x16 of 16 GT/s x16"),
        (
            {**sample_fleet.pcie(speed=16.0, width=8), "slot_speed_gts": 16.0},
            "pcie_degraded",
            "16 GT/s x8 of 16 GT/s x16",
        ),
    ],
)
def test_a_pcie_link_is_measured_by_what_its_slot_can(link: dict[str, Any], kind: str, seen: str) -> None:
    hosts = [h100(lambda facts: facts["nics"][2].update(link=link))]
    found = remarks_on(*hosts)
    assert list(found) == [kind]
    assert found[kind][0]["severity"] == ("note" if kind == "slot_below_nic" else "attention")
    assert [device["seen"] for device in found[kind][0]["devices"]] == [seen]
    degraded = [device["pcie"]["degraded"] for device in tree_devices(device_map(hosts[0])) if device["type"] == "nic"]
    assert any(degraded) == (kind == "pcie_degraded")


@pytest.mark.parametrize(
    ("link", "seen"),
    [
        (sample_fleet.pcie(speed=2.5, width=8), ["x8 of x16"]),
        ({**sample_fleet.pcie(width=8), "slot_width": 8}, []),
        (sample_fleet.pcie(speed=2.5), []),
    ],
)
def test_a_gpu_that_has_lost_lanes_is_remarked_and_an_idle_one_is_not(link: dict[str, Any], seen: list[str]) -> None:
    def change(facts: Facts) -> None:
        facts["gpus"][3]["link"] = link

    found = remarks_on(h100(change))
    assert [device["seen"] for remark in found.get("gpu_lanes_lost", []) for device in remark["devices"]] == seen
    assert list(found) == (["gpu_lanes_lost"] if seen else [])


def test_the_lanes_of_a_gpu_on_nvlink_c2c_are_no_matter() -> None:
    def change(facts: Facts) -> None:
        facts["gpus"][3]["link"] = sample_fleet.pcie(width=2)
        facts["distances"][facts["nics"][0]["address"]] = {facts["gpus"][3]["address"]: "C2C"}

    assert "gpu_lanes_lost" not in remarks_on(h100(change))


def test_facts_that_tell_no_distances_have_their_lanes_compared() -> None:
    def change(facts: Facts) -> None:
        facts["gpus"][3]["link"] = sample_fleet.pcie(width=8)
        del facts["distances"]

    assert "gpu_lanes_lost" in remarks_on(h100(change))


def test_an_unknown_pcie_link_is_no_degraded_one() -> None:
    unknown = {"speed_gts": None, "width": None, "max_speed_gts": 32.0, "max_width": 16}
    assert remarks_on(h100(lambda facts: facts["nics"][2].update(link=unknown))) == {}


def test_the_odd_firmware_of_a_family_and_board_is_remarked_on_the_host_that_has_it() -> None:
    found = remarks_on(h100(), h100(lambda facts: facts["rdma"][0].update(firmware="28.38.1002")))
    assert [remark["host"] for remark in found["firmware_differs"]] == ["host-1"]
    assert found["firmware_differs"][0]["devices"][0]["seen"] == "28.38.1002, ConnectX-7 elsewhere 28.39.3560"


def test_another_board_may_run_another_firmware() -> None:
    def other_board(facts: Facts) -> None:
        facts["rdma"][0].update(firmware="28.38.1002", psid="MT_0000000999")

    assert remarks_on(h100(), h100(other_board)) == {}


def test_the_firmware_that_fewer_have_is_the_odd_one_though_it_is_newer() -> None:
    found = remarks_on(h100(), h100(lambda facts: facts["rdma"][0].update(firmware="28.43.2026")))
    assert found["firmware_differs"][0]["devices"][0]["seen"] == "28.43.2026, ConnectX-7 elsewhere 28.39.3560"


def test_of_two_firmwares_in_equal_numbers_the_older_is_the_odd_one() -> None:
    def older(facts: Facts) -> None:
        for device in facts["rdma"][:8]:
            device["firmware"] = "28.9.1000"

    found = remarks_on(h100(older), h100())
    assert [remark["host"] for remark in found["firmware_differs"]] == ["host-0"]


@pytest.mark.parametrize(
    ("layer", "states", "seen"),
    [
        ("InfiniBand", ("DOWN", "DOWN", "ACTIVE"), "2 of 3 VFs"),
        ("InfiniBand", ("ACTIVE",), None),
        # An Ethernet function follows its interface.
        ("Ethernet", ("DOWN",), None),
    ],
)
def test_functions_without_link_on_a_port_that_is_up_are_remarked(
    layer: str, states: tuple[str, ...], seen: str | None
) -> None:
    """k8snetworkplumbingwg/sriov-network-device-plugin, issue 269: a subnet manager without virtual ports."""
    facts = sample_fleet.h100_facts("h", layer)
    parent, device = facts["nics"][0], facts["rdma"][0]
    for number, state in enumerate(states):
        address, name = f"0000:18:00.{number + 1}", f"mlx5_{20 + number}"
        facts["nics"].append(
            {**parent, "address": address, "function": "vf", "pf": parent["address"], "rdma": [name], "netdevs": []}
        )
        facts["rdma"].append(
            {**device, "name": name, "pci": address, "ports": [{**device["ports"][0], "state": state}]}
        )
    remarks = remarks_on(facts).get("functions_down", [])
    assert [each["seen"] for remark in remarks for each in remark["devices"]] == ([seen] if seen else [])
    sample_fleet.port_down(facts, parent["address"])
    assert "functions_down" not in remarks_on(facts)


def test_a_zero_guid_is_remarked() -> None:
    found = remarks_on(sample_fleet.guest_facts("g"))
    assert [device["name"] for device in found["zero_guid"][0]["devices"]] == ["mlx5_1"]


@pytest.mark.parametrize(("kind", "remarked"), [("DMA", True), ("DMA-FQ", True), ("identity", False), (None, False)])
def test_a_translating_iommu_is_remarked(kind: str | None, remarked: bool) -> None:
    found = remarks_on(h100(lambda facts: facts["nics"][0].update(iommu={"group": 1, "type": kind})))
    assert ("iommu_translated" in found) is remarked


@pytest.mark.parametrize(
    ("distance", "kind"),
    [
        ("PIX", None),
        ("PXB", None),
        ("PHB", "rail_through_cpu"),
        ("NODE", "rail_through_cpu"),
        ("SYS", "rail_across_cpus"),
    ],
)
def test_a_rail_whose_gpu_is_far_is_remarked(distance: str, kind: str | None) -> None:
    found = remarks_on(h100(lambda facts: facts["rails"][0].update(distance=distance)))
    assert list(found) == ([kind] if kind else [])


def test_a_gpu_without_a_rail_is_noted_where_there_are_nics() -> None:
    def drop_rail(facts: Facts) -> None:
        del facts["rails"][7]

    found = remarks_on(h100(drop_rail))
    assert [device["address"] for device in found["gpu_without_rail"][0]["devices"]] == ["0000:df:00.0"]


def test_facts_that_could_not_be_read_are_said() -> None:
    gap = {"path": "/sys/kernel/security/lockdown", "error": "EACCES", "meaning": "needs root"}
    found = remarks_on(h100(lambda facts: facts["unreadable"].append(gap)))
    assert found["unreadable"][0]["devices"][0] == {"address": "", "name": gap["path"], "seen": "EACCES"}


def test_hosts_that_were_not_read_and_files_of_unknown_hosts_are_said() -> None:
    found = remarks_on(h100(), expected=["host-7"])
    assert [remark["host"] for remark in found["not_read"]] == ["host-7"]
    assert [remark["host"] for remark in found["not_in_spec"]] == ["host-0"]


def test_a_host_that_was_left_behind_is_said_with_the_reason_and_only_so() -> None:
    found = remarks_on(
        h100(), expected=["host-0", "host-7"], unfinished={"host-0": "failed: x", "host-7": "unreachable"}
    )
    assert list(found) == ["unfinished"]
    assert [(each["host"], each["devices"][0]["seen"]) for each in found["unfinished"]] == [
        ("host-0", "failed: x"),
        ("host-7", "unreachable"),
    ]


def test_what_needs_attention_comes_first() -> None:
    def both(facts: Facts) -> None:
        sample_fleet.port_down(facts, "0000:29:00.1")
        sample_fleet.port_down(facts, "0000:18:00.0")

    assert list(remarks_on(h100(both))) == ["rail_down", "port_down"]


def test_virtual_functions_of_a_seen_parent_are_not_judged_as_ports() -> None:
    def add_virtual(facts: Facts) -> None:
        parent = facts["nics"][0]
        facts["nics"].append(
            {**parent, "address": "0000:18:00.1", "function": "vf", "pf": parent["address"], "rdma": []}
        )
        facts["netdevs"].append({**sample_fleet.netdev("v0", "0000:18:00.1", 0, "ether"), "carrier": False})

    assert remarks_on(h100(add_virtual)) == {}


def test_nics_of_other_vendors_are_not_judged() -> None:
    def add_onboard(facts: Facts) -> None:
        onboard = {**facts["nics"][0], "address": "0000:0b:00.0", "vendor": "8086", "family": None, "rdma": []}
        facts["nics"].append({**onboard, "link": sample_fleet.pcie(speed=2.5), "iommu": {"group": 1, "type": "DMA"}})
        facts["netdevs"].append({**sample_fleet.netdev("eno3", "0000:0b:00.0", 0, "ether"), "carrier": False})

    assert remarks_on(h100(add_onboard)) == {}


def test_every_kind_explains_itself_and_names_the_next_step() -> None:
    for kind, text in KINDS.items():
        assert text["severity"] in ("attention", "note"), kind
        assert all(text[part].endswith(".") for part in ("meaning", "next")), kind
