# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says which GUID each function of a port shall have. Pure."""

from __future__ import annotations

import hashlib

from ..spec.vf_guids import DETERMINISTIC, VfGuids, guid_number, guid_text
from .host_state import HostState
from .shapes import FunctionGuids, Netdev, Nic

# EUI-64: bit 0 of the first octet is for groups, bit 1 says that no manufacturer gave the number.
_GROUP, _LOCAL = 0x01, 0x02
_OCTETS = 8


def deterministic_guid(port_guid: str, number: int) -> str:
    """Return the GUID of a port's virtual function: locally administered, the same for one port and number forever.

    It is taken from a digest: ports have consecutive GUIDs, so adding the number would give two ports' functions the
    same ones.
    """
    digest = hashlib.sha256(f"{port_guid.lower()} vf {number}".encode("ascii", "replace")).digest()
    first = (digest[0] | _LOCAL) & ~_GROUP
    return guid_text(int.from_bytes(bytes((first, *digest[1:_OCTETS])), "big"))


def port_guid(actual: HostState, nic: Nic, port: Netdev | None) -> str | None:
    """Return the GUID of a port as eight octets: its RDMA device has it, and the last octets of an IPoIB address."""
    for device in actual.facts["rdma"]:
        if device["pci"] == nic["address"]:
            number = guid_number(str(device["node_guid"] or ""))
            if number:
                return guid_text(number)
    octets = ((port["mac"] if port is not None else None) or "").split(":")
    number = guid_number(":".join(octets[-_OCTETS:])) if len(octets) > _OCTETS else None
    return guid_text(number) if number else None


def wanted_guid(guids: VfGuids, number: int, port: str | None) -> str | None:
    """Return the GUID of one function; None where the list or range has no more, or the port's own is not known."""
    if guids == DETERMINISTIC:
        return deterministic_guid(port, number) if port else None
    if isinstance(guids, dict):
        guid = (guid_number(guids["first"]) or 0) + number
        return guid_text(guid) if guid <= (guid_number(guids["last"]) or 0) else None
    return str(guids[number]) if isinstance(guids, list) and number < len(guids) else None


def device_guid(actual: HostState, function: Nic) -> str | None:
    """Return the GUID that the RDMA device of a function has now, as eight octets; None where it has no device."""
    found = (device["node_guid"] for device in actual.facts["rdma"] if device["pci"] == function["address"])
    number = guid_number(str(next(found, None) or ""))
    return None if number is None else guid_text(number)


def has_guid(now: FunctionGuids | None, taken: str | None, guid: str | None) -> bool:
    """Say whether a function has its GUID: ``now`` is what the port has set, ``taken`` what its device has.

    All zero is none. A function without RDMA device has nothing to tell, and an older kernel does not tell what is set.
    """
    if taken is not None and taken != guid:
        return False
    told = {None} if now is None else {now["node_guid"], now["port_guid"]}
    return told == {guid} or (told == {None} and taken == guid)
