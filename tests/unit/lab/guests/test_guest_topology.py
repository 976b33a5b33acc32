# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.tests.lab.guests.layout import plan_guests
from ansible_collections.rdma.fabric.tests.lab.guests.qemu import Image, Machine, guest_argv
from ansible_collections.rdma.fabric.tests.lab.guests.topology import (
    FLAT,
    GUARDED,
    NESTED,
    SWITCHED,
    memory_arguments,
)

IMAGE = Image(Path("/cache/image-1"), Path("/cache/qemu-1"))


def devices(topology: str, rails: int) -> list[dict[str, str]]:
    """Give the devices of a guest, as QEMU reads them."""
    (guest,) = plan_guests(1, rails)
    argv = guest_argv(IMAGE, guest, 1, Machine("tcg", topology))
    words = [argv[at + 1] for at, word in enumerate(argv) if word == "-device"]
    return [dict(part.partition("=")[::2] for part in f"driver={word}".split(",")) for word in words]


def above(found: list[dict[str, str]], device: dict[str, str]) -> list[dict[str, str]]:
    """Give the devices above one, the nearest first; each has to be made before those on its bus."""
    chain = []
    while device.get("bus", "pcie.0") != "pcie.0":
        (parent,) = (each for each in found if each.get("id") == device["bus"])
        assert found.index(parent) < found.index(device)
        chain.append(parent)
        device = parent
    return chain


@pytest.mark.parametrize("rails", [1, 2, 4])
def test_cards_are_dealt_out_to_the_numa_nodes_and_share_a_switch_with_a_gpu(rails: int) -> None:
    found = devices(SWITCHED, rails)
    cards = [each for each in found if each["driver"] == "igb"]
    gpus = [each for each in found if each["driver"] == "pci-testdev"]
    assert (len(cards), len(gpus)) == (rails, rails + 2)
    for rail, (card, gpu) in enumerate(zip(cards, gpus)):
        drivers = [each["driver"] for each in above(found, card)]
        assert drivers == ["pcie-root-port", "x3130-upstream", "pcie-root-port", "pxb-pcie"]
        assert above(found, card)[1] == above(found, gpu)[1]
        assert above(found, card)[-1]["numa_node"] == str(rail % 2)
    assert len({above(found, card)[1]["id"] for card in cards}) == rails
    # Two more are further from the first card: behind a second switch, and below another host bridge of its node.
    far, beside = (above(found, gpu) for gpu in gpus[rails:])
    assert far[3:] == above(found, cards[0])[1:]
    assert far[1]["driver"] == "x3130-upstream"
    assert beside[-1]["numa_node"] == above(found, cards[0])[-1]["numa_node"]
    assert beside[-1]["id"] not in {above(found, card)[-1]["id"] for card in cards}


@pytest.mark.parametrize("topology", [SWITCHED, GUARDED])
def test_cards_come_after_the_iommu(topology: str) -> None:
    found = [each["driver"] for each in devices(topology, 2)]
    assert found.index("intel-iommu") < found.index("igb")


def test_a_guarded_guest_is_a_flat_one_with_an_iommu() -> None:
    iommu = next(each for each in devices(GUARDED, 2) if each["driver"] == "intel-iommu")
    assert [each for each in devices(GUARDED, 2) if each != iommu] == devices(FLAT, 2)


def test_a_nested_guest_is_a_flat_one_whose_cards_have_no_sr_iov() -> None:
    cards = {"e1000e": "igb"}
    found = devices(NESTED, 2)
    assert [{**each, "driver": cards.get(each["driver"], each["driver"])} for each in found] == devices(FLAT, 2)
    assert "igb" not in {each["driver"] for each in found}


@pytest.mark.parametrize("topology", [FLAT, SWITCHED])
def test_every_slot_has_a_chassis_number_of_its_own(topology: str) -> None:
    chassis = [each["chassis"] for each in devices(topology, 8) if "chassis" in each]
    assert len(set(chassis)) == len(chassis) >= 8


def test_a_flat_guest_has_one_node_and_a_switched_one_two_with_all_its_memory_and_a_processor_each() -> None:
    assert memory_arguments(FLAT, 2048) == ["-m", "2048"]
    words = memory_arguments(SWITCHED, 2048)
    assert words.count("-numa") == 2
    assert sum(int(word.rpartition("size=")[2].rstrip("M")) for word in words if "size=" in word) == 2048
    (guest,) = plan_guests(1, 1)
    for topology, processors in ((FLAT, "1"), (SWITCHED, "2")):
        argv = guest_argv(IMAGE, guest, 1, Machine("tcg", topology))
        assert argv[argv.index("-smp") + 1] == processors
        assert argv[argv.index("-cpu") + 1].endswith(",-hypervisor") is (topology == SWITCHED)
