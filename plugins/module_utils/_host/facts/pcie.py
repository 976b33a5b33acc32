# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads how NICs, GPUs and the bridges above them treat traffic between both."""

from __future__ import annotations

import re
from typing import Sequence

from ..machine.pci_config import Registers, registers
from ..machine.probe import Probe, is_pci_address
from .devices import VFIO_DRIVERS
from .pci import PCI
from .shapes import FunctionRegisters, Gpu, Nic, Pcie
from .topology import Device, fabric_of

DRIVERS = "/sys/bus/pci/drivers"
_FLAGS = re.compile(rb"^flags\s*:(.*)$", re.MULTILINE)
# The entry of one processor is shorter; hundreds follow.
_FIRST_PROCESSOR = 4096
_VIRTUAL_VENDORS = ("QEMU", "KubeVirt", "OpenStack Foundation", "Red Hat", "VMware, Inc.", "Xen")


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
