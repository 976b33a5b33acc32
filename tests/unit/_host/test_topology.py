# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Distances follow nvidia-smi's labels; rails pair a GPU with what is really near it."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.topology import distance, distances, rails

SWITCH = ["pci0000:15", "15:01.0", "16:00.0"]
DEEPER = [*SWITCH, "17:02.0", "19:00.0"]


def gpu(*path: str, numa: int | None = 0) -> Any:
    return {"address": path[-1], "vendor": "10de", "device": "2330", "path": list(path), "numa_node": numa}


def nic(*path: str, numa: int | None = 0, **changes: Any) -> Any:
    return {**gpu(*path, numa=numa), "pf": None, "rdma": ["mlx5_0"], "vendor": "15b3", "device": "1021", **changes}


def gb200(*path: str, numa: int | None = 0) -> Any:
    return {**gpu(*path, numa=numa), "device": "2941"}


@pytest.mark.parametrize(
    ("one", "other", "label"),
    [
        (nic(*SWITCH, "17:00.0", "nic"), gpu(*SWITCH, "17:01.0", "gpu"), "PIX"),
        (nic(*SWITCH, "17:00.0", "nic"), gpu(*DEEPER, "1a:00.0", "gpu"), "PXB"),
        (nic(*DEEPER, "1a:00.0", "nic"), gpu(*DEEPER, "1a:01.0", "gpu"), "PIX"),
        (nic(*SWITCH, "17:00.0", "18:00.0", "19:08.0", "nic"), gpu(*SWITCH, "17:01.0", "gpu"), "PXB"),
        (nic("pci0000:15", "15:01.0", "18:00.0"), gpu("pci0000:15", "15:01.0", "18:00.1"), "PIX"),
        (nic("pci0000:15", "15:01.0", "nic"), gpu("pci0000:15", "15:02.0", "gpu"), "PHB"),
        (nic("pci0000:00", "nic"), gpu("pci0000:00", "gpu"), "PHB"),
        (nic("pci0000:15", "15:01.0", "nic"), gpu("pci0000:26", "26:01.0", "gpu"), "NODE"),
        (nic("pci0000:15", "15:01.0", "nic"), gpu("pci0000:97", "97:01.0", "gpu", numa=1), "SYS"),
        (nic("pci0000:15", "nic", numa=None), gpu("pci0000:26", "gpu", numa=None), "SYS"),
        (nic("nic"), gpu("gpu"), "NODE"),
        (nic("same"), gpu("same", numa=1), "SYS"),
    ],
)
def test_labels(one: Any, other: Any, label: str) -> None:
    assert [distance(*pair) for pair in ((one, other), (other, one))] == [label, label]


def beside(number: int, *slots: str) -> list[str]:
    """The path of a device in a slot of switch ``number``."""
    return [f"pci0000:{number}0", f"{number}0:01.0", f"{number}1:00.0", f"{number}2:{slots[0]}.0", slots[-1]]


def pairs(nics: list[Any], gpus: list[Any]) -> list[tuple[int, str, str, str]]:
    return [(rail["rail"], rail["gpu"], rail["nic"], rail["distance"]) for rail in rails(nics, gpus)]


def test_each_gpu_gets_its_own_nic() -> None:
    gpus = [gpu(*beside(switch, "00", f"gpu{switch}")) for switch in (1, 2)]
    nics = [nic(*beside(switch, "01", f"nic{switch}")) for switch in (2, 1)]
    assert pairs(nics, gpus) == [(0, "gpu1", "nic1", "PIX"), (1, "gpu2", "nic2", "PIX")]


def test_two_gpus_and_two_nics_behind_one_switch_are_paired_one_to_one() -> None:
    gpus = [gpu(*beside(1, "00", "gpu1")), gpu(*beside(1, "01", "gpu2"))]
    nics = [nic(*beside(1, "02", "nic1")), nic(*beside(1, "03", "nic2"))]
    assert pairs(nics, gpus) == [(0, "gpu1", "nic1", "PIX"), (1, "gpu2", "nic2", "PIX")]


def test_gpus_share_where_nics_are_few() -> None:
    gpus = [gpu(*beside(1, f"0{slot}", f"gpu{slot}")) for slot in (1, 2)]
    assert pairs([nic(*beside(1, "08", "nic"))], gpus) == [(0, "gpu1", "nic", "PIX"), (1, "gpu2", "nic", "PIX")]


def test_a_second_card_beside_a_gpu_is_a_second_plane_of_its_rail() -> None:
    nics = [nic(*beside(1, "08", "nic1")), nic(*beside(1, "08", "nic2"))]
    assert pairs(nics, [gpu(*beside(1, "01", "gpu"))]) == [(0, "gpu", "nic1", "PIX"), (0, "gpu", "nic2", "PIX")]


def test_a_gpu_that_lost_its_nic_is_not_given_a_storage_card() -> None:
    gpus = [gpu(*beside(1, "00", "gpu1")), gpu(*beside(2, "00", "gpu2"))]
    nics = [nic(*beside(1, "01", "nic1")), nic(*beside(3, "01", "storage"))]
    assert pairs(nics, gpus) == [(0, "gpu1", "nic1", "PIX")]
    nics = [nic(*beside(2, "01", "nic2")), nic(*beside(3, "01", "storage"))]
    assert pairs(nics, gpus) == [(1, "gpu2", "nic2", "PIX")], "the other rails keep their numbers"


def test_without_switches_the_socket_counts() -> None:
    gpus = [gpu("pci0000:10", "gpu0"), gpu("pci0000:80", "gpu1", numa=1)]
    assert pairs([nic("pci0000:30", "nic")], gpus) == [(0, "gpu0", "nic", "NODE")]


@pytest.mark.parametrize(
    "stranger",
    [
        nic(*beside(1, "01", "vf"), pf="0000:18:00.0"),
        nic(*beside(1, "01", "intel"), vendor="8086", rdma=[]),
    ],
)
def test_neither_virtual_functions_nor_plain_ports_are_rails(stranger: Any) -> None:
    device = gpu(*beside(1, "00", "gpu"))
    assert rails([stranger], [device]) == []
    assert distances([stranger], [device]) == {}


def test_another_vendor_s_rdma_card_is_a_rail() -> None:
    card = nic(*beside(1, "01", "nic"), vendor="14e4", rdma=["bnxt_re0"])
    assert pairs([card], [gpu(*beside(1, "00", "gpu"))]) == [(0, "gpu", "nic", "PIX")]


def test_no_gpus_no_rails() -> None:
    assert rails([nic(*beside(1, "01", "nic"))], []) == []
    assert distances([nic(*beside(1, "01", "nic"))], []) == {}


@pytest.mark.parametrize(
    ("one", "other", "label"),
    [
        (nic("pci0002:00", "0002:00:00.0", "nic"), gb200("pci0008:00", "0008:00:00.0", "gpu"), "C2C"),
        (nic("pci0008:00", "0008:00:00.0", "nic"), gb200("pci0008:00", "0008:00:01.0", "gpu"), "C2C"),
        (nic("pci0012:00", "0012:00:00.0", "nic", numa=1), gb200("pci0008:00", "0008:00:00.0", "gpu"), "SYS"),
        (nic(*SWITCH, "17:00.0", "nic"), gb200(*SWITCH, "17:01.0", "gpu"), "PIX"),
        (nic("pci0002:00", "nic", numa=None), gb200("pci0008:00", "gpu", numa=None), "SYS"),
    ],
)
def test_over_nvlink_c2c_a_nic_of_the_same_processor_is_near(one: Any, other: Any, label: str) -> None:
    assert [distance(*pair) for pair in ((one, other), (other, one))] == [label, label]


def test_a_grace_gpu_that_lost_its_nic_is_not_given_one_of_the_processor() -> None:
    gpus = [gb200(*beside(1, "00", "gpu1")), gb200(*beside(2, "00", "gpu2"))]
    nics = [nic(*beside(1, "01", "nic1")), nic(*beside(3, "01", "storage"))]
    assert pairs(nics, gpus) == [(0, "gpu1", "nic1", "PIX")]


def test_of_equally_near_nics_those_of_the_uplink_come_last() -> None:
    gpus = [gpu("pci0000:10", "gpu0"), gpu("pci0000:20", "gpu1")]
    nics = [nic("pci0000:30", "nic0"), nic("pci0000:40", "nic1"), nic("pci0000:50", "nic2")]
    found = [(rail["gpu"], rail["nic"]) for rail in rails(nics, gpus, {"nic0"})]
    assert found == [("gpu0", "nic1"), ("gpu1", "nic2")]
    found = [(rail["gpu"], rail["nic"]) for rail in rails(nics[:2], gpus, {"nic0"})]
    assert found == [("gpu0", "nic1"), ("gpu1", "nic0")], "where there are no others, it serves"
