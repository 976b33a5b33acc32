# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the facts of ports that entries of the spec need; hosts without such entries skip this."""

from __future__ import annotations

from dataclasses import replace
from typing import Iterable, Sequence

from ..machine.probe import Probe
from ..spec.by_range import NETDEVICE, per_vf
from ..spec.host import HostSpec
from .eswitch import present_mode, read_eswitches
from .firmware import read_firmware
from .firmware_image import read_firmware_images
from .host_state import HostState, Interface, settings_of
from .max_mtu import read_max_mtus
from .qos import asked, everything_of, read_qos
from .queues import interrupts_of_functions, read_interrupts, read_queues
from .routing import read_routing
from .shapes import Facts, Nic
from .spectrum_x import read_roce_registers
from .users import USER_SPACE_DRIVERS, has_driver, read_users
from .vf_settings import device_guid, differences, guids_asked, has_guid, port_guid, read_guids, settings_asked


def read_target_ports(probe: Probe, desired: HostSpec, interfaces: Sequence[Interface], facts: Facts) -> None:
    """Add the facts that are only read for devices of entries of the spec."""
    actual = HostState(facts)
    _read_cards(probe, desired, interfaces, actual)
    read_max_mtus(probe, interfaces, facts["netdevs"])
    by_name = {netdev["name"]: netdev for netdev in facts["netdevs"]}
    facts["vf_users"] = read_users(probe, renewed_functions(interfaces, actual), facts["nics"], by_name)
    qos = read_qos(probe, desired, interfaces, facts["rdma"])
    if qos is not None:
        facts["settings"]["qos"] = qos
    facts["queues"] = read_queues(probe, interfaces, facts["eswitch"])
    facts["interrupts"] = read_interrupts(probe, interfaces, facts["boot"]["files"])
    facts["routing"] = read_routing(probe, desired, interfaces, facts["boot"], facts["uplinks"])


def read_every_port(probe: Probe, facts: Facts) -> None:
    """Read, for a recording, whatever any spec may need of the ports."""
    read_qos(probe, *everything_of(facts))
    if facts["nics"]:
        interrupts_of_functions(probe, [nic["address"] for nic in facts["nics"]])


def _read_cards(probe: Probe, desired: HostSpec, interfaces: Iterable[Interface], actual: HostState) -> None:
    """Add the facts of NVIDIA cards that only commands report, for PFs with an entry."""
    cards = {nic["address"] for nic in actual.nvidia_nics() if nic["function"] == "pf"}
    # Settings for all interfaces apply to each of them.
    ports = [
        replace(port, wanted={**port.wanted, "qos": asked(desired, port) or None})
        for port in interfaces
        if port.key in cards
    ]
    facts = actual.facts
    facts["eswitch"] = read_eswitches(probe, ports)
    facts["firmware"] = read_firmware(probe, ports)
    facts["firmware_images"] = read_firmware_images(probe, ports, actual)
    registers = read_roce_registers(probe, ports)
    if registers:
        facts["roce_registers"] = registers
    facts["guids"] = read_guids(probe, ports)


def renewed_functions(interfaces: Iterable[Interface], actual: HostState) -> list[Nic]:
    """Return the VFs whose users must be known before planning, as facts.

    This depends on the facts in ``actual`` about devices, e-switches and GUIDs. Finding users takes time, so there are
    no such functions on a host that matches its spec.
    """
    return [function for interface in interfaces for function in _affected_functions(actual, interface)]


def _affected_functions(actual: HostState, interface: Interface) -> list[Nic]:
    nic = interface.nic
    enabled = interface.functions
    if nic is None or not enabled:
        return []
    functions = actual.vfs_of(nic)
    mode, count = interface.wanted["eswitch_mode"], len(functions)
    if interface.wanted["vfs"] not in (None, enabled) or mode not in (None, present_mode(actual, interface)):
        return functions
    drivers = per_vf(interface.wanted["vf_driver"], count, NETDEVICE)
    changes = differences(settings_asked(interface, count), settings_of(nic))
    guids = guids_asked(interface, count, port_guid(actual, nic, interface.netdev))
    read = actual.facts["guids"].get(interface.key)
    known = dict(enumerate(read["functions"] if read is not None else ()))
    return [
        function
        for number, (function, driver) in enumerate(zip(functions, drivers))
        if "mac" in changes.get(number, {})
        or (number in changes and function["driver"] in USER_SPACE_DRIVERS)
        or (driver is not None and not has_driver(function["driver"], driver))
        or (number in guids and not has_guid(known.get(number), device_guid(actual, function), guids[number]))
    ]
