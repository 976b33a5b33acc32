# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MTUs of network interfaces, set in an order in which none exceeds that of the interface below.

Rules of the kernel: a bond or team sets the MTU of its ports (bond_change_mtu, team_change_mtu). A VLAN or macvlan
can't exceed the MTU of the interface below (ERANGE of vlan_dev_change_mtu, EINVAL of macvlan_change_mtu). A virtual
function whose MTU exceeds that of its PF loses the larger frames. An IPoIB interface of another
partition has an MTU of its own (ipoib_change_mtu).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Iterable, NamedTuple

from ...engine.context import ConcernPlan, Context, Handler, new_functions
from ...engine.failures import INTERFACE_GONE
from ...engine.operations import Operation, Run, WaitFor, Work, set_link
from ...engine.ports import NoPort, fill
from ...engine.steps import NOTHING, NOW, Step, Value, as_planned, key_of, make_step, numbered
from ...facts.host_state import NETDEV_DRIVER, Interface
from ...facts.shapes import Netdev, Nic
from ...machine.access import Host
from ...machine.probe import NET
from ...spec.by_range import VFIO, per_vf, values_of
from ...spec.host import HostSpec, wanted_interface
from ...spec.interface_keys import FUNCTIONS

# mlx5: the hardware's 10000 less the headers of Ethernet and VLAN and the checksum (MLX5E_HW2SW_MTU, en.h).
MLX5_ETHERNET_MAX = 9978
# IPoIB: 2K and 4K fabrics less the 4-byte header in datagram mode; connected mode goes up to 65520 (ipoib.h).
IPOIB_2K_MAX = 2044
IPOIB_DATAGRAM_MAX = 4092
IPOIB_CONNECTED_MAX = 65520
DEFAULT_ETHERNET_MTU = 1500
ROCE_HEADERS = 96
IB_MTUS = (4096, 2048, 1024, 512, 256)
_SETS_ITS_PORTS = ("bond", "team")
_STANDS_BELOW_LOWER = ("vlan", "macvlan", "macvtap")
_INTERFACES_SECONDS = 30.0
_RANGE = (
    "the driver does not carry frames of that size; next: lower mtu in rdma_fabric_interfaces (ip -d link show has "
    "the interface's maxmtu), and for a VF raise the physical one"
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


class Stack:
    """The interfaces of a host in their layers, with the MTUs of the spec, in bytes."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._netdevs = context.actual.netdevs
        self._interfaces: dict[str, Interface] = {i.netdev["name"]: i for i in context.interfaces if i.netdev}
        self._finals: dict[str, int] = {}
        self._levels: dict[str, int] = {}
        self._set_together: dict[str, list[str]] = {}
        self._of_functions: dict[str, dict[str, int]] = {}
        for name in self._netdevs:
            self._set_together.setdefault(self.setter(name), []).append(name)

    def setter(self, name: str) -> str:
        """Return the interface that sets the MTU of this one: the bond or team that it belongs to, or itself."""
        seen = {name}
        master = self._netdevs[name]["master"] or ""
        while master not in seen and master in self._netdevs and self._netdevs[master]["kind"] in _SETS_ITS_PORTS:
            seen.add(master)
            name, master = master, self._netdevs[master]["master"] or ""
        return name

    def final(self, name: str) -> int:
        """Return the MTU that an interface has once the plan is done."""
        if name not in self._finals:
            # Circular facts end here, with the present MTU.
            self._finals[name] = self._netdevs[name]["mtu"]
            self._finals[name] = self._final(name)
        return self._finals[name]

    def _final(self, name: str) -> int:
        now, setter = self._netdevs[name]["mtu"], self.setter(name)
        if setter != name:
            changed = self.final(setter)
            return now if changed == self._netdevs[setter]["mtu"] else changed
        interface = self._interfaces.get(name)
        wanted = interface.wanted["mtu"] if interface else None
        if interface is None or wanted is None:
            return self._of_a_function(name, now)
        return now if self.refusal(self._netdevs[name], wanted) else wanted

    def _of_a_function(self, name: str, now: int) -> int:
        """Return the final MTU of a VF without an entry of its own, from that of its PF.

        One step sets all functions of a physical one: if one of them refuses, none is set.
        """
        physical = self._physical(name)
        port = self._interfaces.get(physical)
        if port is None:
            return now
        if physical not in self._of_functions:
            most, changes = self.final(physical), [each for each in self.functions(port) if each.now != each.to]
            stay = any(each.to > most or self.function_refusal(each) for each in changes)
            self._of_functions[physical] = {} if stay else {each.port["name"]: each.to for each in changes}
        return self._of_functions[physical].get(name, now)

    def functions(self, interface: Interface) -> list[_Function]:
        """Return the VFs with an interface and without an MTU in an entry of their own.

        Without vf_mtu in the port's entry, none may exceed the MTU of the port: it would lose its larger frames.
        """
        if interface.nic is None or interface.netdev is None:
            return []
        actual = self._context.actual
        own = {other.key for other in self._context.interfaces if other.wanted["mtu"] is not None}
        addresses, most = actual.vf_addresses(interface.nic), self.final(interface.netdev["name"])
        found = []
        for number, mtu in _asked(interface, len(addresses)).items():
            vf = actual.nics.get(addresses[number])
            port = actual.port_of(vf) if vf is not None else None
            if vf is None or port is None or vf["address"] in own:
                continue
            now = port["mtu"] if self.setter(port["name"]) == port["name"] else self.final(port["name"])
            found.append(_Function(number, vf, port, now, min(now, most) if mtu is None else mtu))
        return found

    def function_refusal(self, function: _Function) -> str:
        """Return why a VF can't have an MTU that its PF carries; empty if it can."""
        name = function.port["name"]
        setter = self.setter(name)
        if setter != name:
            return f"{name} {_belongs(setter)}"
        return limit_problem(function.vf, function.port, function.to) or self._context.uplink_refusal(
            function.vf, function.port
        )

    def refusal(self, netdev: Netdev, wanted: int) -> str:
        """Return why an interface can't have this MTU; empty if it can, or if its bond gives it this MTU."""
        name = netdev["name"]
        setter = self.setter(name)
        if setter != name:
            return "" if self.final(name) == wanted else f"it {_belongs(setter)}"
        if wanted == netdev["mtu"]:
            return self._above(name, wanted)
        nics = self._context.actual.nics
        members = [self._netdevs[each] for each in self._governed(name)]
        changed = [(nics.get(member.get("pci") or ""), member) for member in members]
        limits = [limit_problem(nic, member, wanted) for nic, member in changed]
        uplinks = [self._context.uplink_refusal(nic, member) for nic, member in changed]
        return next(filter(None, (*limits, *uplinks)), "") or self._above(name, wanted)

    def carrier_problem(self, name: str, wanted: int) -> str:
        """Return why the functions of a physical interface can't have this MTU; empty if they can."""
        most, setter = self.final(name), self.setter(name)
        if wanted <= most:
            return ""
        if setter != name:
            return f"the PF carries {most} as a part of {setter}; give {setter} mtu {wanted}"
        interface = self._interfaces.get(name)
        if interface is None or interface.wanted["mtu"] is None:
            return f"the PF carries {most}; give it mtu {wanted} as well"
        return f"the PF stays at {most}, as its own change is refused"

    def level(self, name: str) -> int:
        """Return the layer of an interface: those below are raised before it and lowered after it."""
        setter = self.setter(name)
        if setter not in self._levels:
            self._levels[setter] = 0
            governed = self._governed(setter)
            below = {lower for each in governed for lower in self._below(each)} - set(governed)
            known = [1 + self.level(lower) for lower in below]
            stacked = self._netdevs[setter]["kind"] != "physical"
            self._levels[setter] = max(known, default=int(stacked))
        return self._levels[setter]

    def _governed(self, setter: str) -> list[str]:
        """Return an interface and all those whose MTU it sets."""
        return self._set_together.get(setter, [setter])

    def _below(self, name: str) -> list[str]:
        """Return the interfaces whose MTU an interface may not exceed."""
        netdev, physical = self._netdevs[name], self._physical(name)
        lowers = netdev["lower"] if netdev["kind"] in _STANDS_BELOW_LOWER else []
        return [physical] if physical else [lower for lower in lowers if lower in self._netdevs]

    def _physical(self, name: str) -> str:
        """Return the interface of the PF of a VF's interface, empty for others."""
        actual, netdev = self._context.actual, self._netdevs[name]
        nic = actual.nics.get(netdev["pci"] or "")
        parent = actual.nics.get(nic["pf"] or "") if nic is not None else None
        port = actual.port_of(parent) if parent and netdev["kind"] == "physical" else None
        return port["name"] if port else ""

    def _above(self, name: str, wanted: int) -> str:
        """Return which interface below this one, or below a member of this bond, the MTU would exceed."""
        governed = self._governed(name)
        for each in governed:
            for lower in self._below(each):
                if lower not in governed and wanted > self.final(lower):
                    where = "" if each == name else f"its member {each}: "
                    return f"{where}{self._exceeded(each, lower)}; give {self._to_raise(lower)} mtu {wanted}"
        return ""

    def _exceeded(self, name: str, lower: str) -> str:
        most = self.final(lower)
        if self._physical(name):
            return f"its PF {self._netdevs[lower]['pci']} carries {most}"
        return f"it stands on {lower}, which carries {most}"

    def _to_raise(self, lower: str) -> str:
        setter = self.setter(lower)
        return "that one" if setter == lower else f"{setter}, to which that one belongs,"


def _belongs(setter: str) -> str:
    return f"belongs to {setter}, which sets the MTU of its members; set it there"


def limit_problem(nic: Nic | None, netdev: Netdev, wanted: int) -> str:
    """Return why the device can't have this MTU; empty if it may, or if the limit of its driver is unknown."""
    if netdev["link_type"] == "infiniband":
        if wanted > IPOIB_CONNECTED_MAX:
            return f"IPoIB carries at most {IPOIB_CONNECTED_MAX}"
        # Only an MTU above the maximum of datagram mode proves connected mode.
        if wanted > IPOIB_DATAGRAM_MAX >= netdev["mtu"]:
            return (
                f"IPoIB in datagram mode carries at most {IPOIB_DATAGRAM_MAX} ({IPOIB_2K_MAX} on a fabric with an MTU "
                "of 2K); RDMA itself uses the subnet manager's MTU"
            )
    elif nic is not None and nic["driver"] == NETDEV_DRIVER and wanted > MLX5_ETHERNET_MAX:
        return f"mlx5 carries at most {MLX5_ETHERNET_MAX}"
    most = netdev.get("max_mtu", wanted)
    return f"the driver of {netdev['name']} takes at most {most} (ip -d link show)" if wanted > most else ""


class _Function(NamedTuple):
    """A VF of a port by number, with its interface, and the MTU that it has and is to have."""

    number: int
    vf: Nic
    port: Netdev
    now: int
    to: int


def _asked(interface: Interface, count: int) -> dict[int, int | None]:
    """Return the MTU in the spec for each of ``count`` VFs that has an interface here."""
    drivers = per_vf(interface.wanted["vf_driver"], count)
    mtus = enumerate(per_vf(interface.wanted["vf_mtu"], count))
    return {number: mtu for number, mtu in mtus if drivers[number] != VFIO}


@dataclass(frozen=True)
class _Change:
    """An MTU change with its place in the order: MTUs are lowered from the top down, then raised from the bottom up."""

    lowered: bool
    level: int
    step: Step

    @property
    def place(self) -> tuple[bool, int, str]:
        return not self.lowered, -self.level if self.lowered else self.level, self.step["id"]


def plan(context: Context) -> ConcernPlan:
    """Return a step for each device whose MTU differs from the spec, and notices about the MTU of RoCE."""
    changes: list[_Change] = []
    notices: list[str] = []
    stack = Stack(context)
    for interface in context.interfaces:
        if interface.netdev is None:
            continue
        changes.extend(_interface_change(context, interface, interface.netdev, stack))
        notices.extend(_roce_hint(context, interface, interface.netdev))
        if interface.nic is not None and interface.nic["function"] == "pf":
            changes.extend(_functions_change(context, interface, interface.netdev, stack))
    changes.sort(key=lambda change: change.place)
    return [change.step for change in changes], notices


def work(context: Context, step: Step) -> Work:
    """Return how an interface, or the VFs of a port, get their MTU."""
    key = key_of(step)
    do: list[Operation] = []
    if key.endswith(FUNCTIONS):
        vf = f"vf:{key[: -len(FUNCTIONS)]}:"
        before: dict[str, int] = as_planned(step["from"] or {}, dict)
        former = {f"{{{vf}{number}}}": mtu for number, mtu in before.items()}
        wanted = {f"{{{vf}{number}}}": mtu for number, mtu in as_planned(step["to"], dict).items()}
        do.append(_wait_for(wanted))
    else:
        name = context.port_name(context.interface_of(key))
        former, wanted = {name: as_planned(step["from"], int)}, {name: as_planned(step["to"], int)}
    do += [set_mtu(name, mtu) for name, mtu in wanted.items()]
    undo: list[Operation] = [set_mtu(name, mtu) for name, mtu in reversed(list(former.items())) if mtu]

    def verify(host: Host) -> str:
        return "; ".join(filter(None, (differs(host, fill(name, host), mtu) for name, mtu in wanted.items())))

    # NetworkManager gives a VLAN the MTU of the device below a moment after that one has changed.
    return Work(do, undo, verify, again=True)


def restore(desired: HostSpec, key: str, original: Value) -> None:
    """Add the original MTU to the spec; for functions only if they existed."""
    if key.endswith(FUNCTIONS):
        if isinstance(original, dict):
            wanted_interface(desired, key[: -len(FUNCTIONS)])["vf_mtu"] = original
    elif isinstance(original, int) and original:
        wanted_interface(desired, key)["mtu"] = original


def roce_mtu(mtu: int) -> int:
    """Return the InfiniBand MTU that RoCE uses over an Ethernet ``mtu`` (bytes); 0 when none fits.

    The kernel uses the largest that leaves room for the transport headers (iboe_get_mtu, include/rdma/ib_addr.h).
    """
    return next((ib_mtu for ib_mtu in IB_MTUS if ib_mtu <= mtu - ROCE_HEADERS), 0)


def set_mtu(name: str, mtu: int) -> Run:
    """Return the command that sets the MTU of an interface."""
    return set_link(name, "mtu", str(mtu))


def differs(host: Host, name: str, wanted: int) -> str:
    """Return what is wrong with the MTU of an interface, empty if it is the wanted one."""
    now = host.read(f"{NET}/{name}/mtu").strip()
    return "" if now == str(wanted) else f"{name} has an MTU of {now}, not {wanted}"


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


def _functions_change(context: Context, interface: Interface, netdev: Netdev, stack: Stack) -> list[_Change]:
    """Plan the MTU of a port's VFs: those that exist, or those that the plan creates."""
    name, vf_mtu = netdev["name"], interface.wanted["vf_mtu"]
    most, new = stack.final(name), new_functions(context, interface.key)
    # Those that a step creates have no former MTU, those that it binds again have.
    there = stack.functions(interface) if context.functions_planned(interface.key) is None else []
    wrong = [each for each in there if each.now != each.to] if new is None else []
    mtus = {each.number: each.to for each in wrong} if new is None else _of_new(interface, netdev, new, most)
    if not mtus:
        return []
    before = {each.number: each.port["mtu"] for each in there if each.number in mtus}
    names = {each.number: context.name_of(each.port) for each in wrong}
    parts = []
    for to in sorted(set(mtus.values())):
        numbers = [number for number, mtu in mtus.items() if mtu == to]
        which = ", ".join(names[number] for number in numbers) if wrong else f"its new {numbered(numbers)}"
        parts.append(f"{which} to {to}")
    given = sorted(set(filter(None, values_of(vf_mtu))).intersection(mtus.values()))
    asked = f"rdma_fabric_interfaces asks for a vf_mtu of {' and '.join(map(str, given))}"
    busy = [names[each.number] for each in wrong if each.port["up"]]
    step = make_step(
        "mtu",
        f"{interface.key}{FUNCTIONS}",
        target=context.target_of(interface),
        action=f"set the MTU of {' and of '.join(parts)}",
        before={str(number): mtu for number, mtu in before.items()} or None,
        after={str(number): mtu for number, mtu in mtus.items()},
        reason=asked if given else f"no VF may exceed the MTU {most} of its physical one",
        interrupts=f"traffic on {', '.join(busy)} for a moment" if busy else NOTHING,
        undo="set the former MTUs" if before else "removing the VFs ends it",
        when=NOW,
        refusal=stack.carrier_problem(name, max(mtus.values()))
        or next(filter(None, map(stack.function_refusal, wrong)), ""),
    )
    return [_Change(bool(wrong) and most < netdev["mtu"], stack.level(name) + 1, step)]


def _of_new(interface: Interface, netdev: Netdev, count: int, most: int) -> dict[int, int]:
    """Return the MTUs of new VFs that do not start with theirs: Ethernet ones have 1500, IPoIB ones at least 2044."""
    is_ethernet = netdev["link_type"] == "ether"
    needless = most >= (DEFAULT_ETHERNET_MTU if is_ethernet else IPOIB_2K_MAX)
    found = {}
    for number, mtu in _asked(interface, count).items():
        if not (needless if mtu is None else is_ethernet and mtu == DEFAULT_ETHERNET_MTU):
            found[number] = most if mtu is None else mtu
    return found


def _wait_for(names: Iterable[str]) -> WaitFor:
    """Return the wait for late interfaces: IPoIB creates those of new InfiniBand functions."""

    def condition(host: Host) -> bool:
        try:
            return all(fill(name, host) for name in names)
        except NoPort:
            return False

    return WaitFor("the interfaces of the VFs", condition, _INTERFACES_SECONDS)


HANDLER = Handler(work, ERRORS, restore)
