# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what is wanted of the virtual functions of a port: their settings, their driver, and their e-switch."""

from __future__ import annotations

from typing import Final, Mapping, Sequence, TypedDict, cast

from . import syntax
from .place import (
    Place,
    Readers,
    flag,
    kind_of,
    known_keys,
    list_of,
    mapping_in,
    one_of,
    optional_number,
    optional_text,
    record_in,
    shown,
    switch_of,
    text_of,
    texts_in,
    whole_number,
    within,
)

VF_KEYS = ("mac", "vlan", "trust", "spoofchk", "max_tx_rate", "link_state")
DETERMINISTIC = "deterministic"
# ip-link(8): what the virtual link of a function follows.
LINK_STATES = ("auto", "enable", "disable")
ESWITCH_MODES = ("legacy", "switchdev")
# mlx5 takes these of a function in legacy mode only; in switchdev mode they are matters of tc and Open vSwitch.
_OF_LEGACY_MODE: Final = ("vlan", "trust", "spoofchk")
NETDEVICE = "netdevice"
VFIO = "vfio-pci"
# In the words of SriovNetworkNodePolicy (deviceType).
VF_DRIVERS = (NETDEVICE, VFIO)
LINK_LAYERS = ("Ethernet", "InfiniBand")
_RATE = within(
    0,
    2**31 - 1,
    "is negative; it is in Mb/s, 0 lifts the limit",
    f"is above {2**31 - 1}, the most the kernel takes; it is in Mb/s",
)


class VfSettings(TypedDict):
    """Settings of the virtual functions of a port; ``max_tx_rate`` is in Mb/s, the key of an address a function."""

    mac: str | dict[str, str] | None
    vlan: int | None
    trust: bool | None
    spoofchk: bool | None
    max_tx_rate: int | None
    link_state: str | None


def vf_settings(place: Place, value: object, count: int | None) -> VfSettings | None:
    """Return the wanted settings, ``None`` for each that is not given; ``count`` is the wanted number of functions.

    ``mac`` is ``deterministic`` or a mapping of function numbers (as text) to addresses.
    """
    readers: Readers = {
        "mac": lambda here, mac: _mac(here, mac, count),
        "vlan": optional_number(syntax.vlan_problem),
        "trust": switch_of,
        "spoofchk": switch_of,
        "max_tx_rate": optional_number(_RATE),
        "link_state": one_of(LINK_STATES, None),
    }
    settings = record_in(place, value, readers)
    if settings is not None and count == 0:
        place.notice("has no effect: vfs is 0", "leave it out")
    return cast("VfSettings | None", settings)


def no_shared_addresses(places: list[Place], wanted: Sequence[VfSettings | None]) -> None:
    """Note addresses that two virtual functions of the host would have."""
    seen: dict[str, str] = {}
    for place, settings in zip(places, wanted):
        macs = settings["mac"] if settings is not None else None
        for number, mac in macs.items() if isinstance(macs, dict) else ():
            here = place.at("vf_settings").at("mac").at(number)
            first = seen.setdefault(mac, here.path)
            if first != here.path:
                here.violation(f"{shown(mac)} is given by {first} already", "each function needs its own address")


def _mac(place: Place, value: object, count: int | None) -> str | dict[str, str] | None:
    if value is None or value == DETERMINISTIC:
        return None if value is None else DETERMINISTIC
    if not isinstance(value, Mapping):
        place.violation(
            f"is {kind_of(value)} ({shown(value)}), {DETERMINISTIC} or a mapping of function numbers to addresses "
            "is needed"
        )
        return None
    macs: dict[str, str] = {}
    for key, item in value.items():
        number = _function_number(place, key, count)
        if number is None:
            continue
        here = place.at(number)
        mac = text_of(here, item, "a MAC address", syntax.unicast_address_problem, lower=True)
        if mac is not None:
            if number in macs:
                here.violation("is given twice, as a number and as text")
            macs[number] = mac
    return macs


def _function_number(place: Place, key: object, count: int | None) -> str | None:
    """Return the function's number as text: JSON has no other keys."""
    text = str(key) if isinstance(key, (int, str)) and not isinstance(key, bool) else ""
    if not (text.isascii() and text.isdecimal() and len(text) <= 5) or text != str(int(text)):
        place.violation(f"has the key {shown(key)}; keys are numbers of functions, from 0")
        return None
    if count is not None and int(text) >= count:
        place.at(text).violation(
            f"is not a function: vfs is {count}, so they are numbered 0 to {count - 1}"
            if count
            else "is not a function: vfs is 0"
        )
        return None
    return text


def check_settings(place: Place, settings: VfSettings | None, mode: str | None) -> None:
    """Note settings of functions that their e-switch does not take in switchdev mode."""
    if settings is None or mode != "switchdev":
        return
    for key in _OF_LEGACY_MODE:
        if settings[key] is not None:
            place.at(key).violation(
                "is not taken in switchdev mode", "leave it out: representors and their rules (tc, OVS) do this there"
            )


def check_driver(place: Place, driver: str | None, mtu: int | None) -> None:
    """Note an MTU of functions that have no interface of this host, and so can't have one."""
    if driver == VFIO and mtu is not None:
        place.violation("has no effect with vf_driver vfio-pci: such functions have no interface here", "leave it out")


class PortRequest(TypedDict):
    """One port by its name, and which of its functions by their first and last number; None are all."""

    name: str | None
    range: list[int] | None


class FunctionRequest(TypedDict):
    """What a policy asks of the ports that it selects; ``mtu`` is in bytes."""

    vendor: str | None
    device: str | None
    pci: list[str]
    ports: list[PortRequest]
    priority: int
    resource: str | None
    vfs: int
    mtu: int | None
    vf_driver: str | None
    rdma: bool
    vhost_net: bool
    link_layer: str | None
    eswitch_mode: str | None


def function_request(place: Place, value: object) -> FunctionRequest | None:
    """Return what a policy asks for, None when nothing is given.

    Ports are chosen by all of ``vendor`` and ``device`` (PCI ids), ``pci`` (addresses) and ``ports`` (``name`` of an
    interface, ``range`` of its functions) that are given. Of two policies about one port the later one of the requests
    counts; those of the same ``priority`` are merged.
    """
    return cast("FunctionRequest | None", record_in(place, value, _REQUEST))


def _not_negative(amount: int) -> str:
    return "is negative" if amount < 0 else ""


def _amount(place: Place, value: object) -> int | None:
    return whole_number(place, value, _not_negative)


def _port_request(place: Place, value: object) -> PortRequest:
    port = mapping_in(place, value, "name and range") or {}
    known_keys(place, port, ("name", "range"))
    given = list_of(place.at("range"), port.get("range"), "functions")
    ends = [_amount(place.at("range").at(n), end) for n, end in enumerate(given)]
    if ends and (len(ends) != 2 or None in ends):
        place.at("range").violation("is not a range: the first and the last function are needed")
    name = text_of(place.at("name"), port.get("name"), "an interface name")
    return {"name": name, "range": [end for end in ends if end is not None] or None}


def _port_requests(place: Place, value: object) -> list[PortRequest]:
    return [_port_request(place.at(index), item) for index, item in enumerate(list_of(place, value, "interfaces"))]


def _addresses(place: Place, value: object) -> list[str]:
    found = texts_in(place, value, "PCI addresses", "a PCI address", syntax.pci_address_problem, lower=True)
    return [address for _here, address in found]


_REQUEST: Readers = {
    "vendor": optional_text("a PCI id"),
    "device": optional_text("a PCI id"),
    "pci": _addresses,
    "ports": _port_requests,
    "priority": lambda place, value: _amount(place, 0 if value is None else value) or 0,
    "resource": lambda place, value: text_of(place, value, "the name of a resource"),
    "vfs": lambda place, value: _amount(place, value) or 0,
    "mtu": optional_number(_not_negative),
    "vf_driver": one_of(VF_DRIVERS, None),
    "rdma": flag(),
    "vhost_net": flag(),
    "link_layer": one_of(LINK_LAYERS, None),
    "eswitch_mode": one_of(ESWITCH_MODES, None),
}
