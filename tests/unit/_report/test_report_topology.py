# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The PCIe map of a host and the groups of identical hosts."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._report.topology import (
    device_map,
    switches_between,
    topology_classes,
    tree_devices,
)
from ansible_collections.rdma.fabric.tests.unit._report import sample_fleet


def outline(nodes: list[dict[str, Any]], depth: int = 0) -> list[str]:
    lines: list[str] = []
    for node in nodes:
        lines.append("  " * depth + f"{node['type']} {node['address']}")
        lines += outline(node.get("children", []), depth + 1)
    return lines


def classes_of(**facts: dict[str, Any]) -> list[dict[str, Any]]:
    return topology_classes([(name, device_map(found)) for name, found in facts.items()])


def test_a_gpu_and_its_nic_hang_under_their_common_switch() -> None:
    first = device_map(sample_fleet.h100_facts("h"))[0]["bridges"][0]
    assert outline([first]) == [
        "bridge pci0000:15",
        "  switch 0000:16:00.0",
        "    switch 0000:19:00.0",
        "      gpu 0000:1b:00.0",
        "    nic 0000:18:00.0",
    ]


def test_every_device_stands_in_the_map_once_under_its_numa_node() -> None:
    facts = sample_fleet.h100_facts("h")
    tree = device_map(facts)
    assert [numa["numa"] for numa in tree] == [0, 1]
    found = sorted(device["address"] for device in tree_devices(tree))
    assert found == sorted(device["address"] for device in facts["gpus"] + facts["nics"])
    assert len(tree_devices(tree[:1])) == 10


@pytest.mark.parametrize("numa", [None, -1])
def test_a_device_without_numa_node_gets_a_place_of_its_own(numa: int | None) -> None:
    facts = sample_fleet.h100_facts("h")
    facts["nics"][0]["numa_node"] = numa
    tree = device_map(facts)
    assert [entry["numa"] for entry in tree] == [0, 1, None]
    assert [device["address"] for device in tree_devices(tree[2:])] == ["0000:18:00.0"]


@pytest.mark.parametrize(
    ("path", "switches"),
    [
        ([], []),
        (["pci0000:00", "0000:00:02.0"], []),
        (["pci0000:15", "0000:15:01.0", "0000:18:00.0"], []),
        (["pci0000:15", "0000:15:01.0", "0000:16:00.0", "0000:17:00.0", "0000:18:00.0"], ["0000:16:00.0"]),
        (["pci0000:15", "0000:15:01.0", "0000:16:00.0", "0000:17:00.0"], ["0000:16:00.0"]),
    ],
)
def test_switches_are_the_pairs_of_bridges_below_the_root_port(path: list[str], switches: list[str]) -> None:
    assert switches_between(path) == switches


def test_an_endless_path_is_followed_to_a_limit_only() -> None:
    facts = sample_fleet.plain_facts("h")
    path = [f"0000:{index:04x}:00.0" for index in range(5000)]
    facts["gpus"] = [sample_fleet.gpu("0000:ff:00.0", "H100", 0, path)]
    assert [device["address"] for device in tree_devices(device_map(facts))] == ["0000:ff:00.0"]


def test_virtual_functions_are_counted_at_their_parent() -> None:
    facts = sample_fleet.h100_facts("h")
    parent = facts["nics"][0]
    for index in (1, 2):
        virtual = {**parent, "address": f"0000:18:00.{index}", "function": "vf", "pf": parent["address"]}
        facts["nics"].append(virtual)
    devices = {device["address"]: device for device in tree_devices(device_map(facts))}
    assert devices["0000:18:00.0"]["virtual_functions"] == 2
    assert "0000:18:00.1" not in devices


def test_virtual_functions_whose_parent_is_not_seen_stand_for_themselves() -> None:
    devices = tree_devices(device_map(sample_fleet.guest_facts("g")))
    assert [device["address"] for device in devices] == ["0000:00:05.0", "0000:00:06.0"]
    assert {device["function"] for device in devices} == {"vf"}


def test_hosts_that_are_alike_form_one_class() -> None:
    hosts = {f"gpu-{index}": sample_fleet.h100_facts(f"gpu-{index}") for index in (10, 9)}
    assert [(entry["id"], entry["hosts"]) for entry in classes_of(**hosts)] == [("class-1", ["gpu-9", "gpu-10"])]


def test_a_host_in_another_state_says_what_it_is_like_and_how_it_differs() -> None:
    broken = sample_fleet.h100_facts("a")
    sample_fleet.port_down(broken, "0000:5e:00.0")
    broken["nics"][0]["link"] = sample_fleet.pcie(speed=16.0)
    classes = classes_of(a=broken, b=sample_fleet.h100_facts("b"))
    assert classes[0]["hosts"] == ["b"], "of two equal classes the one without faults is the model"
    assert (classes[1]["hosts"], classes[1]["like"]) == (["a"], "class-1")
    assert classes[1]["differences"] == [
        "18:00.0: PCIe 16 GT/s x16 instead of PCIe 32 GT/s x16",
        "5e:00.0: link down Polling instead of link up",
    ]


def test_idle_gpus_whose_links_have_slowed_down_make_no_other_class() -> None:
    """Of 100 hosts with eight GPUs, each idle or not, nearly every one would be a class of its own."""
    idle = sample_fleet.h100_facts("idle")
    for gpu in idle["gpus"][:3]:
        gpu["link"] = sample_fleet.pcie(speed=2.5)
    assert [entry["hosts"] for entry in classes_of(idle=idle, busy=sample_fleet.h100_facts("busy"))] == [
        ["busy", "idle"]
    ]


def test_a_gpu_that_has_lost_lanes_is_a_fault() -> None:
    lame = sample_fleet.h100_facts("lame")
    lame["gpus"][0]["link"] = sample_fleet.pcie(speed=2.5, width=8)
    classes = classes_of(a_lame=lame, whole=sample_fleet.h100_facts("whole"))
    assert [entry["hosts"] for entry in classes] == [["whole"], ["a_lame"]]
    assert classes[1]["differences"] == ["1b:00.0: PCIe x8 instead of PCIe x16"]


def test_machines_of_another_build_are_not_compared() -> None:
    classes = classes_of(ib=sample_fleet.h100_facts("a"), eth=sample_fleet.h100_facts("b", "Ethernet"))
    assert [entry["like"] for entry in classes] == [None, None]


def test_the_biggest_class_comes_first_and_hosts_without_devices_last() -> None:
    classes = classes_of(
        p=sample_fleet.plain_facts("p"),
        q=sample_fleet.plain_facts("q"),
        r=sample_fleet.plain_facts("r"),
        one=sample_fleet.h100_facts("one"),
        two=sample_fleet.egx_facts("two"),
        three=sample_fleet.egx_facts("three"),
    )
    assert [entry["hosts"] for entry in classes] == [["three", "two"], ["one"], ["p", "q", "r"]]


def test_hosts_with_other_vendors_nics_only_are_numbered_after_the_others() -> None:
    plain = sample_fleet.plain_facts("p")
    onboard = sample_fleet.nic("0000:00:03.0", "e1000", "", "ens3", numa=None, path=["pci0000:00"], layer="Ethernet")
    plain["nics"] = [{**onboard, "vendor": "8086", "rdma": []}]
    classes = classes_of(p=plain, q=plain, one=sample_fleet.h100_facts("one"))
    assert [entry["hosts"] for entry in classes] == [["one"], ["p", "q"]]


def test_nics_without_rdma_device_tell_their_link_by_the_carrier() -> None:
    facts = sample_fleet.h100_facts("h")
    facts["rdma"] = []
    sample_fleet.port_down(facts, "0000:18:00.0")
    links = {device["address"]: device["link"] for device in tree_devices(device_map(facts)) if device["type"] == "nic"}
    assert links["0000:18:00.0"]["state"] == "down"
    assert links["0000:40:00.0"] == {"state": "up", "rate_gbps": 400.0, "physical": None}
