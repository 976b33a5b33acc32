# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what is wanted of the virtual functions of a port: their settings, their driver, and their e-switch."""

from __future__ import annotations

from typing import Callable, Final, Mapping, Sequence, TypedDict

from . import syntax
from .place import Place, choice_of, kind_of, known_keys, list_of, mapping_in, shown, switch_of, text_of, whole_number

VF_KEYS = ("mac", "vlan", "trust", "spoofchk", "max_tx_rate", "link_state")
DETERMINISTIC = "deterministic"
# ip-link(8): what the virtual link of a function follows.
LINK_STATES = ("auto", "enable", "disable")
ESWITCH_MODES = ("legacy", "switchdev")
# mlx5 takes these of a function in legacy mode only; in switchdev mode they are matters of tc and Open vSwitch.
_OF_LEGACY_MODE: Final = ("vlan", "trust", "spoofchk")
NETDEVICE = "netdevice"
VFIO = "vfio-pci"
VF_DRIVERS = (NETDEVICE, VFIO)
LINK_LAYERS = ("Ethernet", "InfiniBand")
_REQUEST_KEYS = (
    "vendor",
    "device",
    "pci",
    "ports",
    "priority",
    "resource",
    "vfs",
    "mtu",
    "vf_driver",
    "rdma",
    "vhost_net",
    "link_layer",
    "eswitch_mode",
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
    given = None if value is None else mapping_in(place, value, ", ".join(VF_KEYS))
    if given is None:
        return None
    known_keys(place, given, VF_KEYS)
    settings: VfSettings = {
        "mac": _mac(place.at("mac"), given.get("mac"), count),
        "vlan": _number(place.at("vlan"), given.get("vlan"), syntax.vlan_problem),
        "trust": switch_of(place.at("trust"), given.get("trust")),
        "spoofchk": switch_of(place.at("spoofchk"), given.get("spoofchk")),
        "max_tx_rate": _number(place.at("max_tx_rate"), given.get("max_tx_rate"), _rate_problem),
        "link_state": _link_state(place.at("link_state"), given.get("link_state")),
    }
    if count == 0:
        place.notice("has no effect: vfs is 0", "leave it out")
    return settings


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


def _number(place: Place, value: object, check: Callable[[int], str]) -> int | None:
    return None if value is None else whole_number(place, value, check)


def _rate_problem(rate: int) -> str:
    if rate < 0:
        return "is negative; it is in Mb/s, 0 lifts the limit"
    return f"is above {2**31 - 1}, the most the kernel takes; it is in Mb/s" if rate >= 2**31 else ""


def _link_state(place: Place, value: object) -> str | None:
    if value is None or (isinstance(value, str) and value in LINK_STATES):
        return value
    place.violation(f"is {shown(value)}, one of {', '.join(LINK_STATES)} is needed")
    return None


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
            f"is no function: vfs is {count}, so they are numbered 0 to {count - 1}"
            if count
            else "is no function: vfs is 0"
        )
        return None
    return text


def eswitch_mode(place: Place, value: object) -> str | None:
    """Return the wanted mode, None when none is given."""
    return choice_of(place, value, ESWITCH_MODES)


def check_settings(place: Place, settings: VfSettings | None, mode: str | None) -> None:
    """Note settings of functions that their e-switch does not take in switchdev mode."""
    if settings is None or mode != "switchdev":
        return
    for key in _OF_LEGACY_MODE:
        if settings[key] is not None:
            place.at(key).violation(
                "is not taken in switchdev mode", "leave it out: representors and their rules (tc, OVS) do this there"
            )


def vf_driver(place: Place, value: object) -> str | None:
    """Return the wanted driver in the words of SriovNetworkNodePolicy (deviceType), None when none is given."""
    return choice_of(place, value, VF_DRIVERS)


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
    given = None if value is None else mapping_in(place, value, ", ".join(_REQUEST_KEYS))
    if given is None:
        return None
    known_keys(place, given, _REQUEST_KEYS)
    addresses = (
        text_of(place.at("pci").at(index), item, "a PCI address", syntax.pci_address_problem, lower=True)
        for index, item in enumerate(list_of(place.at("pci"), given.get("pci"), "PCI addresses"))
    )
    ports = list_of(place.at("ports"), given.get("ports"), "interfaces")
    return {
        "vendor": _optional_text(place.at("vendor"), given.get("vendor"), "a PCI id"),
        "device": _optional_text(place.at("device"), given.get("device"), "a PCI id"),
        "pci": [address for address in addresses if address is not None],
        "ports": [_port_request(place.at("ports").at(index), item) for index, item in enumerate(ports)],
        "priority": _amount(place.at("priority"), given.get("priority", 0)) or 0,
        "resource": text_of(place.at("resource"), given.get("resource"), "the name of a resource"),
        "vfs": _amount(place.at("vfs"), given.get("vfs")) or 0,
        "mtu": None if given.get("mtu") is None else _amount(place.at("mtu"), given["mtu"]),
        "vf_driver": vf_driver(place.at("vf_driver"), given.get("vf_driver")),
        "rdma": bool(switch_of(place.at("rdma"), given.get("rdma"))),
        "vhost_net": bool(switch_of(place.at("vhost_net"), given.get("vhost_net"))),
        "link_layer": choice_of(place.at("link_layer"), given.get("link_layer"), LINK_LAYERS),
        "eswitch_mode": eswitch_mode(place.at("eswitch_mode"), given.get("eswitch_mode")),
    }


def _optional_text(place: Place, value: object, what: str) -> str | None:
    return None if value is None else text_of(place, value, what)


def _amount(place: Place, value: object) -> int | None:
    return whole_number(place, value, lambda number: "is negative" if number < 0 else "")


def _port_request(place: Place, value: object) -> PortRequest:
    port = mapping_in(place, value, "name and range") or {}
    known_keys(place, port, ("name", "range"))
    given = list_of(place.at("range"), port.get("range"), "functions")
    ends = [_amount(place.at("range").at(n), end) for n, end in enumerate(given)]
    if ends and (len(ends) != 2 or None in ends):
        place.at("range").violation("is no range: the first and the last function are needed")
    name = text_of(place.at("name"), port.get("name"), "an interface name")
    return {"name": name, "range": [end for end in ends if end is not None] or None}
