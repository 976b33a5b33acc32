# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse registers in PCI configuration space. Pure.

Layout as in the PCI Express Base Specification and the kernel's include/uapi/linux/pci_regs.h. Without root, the kernel
only shows the first 64 bytes, which contain no capability.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Iterator, Mapping, NamedTuple, TypedDict

_STATUS = 0x06
_HAS_CAPABILITIES = 0x10
_FIRST_CAPABILITY = 0x34
_HEADER = 0x40
_EXTENDED = 0x100
_EXPRESS = 0x10
_EXPRESS_LENGTH = 0x3C
_DEVICE_CONTROL = 8
_ACS = 0x0D
_ATS = 0x0F
_CONTROL = 6
_MOST_CAPABILITIES = 128
# The size of the whole configuration space.
LONGEST = 4096
ACS_CONTROL, DEVICE_CONTROL = "ACS control", "device control"
# Registers that may be set: their capability, and their offset in it.
REGISTERS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {ACS_CONTROL: (_ACS, _CONTROL), DEVICE_CONTROL: (_EXPRESS, _DEVICE_CONTROL)}
)
# Bits of the ACS control register: the first two redirect traffic between devices up to the root complex, the third
# traffic that a switch would turn around at its upstream port.
REQUEST_REDIRECT = 0x04
COMPLETION_REDIRECT = 0x08
UPSTREAM_FORWARDING = 0x10
# Bits of the device control register: 0 means 128 bytes, 5 means 4096.
MAX_READ_REQUEST = 0x7000
_LEAST_READ_REQUEST = 128


class Capability(NamedTuple):
    """A capability: its id and offset."""

    id: int
    offset: int


class Registers(TypedDict):
    """Registers that affect traffic between devices; None if a function lacks one or it is not readable."""

    acs: int | None
    ats: bool | None
    max_read_request: int | None
    max_payload: int | None
    relaxed_ordering: bool | None


def registers(config: bytes) -> Registers:
    """Return the registers that affect traffic between devices; None if the function lacks one or it is not readable.

    ``acs`` is the ACS control register, ``ats`` whether address translation is on, ``max_read_request`` and
    ``max_payload`` are bytes, ``relaxed_ordering`` whether the function may use it.
    """
    found: Registers = {
        "acs": None,
        "ats": None,
        "max_read_request": None,
        "max_payload": None,
        "relaxed_ordering": None,
    }
    for capability in _standard(config):
        control = _word(config, capability.offset + _DEVICE_CONTROL)
        if capability.id == _EXPRESS and control is not None:
            found["max_read_request"] = _LEAST_READ_REQUEST << (control >> 12 & 7)
            found["max_payload"] = 128 << (control >> 5 & 7)
            found["relaxed_ordering"] = bool(control & 0x10)
    for capability in _extended(config):
        control = _word(config, capability.offset + _CONTROL)
        if capability.id == _ACS:
            found["acs"] = control
        elif capability.id == _ATS and control is not None:
            found["ats"] = bool(control & 0x8000)
    return found


def offset_of(config: bytes, register: str) -> int | None:
    """Return the offset of a register of ``REGISTERS``, None if the function lacks it or it is not readable."""
    capability, place = REGISTERS[register]
    found = _extended(config) if register == ACS_CONTROL else _standard(config)
    offset = next((entry.offset + place for entry in found if entry.id == capability), None)
    return offset if offset is not None and offset + 2 <= len(config) else None


def read_request_bits(size: int) -> int:
    """Return the bits of the device control register for read requests of at most ``size`` bytes (128 to 4096)."""
    return (size.bit_length() - _LEAST_READ_REQUEST.bit_length()) << 12


def without_identity(config: bytes) -> bytes:
    """Return the space with only the registers that ``registers`` reads: others contain serial numbers."""
    kept = bytearray(len(config))
    spans = [(0, _HEADER)]
    for capability in _standard(config):
        spans.append((capability.offset, _EXPRESS_LENGTH if capability.id == _EXPRESS else 2))
    for capability in _extended(config):
        spans.append((capability.offset, 8 if capability.id in (_ACS, _ATS) else 4))
    for start, length in spans:
        kept[start : start + length] = config[start : start + length]
    return bytes(kept)


def _standard(config: bytes) -> Iterator[Capability]:
    if len(config) <= _HEADER or not config[_STATUS] & _HAS_CAPABILITIES:
        return
    offset = config[_FIRST_CAPABILITY] & 0xFC
    for _number in range(_MOST_CAPABILITIES):
        if offset < _HEADER or offset + 2 > min(len(config), _EXTENDED):
            return
        yield Capability(config[offset], offset)
        offset = config[offset + 1] & 0xFC


def _extended(config: bytes) -> Iterator[Capability]:
    offset = _EXTENDED
    for _number in range(_MOST_CAPABILITIES):
        if offset < _EXTENDED or offset + 4 > len(config):
            return
        header = int.from_bytes(config[offset : offset + 4], "little")
        if header in (0, 0xFFFFFFFF):
            return
        yield Capability(header & 0xFFFF, offset)
        offset = header >> 20 & 0xFFC


def _word(config: bytes, offset: int) -> int | None:
    return int.from_bytes(config[offset : offset + 2], "little") if offset + 2 <= len(config) else None
