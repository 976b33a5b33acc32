# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Removes secrets and identity from a recording, section by section and file by file.

Within one host the same input gives the same output, so a MAC, the GUID derived from it and the GID of that still
belong together, and an address is still in its network. Nothing can be reversed without the key. Hardware
addresses are replaced everywhere, including names of files and interfaces. IP addresses are replaced only where they
can occur: elsewhere four numbers with dots are a version.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import posixpath
import re
from typing import Any, Callable

from ..facts import firmware_image
from ..facts.masks import mask_parameters
from ..facts.remote_storage import CONNECTIONS, CONTROLLERS, ISCSI_HOSTS
from ..facts.routing import NUMERIC, OF_A_ROUTE, OF_A_RULE
from ..facts.uplink import (
    ARGUMENT,
    DEFAULT_ROUTES,
    IP_ADDRESSES,
    IPV6_ADDRESSES,
    IPV6_ROUTE,
    ROUTE,
    ROUTE_TO,
    parse_hops,
)
from ..machine.access import MOUNTS
from ..machine.host_files import checksummed_again
from ..machine.probe import objects, parsed

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
_HOSTNAME_FILE = "/proc/sys/kernel/hostname"
_CMDLINE_FILE = "/proc/cmdline"
_OF_A_GPU = ("Model:", "Device Minor:")
_GPU_DRIVER_FILE = "/proc/driver/nvidia/version"
_CONNECTIONS = "/etc/NetworkManager/system-connections/"
# Files of managers of interfaces, where routes stand.
_MANAGERS = (
    "/etc/NetworkManager/",
    "/run/NetworkManager/",
    "/etc/netplan/",
    "/etc/systemd/network/",
    "/run/systemd/network/",
    "/etc/network/",
)
# Places of storage servers: mounts, iSCSI sessions, NVMe controllers.
_OF_STORAGE = (MOUNTS, CONNECTIONS, ISCSI_HOSTS, CONTROLLERS)
_ISCSI_DEVICE = re.compile(r"/(?:iscsi_connection|iscsi_host)/")
_SHOWS_ADDRESSES = " ".join(IP_ADDRESSES)
_SHOWS_HOPS = tuple(map(" ".join, DEFAULT_ROUTES.values()))
_SHOWS_ROUTE_TO = " ".join(ROUTE_TO)
_SHOWS_ROUTES = " ".join(NUMERIC)
_OF_ROUTES = OF_A_ROUTE | OF_A_RULE
_NETWORKS = ("dst", "src", "gateway", "prefsrc")
_BUILDER = re.compile(r"\([^()@\s]+@[^()\s]+\)")
_HEX_ADDRESS = re.compile(r"\b[0-9a-f]{32}\b")

Scrubber = Callable[[str], str]


class Pseudonyms:
    """Stable replacements for what identifies a host; those who see them must not know ``key``."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._serials: dict[bytes, bytes] = {}
        self._taken: set[bytes] = set()

    def text(self, text: str) -> str:
        """Replace hardware addresses, GUIDs and UUIDs anywhere, including names of interfaces."""
        return self.names(_UUID.sub(self._uuid, text))

    def names(self, text: str) -> str:
        """Replace hardware addresses and GUIDs in a path; the UUID of an EFI variable only identifies its kind."""
        text = _OCTETS.sub(self._octets, text)
        text = _GUID.sub(lambda found: _grouped(self.hardware(bytes.fromhex(found.group().replace(":", "")))), text)
        return _NAME_WITH_ADDRESS.sub(self._name, text)

    def addresses(self, text: str) -> str:
        """Replace IP addresses of both families, and everything that ``text`` replaces."""
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
        """Replace an address bit by bit, depending on the bits before, so that shared networks stay shared."""
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
        """Replace an IPv6 address or a GID (16 octets); its scope, and its origin from a MAC or IPv4, stay visible."""
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
        """Replace text that only needs to stay stable and distinct by hex digits of the same length."""
        return hashlib.shake_256(self._digest(b"opaque", text.encode())).hexdigest(len(text))[: len(text)]

    def _interface_id(self, octets: bytes) -> bytes:
        if not any(octets[:6]):
            return octets
        if octets[3:5] in _EUI_MIDDLES:
            return self.hardware(octets)
        return self._digest(b"interface", octets)[:8]

    def _serial(self, serial: bytes) -> bytes:
        """Return three octets for a serial part, distinct for distinct parts."""
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
        # BOOTIF=01-aa-bb-...: the link type precedes the address.
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
            # All eight groups in hexadecimal, as sysfs writes a GID; ``exploded`` differs between Pythons for some.
            return _grouped(address.packed) if len(text) == 39 else str(address)

        return _replaced(found.group(), replace)


def _replaced(text: str, replace: Callable[[str], str]) -> str:
    """Return the replacement, or the text itself if it only looks like an address; a network stays one."""
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


def scrubbed(document: dict[str, Any], names: Pseudonyms, hostname: str, replacement: str) -> dict[str, Any]:
    """Return the sections of a recording without secrets and identity; ``replacement`` replaces ``hostname``."""
    scrub = _Scrub(names, hostname, replacement)
    return {
        "files": {scrub.path(path): scrub.content(path, text) for path, text in document["files"].items()},
        "binary": {scrub.path(path): data for path, data in document["binary"].items()},
        "links": {scrub.path(path): names.names(target) for path, target in document["links"].items()},
        "dirs": sorted(map(scrub.path, document["dirs"])),
        "errors": {scrub.path(path): code for path, code in document["errors"].items()},
        "commands": {
            scrub.command(command): (
                {**result, "stdout": scrub.output(command, result["stdout"])} if "stdout" in result else result
            )
            for command, result in document["commands"].items()
        },
    }


class _Scrub:
    """Scrubs each file and command output by its kind."""

    def __init__(self, names: Pseudonyms, hostname: str, replacement: str) -> None:
        self._names = names
        short = hostname.split(".", maxsplit=1)[0]
        alternatives = "|".join(re.escape(name) for name in (hostname, short) if name)
        self._hostname = re.compile(rf"(?<![\w])(?:{alternatives})(?![\w])") if alternatives else None
        self._replacement = replacement
        self._special: dict[str, Scrubber] = {
            _HOSTNAME_FILE: lambda _text: f"{replacement}\n",
            _CMDLINE_FILE: lambda text: self._without_hostname(names.addresses(mask_parameters(text))),
            _GPU_DRIVER_FILE: lambda text: _BUILDER.sub("(builder)", text),
            ROUTE: self._routes,
            IPV6_ROUTE: self._ipv6_routes,
            IPV6_ADDRESSES: self._hex_addresses,
        }

    def path(self, path: str) -> str:
        """Return the scrubbed path of an entry."""
        if path.startswith(_CONNECTIONS):
            # People name profiles after networks, sites, customers.
            stem, suffix = posixpath.splitext(path[len(_CONNECTIONS) :])
            return f"{_CONNECTIONS}{self._names.opaque(stem)[:12]}{suffix}"
        return self._names.names(path)

    def content(self, path: str, text: str) -> str:
        """Return the scrubbed content of the file at ``path``."""
        special = self._special.get(path)
        if special is not None:
            return special(text)
        if "/gids/" in path:
            return self._names.addresses(text)
        if path.endswith("/phys_switch_id"):
            return f"{self._names.opaque(text.strip())}\n"
        if path.startswith("/proc/driver/nvidia/gpus/"):
            return "".join(line for line in text.splitlines(keepends=True) if line.startswith(_OF_A_GPU))
        # The recorder leaves nothing but this of files that tell the node's addresses, wherever links lead to them.
        of_storage = path.startswith(_OF_STORAGE) or _ISCSI_DEVICE.search(path)
        if of_storage or path.startswith(_MANAGERS) or text.startswith(ARGUMENT):
            return self._names.addresses(text)
        return checksummed_again(self._names.text(text))

    def command(self, command: str) -> str:
        """Return a scrubbed command; a server may be among its words."""
        asks = command.startswith(_SHOWS_ROUTE_TO)
        return self._names.addresses(command) if asks else self._names.names(command)

    def output(self, command: str, text: str) -> str:
        """Return the scrubbed output of a command."""
        if command.startswith(_SHOWS_ADDRESSES):
            return self._ip_addresses(text)
        if command in _SHOWS_HOPS or command.startswith(_SHOWS_ROUTE_TO):
            return json.dumps([{"dev": self._names.text(name)} for name in parse_hops(text)]) + "\n"
        if command.startswith(_SHOWS_ROUTES):
            return self._ip_routes(text)
        if command.startswith(firmware_image.FLINT):
            return firmware_image.public_part(text)
        return self._names.text(text)

    def _without_hostname(self, text: str) -> str:
        return self._hostname.sub(lambda _found: self._replacement, text) if self._hostname else text

    def _routes(self, text: str) -> str:
        """Replace the addresses of /proc/net/route; a network's address stays one under its mask."""
        lines = text.splitlines(keepends=True)
        return "".join(lines[:1] + [self._route(line) for line in lines[1:]])

    def _route(self, line: str) -> str:
        fields = line.split("\t")
        if len(fields) < 8:
            return self._names.text(line)
        fields[0] = self._names.text(fields[0])
        try:
            destination, gateway, mask = (int(fields[column], 16) for column in (1, 2, 7))
            fields[1] = f"{self._little_endian(destination) & mask:08X}"
            fields[2] = f"{self._little_endian(gateway):08X}"
        except (OverflowError, ValueError):
            return ""
        return "\t".join(fields)

    def _little_endian(self, number: int) -> int:
        address = ipaddress.IPv4Address(number.to_bytes(4, "little"))
        return int.from_bytes(self._names.ipv4(address).packed, "little")

    def _hex_addresses(self, text: str) -> str:
        replaced = _HEX_ADDRESS.sub(lambda found: self._names.ipv6(bytes.fromhex(found.group())).hex(), text)
        return self._names.text(replaced)

    def _ipv6_routes(self, text: str) -> str:
        """Replace the addresses; the counters of references and uses change while nothing else does."""
        lines = []
        for line in self._hex_addresses(text).splitlines():
            fields = line.split()
            if len(fields) >= 10:
                fields[6:8] = ["00000000", "00000000"]
                lines.append(" ".join(fields) + "\n")
        return "".join(lines)

    def _ip_addresses(self, text: str) -> str:
        """Keep only names and addresses of ``ip -json address show``."""
        links = parsed(text)
        if links is None:
            return ""
        kept = []
        for link in objects(links):
            name, entries = link.get("ifname"), link.get("addr_info")
            if isinstance(name, str) and isinstance(entries, list):
                addresses = list(map(self._address, objects(entries)))
                kept.append({"ifname": self._names.text(name), "addr_info": addresses})
        return json.dumps(kept) + "\n"

    def _ip_routes(self, text: str) -> str:
        """Keep only the fields of routes and rules that are read; rules have their prefix length in an own field."""
        entries = parsed(text)
        if entries is None:
            return ""
        known = (entry for entry in objects(entries) if set(entry) <= _OF_ROUTES)
        return json.dumps([{key: self._of_route(entry, key) for key in entry} for entry in known]) + "\n"

    def _of_route(self, entry: dict[str, object], key: str) -> object:
        value = entry[key]
        if not isinstance(value, str) or key not in _NETWORKS:
            return self._names.text(value) if isinstance(value, str) else value
        length = entry.get(f"{key}len")
        if length is None:
            return self._names.addresses(value)
        return self._names.addresses(f"{value}/{length}").partition("/")[0]

    def _address(self, entry: dict[str, object]) -> dict[str, object]:
        return {
            "family": str(entry.get("family")),
            "local": self._names.addresses(str(entry.get("local"))),
            "prefixlen": entry.get("prefixlen"),
        }
