# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which QoS settings reach an interface: its own, and those of the host."""

from __future__ import annotations

from typing import Iterable

from ..spec.host import HostSpec
from ..spec.qos import QOS_KEYS, Qos, merged, only
from .host_state import Interface
from .shapes import RdmaDevice

# Settings of the RDMA device; all others are of the port, which virtual functions share with their physical one.
OF_DEVICE = ("traffic_class", "tos")


def given(desired: HostSpec, interface: Interface) -> Qos:
    """Return the settings that variables give an interface, in the order in which they are made.

    The host's settings are for Ethernet ports; of virtual functions they reach the RDMA device only.
    """
    own = interface.wanted["qos"]
    of_host: Qos = desired["roce_qos"] or Qos()
    if interface.netdev is not None and interface.netdev["link_type"] != "ether":
        of_host = {}
    elif is_function(interface):
        of_host = only(of_host, OF_DEVICE)
    return merged(of_host, own)


def asked(desired: HostSpec, interface: Interface) -> Qos:
    """Return the same with what follows from it: priority flow control needs global pause off."""
    together = given(desired, interface)
    if together.get("pfc") and "pause" not in together and not desired.get("removing"):
        together["pause"] = False
    return only(together, QOS_KEYS)


def is_function(interface: Interface) -> bool:
    """Return whether an interface belongs to a virtual function."""
    return interface.nic is not None and interface.nic["function"] == "vf"


def rdma_of(interface: Interface, devices: Iterable[RdmaDevice]) -> RdmaDevice | None:
    """Return the RDMA device of an interface: that of its PCI function, or a soft one that stands on it."""
    address = interface.nic["address"] if interface.nic is not None else None
    name = interface.netdev["name"] if interface.netdev is not None else None
    listed = list(devices)
    own = [device for device in listed if address is not None and device["pci"] == address]
    soft = [device for device in listed if device["pci"] is None and name is not None and device["netdev"] == name]
    found = own or soft
    return found[0] if len(found) == 1 else None
