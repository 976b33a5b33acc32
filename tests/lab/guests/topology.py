# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a guest's processors, memory and PCI Express slots are arranged. Pure."""

from __future__ import annotations

from typing import NamedTuple

FLAT = "flat"  # every card behind a root port of its own, one NUMA node
SWITCHED = (
    "switched"  # a server with two NUMA nodes and an IOMMU; every card behind a switch, beside a stand-in of a GPU
)
GUARDED = "guarded"  # as flat, behind an IOMMU, which Debian's kernels switch on
NESTED = "nested"  # as flat, but the cards have no SR-IOV, as in a virtual machine that was given VFs
TOPOLOGIES = (FLAT, SWITCHED, GUARDED, NESTED)
NUMA_NODES = 2
# Bus numbers are dealt out from here for each NUMA node; below it are those of the main root complex.
FIRST_BUS = 0x40
BUSES_PER_NODE = 0x40
# Of the devices after it on the command line it translates the accesses, of virtio's none.
IOMMU = ("-device", "intel-iommu,intremap=on")
CARD, WITHOUT_SRIOV = "igb", "e1000e"
# In the place of a switch's downstream ports: QEMU's own (xio3130-downstream) have no ACS.
DOWNSTREAM = "pcie-root-port"
GPU_STAND_IN = "pci-testdev"  # vendor 1b36, device 0005: has a memory region and no driver


class Slots(NamedTuple):
    """QEMU's arguments that make the slots, and the bus of each rail's card."""

    argv: list[str]
    buses: list[str]


def card_device(topology: str) -> str:
    """Give QEMU's name for the cards."""
    return WITHOUT_SRIOV if topology == NESTED else CARD


def processor_flags(topology: str) -> str:
    """Give what follows the processor's model: a server's says that no hypervisor runs it."""
    return ",-hypervisor" if topology == SWITCHED else ""


def numa_nodes(topology: str) -> int:
    """Give the number of NUMA nodes, each of which has processors of its own."""
    return NUMA_NODES if topology == SWITCHED else 1


def memory_arguments(topology: str, mebibytes: int) -> list[str]:
    """Give QEMU's arguments for a guest's memory; as many processors as NUMA nodes are needed beside them."""
    argv = ["-m", str(mebibytes)]
    nodes = numa_nodes(topology)
    if nodes > 1:
        for node in range(nodes):
            argv += ["-object", f"memory-backend-ram,id=ram{node},size={mebibytes // nodes}M"]
            argv += ["-numa", f"node,nodeid={node},cpus={node},memdev=ram{node}"]
    return argv


def slots(topology: str, rails: int) -> Slots:
    """Arrange the slots of a guest with ``rails`` cards."""
    arranged = _switched(rails) if topology == SWITCHED else _flat(rails)
    return arranged._replace(argv=[*IOMMU, *arranged.argv]) if topology in (SWITCHED, GUARDED) else arranged


def _flat(rails: int) -> Slots:
    # SR-IOV needs PCI Express.
    argv = [
        word
        for rail in range(rails)
        for word in ("-device", f"pcie-root-port,id=slot{rail},chassis={rail + 1},slot={rail + 1}")
    ]
    return Slots(argv, [f"slot{rail}" for rail in range(rails)])


def _switched(rails: int) -> Slots:
    """Deal the rails out to the NUMA nodes; behind each one's switch are its card and the stand-in of a GPU.

    Two more stand-ins are further from the first card: behind a second switch below its own, and below another host
    bridge of its NUMA node.
    """
    devices = [
        f"pxb-pcie,id=numa{node},bus=pcie.0,bus_nr={FIRST_BUS + node * BUSES_PER_NODE},numa_node={node}"
        for node in range(NUMA_NODES)
    ]
    for rail in range(rails):
        chassis = 1 + 3 * rail
        devices += [
            f"pcie-root-port,id=root{rail},bus=numa{rail % NUMA_NODES},chassis={chassis},slot={rail}",
            f"x3130-upstream,id=switch{rail},bus=root{rail}",
            f"{DOWNSTREAM},id=slot{rail},bus=switch{rail},chassis={chassis + 1},slot=0",
            f"{DOWNSTREAM},id=gpu-slot{rail},bus=switch{rail},chassis={chassis + 2},slot=1",
            f"{GPU_STAND_IN},bus=gpu-slot{rail},membar=1M",
        ]
    chassis = 1 + 3 * rails
    devices += [
        f"{DOWNSTREAM},id=far-slot,bus=switch0,chassis={chassis},slot=2",
        "x3130-upstream,id=far-switch,bus=far-slot",
        f"{DOWNSTREAM},id=far-gpu-slot,bus=far-switch,chassis={chassis + 1},slot=0",
        f"{GPU_STAND_IN},bus=far-gpu-slot,membar=1M",
        f"pxb-pcie,id=beside,bus=pcie.0,bus_nr={FIRST_BUS + NUMA_NODES * BUSES_PER_NODE},numa_node=0",
        f"pcie-root-port,id=beside-slot,bus=beside,chassis={chassis + 2},slot={rails}",
        f"{GPU_STAND_IN},bus=beside-slot,membar=1M",
    ]
    return Slots([word for device in devices for word in ("-device", device)], [f"slot{rail}" for rail in range(rails)])
