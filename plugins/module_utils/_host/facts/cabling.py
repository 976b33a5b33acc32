# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read on request which switch and port each port of a host is cabled to: by LLDP, on InfiniBand by its subnet.

Frames have the form of IEEE 802.1AB; forms of programs are those of lldpd (``lldpctl -f json``), systemd 257
(``networkctl --json=short lldp``) and infiniband-diags (``smpquery``). All of it is data from strangers.
"""

from __future__ import annotations

import re
import socket
import struct
import time
from typing import Any, Collection, Dict, Iterator, List, Mapping, Sequence, TypedDict

from ..machine.access import Host
from ..machine.probe import Probe, objects, parsed, printable
from .shapes import RdmaDevice

LISTEN_SECONDS = 35.0
"""Switches send a frame every 30 s, unless they are told otherwise."""
_ETHERTYPE = 0x88CC
_GROUP = bytes.fromhex("0180c200000e")
# From linux/if_packet.h and sys/socket.h; the module socket has no names for them.
_SOL_PACKET, _ADD_MEMBERSHIP, _MULTICAST, _OUTGOING = 263, 1, 0, 4
_HEADER, _LONGEST_FRAME, _LONGEST_NAME, _MOST = 14, 2048, 64, 4
_CHASSIS, _PORT, _PORT_TEXT, _NAME = 1, 2, 4, 5
# Subtypes of the IDs of chassis and port that are bytes, not text: addresses of hardware and networks.
_BYTES = {_CHASSIS: (4, 5), _PORT: (3, 4)}
_FIELD = re.compile(r"^(Node Description|NodeType|LocalPort):\.*(.*)$", re.MULTILINE)


class Neighbour(TypedDict):
    """What a port is cabled to."""

    switch: str
    port: str


Cabling = Dict[str, List[Neighbour]]


def read_cabling(host: Host, devices: Sequence[RdmaDevice], heard: Cabling | None = None) -> Cabling:
    """Return what each interface, and each InfiniBand device, is cabled to, as far as the host knows, or has ``heard``.

    A port that tells of none is absent.
    """
    probe = Probe(host)
    found: Cabling = {}
    for name, neighbour in (
        *by_lldpd(parsed(probe.output("lldpctl", "-f", "json"))),
        *by_networkd(parsed(probe.output("networkctl", "--json=short", "--no-pager", "lldp"))),
        *((name, each) for name, those in (heard or {}).items() for each in those),
        *_by_subnet(probe, devices),
    ):
        own = found.setdefault(printable(name, _LONGEST_NAME), [])
        if neighbour not in own and len(own) < _MOST:
            own.append(neighbour)
    return found


def by_lldpd(shown: Any) -> Iterator[tuple[str, Neighbour]]:
    """Yield interfaces with a neighbour from lldpd's JSON: one is an object, several are a list of objects.

    The name of a chassis is the key of what is known of it, unless it has none.
    """
    interfaces = _mapping(_mapping(shown).get("lldp")).get("interface")
    for entry in objects(interfaces) or objects([interfaces]):
        for name, seen in entry.items():
            chassis, port = _mapping(_mapping(seen).get("chassis")), _mapping(_mapping(seen).get("port"))
            unnamed = _mapping(chassis.get("id")).get("value")
            switch = unnamed if isinstance(unnamed, str) else next(iter(chassis), "")
            own = _mapping(port.get("id"))
            text = port.get("descr") if own.get("type") == "mac" else own.get("value")
            yield from _pair(name, switch, text or own.get("value"))


def by_networkd(shown: Any) -> Iterator[tuple[str, Neighbour]]:
    """Yield interfaces with a neighbour from the JSON of systemd-networkd."""
    for entry in objects(_mapping(shown).get("Neighbors")):
        for each in objects(entry.get("Neighbors")):
            switch = each.get("SystemName") or each.get("ChassisID")
            yield from _pair(entry.get("InterfaceName"), switch, each.get("PortID"))


def in_frame(frame: bytes) -> Neighbour | None:
    """Return the neighbour that an Ethernet frame tells of, None where it is no whole frame of LLDP."""
    if len(frame) < _HEADER or frame[12:14] != struct.pack(">H", _ETHERTYPE):
        return None
    values: dict[int, str] = {}
    place = _HEADER
    while place + 2 <= len(frame):
        (head,) = struct.unpack_from(">H", frame, place)
        kind, length = head >> 9, head & 0x1FF
        content = frame[place + 2 : place + 2 + length]
        if kind == 0 or len(content) < length:
            break
        place += 2 + length
        values.setdefault(kind, _text(kind, content))
    name = values.get(_NAME) or values.get(_CHASSIS)
    # A port's ID may be its address, which nobody finds on a switch.
    port = (values.get(_PORT_TEXT) if _is_address(values.get(_PORT, "")) else "") or values.get(_PORT)
    return {"switch": name, "port": port} if name and port else None


def hear(wanted: Collection[str]) -> Cabling:
    """Return what frames of LLDP tell that reach this machine in a time, or until each interface wanted has one."""
    found: Cabling = {}
    end = time.monotonic() + LISTEN_SECONDS
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETHERTYPE)) as listener:
        for index, _name in socket.if_nameindex():
            _join(listener, index)
        while not found.keys() >= {*wanted} and time.monotonic() < end:
            listener.settimeout(max(0.01, end - time.monotonic()))
            try:
                frame, (name, _protocol, direction, *_rest) = listener.recvfrom(_LONGEST_FRAME)
            except OSError:
                # The time is over, or an interface went down.
                continue
            neighbour = None if direction == _OUTGOING else in_frame(frame)
            if neighbour is not None and len(found.setdefault(name, [])) < _MOST:
                found[name].append(neighbour)
    return found


def _join(listener: socket.socket, index: int) -> None:
    """Let an interface take frames to the group, unless it has none of Ethernet."""
    try:
        listener.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, struct.pack("iHH8s", index, _MULTICAST, 6, _GROUP))
    except OSError:
        return


def _by_subnet(probe: Probe, devices: Sequence[RdmaDevice]) -> Iterator[tuple[str, Neighbour]]:
    """Yield InfiniBand devices with the switch at the other end of their cable, one hop along it."""
    for device in devices:
        for port in device["ports"]:
            if port["link_layer"] == "InfiniBand" and port["state"] == "ACTIVE" and device["pci"]:
                argv = ("smpquery", "-C", device["name"], "-P", str(port["port"]), "-D")
                path = f"0,{port['port']}"
                yield from in_subnet(
                    device["name"],
                    probe.output(*argv, "nodedesc", path),
                    probe.output(*argv, "nodeinfo", path),
                )


def in_subnet(device: str, description: str, info: str) -> Iterator[tuple[str, Neighbour]]:
    """Yield a device with its neighbour from what smpquery prints of the other end; its port is the one asked by."""
    fields = dict(_FIELD.findall(f"{description}\n{info}"))
    yield from _pair(device, fields.get("Node Description"), fields.get("LocalPort"))


def _pair(name: Any, switch: Any, port: Any) -> Iterator[tuple[str, Neighbour]]:
    words = [printable(each.strip(), _LONGEST_NAME) if isinstance(each, str) else "" for each in (name, switch, port)]
    if all(words):
        yield words[0], {"switch": words[1], "port": words[2]}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(kind: int, content: bytes) -> str:
    if kind in _BYTES:
        if content[:1] and content[0] in _BYTES[kind]:
            return ":".join(f"{byte:02x}" for byte in content[1:17])
        content = content[1:]
    return printable(content.decode("utf-8", "replace").strip("\0 "), _LONGEST_NAME)


def _is_address(text: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{2}(:[0-9a-f]{2})+", text) is not None
