# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of one interface, with what follows from it. Pure. Private to this collection: it may change."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.actual import NETDEV_DRIVER
from ansible_collections.rdma.fabric.plugins.module_utils._host.context import Context, Interface
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import REFUSED
from ansible_collections.rdma.fabric.plugins.module_utils._host.wanted.qos import QOS_KEYS, Qos, merged

CONCERN = "qos"
# Settings of the RDMA device; all others are of the port, which virtual functions share with their physical one.
OF_DEVICE = ("traffic_class", "tos")
# Drivers take the link down and up for these.
CUTTING = ("pause", "pfc")


def given(desired: Mapping[str, Any], interface: Interface) -> Qos:
    """Return the settings that variables give an interface, in the order in which they are made.

    The host's settings are for Ethernet ports; of virtual functions they reach the RDMA device only.
    """
    own = interface.wanted.get("qos")
    of_host = dict(desired.get("roce_qos") or {})
    if not _is_ethernet(interface):
        of_host = {}
    elif is_function(interface):
        of_host = {key: of_host[key] for key in OF_DEVICE if key in of_host}
    return merged(of_host, own)


def asked(desired: Mapping[str, Any], interface: Interface) -> Qos:
    """Return the same with what follows from it: priority flow control needs global pause off."""
    together = given(desired, interface)
    if together.get("pfc") and "pause" not in together and not desired.get("removing"):
        together["pause"] = False
    return {key: together[key] for key in QOS_KEYS if key in together}


def lasting(context: Context, interface: Interface) -> Qos:
    """Return what the boot unit makes again: all that is given and not refused."""
    refused = {step["id"] for step in context.earlier if step["status"] == REFUSED}
    wanted = given(context.desired, interface)
    return {key: value for key, value in wanted.items() if step_id(key, interface) not in refused}


def key_for(setting: str, interface: Interface) -> str:
    """Return what the step about one setting of an interface is called by within this concern."""
    return f"{setting}:{interface.key}"


def step_id(setting: str, interface: Interface) -> str:
    """Return the id of the step about one setting of an interface."""
    return f"{CONCERN}:{key_for(setting, interface)}"


def without_soft_devices(desired: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what can be had while the host starts: software makes RDMA devices on other cards' ports later."""
    drivers = {nic["address"]: nic["driver"] for nic in facts["nics"]}

    def had(entry: Mapping[str, Any]) -> Mapping[str, Any]:
        if not entry.get("qos") or drivers.get(entry.get("pci")) in {None, NETDEV_DRIVER}:
            return entry
        return {**entry, "qos": {key: value for key, value in entry["qos"].items() if key not in OF_DEVICE}}

    return {**desired, "interfaces": list(map(had, desired["interfaces"]))}


def is_function(interface: Interface) -> bool:
    """Return whether an interface belongs to a virtual function."""
    return interface.nic is not None and interface.nic["function"] == "vf"


def rdma_of(interface: Interface, devices: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the RDMA device of an interface: that of its PCI function, or a soft one that stands on it."""
    address = interface.nic["address"] if interface.nic is not None else None
    name = interface.netdev["name"] if interface.netdev is not None else None
    listed = list(devices)
    own = [device for device in listed if address is not None and device["pci"] == address]
    soft = [device for device in listed if device["pci"] is None and name is not None and device["netdev"] == name]
    found = own or soft
    return found[0] if len(found) == 1 else None


def _is_ethernet(interface: Interface) -> bool:
    return interface.netdev is None or interface.netdev["link_type"] == "ether"
