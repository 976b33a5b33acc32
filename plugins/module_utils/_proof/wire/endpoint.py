# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a test pod has: its interface, its RDMA devices, and which of their GIDs is the interface's. Pure.

Device and GID index are each side's own: tables differ between hosts, and in a pod the entry of its interface is
behind those of the host. Source of the files: the kernel's Documentation/ABI/stable/sysfs-class-infiniband.
"""

from __future__ import annotations

import ipaddress
import json
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..problem import Problem, problem_of
from .placement import Placement, place
from .scripts import UsedPort

ROCE_V2 = "RoCE v2"
INFINIBAND = "InfiniBand"
_RATE = re.compile(r"(\d{1,5}(?:\.\d{1,3})?) Gb/sec", re.ASCII)
# A sub-function carries its traffic through the PCI function before the slash.
_PCI_PLACE = re.compile(r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?:/[a-z0-9_]{1,32}\.sf\.\d{1,10})?", re.ASCII)
_MOST_FIELDS = 8


class Gid(NamedTuple):
    """One filled entry of a port's GID table; ``kind`` is the text of gid_attrs/types."""

    slot: int
    gid: str
    kind: str


@dataclass
class Port:
    """One port of an RDMA device as its pod sees it."""

    number: int
    link_layer: str
    state: str
    rate_gbps: float | None
    gids: list[Gid] = field(default_factory=list)


@dataclass
class Observed:
    """What the probe of one pod printed. ``devices`` maps names to ports, ``pci`` names to the
    addresses of the PCI functions that carry them, if any.

    ``near`` maps names of devices to the CPUs of their NUMA node; these, ``cpus`` (those the pod may use),
    ``online`` and ``isolated`` are lists as the kernel writes them. ``taskset``: it was tried, and works.
    Where it was asked for, ``cuda`` has what the image's perftest can do with a GPU (memory, dmabuf), or that it lacks
    libcuda (no_driver), and ``peer`` the modules of the kernel that let NICs reach GPU memory;
    ``gpus`` has the PCI addresses of the pod's GPUs.
    """

    mtu: int | None = None
    operstate: str = ""
    interfaces: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    own_devices: list[str] = field(default_factory=list)
    character_devices: list[str] = field(default_factory=list)
    devices: dict[str, list[Port]] = field(default_factory=dict)
    pci: dict[str, str | None] = field(default_factory=dict)
    near: dict[str, str] = field(default_factory=dict)
    cpus: str = ""
    online: str = ""
    isolated: str = ""
    taskset: bool = False
    cuda: list[str] = field(default_factory=list)
    peer: list[str] = field(default_factory=list)
    gpus: list[str] = field(default_factory=list)
    complete: bool = False


class Choice(NamedTuple):
    """The device, port and GID index a side tests with; without index it is InfiniBand, which needs none.

    ``software``: no PCI device is behind it (soft RoCE), so its rate says nothing about a network.
    """

    device: str
    port: int
    gid_index: int | None
    rate_gbps: float | None
    pci: str | None

    @property
    def used(self) -> UsedPort:
        """The port as programs are told."""
        return UsedPort(self.device, self.port, self.gid_index)

    @property
    def software(self) -> bool:
        """Whether the device is emulated by the kernel."""
        return self.pci is None


def read_probe(text: str) -> Observed:
    """Return what the output of ``scripts.probe`` says; lines that make no sense are left out."""
    seen = Observed()
    for line in text.splitlines():
        kind, *fields = line.split("|", _MOST_FIELDS)
        if kind == "end":
            seen.complete = True
        elif fields:
            _take(seen, kind, fields)
    return seen


def _take(seen: Observed, kind: str, fields: list[str]) -> None:
    lists = {
        "netdev": seen.interfaces,
        "own": seen.own_devices,
        "char": seen.character_devices,
        "cuda": seen.cuda,
        "peer": seen.peer,
        "gpu": seen.gpus,
    }
    if kind in lists:
        lists[kind].append(fields[0])
    elif kind == "mtu":
        seen.mtu = _number(fields[0])
    elif kind in ("local", "local6"):
        seen.addresses += _local_address(kind, fields[0])
    elif kind == "device" and len(fields) == 2:
        seen.devices.setdefault(fields[0], [])
        place = _PCI_PLACE.fullmatch(fields[1])
        seen.pci[fields[0]] = place[1] if place else None
    elif kind == "near" and len(fields) == 2:
        seen.near[fields[0]] = fields[1]
    elif kind in ("cpus", "online", "isolated", "operstate"):
        setattr(seen, kind, fields[0])
    elif kind == "taskset":
        seen.taskset = True
    elif kind == "port" and len(fields) == 5:
        _take_port(seen, fields)
    elif kind == "gid" and len(fields) == 6:
        _take_gid(seen, fields)


def _take_port(seen: Observed, fields: list[str]) -> None:
    device, number, link_layer, state, rate = fields
    found, whole = _RATE.match(rate), _number(number)
    if whole is not None:
        word = state.partition(":")[2].strip() or state
        port = Port(whole, link_layer, word, float(found[1]) if found else None)
        seen.devices.setdefault(device, []).append(port)


def _take_gid(seen: Observed, fields: list[str]) -> None:
    device, number, index, gid, kind, _netdev = fields
    slot = _number(index)
    for port in seen.devices.get(device, []):
        if port.number == _number(number) and slot is not None:
            port.gids.append(Gid(slot, gid.lower(), kind))


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


def _local_address(kind: str, text: str) -> list[str]:
    """Return an address in its usual form; /proc/net/if_inet6 writes 32 digits without colons."""
    if kind == "local6":
        text = ":".join(text[start : start + 4] for start in range(0, len(text), 4))
    try:
        return [str(ipaddress.ip_address(text))]
    except ValueError:
        return []


class Attached(NamedTuple):
    """What Multus says it gave a pod for one network (annotation k8s.v1.cni.cncf.io/network-status)."""

    interface: str
    address: str


def attached_network(annotation: Any, network: str) -> Attached | Problem:
    """Return the interface and the first address of ``network`` (``namespace/name``), or why there is none."""
    if not annotation:
        return problem_of(
            "the pod has no network status, only its first interface",
            "Multus did not handle it: it was not in charge on that node when the pod started",
            "check that Multus runs there and that its configuration is the first one in /etc/cni/net.d "
            "(Cilium renames it to *.cilium_bak unless its chart has cni.exclusive: false)",
        )
    try:
        entries = json.loads(str(annotation))
    except (ValueError, RecursionError):
        entries = None
    entries = entries if isinstance(entries, list) else []
    name = network.partition("/")[2]
    for entry in entries:
        if isinstance(entry, dict) and entry.get("name") in (network, name) and not entry.get("default"):
            interface, addresses = entry.get("interface"), entry.get("ips")
            if isinstance(interface, str) and isinstance(addresses, list) and addresses:
                return _attached(interface, str(addresses[0]))
            cause = "its ipam is empty, or the address pool answered without one"
            step = "give the network an ipam with a range, then run again"
            return problem_of(f"the network {network} gave the pod no address", cause, step)
    step = "compare the pod's annotation with the NetworkAttachmentDefinitions of its namespace"
    told = f"the pod's network status does not name {network}"
    return problem_of(told, "Multus read another attachment, or none", step)


def _attached(interface: str, address: str) -> Attached | Problem:
    try:
        return Attached(interface, str(ipaddress.ip_address(address.partition("/")[0])))
    except ValueError:
        told = f"the network status holds {address[:60]!r}, which is not an address"
        cause = "the ipam program of the network gave an invalid answer"
        return problem_of(told, cause, "look at the CNI log of the node")


def interface_problem(seen: Observed, attached: Attached, mtu: int | None) -> Problem | None:
    """Return what is wrong with the interface in the pod; ``mtu`` is the one asked for, None if none is."""
    name = attached.interface
    if name not in seen.interfaces:
        there = ", ".join(sorted(seen.interfaces)[:6]) or "none"
        cause = f"Multus reports it, the pod has {there}: it was taken away after the pod started"
        return problem_of(f"{name} is not in the pod", cause, "look at what else moves interfaces on that node")
    if attached.address not in seen.addresses:
        cause = "the address was removed after the pod started, or another network shares its range"
        return problem_of(f"{name} has no address {attached.address}", cause, "look at the CNI log of the node")
    if seen.operstate in ("down", "lowerlayerdown"):
        cause = "the interface below it has no link: cable, switch port, or it is switched off"
        return problem_of(f"{name} is down", cause, "bring the link of the node's interface up")
    if mtu is not None and seen.mtu != mtu:
        cause = "the interface below it has a smaller MTU, or the network was changed after the pod started"
        return problem_of(f"{name} has MTU {seen.mtu}, expected {mtu}", cause, "set the MTU of the node's interface")
    return None


def choose(seen: Observed, attached: Attached) -> tuple[Choice | None, Problem | None]:
    """Return the device with the RoCE v2 GID that is the interface's address, or the interface's InfiniBand device."""
    wanted = gid_of(attached.address)
    candidates = [
        (port.state != "ACTIVE", name, port, gid)
        for name, ports in seen.devices.items()
        for port in ports
        for gid in port.gids
        if gid.gid == wanted and gid.kind == ROCE_V2
    ]
    if candidates:
        _down, name, port, gid = min(candidates, key=lambda each: (each[0], each[1], each[2].number, each[3].slot))
        return _usable(seen, Choice(name, port.number, gid.slot, port.rate_gbps, seen.pci.get(name)), port)
    for name in seen.own_devices:
        for port in seen.devices.get(name, []):
            if port.link_layer == INFINIBAND:
                return _usable(seen, Choice(name, port.number, None, port.rate_gbps, seen.pci.get(name)), port)
    return None, _no_device(seen, attached, wanted)


def placement_of(seen: Observed, choice: Choice) -> Placement:
    """Return on which CPUs the programs that measure on a device run."""
    near = seen.near.get(choice.device, "")
    return place(near, seen.cpus, online=seen.online, isolated=seen.isolated, taskset=seen.taskset)


def gid_of(address: str) -> str:
    """Return the GID of an address as sysfs writes it: an IPv4 address is mapped into IPv6.

    From Python 3.13 on ``exploded`` writes the mapped address with dots.
    """
    parsed = ipaddress.ip_address(address)
    octets = parsed.packed if parsed.version == 6 else b"\0" * 10 + b"\xff" * 2 + parsed.packed
    return ":".join(octets.hex()[start : start + 4] for start in range(0, 32, 4))


def _usable(seen: Observed, choice: Choice, port: Port) -> tuple[Choice | None, Problem | None]:
    if port.state != "ACTIVE":
        cause = "the link is not up: cable or switch port"
        if port.link_layer == INFINIBAND:
            cause += ", no subnet manager, or a VF without GUID or virtual ports (OpenSM: virt_enabled 2)"
        return None, problem_of(f"port {port.number} of {choice.device} is {port.state}", cause, "bring the link up")
    if not any(name.startswith("uverbs") for name in seen.character_devices):
        cause = "the device plugin gave the pod no RDMA character device"
        step = "check the resource the pod asks for, and that ib_uverbs is loaded on the node"
        return None, problem_of("/dev/infiniband holds no uverbs device", cause, step)
    return choice, None


def _no_device(seen: Observed, attached: Attached, wanted: str) -> Problem:
    if not seen.devices:
        cause = "no driver made one on that node, or RDMA devices belong to another network namespace (exclusive mode)"
        step = "check `rdma link` and `rdma system` on the node; a network's rdma or sriov plugin moves devices"
        return problem_of("the pod sees no RDMA device", cause, step)
    names = ", ".join(sorted(seen.devices)[:6])
    gids = [gid for ports in seen.devices.values() for port in ports for gid in port.gids]
    if any(gid.gid == wanted for gid in gids):
        kinds = ", ".join(sorted({gid.kind for gid in gids if gid.gid == wanted}))
        cause = f"the address has entries of {kinds} only"
        return problem_of(f"no RoCE v2 GID is {attached.address}", cause, "switch RoCE v2 on for the device")
    cause = f"{names}: none has it in its GID table, so {attached.interface} is attached to an interface without RDMA"
    step = "compare the network's master (or resource) with the interface of the RDMA device on that node"
    return problem_of(f"no GID is the address {attached.address} of {attached.interface}", cause, step)
