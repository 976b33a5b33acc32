# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the RDMA links of a host offer, and what a later look finds missing of that. Pure."""

from __future__ import annotations

from typing import Collection, List, Mapping, Sequence, TypedDict, cast

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation

from .shapes import Facts, RdmaPort


class Link(TypedDict):
    """A port that is up, and what it offers; the rate is in Gb/s."""

    pci: str
    port: int
    name: str
    link_layer: str | None
    rate_gbps: float | None
    rocev2_gid_index: int | None


_SHAPE: Mapping[str, tuple[type, ...]] = {
    "pci": (str,),
    "port": (int,),
    "name": (str,),
    "link_layer": (str, type(None)),
    "rate_gbps": (int, float, type(None)),
    "rocev2_gid_index": (int, type(None)),
}
_SOURCE = "links"
_HINT = "give what rdma_host returned as links before the host was changed"


def links_of(facts: Facts) -> list[Link]:
    """Return the ports that are up, with what each offers; rates are in Gb/s.

    Virtual functions of a physical one that the host has come and go with a plan, and software devices have no link:
    both are left out.
    """
    ours = {nic["address"] for nic in facts["nics"] if not nic["pf"]}
    return [
        {
            "pci": device["pci"],
            "port": port["port"],
            "name": device["netdev"] or device["name"],
            "link_layer": port["link_layer"],
            "rate_gbps": port["rate_gbps"],
            "rocev2_gid_index": port["rocev2_gid_index"],
        }
        for device in facts["rdma"]
        if device["pci"] in ours
        for port in device["ports"]
        if _is_up(port)
    ]


def lost_links(before: Sequence[Link], facts: Facts, shut: Collection[str] = ()) -> list[str]:
    """Return one line for each port that offers less than ``before``: it is gone, down, slower or without its GID.

    Ports are the same by PCI address and number, whatever they are called. Nothing is missing of those that are
    ``shut`` (PCI addresses whose interface is to be down), nor of one that has another link layer now.
    """
    ports = {(device["pci"], port["port"]): port for device in facts["rdma"] for port in device["ports"]}
    found = []
    for link in before:
        now = ports.get((link["pci"], link["port"]))
        if link["pci"] in shut or (now is not None and now["link_layer"] != link["link_layer"]):
            continue
        missing = _missing(link, now)
        if missing:
            found.append(f"port {link['port']} of {link['pci']} ({link['name']}) {missing}")
    return found


def check_links(value: object) -> list[Link]:
    """Return links in the shape of ``links_of``; raises ``InvalidInput`` with everything that is wrong."""
    if not isinstance(value, list):
        raise InvalidInput([Violation(_SOURCE, "", "is not a list", _HINT)])
    flaws = []
    for number, link in enumerate(value):
        if not isinstance(link, Mapping):
            flaws.append(Violation(_SOURCE, f"[{number}]", "is not a mapping", _HINT))
            continue
        wrong = [key for key, kinds in _SHAPE.items() if key not in link or not isinstance(link[key], kinds)]
        if wrong:
            flaws.append(
                Violation(_SOURCE, f"[{number}]", f"lacks {', '.join(wrong)}, or has another type there", _HINT)
            )
    if flaws:
        raise InvalidInput(flaws)
    return cast(List[Link], value)


def _missing(before: Link, now: RdmaPort | None) -> str:
    """Return what a port offers no more, as the end of a sentence about it; empty where it offers all."""
    rate = before["rate_gbps"]
    was = f"was up at {rate} Gb/s" if rate else "was up"
    if now is None:
        return f"{was}, and this RDMA port no longer exists"
    if not _is_up(now):
        return f"{was} and is {now['state'] or 'unreadable'} ({now['physical'] or 'no physical state'})"
    if rate and now["rate_gbps"] and now["rate_gbps"] < rate:
        return f"{was} and is up at {now['rate_gbps']} Gb/s"
    if before["rocev2_gid_index"] is not None and now["rocev2_gid_index"] is None:
        return f"had a RoCE v2 GID of an IPv4 address (index {before['rocev2_gid_index']}) and has none"
    return ""


def _is_up(port: RdmaPort) -> bool:
    return port["state"] == "ACTIVE" and port["physical"] in ("LinkUp", None)
