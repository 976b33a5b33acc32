# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes secrets and identity out of what was read of a host.

The same input becomes the same output within one host, so a MAC, the GUID made from it and the GID made from that still
belong together, and an address still lies in its network. Nothing can be computed back without the key.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from typing import Callable

_UUID = re.compile(r"\b[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\b")
_OCTETS = re.compile(r"(?<![0-9A-Fa-f:])[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5,19}(?![0-9A-Fa-f:])")
_GUID = re.compile(r"(?<![0-9A-Fa-f:])[0-9A-Fa-f]{4}(?::[0-9A-Fa-f]{4}){3}(?![0-9A-Fa-f:])")
# Names systemd and rdma-core make of a MAC (12 digits) or a GUID (16 digits).
_NAME_WITH_ADDRESS = re.compile(r"\b(en|wl|ib|roce|iw)x([0-9a-f]{16}|[0-9a-f]{12})(?![0-9a-f])")
# An address, or a network with its prefix.
_IPV4 = re.compile(r"(?<![\w.-])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])(?:/\d{1,3}(?!\w))?")
_IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:]*(?![\w:.])(?:/\d{1,3}(?!\w))?")
# The middle of an EUI-64: of a card's GUID, and of one made from a MAC.
_EUI_MIDDLES = (b"\x03\x00", b"\xff\xfe")
# What says private, shared or link-local stays; of any other address its first octet.
_KEPT_PREFIXES = tuple(
    ipaddress.IPv4Network(text) for text in ("172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16")
)


class Pseudonyms:
    """Stable replacements for what identifies one host; ``key`` must not be known to who sees them."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._serials: dict[bytes, bytes] = {}
        self._taken: set[bytes] = set()

    def text(self, text: str) -> str:
        """Replace hardware addresses, GUIDs and UUIDs wherever they stand, also within names of interfaces."""
        return self.names(_UUID.sub(self._uuid, text))

    def names(self, text: str) -> str:
        """Replace hardware addresses and GUIDs in a path; the UUID of an EFI variable names its kind, not a host."""
        text = _OCTETS.sub(self._octets, text)
        text = _GUID.sub(lambda found: _grouped(self.hardware(bytes.fromhex(found.group().replace(":", "")))), text)
        return _NAME_WITH_ADDRESS.sub(self._name, text)

    def addresses(self, text: str) -> str:
        """Replace IP addresses of both families, beside everything ``text`` replaces."""
        return _IPV6.sub(self._ipv6_match, _IPV4.sub(self._ipv4_match, self.text(text)))

    def hardware(self, octets: bytes) -> bytes:
        """Replace the serial part of a MAC (6), a GUID (8) or an IPoIB address (20 octets); the vendor's part stays."""
        if len(octets) == 20:
            return octets[:4] + self.ipv6(octets[4:])
        if not any(octets) or octets == b"\xff" * len(octets) or len(octets) not in {6, 8}:
            return octets
        middle = octets[3:-3]
        if len(octets) == 6 or middle in _EUI_MIDDLES:
            return octets[:-3] + self._serial(octets[-3:])
        return octets[:3] + _EUI_MIDDLES[0] + self._serial(octets[3:])

    def ipv4(self, address: ipaddress.IPv4Address) -> ipaddress.IPv4Address:
        """Replace an address bit by bit, each by the bits before it: what shared a network still does."""
        special = address.is_unspecified or address.is_loopback or address.is_multicast
        if special or address == ipaddress.IPv4Address(2**32 - 1):
            return address
        kept = next((network.prefixlen for network in _KEPT_PREFIXES if address in network), 8)
        number = int(address)
        result = number >> (32 - kept)
        for position in range(kept, 32):
            prefix = number >> (32 - position)
            flip = self._digest(b"ipv4", bytes([position]) + prefix.to_bytes(4, "big"))[0] & 1
            result = result << 1 | (number >> (31 - position) & 1) ^ flip
        return ipaddress.IPv4Address(result)

    def ipv6(self, packed: bytes) -> bytes:
        """Replace an IPv6 address or a GID (16 octets); the scope and what was made of a MAC or IPv4 stay visible."""
        if packed[:12] == b"\0" * 10 + b"\xff\xff":
            return packed[:12] + self.ipv4(ipaddress.IPv4Address(packed[12:])).packed
        if not any(packed[:15]) or packed[0] == 0xFF:
            return packed
        prefix = packed[:2]
        for end in (4, 6, 8):
            group = packed[end - 2 : end]
            prefix += self._digest(b"ipv6", packed[:end])[:2] if any(group) else group
        return prefix + self._interface_id(packed[8:])

    def opaque(self, text: str) -> str:
        """Replace text that only needs to stay the same and distinct, by hex digits of the same length."""
        return hashlib.shake_256(self._digest(b"opaque", text.encode())).hexdigest(len(text))[: len(text)]

    def _interface_id(self, octets: bytes) -> bytes:
        if not any(octets[:6]):
            return octets
        if octets[3:5] in _EUI_MIDDLES:
            return self.hardware(octets)
        return self._digest(b"interface", octets)[:8]

    def _serial(self, serial: bytes) -> bytes:
        """Return three octets for a serial part, other ones for every other."""
        attempt = 0
        while serial not in self._serials:
            candidate = self._digest(b"serial", serial + attempt.to_bytes(2, "big"))[:3]
            attempt += 1
            if candidate not in self._taken:
                self._taken.add(candidate)
                self._serials[serial] = candidate
        return self._serials[serial]

    def _digest(self, purpose: bytes, data: bytes) -> bytes:
        return hmac.new(self._key, purpose + b"\0" + data, hashlib.sha256).digest()

    def _octets(self, found: re.Match[str]) -> str:
        text = found.group()
        separator = text[2]
        octets = bytes.fromhex(re.sub("[:-]", "", text))
        # BOOTIF=01-aa-bb-...: the type of the link stands before the address.
        head, octets = (octets[:1], octets[1:]) if len(octets) == 7 else (b"", octets)
        return separator.join(f"{octet:02x}" for octet in head + self.hardware(octets))

    def _name(self, found: re.Match[str]) -> str:
        return f"{found.group(1)}x{self.hardware(bytes.fromhex(found.group(2))).hex()}"

    def _uuid(self, found: re.Match[str]) -> str:
        digits = self._digest(b"uuid", found.group().lower().encode()).hex()
        return f"00000000-0000-4000-8000-{digits[:12]}"

    def _ipv4_match(self, found: re.Match[str]) -> str:
        return _replaced(found.group(), lambda text: str(self.ipv4(ipaddress.IPv4Address(text))))

    def _ipv6_match(self, found: re.Match[str]) -> str:
        def replace(text: str) -> str:
            address = ipaddress.IPv6Address(self.ipv6(ipaddress.IPv6Address(text).packed))
            return _in_full(address) if len(text) == 39 else str(address)

        return _replaced(found.group(), replace)


def _in_full(address: ipaddress.IPv6Address) -> str:
    """Return all eight groups in hexadecimal, as sysfs writes a GID; ``exploded`` differs between Pythons for some."""
    digits = address.packed.hex()
    return ":".join(digits[start : start + 4] for start in range(0, 32, 4))


def _replaced(text: str, replace: Callable[[str], str]) -> str:
    """Return the replacement, or the text as it is where it only looks like an address; a network stays one."""
    address, slash, prefix = text.partition("/")
    try:
        replacement = replace(address)
    except ValueError:
        return text
    try:
        ipaddress.ip_network(text)
        return str(ipaddress.ip_network(f"{replacement}/{prefix}", strict=False)) if slash else replacement
    except ValueError:
        return f"{replacement}{slash}{prefix}"


def _grouped(octets: bytes) -> str:
    digits = octets.hex()
    return ":".join(digits[index : index + 4] for index in range(0, len(digits), 4))
