# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a lab of booted guests consists of: names, addresses, MAC addresses and wires. Pure."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

MANAGEMENT_PREFIX = 24
MANAGEMENT_HOST = "192.168.77.254"  # the bridge: where programs beside the guests are reached
RAIL_PREFIX = 24
API_PORT = 6443  # of the control plane on the bridge
REGISTRY_PORT = 5000  # of the images, there too
SERVICE_ADDRESS = "10.96.0.1"  # the API server's first name inside the cluster
MOST_GUESTS = 9
MOST_RAILS = 8


class InvalidLayout(Exception):
    """The lab cannot be built as asked; the text says why."""


class Port(NamedTuple):
    """One port of a guest's network card: its rail (from 0), MAC address and IPv4 address."""

    rail: int
    mac: str
    address: str


class Guest(NamedTuple):
    """One guest: its number (from 1), host name, management address and MAC, machine ID and ports by rail."""

    number: int
    name: str
    address: str
    mac: str
    machine_id: str
    ports: tuple[Port, ...]


class Wire(NamedTuple):
    """One QEMU network backend at a guest's end of a rail: its ID, socket (a path) and whether this end listens."""

    backend: str
    socket: str
    listens: bool


def plan_guests(guests: int, rails: int) -> list[Guest]:
    """Name ``guests`` hosts with ``rails`` ports each.

    They are the same in every lab, each of which has a network of its own: what was kept of one serves all.
    """
    if not 1 <= guests <= MOST_GUESTS:
        raise InvalidLayout(f"a lab has 1 to {MOST_GUESTS} guests, not {guests}")
    if not 1 <= rails <= MOST_RAILS:
        raise InvalidLayout(f"a lab has 1 to {MOST_RAILS} rails, not {rails}")
    return [_plan_guest(number, rails) for number in range(1, guests + 1)]


def _plan_guest(number: int, rails: int) -> Guest:
    name = f"rdma-{number}"
    return Guest(
        number=number,
        name=name,
        address=f"192.168.77.{number}",
        mac=f"52:54:00:77:00:{number:02x}",
        machine_id=hashlib.sha256(name.encode()).hexdigest()[:32],
        ports=tuple(
            Port(rail, f"52:54:00:78:{rail:02x}:{number:02x}", f"10.77.{rail}.{number}") for rail in range(rails)
        ),
    )


def pod_subnet(guest: Guest) -> str:
    """Give the subnet that the guest's pods get their addresses from."""
    return f"10.44.{guest.number}.0/24"


def card_name(rail: int) -> str:
    """Give the name by which QEMU's monitor knows a rail's card."""
    return f"card{rail}"


def monitor_socket(name: str) -> str:
    """Give the path of the named guest's QEMU monitor, relative to the lab's directory."""
    return f"run/{name}.qmp"


def tap_name(guest: Guest) -> str:
    """Give the name of the guest's tap on the management bridge."""
    return f"tap{guest.number}"


def rail_wires(guest: Guest, guests: int, rail: int) -> list[Wire]:
    """Give the guest's ends of a rail's wires.

    Two guests share one wire. More are joined in a star: the first one's QEMU is the hub, so the rail needs the first
    guest to run. A single guest has no wire, and its ports no carrier.
    """
    if guests == 1:
        return []
    if guest.number == 1:
        return [Wire(f"rail{rail}-{peer}", _socket(rail, peer), True) for peer in range(2, guests + 1)]
    return [Wire(f"rail{rail}-{guest.number}", _socket(rail, guest.number), False)]


def _socket(rail: int, peer: int) -> str:
    # Relative to the lab's directory, QEMU's working directory: the path of a unix socket has at most 107 bytes.
    return f"run/rail{rail}-{peer}.sock"
