# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the network interface of a PCI function while a plan is executed.

Names change during a plan, addresses do not: operations carry ``{port:0000:18:00.0}`` or, for VFs that a
plan is about to create, ``{vf:0000:18:00.0:3}`` (``{function:0000:18:00.0:3}`` is that function's address,
``{rdma:0000:18:00.0}`` an RDMA device, ``{representor:0000:18:00.0:pf0vf3}`` a representor by its port name), and are
filled in right before they are executed.
"""

from __future__ import annotations

import posixpath
import re

from ..facts.netdev import ARPHRD_INFINIBAND, PHYSICAL, is_of_the_device, kind_of_hardware
from ..machine.access import Host, HostError, Names
from ..machine.probe import INFINIBAND, NET, PCI, pci_address_in, target_at, text_at

_PLACEHOLDER = re.compile(
    r"\{(?P<kind>port|vf|function|rdma|representor):(?P<address>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
    r"(?::(?P<which>\w+))?\}"
)


class NoPort(Exception):
    """A PCI function that has not exactly one network interface; the text says why."""


def port_of(host: Host, address: str) -> str:
    """Return the name of the one network interface of the PCI function, not counting representors."""
    ports = [name for name in interfaces_of(host, address) if _is_port(host, name)]
    if len(ports) == 1:
        return ports[0]
    if ports:
        raise NoPort(f"{address} has {len(ports)} network interfaces ({', '.join(ports)}), one is needed")
    if not host.exists(f"{PCI}/{address}"):
        raise NoPort(f"there is no PCI function {address}")
    raise NoPort(f"{address} has no network interface here: no driver is bound to it, or a network namespace has it")


def interfaces_of(host: Host, address: str) -> Names:
    """Return the names of all network interfaces of the PCI function; raises HostError."""
    return _listed(host, f"{PCI}/{address}/net") or _below(host, address)


def rdma_device(host: Host, address: str) -> str:
    """Return the name of the one RDMA device of the PCI function, or the software one on its network interface."""
    names = _listed(host, f"{PCI}/{address}/infiniband") or _software_devices(host, address)
    if len(names) != 1:
        raise NoPort(f"{address} has {len(names)} RDMA devices, one is needed")
    return names[0]


def _listed(host: Host, path: str) -> Names:
    try:
        return host.list(path)
    except HostError as error:
        if error.code != "ENOENT":
            raise
        return []


def _software_devices(host: Host, address: str) -> Names:
    """Return the RDMA devices (rxe, siw) whose parent is the network interface of the PCI function."""
    try:
        port = port_of(host, address)
    except NoPort:
        return []
    return [name for name in host.list(INFINIBAND) if _attribute(host, f"{INFINIBAND}/{name}/parent") == port]


def representor(host: Host, address: str, port_name: str) -> str:
    """Return the name of the representor that has this port name (``pf0vf3``) among those of a port."""
    for name in host.list(f"{PCI}/{address}/net"):
        if _attribute(host, f"{NET}/{name}/phys_port_name") == port_name:
            return name
    raise NoPort(f"{address} has no representor {port_name}")


def virtual_function(host: Host, physical: str, number: int) -> str:
    """Return the PCI address of a VF by its number (from 0)."""
    try:
        return posixpath.basename(host.link(f"{PCI}/{physical}/virtfn{number}"))
    except HostError as error:
        if error.code != "ENOENT":
            raise
        raise NoPort(f"{physical} has no VF {number}") from error


def fill(text: str, host: Host) -> str:
    """Return ``text`` with every placeholder replaced by the name or address that it stands for."""

    def name(match: re.Match[str]) -> str:
        address = match["address"]
        if match["kind"] == "rdma":
            return rdma_device(host, address)
        if match["kind"] == "representor":
            return representor(host, address, match["which"])
        if match["kind"] != "port":
            address = virtual_function(host, address, int(match["which"] or 0))
        return address if match["kind"] == "function" else port_of(host, address)

    return _PLACEHOLDER.sub(name, text)


def _below(host: Host, address: str) -> list[str]:
    """Return the interfaces of a function whose driver adds a device in between, as virtio does."""
    targets = {name: target_at(host, f"{NET}/{name}") for name in host.list(NET)}
    return [name for name, target in targets.items() if pci_address_in(target) == address]


def _is_port(host: Host, name: str) -> bool:
    """Return whether an interface of hardware is a port, by the same rules as the facts."""
    base = f"{NET}/{name}"
    port_name = _attribute(host, f"{base}/phys_port_name")
    parent = _attribute(host, f"{base}/parent") if _attribute(host, f"{base}/type") == str(ARPHRD_INFINIBAND) else ""
    if kind_of_hardware(target_at(host, base), port_name, parent) != PHYSICAL:
        return False
    return is_of_the_device(port_name)


def _attribute(host: Host, path: str) -> str:
    """Return an attribute without white space around it, empty if it does not exist."""
    return text_at(host, path).strip()
