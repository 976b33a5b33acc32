# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets registers of PCIe and reads them back."""

from __future__ import annotations

from types import MappingProxyType

from ...engine.context import Context
from ...engine.failures import LOCKDOWN
from ...engine.operations import SetRegister, Work
from ...engine.ports import PCI_DEVICES
from ...engine.steps import Step, Value, as_planned, key_of
from ...machine.access import Host
from ...machine.pci_config import ACS_CONTROL, DEVICE_CONTROL, LONGEST, MAX_READ_REQUEST, read_request_bits, registers
from ...spec.host import HostSpec
from ...spec.pcie import ACS

_WHOLE_REGISTER = 0xFFFF
# Who could open the file gets EPERM for lockdown alone: the kernel's drivers/pci/pci-sysfs.c (pci_write_config, 5.4).
_LOCKED_DOWN = (
    "the kernel is locked down and lets nobody write to configuration space; next: look at "
    f"{LOCKDOWN}, switch Secure Boot off or take lockdown= out of the kernel arguments, or leave acs and "
    "max_read_request out"
)
_FORBIDDEN = "it needs root; next: run as root (become: true) on the host itself"
ERRORS = MappingProxyType(
    {
        "EPERM": _LOCKED_DOWN,
        "EACCES": _FORBIDDEN,
        "ENOENT": "the device is gone; next: look at lspci and the kernel's log (dmesg), and run again",
        "ENODEV": "the device is gone; next: look at lspci and the kernel's log (dmesg), and run again",
    }
)


def work(_context: Context, step: Step) -> Work:
    """Return how a register gets its value, or its former one back."""
    what, address = key_of(step).split(":", 1)
    former, wanted = as_planned(step["from"], int), as_planned(step["to"], int)

    def verify(host: Host) -> str:
        found = registers(host.read_bytes(f"{PCI_DEVICES}/{address}/config", LONGEST))
        now = found["acs"] if what == ACS else found["max_read_request"]
        if now == wanted:
            return ""
        shown = f"{now:#06x}, not {wanted:#06x}" if what == ACS and now is not None else f"{now}, not {wanted}"
        return f"{address} has {shown}: its hardware or firmware keeps that bit"

    return Work([_set(what, address, wanted)], [_set(what, address, former)], verify)


def restore(desired: HostSpec, key: str, original: Value) -> None:
    """Ask for the value that a register had."""
    if isinstance(original, int):
        desired["pcie"].setdefault("registers", {})[key] = original


def _set(what: str, address: str, value: int) -> SetRegister:
    if what == ACS:
        return SetRegister(address, ACS_CONTROL, value, _WHOLE_REGISTER)
    return SetRegister(address, DEVICE_CONTROL, read_request_bits(value), MAX_READ_REQUEST)
