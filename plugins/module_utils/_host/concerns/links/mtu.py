# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MTUs of network interfaces, set in an order in which nothing ever exceeds what it stands on."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Iterable

from ...engine.context import FUNCTIONS, ConcernPlan, Context, Handler, new_functions
from ...engine.failures import INTERFACE_GONE
from ...engine.operations import Operation, Run, WaitFor, Work, set_link
from ...engine.ports import NoPort, fill
from ...engine.steps import NOTHING, NOW, Step, Value, as_planned, key_of, make_step
from ...facts.host_state import Interface
from ...facts.shapes import Netdev
from ...machine.access import Host
from ...machine.probe import NET
from ...spec.host import HostSpec, wanted_interface
from .mtu_stack import IPOIB_2K_MAX, Stack

DEFAULT_ETHERNET_MTU = 1500
ROCE_HEADERS = 96
IB_MTUS = (4096, 2048, 1024, 512, 256)
_INTERFACES_SECONDS = 30.0
_RANGE = (
    "the driver does not carry frames of that size; next: lower mtu in rdma_fabric_interfaces (ip -d link show shows "
    "the interface's maxmtu), and for a virtual function raise the physical one"
)
ERRORS = MappingProxyType(
    {
        "mtu greater than device maximum": _RANGE,
        "mtu less than device minimum": _RANGE,
        "ERANGE": _RANGE,
        "EINVAL": _RANGE,
        "Cannot find device": INTERFACE_GONE,
        "ENODEV": INTERFACE_GONE,
    }
)


@dataclass(frozen=True)
class _Change:
    """One MTU change with its place in the order: from the top of a stack down, and then from the bottom up."""

    lowered: bool
    level: int
    step: Step

    @property
    def place(self) -> tuple[bool, int, str]:
        return not self.lowered, -self.level if self.lowered else self.level, self.step["id"]


def roce_mtu(mtu: int) -> int:
    """Return the InfiniBand MTU that RoCE uses over an Ethernet ``mtu`` (bytes); 0 when none fits.

    The kernel takes the largest that leaves room for the transport headers (iboe_get_mtu, include/rdma/ib_addr.h).
    """
    return next((ib_mtu for ib_mtu in IB_MTUS if ib_mtu <= mtu - ROCE_HEADERS), 0)


def plan(context: Context) -> ConcernPlan:
    """Return a step for each device whose MTU differs from the wanted one, and hints on what RoCE makes of it."""
    changes: list[_Change] = []
    notices: list[str] = []
    stack = Stack(context)
    for interface in context.interfaces:
        if interface.netdev is None:
            continue
        changes.extend(_interface_change(context, interface, interface.netdev, stack))
        notices.extend(_roce_hint(context, interface, interface.netdev))
        if interface.nic is not None and interface.nic["function"] == "pf":
            vf_changes, vf_notices = _functions_change(context, interface, interface.netdev, stack)
            changes.extend(vf_changes)
            notices.extend(vf_notices)
    changes.sort(key=lambda change: change.place)
    return [change.step for change in changes], notices


def _interface_change(context: Context, interface: Interface, netdev: Netdev, stack: Stack) -> list[_Change]:
    wanted = interface.wanted["mtu"]
    if wanted is None:
        return []
    name, now = netdev["name"], netdev["mtu"]
    refusal = stack.refusal(netdev, wanted)
    if not refusal and (wanted == now or stack.setter(name) != name):
        return []
    lowered, level = wanted < now, stack.level(name)
    shown = context.name_of(netdev)
    step = make_step(
        "mtu",
        interface.key,
        target=context.target_of(interface),
        action=f"set the MTU to {wanted} (now {now})",
        before=now,
        after=wanted,
        reason=f"rdma_fabric_interfaces asks for an MTU of {wanted}",
        interrupts=f"traffic on {shown} for a moment: the driver rebuilds its queues" if netdev["up"] else NOTHING,
        undo=f"set the MTU to {now}",
        when=NOW,
        detail=_partition_hint(netdev, wanted),
        refusal=refusal,
    )
    return [_Change(lowered, level, step)]


def _partition_hint(netdev: Netdev, wanted: int) -> str:
    if netdev["link_type"] == "infiniband" and netdev["mtu"] <= IPOIB_2K_MAX < wanted:
        return f"above {IPOIB_2K_MAX} only when the subnet manager's partition allows an MTU of 4K"
    return ""


def _roce_hint(context: Context, interface: Interface, netdev: Netdev) -> list[str]:
    wanted, nic = interface.wanted["mtu"], interface.nic
    if wanted is None or nic is None or netdev["link_type"] != "ether" or not nic["rdma"]:
        return []
    ib_mtu = roce_mtu(wanted)
    if ib_mtu >= IB_MTUS[0]:
        return []
    return [
        f"{context.target_of(interface)}: an MTU of {wanted} leaves RoCE an InfiniBand MTU of {ib_mtu}; "
        f"{IB_MTUS[0]} needs at least {IB_MTUS[0] + ROCE_HEADERS}, usually 4200 or 9000"
    ]


def _functions_change(
    context: Context, interface: Interface, netdev: Netdev, stack: Stack
) -> tuple[list[_Change], list[str]]:
    """Plan the virtual functions of one physical function: those that exist, or those the plan creates."""
    name = netdev["name"]
    vf_mtu, most = interface.wanted["vf_mtu"], stack.final(name)
    new = new_functions(context, interface.key)
    if new is not None:
        return _new_functions(context, interface, netdev, stack, new), []
    wrong = stack.differing(interface)
    if vf_mtu is None:
        to = most
        reason = f"no virtual function may exceed the MTU {most} of its physical one"
    else:
        to = vf_mtu
        reason = f"rdma_fabric_interfaces asks for a vf_mtu of {vf_mtu}"
    if not wrong:
        unused = vf_mtu is not None and not context.actual.vf_addresses(interface.nic)
        text = f"{context.target_of(interface)}: vf_mtu has no effect, there are no virtual functions"
        return [], [text] if unused else []
    lowered, level = most < netdev["mtu"], stack.level(name) + 1
    refusal = stack.carrier_problem(name, to) or next(
        filter(None, (stack.function_refusal(vf, port, to) for vf, port in wrong)), ""
    )
    names = ", ".join(context.name_of(port) for _vf, port in wrong)
    busy = [context.name_of(port) for _vf, port in wrong if port["up"]]
    step = make_step(
        "mtu",
        f"{interface.key}{FUNCTIONS}",
        target=context.target_of(interface),
        action=f"set the MTU of {names} to {to}",
        before=sorted({port["mtu"] for _vf, port in wrong}),
        after=to,
        reason=reason,
        interrupts=f"traffic on {', '.join(busy)} for a moment" if busy else NOTHING,
        undo="set the former MTUs: " + ", ".join(f"{port['name']} {port['mtu']}" for _vf, port in wrong),
        when=NOW,
        refusal=refusal,
    )
    return [_Change(lowered, level, step)], []


def _new_functions(context: Context, interface: Interface, netdev: Netdev, stack: Stack, count: int) -> list[_Change]:
    name = netdev["name"]
    vf_mtu, most = interface.wanted["vf_mtu"], stack.final(name)
    is_ethernet = netdev["link_type"] == "ether"
    if vf_mtu is None:
        to, needless = most, most >= (DEFAULT_ETHERNET_MTU if is_ethernet else IPOIB_2K_MAX)
        reason = f"no virtual function may exceed the MTU {most} of its physical one"
    else:
        to, needless = vf_mtu, is_ethernet and vf_mtu == DEFAULT_ETHERNET_MTU
        reason = f"rdma_fabric_interfaces asks for a vf_mtu of {vf_mtu}; new functions start with their driver's own"
    if needless or not count:
        return []
    step = make_step(
        "mtu",
        f"{interface.key}{FUNCTIONS}",
        target=context.target_of(interface),
        action=f"set the MTU of its {count} new virtual functions to {to}",
        after=to,
        reason=reason,
        undo="removing the functions ends it",
        when=NOW,
        refusal=stack.carrier_problem(name, to),
    )
    return [_Change(lowered=False, level=stack.level(name) + 1, step=step)]


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

    # NetworkManager gives a VLAN the MTU of the device below it, a moment after that one has got it.
    return Work(do, undo, verify, again=True)


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
    found = Stack(context).differing(context.interface_of(address))
    return {f"{{port:{function['address']}}}": port["mtu"] for function, port in found}


def _wait_for(names: Iterable[str]) -> WaitFor:
    """Return the wait for interfaces that come late: IPoIB makes those of new InfiniBand functions."""

    def condition(host: Host) -> bool:
        try:
            return all(fill(name, host) for name in names)
        except NoPort:
            return False

    return WaitFor("the interfaces of the virtual functions", condition, _INTERFACES_SECONDS)


def set_mtu(name: str, mtu: int) -> Run:
    """Return how an interface gets its MTU."""
    return set_link(name, "mtu", str(mtu))


def differs(host: Host, name: str, wanted: int) -> str:
    """Return what is wrong with the MTU of an interface, empty when it is the wanted one."""
    now = host.read(f"{NET}/{name}/mtu").strip()
    return "" if now == str(wanted) else f"{name} has an MTU of {now}, not {wanted}"


HANDLER = Handler(work, ERRORS, restore)
