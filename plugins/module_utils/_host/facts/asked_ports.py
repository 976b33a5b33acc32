# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads of ports what a spec asks of them; hosts that are asked nothing of their ports are spared it."""

from __future__ import annotations

from dataclasses import replace
from typing import Iterable, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.affected_vfs import renewed_functions
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.eswitch import read_eswitches
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.firmware import read_firmware
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.firmware_image import read_firmware_images
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.guids import read_guids
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import HostState
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.interfaces import Interface
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.interrupts import (
    interrupts_of_functions,
    read_interrupts,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.qos import everything_of, read_qos
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.qos_scope import asked
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.queues import read_queues
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.routing import read_routing
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.shapes import Facts
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.spectrum_x import read_roce_registers
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.users import read_users
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import Probe
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HostSpec


def read_asked_ports(probe: Probe, desired: HostSpec, interfaces: Sequence[Interface], facts: Facts) -> None:
    """Add to the facts what is only read of devices that an entry of the spec is about."""
    actual = HostState(facts)
    _read_cards(probe, desired, interfaces, actual)
    by_name = {netdev["name"]: netdev for netdev in facts["netdevs"]}
    facts["vf_users"] = read_users(probe, renewed_functions(interfaces, actual), facts["nics"], by_name)
    qos = read_qos(probe, desired, interfaces, facts["rdma"])
    if qos is not None:
        facts["settings"]["qos"] = qos
    facts["queues"] = read_queues(probe, interfaces)
    facts["interrupts"] = read_interrupts(probe, interfaces, facts["boot"]["files"])
    facts["routing"] = read_routing(probe, desired, interfaces, facts["boot"], facts["uplinks"])


def read_every_port(probe: Probe, facts: Facts) -> None:
    """Read for a recording what any spec may ask of the ports."""
    read_qos(probe, *everything_of(facts))
    if facts["nics"]:
        interrupts_of_functions(probe, [nic["address"] for nic in facts["nics"]])


def _read_cards(probe: Probe, desired: HostSpec, interfaces: Iterable[Interface], actual: HostState) -> None:
    """Add what only commands tell of NVIDIA cards: of the physical functions that are asked for."""
    cards = {nic["address"] for nic in actual.nvidia_nics() if nic["function"] == "pf"}
    # What is asked of all interfaces at once is asked of each.
    ports = [
        replace(port, wanted={**port.wanted, "qos": asked(desired, port) or None})
        for port in interfaces
        if port.key in cards
    ]
    facts = actual.facts
    facts["eswitch"] = read_eswitches(probe, ports)
    facts["firmware"] = read_firmware(probe, ports)
    facts["firmware_images"] = read_firmware_images(probe, ports, actual)
    registers = read_roce_registers(probe, ports)
    if registers:
        facts["roce_registers"] = registers
    facts["guids"] = read_guids(probe, ports)
