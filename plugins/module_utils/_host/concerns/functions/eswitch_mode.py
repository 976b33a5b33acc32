# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What switching the mode of an e-switch takes. Pure.

mlx5 changes the mode while no driver is bound to a virtual function; they are bound again afterwards. It makes
functions in legacy mode, so another number of them comes before switchdev.
"""

from __future__ import annotations

from typing import Sequence

from ...engine.context import Context
from ...engine.operations import Operation, Run
from ...facts.eswitch import LEGACY, SWITCHDEV, present_mode
from ...facts.host_state import NETDEV_DRIVER, HostState, binds_functions
from ...facts.interfaces import Interface
from .binding import bind, settle, unbind, wait_for_interfaces

# The driver tears its offloads down and builds them again, with a representor for each function.
_SECONDS = 120.0


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
    """Return the functions without driver although the kernel binds one by itself: a run that was ended leaves them so.

    Where ``vf_driver`` is asked for, the step about it binds them.
    """
    if not binds_functions(interface.nic) or interface.wanted["vf_driver"] is not None:
        return []
    known = actual.nics
    addresses = enumerate(actual.vf_addresses(interface.nic))
    return [number for number, address in addresses if address in known and not known[address]["driver"]]


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
    return Run(("devlink", "dev", "eswitch", "set", f"pci/{address}", "mode", mode), _SECONDS)
