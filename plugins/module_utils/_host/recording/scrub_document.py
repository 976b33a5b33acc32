# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scrubs the sections of a recording, file by file.

Hardware addresses are replaced everywhere, names of files and interfaces included. IP addresses are replaced where they
can stand: elsewhere four numbers with dots are a version.
"""

from __future__ import annotations

import ipaddress
import json
import posixpath
import re
from typing import Any, Callable

from ..facts import firmware_image
from ..facts.masks import mask_parameters
from ..facts.node_address import ARGUMENT
from ..facts.remote_storage import CONNECTIONS, CONTROLLERS, ISCSI_HOSTS
from ..facts.routing import NUMERIC, OF_A_ROUTE, OF_A_RULE
from ..facts.uplink import DEFAULT_ROUTES, IP_ADDRESSES, IPV6_ADDRESSES, IPV6_ROUTE, ROUTE, ROUTE_TO, parse_hops
from ..machine.access import MOUNTS
from ..machine.probe import objects, parsed
from ..machine.state_file import checksummed_again
from .scrub import Pseudonyms

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
# Where servers of storage stand: of mounts, of iSCSI's sessions, of controllers of NVMe.
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


def scrubbed(document: dict[str, Any], names: Pseudonyms, hostname: str, replacement: str) -> dict[str, Any]:
    """Return the sections of a recording without secrets and identity; ``replacement`` stands for ``hostname``."""
    scrub = _Scrub(names, hostname, replacement)
    return {
        "files": {scrub.path(path): scrub.content(path, text) for path, text in document["files"].items()},
        "binary": {scrub.path(path): data for path, data in document["binary"].items()},
        "links": {scrub.path(path): names.names(target) for path, target in document["links"].items()},
        "dirs": sorted(map(scrub.path, document["dirs"])),
        "errors": {scrub.path(path): code for path, code in document["errors"].items()},
        "commands": {
            scrub.command(command): {**result, "stdout": scrub.output(command, result["stdout"])}
            for command, result in document["commands"].items()
        },
    }


class _Scrub:
    """Knows which file needs what."""

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
        """Return where an entry stands in the recording."""
        if path.startswith(_CONNECTIONS):
            # Profiles are named by people: after networks, sites, customers.
            stem, suffix = posixpath.splitext(path[len(_CONNECTIONS) :])
            return f"{_CONNECTIONS}{self._names.opaque(stem)[:12]}{suffix}"
        return self._names.names(path)

    def content(self, path: str, text: str) -> str:
        """Return what the file at ``path`` shall hold."""
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
        """Return what stands for a command in the recording; a server may be among its words."""
        asks = command.startswith(_SHOWS_ROUTE_TO)
        return self._names.addresses(command) if asks else self._names.names(command)

    def output(self, command: str, text: str) -> str:
        """Return what a command shall have printed."""
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
        """Keep names and addresses of ``ip -json address show``, nothing of what else it tells."""
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
        """Keep of routes and rules what is read of them; rules have the prefix of a network beside it."""
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
