# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes virtual functions from their drivers, gives them back, and waits for what comes of it."""

from __future__ import annotations

from typing import Iterable

from ...engine.context import Context
from ...engine.operations import Operation, Run, SetAttribute, WaitFor
from ...facts.users import USER_SPACE_DRIVERS
from ...machine.access import Host
from ...machine.probe import names_at, target_at

PCI = "/sys/bus/pci/devices"
_PROBE = "/sys/bus/pci/drivers_probe"
_INTERFACES_SECONDS = 30.0
_SETTLE = Run(("udevadm", "settle", "--timeout=30"), timeout=40.0, accepted=(0, 1))
# A driver is unbound while its function serves nobody; ENOENT: none is bound.
_UNBOUND = ("ENOENT", "ENODEV")
_BIND_SECONDS = 60.0


def unbind(address: str, number: int) -> SetAttribute:
    """Return how the driver of a virtual function lets go of it; one without a driver stays so."""
    path = f"{PCI}/{address}/virtfn{number}/driver/unbind"
    return SetAttribute(path, function_at(address, number), _BIND_SECONDS, tolerated=_UNBOUND)


def bind(address: str, number: int) -> SetAttribute:
    """Return how the kernel looks for the driver of a virtual function: ``driver_override`` decides where it is set."""
    return SetAttribute(_PROBE, function_at(address, number), _BIND_SECONDS)


def function_at(address: str, number: int) -> str:
    """Return what stands for the PCI address of a virtual function until an operation is executed."""
    return f"{{function:{address}:{number}}}"


def settle(context: Context) -> list[Operation]:
    """Return the wait for udev, where the host has it."""
    return [_SETTLE] if context.actual.facts["naming"]["udev"] else []


def links(host: Host, address: str) -> list[str]:
    """Return the paths of the links to the virtual functions of a physical one."""
    names = host.list(f"{PCI}/{address}")
    return [f"{PCI}/{address}/{name}" for name in names if name.startswith("virtfn") and name[6:].isdecimal()]


def wait_for_interfaces(address: str, numbers: Iterable[int]) -> WaitFor:
    """Return the wait until those of the functions that are Ethernet's and have a driver for it have their interfaces.

    ``numbers`` are functions that the same step has made or bound: the interface of any other may be in a pod.
    """
    functions = [f"{PCI}/{address}/virtfn{number}" for number in numbers]

    def condition(host: Host) -> bool:
        return all(_has_interface(host, function) for function in functions)

    return WaitFor(f"the interfaces of the virtual functions of {address}", condition, _INTERFACES_SECONDS)


def driver_at(host: Host, function: str) -> str | None:
    """Return the driver that is bound to a PCI function (or to where a link leads), None without one."""
    return target_at(host, f"{function}/driver").rsplit("/", 1)[-1] or None


def _has_interface(host: Host, link: str) -> bool:
    driver = driver_at(host, link)
    if driver is None or driver in USER_SPACE_DRIVERS or not host.read(f"{link}/class").startswith("0x0200"):
        return True
    return bool(names_at(host, f"{link}/net"))
