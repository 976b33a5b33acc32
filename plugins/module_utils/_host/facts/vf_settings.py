# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each virtual function of an Ethernet port shall be like. Pure."""

from __future__ import annotations

import hashlib
from typing import Dict, Final, Mapping, Sequence, Union

from ..spec.functions import DETERMINISTIC, VF_KEYS, VfSettings
from .host_state import Interface
from .netdev import permanent_mac

# By what they are called: those of ``VF_KEYS``, and what engine/context.py says of functions.
Settings = Dict[str, Union[str, int]]
# By the function's number.
Changes = Dict[int, Settings]

# While removing, the key of an entry with what its functions were like before the first run, by number.
BEFORE: Final = "vf_settings_before"
# IEEE 802 and EUI-64: bit 0 of the first octet is for groups, bit 1 says that no manufacturer gave the address.
_GROUP, _LOCAL = 0x01, 0x02


def own_octets(port: str, number: int, count: int) -> bytes:
    """Return the MAC or GUID of a virtual function of the port with this one: always the same for port and number.

    It is locally administered, and taken from a digest: ports of one card have consecutive addresses, so adding the
    number would give the functions of two ports the same ones.
    """
    digest = hashlib.sha256(f"{port.lower()} vf {number}".encode("ascii", "replace")).digest()
    return bytes(((digest[0] | _LOCAL) & ~_GROUP, *digest[1:count]))


def deterministic_mac(port_mac: str, number: int) -> str:
    """Return the MAC of a port's virtual function that follows from the port's."""
    return ":".join(f"{octet:02x}" for octet in own_octets(port_mac, number, 6))


def settings_asked(interface: Interface, count: int) -> list[Settings]:
    """Return what an entry asks of each of so many functions; a removal asks for what they were like."""
    before = interface.wanted.get(BEFORE)
    if before is not None:
        return _former(before, count)
    return _wanted(interface.wanted["vf_settings"], mac_of_port(interface), count)


def mac_of_port(interface: Interface) -> str | None:
    """Return the address of a port, of which deterministic ones of its functions are made; None where it is unknown."""
    return permanent_mac(interface.netdev) if interface.netdev is not None else None


def _wanted(given: VfSettings | None, mac: str | None, count: int) -> list[Settings]:
    if given is None:
        return [{} for _number in range(count)]
    common = {key: given[key] for key in ("vlan", "trust", "spoofchk", "max_tx_rate", "link_state")}
    functions = []
    for number in range(count):
        own = {"mac": _mac(given["mac"], mac, number) or None, **common}
        functions.append({key: value for key, value in own.items() if value is not None})
    return functions


def _former(before: Mapping[str, Mapping[str, str | int | None] | None], count: int) -> list[Settings]:
    """Return what each function was like, by its number in ``before``; what its driver did not tell is not known."""
    found = [before.get(str(number)) for number in range(count)]
    told = [{key: settings.get(key) for key in VF_KEYS} if isinstance(settings, dict) else {} for settings in found]
    return [{key: value for key, value in settings.items() if value is not None} for settings in told]


def _mac(wanted: str | dict[str, str] | None, mac: str | None, number: int) -> str | None:
    if wanted == DETERMINISTIC:
        return deterministic_mac(mac, number) if mac else None
    return wanted.get(str(number)) if isinstance(wanted, dict) else None


def differences(wanted: Sequence[Settings], actual: Sequence[Mapping[str, object]] | None) -> Changes:
    """Return what is to be set on which function; all of it where the present settings are not known."""
    known = actual or []
    changes: Changes = {}
    for number, settings in enumerate(wanted):
        now: Mapping[str, object] = known[number] if number < len(known) else {}
        differing = {key: value for key, value in settings.items() if now.get(key) != value}
        if differing:
            changes[number] = differing
    return changes
