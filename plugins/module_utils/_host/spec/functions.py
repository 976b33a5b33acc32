# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what is wanted of the virtual functions of a port: their settings, their driver, and their e-switch."""

from __future__ import annotations

from typing import Callable, Final, Mapping, Sequence, TypedDict

from . import syntax
from .place import Place, choice_of, kind_of, known_keys, mapping_in, shown, switch_of, text_of, whole_number

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
