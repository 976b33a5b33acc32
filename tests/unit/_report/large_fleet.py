# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet of hundreds of hosts, most of them equal, with the faults that a few of so many have."""

from __future__ import annotations

import copy
from typing import Any, Callable

from ansible_collections.rdma.fabric.tests.unit._report import sample_fleet

Facts = dict[str, Any]


def narrow(facts: Facts) -> None:
    """Let the third rail's NIC run on half of its PCIe lanes."""
    facts["nics"][2]["link"] = sample_fleet.pcie(width=8)


def slow(facts: Facts) -> None:
    """Let the sixth rail's link run at half its rate."""
    facts["rdma"][5]["ports"][0]["rate_gbps"] = 200


def small_frames(facts: Facts) -> None:
    """Leave the MTU of one rail at another value."""
    facts["netdevs"][4]["mtu"] = 2044


def no_subnet_manager(facts: Facts) -> None:
    """Leave one port without an address."""
    facts["rdma"][7]["ports"][0].update(state="INIT", sm_lid=0)


def old_driver(facts: Facts) -> None:
    """Leave the host at an older driver and kernel."""
    facts["stack"]["version"] = "23.07-0.5.1"
    facts["system"]["kernel"] = "5.15.0-1040-nvidia"


def old_firmware(facts: Facts) -> None:
    """Leave every ConnectX-7 at an older firmware."""
    for device in facts["rdma"][:8]:
        device["firmware"] = "28.38.1002"


# What ails the host at a place of every two hundred; all others are well.
FAULTS: dict[int, Callable[[Facts], None]] = {
    17: lambda facts: sample_fleet.port_down(facts, "0000:5e:00.0"),
    42: narrow,
    63: slow,
    88: small_frames,
    101: no_subnet_manager,
    117: lambda facts: sample_fleet.port_down(facts, "0000:dc:00.0", "Disabled"),
    142: old_driver,
}
REFUSED = (155, 180)


def large_fleet(size: int) -> list[dict[str, Any]]:
    """Return the documents of ``size`` hosts named ``gpu-0001`` and so on; every fourth has old firmware."""
    documents = []
    for place in range(size):
        facts, steps = sample_fleet.h100_facts("h"), sample_fleet.h100_steps()
        fault = FAULTS.get(place % 200)
        if fault:
            fault(facts)
        if place % 4 == 3:
            old_firmware(facts)
        if place % 200 in REFUSED:
            steps.append(
                sample_fleet.step("mtu:eno1", "set MTU 9000", "refused", detail="it carries the default route")
            )
        documents.append(sample_fleet.document(f"gpu-{place + 1:04}", facts, copy.deepcopy(steps)))
    return documents
