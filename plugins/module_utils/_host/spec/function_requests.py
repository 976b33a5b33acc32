# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads which virtual functions a SriovNetworkNodePolicy asks of the hosts that it selects."""

from __future__ import annotations

from typing import TypedDict

from . import syntax
from .functions import eswitch_mode, vf_driver
from .place import Place, choice_of, known_keys, list_of, mapping_in, switch_of, text_of, whole_number

LINK_LAYERS = ("Ethernet", "InfiniBand")
_KEYS = (
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
    given = None if value is None else mapping_in(place, value, ", ".join(_KEYS))
    if given is None:
        return None
    known_keys(place, given, _KEYS)
    addresses = (
        text_of(place.at("pci").at(index), item, "a PCI address", syntax.pci_address_problem, lower=True)
        for index, item in enumerate(list_of(place.at("pci"), given.get("pci"), "PCI addresses"))
    )
    ports = list_of(place.at("ports"), given.get("ports"), "interfaces")
    return {
        "vendor": _optional_text(place.at("vendor"), given.get("vendor"), "a PCI id"),
        "device": _optional_text(place.at("device"), given.get("device"), "a PCI id"),
        "pci": [address for address in addresses if address is not None],
        "ports": [_port(place.at("ports").at(index), item) for index, item in enumerate(ports)],
        "priority": _number(place.at("priority"), given.get("priority", 0)) or 0,
        "resource": text_of(place.at("resource"), given.get("resource"), "the name of a resource"),
        "vfs": _number(place.at("vfs"), given.get("vfs")) or 0,
        "mtu": None if given.get("mtu") is None else _number(place.at("mtu"), given["mtu"]),
        "vf_driver": vf_driver(place.at("vf_driver"), given.get("vf_driver")),
        "rdma": bool(switch_of(place.at("rdma"), given.get("rdma"))),
        "vhost_net": bool(switch_of(place.at("vhost_net"), given.get("vhost_net"))),
        "link_layer": choice_of(place.at("link_layer"), given.get("link_layer"), LINK_LAYERS),
        "eswitch_mode": eswitch_mode(place.at("eswitch_mode"), given.get("eswitch_mode")),
    }


def _optional_text(place: Place, value: object, what: str) -> str | None:
    return None if value is None else text_of(place, value, what)


def _number(place: Place, value: object) -> int | None:
    return whole_number(place, value, lambda number: "is negative" if number < 0 else "")


def _port(place: Place, value: object) -> PortRequest:
    port = mapping_in(place, value, "name and range") or {}
    known_keys(place, port, ("name", "range"))
    given = list_of(place.at("range"), port.get("range"), "functions")
    ends = [_number(place.at("range").at(n), end) for n, end in enumerate(given)]
    if ends and (len(ends) != 2 or None in ends):
        place.at("range").violation("is no range: the first and the last function are needed")
    name = text_of(place.at("name"), port.get("name"), "an interface name")
    return {"name": name, "range": [end for end in ends if end is not None] or None}
