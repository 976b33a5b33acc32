# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets MTUs of network interfaces."""

from __future__ import annotations

from types import MappingProxyType
from typing import Iterable

from ...engine.context import Context
from ...engine.effects import new_functions
from ...engine.operations import Operation, WaitFor, Work
from ...engine.ports import NoPort, fill
from ...engine.steps import Step, Value, as_planned, key_of
from ...machine.access import Host
from ...spec.former import wanted_interface
from ...spec.host import HostSpec
from .mtu_operations import differs, set_mtu
from .mtu_plan import FUNCTIONS, differing_functions

_INTERFACES_SECONDS = 30.0
_RANGE = (
    "the driver does not carry frames of that size; next: lower mtu in rdma_fabric_interfaces (ip -d link show tells "
    "the interface's maxmtu), and for a virtual function raise the physical one"
)
_GONE = "the interface is gone or has another name now; next: run again, the plan is made from what is there"
ERRORS = MappingProxyType(
    {
        "mtu greater than device maximum": _RANGE,
        "mtu less than device minimum": _RANGE,
        "ERANGE": _RANGE,
        "EINVAL": _RANGE,
        "Cannot find device": _GONE,
        "ENODEV": _GONE,
    }
)


def work(context: Context, step: Step) -> Work:
    """Return how one interface, or the virtual functions of one, get their MTU."""
    key, to = key_of(step), as_planned(step["to"], int)
    if key.endswith(FUNCTIONS):
        former = _former_of_functions(context, key[: -len(FUNCTIONS)])
    else:
        interface = context.interface_of(key)
        former = {context.port_name(interface): as_planned(step["from"], int)}
    do: list[Operation] = [_wait_for(former)] if key.endswith(FUNCTIONS) else []
    do += [set_mtu(name, to) for name in former]
    undo: list[Operation] = [set_mtu(name, mtu) for name, mtu in reversed(list(former.items())) if mtu]

    def verify(host: Host) -> str:
        return "; ".join(filter(None, (differs(host, fill(name, host), to) for name in former)))

    return Work(do, undo, verify)


def restore(desired: HostSpec, key: str, original: Value) -> None:
    """Ask for the MTU that an interface had; functions that were not there, or had several, have none to give back."""
    if key.endswith(FUNCTIONS):
        if isinstance(original, list) and len(original) == 1:
            wanted_interface(desired, key[: -len(FUNCTIONS)])["vf_mtu"] = original[0]
    elif isinstance(original, int) and original:
        wanted_interface(desired, key)["mtu"] = original


def _former_of_functions(context: Context, address: str) -> dict[str, int]:
    """Return the virtual functions to set, as placeholders, with their MTU now: 0 for those the plan creates."""
    new = new_functions(context, address)
    if new is not None:
        return {f"{{vf:{address}:{number}}}": 0 for number in range(new)}
    interface = context.interface_of(address)
    found = differing_functions(context, interface)
    return {f"{{port:{function['address']}}}": int(port["mtu"]) for function, port in found}


def _wait_for(names: Iterable[str]) -> WaitFor:
    """Return the wait for interfaces that come late: IPoIB makes those of new InfiniBand functions."""

    def condition(host: Host) -> bool:
        try:
            return all(fill(name, host) for name in names)
        except NoPort:
            return False

    return WaitFor("the interfaces of the virtual functions", condition, _INTERFACES_SECONDS)
