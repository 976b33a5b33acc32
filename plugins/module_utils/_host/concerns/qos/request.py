# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of one interface, with what follows from it. Pure."""

from __future__ import annotations

from ...engine.context import Context
from ...engine.steps import REFUSED
from ...facts.host_state import NETDEV_DRIVER
from ...facts.interfaces import Interface
from ...facts.qos_scope import OF_DEVICE, given
from ...facts.shapes import Facts
from ...spec.host import HostSpec
from ...spec.interfaces import InterfaceSpec
from ...spec.qos import Qos, only

CONCERN = "qos"
# Drivers take the link down and up for these.
CUTTING = ("pause", "pfc")


def lasting(context: Context, interface: Interface) -> Qos:
    """Return what the boot unit makes again: all that is given and not refused."""
    refused = {step["id"] for step in context.earlier if step["status"] == REFUSED}
    wanted = given(context.desired, interface)
    return only(wanted, [key for key in wanted if step_id(key, interface) not in refused])


def key_for(setting: str, interface: Interface) -> str:
    """Return what the step about one setting of an interface is called by within this concern."""
    return f"{setting}:{interface.key}"


def step_id(setting: str, interface: Interface) -> str:
    """Return the id of the step about one setting of an interface."""
    return f"{CONCERN}:{key_for(setting, interface)}"


def without_soft_devices(desired: HostSpec, facts: Facts) -> HostSpec:
    """Return what can be had while the host starts: software makes RDMA devices on other cards' ports later."""
    drivers = {nic["address"]: nic["driver"] for nic in facts["nics"]}

    def had(entry: InterfaceSpec) -> InterfaceSpec:
        qos = entry["qos"]
        if not qos or isinstance(qos, bool) or drivers.get(entry.get("pci", "")) in {None, NETDEV_DRIVER}:
            return entry
        return {**entry, "qos": only(qos, [key for key in qos if key not in OF_DEVICE])}

    return {**desired, "interfaces": list(map(had, desired["interfaces"]))}
