# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads how NICs, GPUs and the bridges above them treat traffic between both, and tells what sends it up."""

from __future__ import annotations

import re
from typing import Iterator, Mapping, NamedTuple, Sequence

from ..machine.pci_config import COMPLETION_REDIRECT, REQUEST_REDIRECT, Registers, registers
from ..machine.probe import PCI, Probe, is_pci_address
from .devices import VFIO_DRIVERS
from .host_state import HostState
from .shapes import FunctionRegisters, Gpu, Nic, Pcie
from .topology import Device, fabric_of

DRIVERS = "/sys/bus/pci/drivers"
_FLAGS = re.compile(rb"^flags\s*:(.*)$", re.MULTILINE)
# The entry of one processor is shorter; hundreds follow.
_FIRST_PROCESSOR = 4096
_VIRTUAL_VENDORS = ("QEMU", "KubeVirt", "OpenStack Foundation", "Red Hat", "VMware, Inc.", "Xen")
# Pairs below one root port: their traffic stays in the switches unless something sends it up.
_SWITCHED = ("PIX", "PXB")


class Redirected(NamedTuple):
    """A NIC and a GPU whose traffic is sent up to the root complex, and the bridges that do so."""

    nic: str
    gpu: str
    bridges: tuple[str, ...]


def read_pcie(probe: Probe, nics: Sequence[Nic], gpus: Sequence[Gpu]) -> Pcie:
    """Return ``functions`` (RDMA NICs without virtual functions, and GPUs) and ``bridges`` above them, by address.

    A function has ``max_read_request`` and ``max_payload`` (bytes), ``relaxed_ordering`` and ``ats``. A bridge has the
    value of its ACS control register. What has no such registers, or does not show them, is left out. Bridges are read
    only where there are NICs and GPUs. ``virtual`` tells whether the machine is a virtual one, ``passed_through`` are
    the PCI functions that a driver for virtual machines holds.
    """
    fabric = fabric_of(nics)
    devices: list[Device] = [*fabric, *gpus]
    functions: dict[str, FunctionRegisters] = {}
    for device in devices:
        found = _registers(probe, device["address"])
        if found["max_read_request"] is not None:
            functions[device["address"]] = {
                "max_read_request": found["max_read_request"],
                "max_payload": found["max_payload"],
                "relaxed_ordering": found["relaxed_ordering"],
                "ats": found["ats"],
            }
    above = {part for device in devices for part in device["path"][:-1] if is_pci_address(part)}
    acs = {address: _registers(probe, address)["acs"] for address in sorted(above)} if fabric and gpus else {}
    return {
        "functions": functions,
        "bridges": {address: value for address, value in acs.items() if value is not None},
        "virtual": _is_virtual(probe),
        "passed_through": _passed_through(probe),
    }


def _is_virtual(probe: Probe) -> bool:
    """Tell a virtual machine by the processor's flag, on Arm by the name that the firmware gives the machine."""
    found = _FLAGS.search(probe.data("/proc/cpuinfo", _FIRST_PROCESSOR) or b"")
    if found is not None:
        return b"hypervisor" in found.group(1).split()
    return (probe.text("/sys/class/dmi/id/sys_vendor", limit=64) or "") in _VIRTUAL_VENDORS


def _passed_through(probe: Probe) -> list[str]:
    names = (name for driver in VFIO_DRIVERS for name in probe.names(f"{DRIVERS}/{driver}"))
    return sorted(name for name in names if is_pci_address(name))


def _registers(probe: Probe, address: str) -> Registers:
    return registers(probe.data(f"{PCI}/{address}/config") or b"")


def bridges_between(one: Sequence[str], other: Sequence[str]) -> list[str]:
    """Return the bridges on the way between two devices (paths of the facts), without the one that both lie below."""
    common = 0
    while common < min(len(one), len(other)) and one[common] == other[common]:
        common += 1
    return [part for part in (*one[common:-1], *other[common:-1]) if is_pci_address(part)]


def redirected_pairs(actual: HostState) -> list[Redirected]:
    """Return the pairs of NIC and GPU whose traffic does not take the straight way through the switches."""
    bridges = actual.facts["pcie"]["bridges"]
    found = []
    for nic, gpu, way in _ways(actual):
        upward = tuple(bridge for bridge in way if redirects(bridges.get(bridge)))
        if upward:
            found.append(Redirected(nic, gpu, upward))
    return found


def read_request_of(functions: Mapping[str, FunctionRegisters], address: str) -> int | None:
    """Return how many bytes a function may ask for at once, None where that is not known."""
    return functions[address]["max_read_request"] if address in functions else None


def redirects(control: int | None) -> bool:
    """Return whether a bridge with this ACS control register sends traffic between devices up."""
    return bool((control or 0) & (REQUEST_REDIRECT | COMPLETION_REDIRECT))


def _ways(actual: HostState) -> Iterator[tuple[str, str, list[str]]]:
    gpus = {gpu["address"]: gpu for gpu in actual.facts["gpus"]}
    for nic, distances in actual.facts["distances"].items():
        for gpu, label in distances.items():
            if label in _SWITCHED and nic in actual.nics and gpu in gpus:
                yield nic, gpu, bridges_between(actual.nics[nic]["path"], gpus[gpu]["path"])
