# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read network interfaces: hardware and what is stacked on it.

Interfaces of containers (veth and their bridges) are left out: a node has hundreds, and none belongs to the fabric.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Sequence

from ..machine.probe import NET, Probe, natural, pci_address_in, printable
from .shapes import Netdev as PlannedNetdev
from .shapes import ReadNetdev

# include/uapi/linux/if_arp.h
ARPHRD_INFINIBAND = 32
_LINK_TYPES = {1: "ether", ARPHRD_INFINIBAND: "infiniband", 772: "loopback"}
# include/uapi/linux/netdevice.h, NET_NAME_*
_NAME_ORIGINS = {0: "unknown", 1: "enumerated", 2: "predictable", 3: "user", 4: "renamed"}
# include/uapi/linux/if.h
_IFF_UP = 0x1
# Loopback, point-to-point (tunnels) and no ARP (dummies): never a port of a switch.
_NEVER_SWITCHED = 0x8 | 0x10 | 0x80
# The single kernel device of all bridges of Open vSwitch (its lib/dpif.c), and the master of their ports.
OPEN_VSWITCH = "ovs-system"
_REPRESENTOR_PORT = re.compile(r"(c\d+)?pf\d+(hpf|vf\d+|sf\d+)?")
# Drivers without port names have no representors either.
_PORT_OF_THE_DEVICE = re.compile(r"(?:p\d+)?")
_ADDRESS = re.compile(r"([0-9a-f]{2}(:[0-9a-f]{2})*)?")
_SUBFUNCTION = re.compile(r"/mlx5_core\.sf\.\d+/")
# udev's database entry of an interface, by its index, and the names that it has by slot and path beside its own
# (systemd.link(5), AlternativeNamesPolicy).
UDEV_DATA = "/run/udev/data/n"
_OTHER_NAME = re.compile(r"^E:ID_NET_NAME_(?:ONBOARD|PATH|SLOT)=(\S+)$", re.MULTILINE)
_MOST_LAYERS = 8
# The kind of the interface that is the port of its PCI function.
PHYSICAL = "physical"


class Netdev(NamedTuple):
    """An interface as in the facts, and what the mapping to RDMA devices also needs."""

    raw_name: str
    facts: ReadNetdev
    dev_port: int
    pci_parent: str | None
    ifindex: str

    @property
    def is_port(self) -> bool:
        """Return whether this is the port of its PCI function: not a representor, sub-function or stacked interface."""
        return self.pci_parent is not None and self.facts["kind"] == PHYSICAL


def is_of_the_device(port_name: str | None) -> bool:
    """Return whether a port name is that of the device itself; representors of its functions have others (pf0vf3)."""
    return _PORT_OF_THE_DEVICE.fullmatch(port_name or "") is not None


def read_netdevs(probe: Probe, also: Sequence[str] = ()) -> list[Netdev]:
    """Return hardware interfaces, those stacked on them, and those named in ``also``, in order of their names."""
    places = {name: probe.target(f"{NET}/{name}") for name in probe.names(NET)}
    found: dict[str, Netdev] = {}
    for name, place in places.items():
        # The loopback interface is never hardware, wherever its link leads.
        if place is not None and "/virtual/" not in place and name != "lo":
            found[name] = _read(probe, name, place)
    waiting = [name for name in also if name in places]
    waiting += [upper for name in found for upper in _neighbours(probe, name, "upper_")]
    while waiting:
        name = waiting.pop()
        place = places.get(name)
        if name in found or place is None:
            continue
        found[name] = _read(probe, name, place)
        waiting += _neighbours(probe, name, "upper_")
    for name, netdev in found.items():
        below = [printable(lower) for lower in _neighbours(probe, name, "lower_") if lower in found]
        netdev.facts["lower"] = sorted(below, key=natural)
    return [found[name] for name in sorted(found, key=natural)]


def carriers_of(probe: Probe, name: str) -> list[str]:
    """Return the interfaces that carry the traffic of a bond, bridge or VLAN: hardware, and the layers between.

    Ports of containers and guests on a bridge are virtual and carry no traffic of others.
    """
    carriers: list[str] = []
    layer = _neighbours(probe, name, "lower_")
    for _depth in range(_MOST_LAYERS):
        below: list[str] = []
        for lower in layer:
            lowers = _neighbours(probe, lower, "lower_")
            if (lowers or _is_hardware(probe, lower)) and lower not in carriers:
                carriers.append(lower)
            below += lowers
        layer = below
    return sorted(carriers, key=natural)


def switched_carriers_of(probe: Probe, name: str) -> list[str]:
    """Return the interfaces that may carry the traffic of one without hardware below it: all ports of Open vSwitch.

    Nothing in sysfs links an internal port (br-ex) to the other ports of its bridge
    (net/openvswitch/vport-internal_dev.c), and all bridges have the same master. Representors only carry the traffic of
    their functions.
    """
    ports = carriers_of(probe, OPEN_VSWITCH)
    if not ports or any(_is_hardware(probe, each) for each in (name, *carriers_of(probe, name))):
        return []
    flags = probe.number(f"{NET}/{name}/flags", base=16) or 0
    names = {port: _port_name(probe, f"{NET}/{port}") or "" for port in ports if not flags & _NEVER_SWITCHED}
    return [port for port, name in names.items() if not _REPRESENTOR_PORT.fullmatch(name)]


def _is_hardware(probe: Probe, name: str) -> bool:
    return "/virtual/" not in (probe.target(f"{NET}/{name}") or "/virtual/")


def _port_name(probe: Probe, base: str) -> str | None:
    return probe.text(f"{base}/phys_port_name", ("EOPNOTSUPP",), 32) or None


def _neighbours(probe: Probe, name: str, prefix: str) -> list[str]:
    return [entry[len(prefix) :] for entry in probe.names(f"{NET}/{name}") if entry.startswith(prefix)]


def _read(probe: Probe, name: str, place: str) -> Netdev:
    base = f"{NET}/{name}"
    pci = None if "/virtual/" in place else pci_address_in(place)
    port_name = _port_name(probe, base)
    flags = probe.number(f"{base}/flags", base=16)
    link_type = probe.number(f"{base}/type") or 0
    speed = probe.number(f"{base}/speed", ("EINVAL",))
    carrier = probe.number(f"{base}/carrier", ("EINVAL",))
    origin = probe.number(f"{base}/name_assign_type", ("EINVAL",))
    facts: ReadNetdev = {
        "name": printable(name),
        "mac": probe.text(f"{base}/address", limit=64, form=_ADDRESS),
        "mtu": probe.number(f"{base}/mtu"),
        # Traffic may flow where nobody can tell.
        "up": flags is None or bool(flags & _IFF_UP),
        "operstate": probe.text(f"{base}/operstate", limit=32),
        "carrier": None if carrier is None else carrier == 1,
        "speed_mbps": speed if speed is not None and 0 < speed < 2**31 else None,
        "link_type": _LINK_TYPES.get(link_type, f"arphrd-{link_type}"),
        "pci": pci,
        "port_name": port_name,
        "switch_id": probe.text(f"{base}/phys_switch_id", ("EOPNOTSUPP",), 64) or None,
        "name_origin": _NAME_ORIGINS.get(origin if origin is not None else 0, "unknown"),
        "master": probe.target_name(f"{base}/master"),
        "kind": _kind(probe, base, place, port_name, link_type),
        "lower": [],
    }
    own = (
        probe.text(f"{base}/bonding_slave/perm_hwaddr", limit=64)
        if facts["master"] and facts["link_type"] == "ether"
        else None
    )
    if own:
        facts["permanent_mac"] = own
    index = probe.text(f"{base}/ifindex", limit=16) or ""
    known = probe.content(f"{UDEV_DATA}{index}") if index and pci else ""
    others = sorted({*_OTHER_NAME.findall(known or "")} - {name})
    if others:
        facts["other_names"] = list(map(printable, others))
    return Netdev(name, facts, probe.number(f"{base}/dev_port") or 0, pci, index)


def permanent_mac(netdev: ReadNetdev | PlannedNetdev) -> str | None:
    """Return the address that identifies the interface, whatever address a bond has set since."""
    return netdev.get("permanent_mac") or netdev["mac"]


def _kind(probe: Probe, base: str, place: str, port_name: str | None, link_type: int) -> str:
    """Return the kind of an interface: hardware by its path and port name, a virtual one by the kernel's DEVTYPE."""
    if "/virtual/" not in place:
        parent = probe.text(f"{base}/parent", limit=64) if link_type == ARPHRD_INFINIBAND else None
        return kind_of_hardware(place, port_name, parent)
    content = probe.content(f"{base}/uevent") or ""
    found = re.search(r"^DEVTYPE=([a-z0-9_-]{1,32})$", content, re.MULTILINE)
    return found.group(1) if found else "virtual"


def kind_of_hardware(place: str, port_name: str | None, parent: str | None) -> str:
    """Return the kind of a hardware interface by its path in /sys/devices and its port name.

    An IPoIB interface of another partition has the same directory as its ``parent``; only it has one.
    """
    if _SUBFUNCTION.search(place):
        return "sub-function"
    if port_name and _REPRESENTOR_PORT.fullmatch(port_name):
        return "representor"
    return "ipoib-child" if parent else PHYSICAL


def port_of(netdevs: Sequence[Netdev], address: str | None, port: int) -> Netdev | None:
    """Return the interface of an RDMA device's port: same PCI function, and a ``dev_port`` one less than the port."""
    candidates = [netdev for netdev in netdevs if netdev.is_port and netdev.pci_parent == address]
    for netdev in candidates:
        if netdev.dev_port == port - 1:
            return netdev
    return candidates[0] if len(candidates) == 1 else None
