# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes virtual functions from their drivers, gives them back, and switches the mode of e-switches, which needs both.

mlx5 changes the mode while no driver is bound to a virtual function; they are bound again afterwards. It makes
functions in legacy mode, so another number of them comes before switchdev.
"""

from __future__ import annotations

from typing import Iterable, Mapping, Sequence

from ...engine.context import Context
from ...engine.operations import Operation, Run, SetAttribute, WaitFor, set_link
from ...facts.eswitch import LEGACY, SWITCHDEV, present_mode
from ...facts.host_state import NETDEV_DRIVER, HostState, Interface
from ...facts.users import USER_SPACE_DRIVERS
from ...machine.access import Host
from ...machine.probe import DRIVERS_PROBE, PCI, names_at, target_at
from .settings_plan import word

_INTERFACES_SECONDS = 30.0
_SETTLE = Run(("udevadm", "settle", "--timeout=30"), timeout=40.0, accepted=(0, 1))
# A driver is unbound while its function serves nobody; ENOENT: none is bound.
_UNBOUND = ("ENOENT", "ENODEV")
_BIND_SECONDS = 60.0
# What ip(8) calls settings of functions otherwise than it shows them.
_WORDS = {"link_state": "state"}
# The driver tears its offloads down and builds them again, with a representor for each function.
_MODE_SECONDS = 120.0


def unbind(address: str, number: int) -> SetAttribute:
    """Return how the driver of a virtual function lets go of it; one without a driver stays so."""
    path = f"{PCI}/{address}/virtfn{number}/driver/unbind"
    return SetAttribute(path, function_at(address, number), _BIND_SECONDS, tolerated=_UNBOUND)


def bind(address: str, number: int) -> SetAttribute:
    """Return how the kernel looks for the driver of a virtual function: ``driver_override`` decides where it is set."""
    return SetAttribute(DRIVERS_PROBE, function_at(address, number), _BIND_SECONDS)


def function_at(address: str, number: int) -> str:
    """Return what stands for the PCI address of a virtual function until an operation is executed."""
    return f"{{function:{address}:{number}}}"


def set_on_port(address: str, number: int, settings: Mapping[str, object]) -> list[Operation]:
    """Return the command for one function; every setting of it goes in one request to the kernel."""
    argv = [part for key, value in settings.items() for part in (_WORDS.get(key, key), word(value))]
    return [set_link(f"{{port:{address}}}", "vf", str(number), *argv)] if argv else []


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


def switches(interface: Interface) -> bool:
    """Say whether the driver of a port is one whose e-switch is switched here."""
    return bool(interface.nic and interface.nic["driver"] == NETDEV_DRIVER)


def leaves_switchdev(actual: HostState, interface: Interface) -> bool:
    """Say whether the e-switch of a port is in switchdev mode and shall be in legacy mode."""
    wanted, now = interface.wanted["eswitch_mode"], present_mode(actual, interface)
    return (wanted, now) == (LEGACY, SWITCHDEV) and switches(interface)


def representors_in_use(actual: HostState, interface: Interface) -> str:
    """Return which representors of a port's functions belong to a bridge or switch; empty when none does."""
    address = interface.key
    found = [
        netdev for netdev in actual.netdevs.values() if netdev["pci"] == address and netdev["kind"] == "representor"
    ]
    used = [f"{netdev['name']} in {netdev['master']}" for netdev in found if netdev["master"]]
    return f"representors of its functions are in use ({', '.join(used)})" if used else ""


def unbound_functions(actual: HostState, interface: Interface) -> list[int]:
    """Return the functions that are to be bound again; where ``vf_driver`` is asked for, the step about it does so."""
    return actual.unbound_functions(interface.nic) if interface.wanted["vf_driver"] is None else []


def bind_again(context: Context, address: str, numbers: Sequence[int]) -> list[Operation]:
    """Return how functions get their drivers and interfaces again."""
    return [*(bind(address, number) for number in numbers), *settle(context), wait_for_interfaces(address, numbers)]


def switch_to(context: Context, address: str, mode: str, functions: int) -> list[Operation]:
    """Return how the e-switch of a port that has this many virtual functions gets another mode."""
    numbers = range(functions)
    do: list[Operation] = [unbind(address, number) for number in numbers]
    do.append(set_mode(address, mode))
    return do + bind_again(context, address, numbers)


def set_mode(address: str, mode: str) -> Run:
    """Return the command that sets the mode."""
    return Run(("devlink", "dev", "eswitch", "set", f"pci/{address}", "mode", mode), _MODE_SECONDS)
