# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On a guest that is laid out like a GPU server, NICs and GPUs are paired, and ACS between them goes, as long as asked.

NUMA nodes, IOMMU, registers and what the kernel does with them are real. What stands in: igb and a test device of QEMU
show the ids of a ConnectX-6 Dx and an H100, and QEMU's root ports are downstream ports of the switches. The tests build
on each other, in the order of the file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import NEEDS_CONSENT
from ansible_collections.rdma.fabric.tests.guests.conftest import started
from ansible_collections.rdma.fabric.tests.guests.host_runs import Fleet, Json, on_host
from ansible_collections.rdma.fabric.tests.guests.pci_ids import show_ids
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.guests.lab import Options
from ansible_collections.rdma.fabric.tests.lab.guests.topology import SWITCHED

GUEST = "rdma-1"
RAILS = 2
GPU = "0x1b36 0x0005"  # vendor and device of what stands in for one
# Of each device: its path, NUMA node, vendor, device and network interface or a message that it has none.
LOOK = """
for device in /sys/bus/pci/devices/*; do
    cd -P $device
    echo $PWD $(<numa_node) $(<vendor) $(<device) $(ls net 2>&1)
done
"""
IDS = {"8086:10C9": ("15B3:101D", "20000"), "1B36:0005": ("10DE:2330", "30200")}
ACS = {"rdma_fabric_pcie": {"acs": "direct"}}
CONSENT = {"rdma_fabric_allow_acs_change": True}
# What the kernel sets where an IOMMU is on: source validation, redirect of requests and completions, forwarding. And
# what is left of it.
REDIRECTING, DIRECT = "001d", "0001"
# Of each root port, and each downstream port of a switch: its path, and its ACS control register as pciutils read it.
REGISTERS = """
for each in $(lspci -D -d 1b36:000c | cut -d ' ' -f 1); do
    echo $(readlink -f /sys/bus/pci/devices/$each) $(setpci -s $each ECAP_ACS+6.w)
done
"""
LINK = "lspci -vv -s {} | grep LnkSta:"


@pytest.fixture(scope="module")
def switched(capable: None, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lab of one guest in the switched layout."""
    directory = tmp_path_factory.mktemp("switched")
    options = Options(directory, guests=1, rails=RAILS, cluster=False, topology=SWITCHED)
    yield from started(options, pytestconfig)


def devices(switched: Path) -> tuple[dict[Path, str], dict[Path, str]]:
    """Give the cards and what stands in for GPUs: path in the tree -> NUMA node."""
    lines = [line.split() for line in on_host(switched, GUEST, LOOK).splitlines()]
    cards = {Path(line[0]): line[1] for line in lines if line[4].startswith("en")}
    gpus = {Path(line[0]): line[1] for line in lines if " ".join(line[2:4]) == GPU}
    return cards, gpus


def test_the_kernel_sees_each_card_on_its_node_beside_a_gpu(switched: Path) -> None:
    assert on_host(switched, GUEST, "cat /sys/devices/system/node/online").strip() == "0-1"
    cards, gpus = devices(switched)
    assert sorted(cards.values()) == ["0", "1"]
    for card, node in cards.items():
        # Device, its slot below the switch, the switch itself.
        (gpu,) = (each for each in gpus if each.parents[1] == card.parents[1])
        assert gpus[gpu] == node
        assert gpu.parent != card.parent


def test_virtual_functions_appear_behind_a_switch(switched: Path) -> None:
    command = """
        set -e
        card=$(dirname $(ls /sys/bus/pci/drivers/igb/0000:*/sriov_totalvfs | head -n 1))
        echo 2 > $card/sriov_numvfs
        udevadm settle
        for function in $card/virtfn*; do basename $(readlink -f $function/driver); done
        echo 0 > $card/sriov_numvfs
    """
    assert on_host(switched, GUEST, command).split() == ["igbvf", "igbvf"]


@pytest.fixture(scope="module")
def fleet(switched: Path, cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """The guest as a server with ConnectX and GPUs."""
    show_ids(switched, GUEST, IDS)
    return Fleet(switched, tmp_path_factory.mktemp("server"), cluster, ACS)


def registers(fleet: Fleet) -> list[str]:
    """Give the ACS control registers of the switches' downstream ports; those of root ports are what they were."""
    found = {Path(path): value for path, value in map(str.split, fleet.ssh(GUEST, REGISTERS).splitlines())}
    of_roots = {path for path in found if path.parent.name.startswith("pci")}
    assert {found[path] for path in of_roots} == {REDIRECTING}
    return [value for path, value in found.items() if path not in of_roots]


@pytest.fixture(scope="module")
def without_consent(fleet: Fleet) -> dict[str, Any]:
    """The host document of a run that lacks the consent; it has changed no register."""
    slots = registers(fleet)
    assert set(slots) == {REDIRECTING}
    fleet.site()
    assert registers(fleet) == slots
    path = fleet.user.here / "rdma-fabric-run" / "hosts" / f"{GUEST}.json"
    document: Json = json.loads(path.read_text(encoding="utf-8"))
    steps = [step["status"] for step in document["plan"]["steps"] if step["concern"] == "pcie"]
    assert steps == [NEEDS_CONSENT] * len(slots)
    return document


def test_facts_pair_each_card_with_the_gpu_beside_it(
    switched: Path, fleet: Fleet, without_consent: dict[str, Any]
) -> None:
    cards, gpus = devices(switched)
    (first, second) = sorted(card.name for card in cards)
    near, far, other_node, beside = sorted(gpu.name for gpu in gpus)  # in the order of the layout's buses
    facts = without_consent["facts"]
    # SYS is what is left out.
    assert facts["distances"] == {
        first: {near: "PIX", far: "PXB", beside: "NODE"},
        second: {other_node: "PIX"},
    }
    assert [(rail["nic"], rail["gpu"]) for rail in facts["rails"]] == [
        (first, near),
        (first, far),
        (second, other_node),
    ]
    for nic in facts["nics"]:
        if nic["address"] in (first, second):
            speed, width = nic["link"]["speed_gts"], nic["link"]["width"]
            assert f"Speed {speed:g}GT/s, Width x{width}" in fleet.ssh(GUEST, LINK.format(nic["address"]))


def test_with_consent_the_switches_forward_and_only_they(fleet: Fleet, without_consent: dict[str, Any]) -> None:
    fleet.site(**CONSENT).succeeded()
    assert set(registers(fleet)) == {DIRECT}


def test_a_start_sets_acs_and_the_boot_unit_clears_it_again(fleet: Fleet) -> None:
    fleet.snapshots_after_start()
    assert set(registers(fleet)) == {DIRECT}


def test_removal_restores_the_registers(fleet: Fleet) -> None:
    fleet.site(rdma_fabric_host_state="absent").succeeded()
    assert set(registers(fleet)) == {REDIRECTING}
