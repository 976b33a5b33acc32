# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the facts of a fleet say about its rails: classes of equal hosts, the ports of each, and what is left out. Pure.

Everything here came from hosts, so it is data from strangers: what becomes a value of a file is held against a pattern,
and what becomes a comment is made one printable line.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Collection, Iterable, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.completed import completed
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.syntax import mtu_problem
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation, one_line

from .presets import MACHINES, PRESETS, Preset

INFINIBAND, ETHERNET = "InfiniBand", "Ethernet"
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z", re.ASCII)
_INTERFACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}\Z", re.ASCII)
_LONGEST = 24  # characters of a word of a group's name
_AWAY = "run it again, or leave the host out with --limit"

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Options:
    """What the user chose: MTU of Ethernet rails and number of VFs (None leaves both), and the names."""

    mtu: int | None = None
    vfs: int | None = None
    rename: bool = True


@dataclass(frozen=True)
class Port:
    """An RDMA port of one host that may be a rail. ``gpus`` are the numbers of the GPUs it is nearest to.

    What is not known of a port that nobody has read is None, or empty.
    """

    pci: str
    netdev: str
    family: str
    link_layer: str
    function: str
    numa: int | None
    speed_gbps: int | None
    mtu: int | None
    up: bool
    vfs: int
    most_vfs: int | None
    gpus: tuple[int, ...] = ()
    distance: str = ""

    @property
    def kind(self) -> tuple[str, str, str, bool]:
        """What makes two ports of one kind, wherever they are plugged in."""
        return self.family, self.link_layer, self.function, bool(self.gpus)


@dataclass(frozen=True)
class LeftOut:
    """A network controller that is no rail, and why."""

    pci: str
    netdev: str
    why: str


@dataclass(frozen=True)
class Host:
    """One host: ports that may be rails (those near GPUs first), what is none, and its GPUs.

    ``machine`` names the preset that it is planned from, unless it was read.
    """

    name: str
    ports: tuple[Port, ...]
    left_out: tuple[LeftOut, ...]
    gpu: str
    gpus: int
    machine: str = ""

    @property
    def key(self) -> tuple[str, int, tuple[tuple[str, str, str, bool], ...]]:
        """Equal for hosts of one class."""
        return self.gpu, self.gpus, tuple(port.kind for port in self.ports)


@dataclass(frozen=True)
class Slot:
    """A port of a class: one of each host, in the order of its hosts. ``mtu`` and ``vfs`` None are not set."""

    name: str
    ports: tuple[Port, ...]
    mtu: int | None
    vfs: int | None

    @property
    def rail(self) -> bool:
        """Whether it is a rail, and not storage."""
        return not self.name.startswith("storage")

    @property
    def link_layer(self) -> str:
        """The link layer, the same on every host."""
        return self.ports[0].link_layer

    @property
    def unset_mtu(self) -> str:
        """Why the MTU that most hosts have now is not set: the host variables refuse it. Nothing where it may be."""
        now = _of_most([port.mtu for port in self.ports])
        problem = mtu_problem(now) if now is not None and self.mtu is None and self.link_layer == ETHERNET else ""
        return f"no mtu: {now}, as most have it now, {problem}" if problem else ""


@dataclass(frozen=True)
class HostClass:
    """Hosts with the same hardware. ``common`` is the place in ``hosts`` of one whose addresses most of them have."""

    name: str
    title: str
    hosts: tuple[Host, ...]
    slots: tuple[Slot, ...]
    left_out: tuple[tuple[LeftOut, int], ...]
    common: int

    def addresses(self, index: int) -> tuple[str, ...]:
        """Return the PCI addresses of one host's rails and storage ports."""
        return tuple(slot.ports[index].pci for slot in self.slots)

    def differing(self) -> list[int]:
        """Return the places of the hosts whose addresses are not those of most."""
        return [at for at in range(len(self.hosts)) if self.addresses(at) != self.addresses(self.common)]


@dataclass(frozen=True)
class Fleet:
    """All classes, and the hosts without a rail with the reasons."""

    classes: tuple[HostClass, ...]
    without: tuple[Host, ...]
    options: Options = Options()


def survey(facts: Mapping[str, Facts], options: Options, groups: Mapping[str, Collection[str]]) -> Fleet:
    """Sort hosts into classes and their ports into rails, storage and the rest.

    ``facts`` are those of ``rdma_info`` by host, ``groups`` the inventory's, whose names stand for other hosts. Raises
    InvalidInput with every host whose facts can't be read and every port without room for the functions asked for.
    """
    hosts, violations = [], []
    for name, found in facts.items():
        try:
            hosts.append(read_host(name, completed(found)))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            problem = f"are not what rdma_info returns ({type(error).__name__}: {one_line(str(error))})"
            violations.append(Violation(f"host {one_line(name)}", "facts", problem, _AWAY))
    if violations:
        raise InvalidInput(violations)
    return classified(hosts, options, groups)


def planned(machine: str, names: Sequence[str]) -> list[Host]:
    """Return hosts of a machine of the presets, with what is published of it."""
    preset = MACHINES[machine]
    layer = INFINIBAND if preset.fabric == "ib" else ETHERNET
    ports = [
        Port(
            pci=pci,
            netdev="",
            family=preset.card,
            link_layer=layer,
            function=preset.function,
            numa=None,
            speed_gbps=None,
            mtu=None,
            up=True,
            vfs=0,
            most_vfs=None,
            gpus=(at * preset.gpus // len(preset.rails),),
        )
        for at, pci in enumerate(preset.rails)
    ]
    left_out = tuple(LeftOut(pci, "port", "for storage or management: discover will tell") for pci in preset.storage)
    return [Host(name, tuple(ports), left_out, preset.machines[machine], preset.gpus, machine) for name in names]


def classified(hosts: Sequence[Host], options: Options, groups: Mapping[str, Collection[str]]) -> Fleet:
    """Sort hosts into classes; raises InvalidInput with every port without room for the functions asked for."""
    by_key: dict[Any, list[Host]] = {}
    for host in hosts:
        by_key.setdefault(host.key, []).append(host)
    taken = {name: set(members) for name, members in groups.items()}
    taken.update({host.name: set() for host in hosts})
    classes, without = [], []
    for members in by_key.values():
        found_class = _class_of(members, options, taken)
        if found_class.slots:
            classes.append(found_class)
            taken[found_class.name] = set()
        else:
            without += [replace(host, ports=(), left_out=_all_left_out(found_class, host)) for host in members]
    violations = [violation for each in classes for violation in _no_room(each, options)]
    if violations:
        raise InvalidInput(violations)
    ordered = sorted(classes, key=lambda each: (-len(each.hosts), each.name))
    return Fleet(tuple(ordered), tuple(without), options)


def read_host(name: str, facts: Facts) -> Host:
    """Read the facts of one host; raises KeyError, TypeError or ValueError where they are not as documented."""
    netdevs: dict[str, list[Mapping[str, Any]]] = {}
    for each in facts["netdevs"]:
        if each["kind"] == "physical" and each["pci"]:
            netdevs.setdefault(each["pci"], []).append(each)
    uplinks = {each["pci"]: each["reasons"] for each in facts["uplinks"] if each["pci"]}
    managers = (facts.get("nvlink") or {}).get("managers") or ()
    near: dict[str, list[Mapping[str, Any]]] = {}
    for each in facts["rails"]:
        near.setdefault(each["nic"], []).append(each)
    ports, left_out = [], []
    for nic in facts["nics"]:
        if nic["pf"] is not None:
            continue  # a VF of a port that is here as well: its number is the port's matter
        own = netdevs.get(nic["address"], [])
        why = _unfit(nic, own, uplinks, managers)
        if why:
            left_out.append(LeftOut(_address(nic), _names(own), why))
        else:
            ports.append(_port(nic, own[0], near.get(nic["address"], [])))
    ports.sort(key=lambda port: (not port.gpus, port.gpus, port.pci))
    models = Counter(one_line(str(gpu["name"] or "GPU")) for gpu in facts["gpus"])
    model = models.most_common(1)[0][0] if models else ""
    return Host(name, tuple(ports), tuple(left_out), model, sum(models.values()))


def _unfit(
    nic: Facts, netdevs: Sequence[Facts], uplinks: Mapping[str, Sequence[str]], managers: Collection[str]
) -> str:
    """Return why a controller can be no rail; nothing where it can be one."""
    master = netdevs[0]["master"] if netdevs else None
    reasons = (
        (nic["address"] in managers, "it manages the NVSwitches of this host, never to be touched"),
        (nic["address"] in uplinks, f"the uplink ({_listed(uplinks.get(nic['address'], []))}), never to be touched"),
        # Before what it lacks: of the ports of a RoCE bond the first has the RDMA device of all.
        (master, f"part of {_listed([master])}"),
        (not nic["rdma"], f"no RDMA device (driver {_listed([nic['driver'] or 'none'])})"),
        (not netdevs, "no network interface"),
        (len(netdevs) > 1, "several interfaces on one PCI function: select them by mac in an entry of your own"),
        (nic["link_layer"] not in (INFINIBAND, ETHERNET), "its link layer is not known"),
        (not all(_INTERFACE.match(each["name"]) for each in netdevs), "its name can't be written into a file"),
    )
    return next((why for unfit, why in reasons if unfit), "")


def _port(nic: Facts, netdev: Facts, near: Sequence[Facts]) -> Port:
    sriov = nic["sriov"] or {}
    speed = netdev["speed_mbps"]
    return Port(
        pci=_address(nic),
        netdev=str(netdev["name"]),
        family=one_line(str(nic["family"] or f"{nic['vendor']}:{nic['device']}")),
        link_layer=str(nic["link_layer"]),
        function=str(nic["function"]),
        numa=None if nic["numa_node"] is None else int(nic["numa_node"]),
        speed_gbps=int(speed) // 1000 if speed else None,
        mtu=None if netdev["mtu"] is None else int(netdev["mtu"]),
        up=bool(netdev["carrier"]),
        vfs=int(sriov.get("enabled") or 0),
        most_vfs=int(sriov.get("total") or 0),
        gpus=tuple(sorted(int(each["rail"]) for each in near)),
        distance=one_line(str(near[0]["distance"])) if near else "",
    )


def _address(nic: Facts) -> str:
    address = str(nic["address"])
    if not _ADDRESS.match(address):
        raise ValueError(f"{address!r} is not a PCI address")
    return address


def _names(netdevs: Iterable[Facts]) -> str:
    return _listed([each["name"] for each in netdevs]) or "no interface"


def _listed(values: Iterable[Any]) -> str:
    return one_line(", ".join(map(str, values)))


def _class_of(hosts: Sequence[Host], options: Options, taken: Mapping[str, Collection[str]]) -> HostClass:
    columns = [tuple(host.ports[at] for host in hosts) for at in range(len(hosts[0].ports))]
    linked = [column for column in columns if any(port.up for port in column)]
    paired = [column for column in linked if column[0].gpus]
    rails = paired or linked
    preset = preset_of([column[0].pci for column in rails], hosts[0].gpu)
    storage = [column for column in linked if preset and column not in rails and column[0].pci in preset.storage]
    slots = [_slot(f"rail{at}", column, options) for at, column in enumerate(rails)]
    slots += [_slot(f"storage{at}", column, options) for at, column in enumerate(storage)]
    left_out = Counter(each for host in hosts for each in host.left_out)
    for column in columns:
        if column not in rails and column not in storage:
            left_out.update(LeftOut(port.pci, port.netdev, _why_no_rail(column)) for port in column)
    layouts = Counter(tuple(slot.ports[at].pci for slot in slots) for at in range(len(hosts)))
    most = layouts.most_common(1)[0][0]
    common = next(at for at in range(len(hosts)) if tuple(slot.ports[at].pci for slot in slots) == most)
    name = _free_name(_group_name(hosts[0], slots, preset), [host.name for host in hosts], taken)
    ordered = sorted(left_out.items(), key=lambda entry: (entry[0].pci, entry[0].netdev))
    return HostClass(name, _title(hosts[0], slots, preset), tuple(hosts), tuple(slots), tuple(ordered), common)


def _why_no_rail(column: Sequence[Port]) -> str:
    if not any(port.up for port in column):
        return "no link" if len(column) == 1 else "no link on any host of this class"
    return "it has a link, and no GPU is near it: add it where it carries storage or another network"


def _slot(name: str, column: tuple[Port, ...], options: Options) -> Slot:
    """Return the slot of one port of each host. MTU and functions are those of most hosts unless the user chose them.

    The MTU of IPoIB follows the partition, which the subnet manager rules, so none is set, nor is one that the host
    variables refuse. A function of a guest has no functions of its own.
    """
    rail = not name.startswith("storage")
    mtu = options.mtu if options.mtu is not None and rail else _of_most([port.mtu for port in column])
    if mtu is not None and mtu_problem(mtu):
        mtu = None
    vfs = options.vfs if options.vfs is not None and rail else _of_most([port.vfs for port in column]) or None
    physical = column[0].function == "pf"
    return Slot(name, column, mtu if column[0].link_layer == ETHERNET else None, vfs if physical else None)


def _of_most(values: Sequence[int | None]) -> int | None:
    return Counter(values).most_common(1)[0][0]


def preset_of(rails: Sequence[str], model: str) -> Preset | None:
    """Return the known machine that has its rails at exactly these PCI addresses, and this model of GPU."""
    return next((each for each in PRESETS if sorted(each.rails) == sorted(rails) and each.fits(model)), None)


def _fabric(slots: Sequence[Slot]) -> str:
    layers = {slot.link_layer for slot in slots if slot.rail}
    return {INFINIBAND: "ib", ETHERNET: "roce"}[layers.pop()] if len(layers) == 1 else "mixed"


def _group_name(host: Host, slots: Sequence[Slot], preset: Preset | None) -> str:
    if not slots:
        return "without_rails"
    if preset:
        group = host.machine.replace("-", "_") or preset.group(host.gpu)
        return group if _fabric(slots) == preset.fabric else f"{group}_{_fabric(slots)}"
    words = [f"{(host.gpu.split() or ['gpu'])[0]}x{host.gpus}"] if host.gpus else []
    words += [slots[0].ports[0].family, "vf" if slots[0].ports[0].function == "vf" else _fabric(slots)]
    name = "_".join(re.sub(r"[^a-z0-9]+", "", word.lower())[:_LONGEST] or "other" for word in words)
    return name if name[0].isalpha() else f"rdma_{name}"


def _free_name(name: str, hosts: Sequence[str], taken: Mapping[str, Collection[str]]) -> str:
    """Return ``name``, or one that means no other host: a group of the inventory may have these hosts, and no other."""
    tried, number = name, 1
    while tried in taken and not (taken[tried] and set(taken[tried]) <= set(hosts)):
        number += 1
        tried = f"{name}_{number}"
    return tried


def _title(host: Host, slots: Sequence[Slot], preset: Preset | None) -> str:
    rails = Counter((slot.ports[0].family, slot.link_layer) for slot in slots if slot.rail)
    text = " and ".join(f"{count} x {family} {layer}" for (family, layer), count in rails.items())
    text = f"{host.gpus} x {host.gpu}, {text}" if host.gpus else text
    return f"{text}; laid out as {preset.title}" if preset else text


def _all_left_out(found: HostClass, host: Host) -> tuple[LeftOut, ...]:
    own = {(each.pci, each.netdev) for each in host.left_out} | {(port.pci, port.netdev) for port in host.ports}
    return tuple(each for each, _count in found.left_out if (each.pci, each.netdev) in own)


def _no_room(found: HostClass, options: Options) -> list[Violation]:
    """Return the ports that can't have as many VFs as the user asked for."""
    violations = []
    for slot in found.slots if options.vfs else ():
        for host, port in zip(found.hosts, slot.ports):
            if slot.rail and slot.vfs and port.most_vfs is not None and port.most_vfs < slot.vfs:
                problem = f"has room for {port.most_vfs} VFs, but {slot.vfs} are requested"
                hint = "ask for fewer, or set SRIOV_EN and NUM_OF_VFS in its firmware first"
                violations.append(
                    Violation(f"host {one_line(host.name)}", f"{port.pci} ({port.netdev})", problem, hint)
                )
    return violations
