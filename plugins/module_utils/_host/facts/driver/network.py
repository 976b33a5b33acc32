# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the network state that a reload of a driver takes away, and what of it nobody could bring back.

``ip`` is asked interface by interface: on a node of a cluster all of them are more than one answer may hold.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from ...machine.probe import NET, Probe, objects, parsed, pci_address_in, printable
from ..driver_shapes import Snapshot, Stacked
from ..shapes import Nic, ReadNetdev
from ..users import stations_of_others
from .blockers import ADDRESS, FILTERING, SUBFUNCTION, VLAN, VRF
from .snapshot import take_snapshot

_AUXILIARY = "/sys/bus/auxiliary/devices"
# The kinds of interfaces that are hardware; others of a PCI function (IPoIB of another partition) are made by somebody.
_HARDWARE = ("physical", "representor", "sub-function")


def read_snapshot(probe: Probe, driver: str, nics: Iterable[Nic], netdevs: Iterable[ReadNetdev]) -> Snapshot:
    """Return what the interfaces of ``driver`` and what stands on them have, as JSON data, to be restored later.

    ``nics`` and ``netdevs`` are those of the facts; any PCI driver may be named, virtual functions come with their
    physical one whatever driver they have.
    """
    functions = _functions(driver, nics)
    names = [name for nic in functions for name in nic["netdevs"]]
    links = {name: _first(_ask(probe, "-details", "address", "show", "dev", name)) for name in names}
    vlans = [link for link in _ask(probe, "-details", "address", "show", "type", "vlan") if link.get("link") in names]
    routed = [*names, *(str(link["ifname"]) for link in vlans if "ifname" in link)]
    routes = {version: [route for name in routed for route in _routes_of(probe, version, name)] for version in (4, 6)}
    ports = {netdev["name"]: netdev for netdev in netdevs}
    return take_snapshot(driver, functions, ports=ports, links=links, vlans=vlans, routes=routes)


def read_stacked(probe: Probe, driver: str, nics: Iterable[Nic], netdevs: Iterable[ReadNetdev]) -> list[Stacked]:
    """Return what stands on the interfaces and functions of ``driver``: ``{"on", "name", "kind"}`` each.

    Kinds are the kernel's (``vlan``, ``bond``, ``macvlan``) and those of ``blockers``: hardware addresses that a port
    takes for somebody else, sub-functions, bridges that filter VLANs. A VLAN goes with what it stands on, so what
    stands on it is told too; a master stays.
    """
    known = {netdev["name"]: netdev for netdev in netdevs}
    functions = _functions(driver, nics)
    addresses = {nic["address"] for nic in functions}
    found: list[Stacked] = [
        {"on": netdev["pci"], "name": name, "kind": netdev["kind"]}
        for name, netdev in known.items()
        if netdev["pci"] is not None and netdev["pci"] in addresses and netdev["kind"] not in _HARDWARE
    ]
    for name in probe.names(_AUXILIARY):
        parent = pci_address_in(probe.target(f"{_AUXILIARY}/{name}") or "")
        if name.startswith(f"{driver}.sf.") and parent in addresses:
            found.append({"on": parent, "name": printable(name), "kind": SUBFUNCTION})
    ports = [name for nic in functions for name in nic["netdevs"]]
    lowers = list(ports)
    others = stations_of_others(probe, ports, known.values())
    for name in lowers:
        layer: list[Stacked] = [
            {"on": name, "name": upper, "kind": _kind(probe, upper, known)} for upper in _uppers(probe, name)
        ]
        found += layer
        lowers += [entry["name"] for entry in layer if entry["kind"] == VLAN and entry["name"] not in lowers]
        # A bond's or bridge's port takes frames for those above it.
        is_own = name in ports and all(e["kind"] == VRF for e in layer if e["name"] == known[name]["master"])
        if is_own and name in others:
            found.append({"on": name, "name": others[name], "kind": ADDRESS})
    return found


def _functions(driver: str, nics: Iterable[Nic]) -> list[Nic]:
    """Return the physical functions of a driver and their virtual ones, whatever driver these have."""
    all_nics = {nic["address"]: nic for nic in nics}
    physical = [nic for nic in all_nics.values() if nic["driver"] == driver and not nic["pf"]]
    members = {vf for nic in physical if nic["sriov"] for vf in nic["sriov"]["vfs"]}
    return [nic for nic in all_nics.values() if nic in physical or nic["address"] in members]


def _uppers(probe: Probe, name: str) -> list[str]:
    return [printable(entry[len("upper_") :]) for entry in probe.names(f"{NET}/{name}") if entry.startswith("upper_")]


def _kind(probe: Probe, name: str, known: Mapping[str, ReadNetdev]) -> str:
    """Return the kind of an upper interface; only netlink tells those that have no DEVTYPE (VRF, Open vSwitch)."""
    kind = known[name]["kind"] if name in known else "virtual"
    if kind == "virtual":
        info = _first(_ask(probe, "-details", "link", "show", "dev", name)).get("linkinfo")
        kind = printable(str((info if isinstance(info, dict) else {}).get("info_kind") or kind), 32)
    if kind == "bridge" and probe.text(f"{NET}/{name}/bridge/vlan_filtering") == "1":
        return FILTERING
    return kind


def _routes_of(probe: Probe, version: int, name: str) -> list[dict[str, Any]]:
    """Return the routes through an interface; asked for one interface, ``ip`` leaves its name out."""
    routes = _ask(probe, f"-{version}", "route", "show", "table", "all", "dev", name)
    return [route if "nexthops" in route else {**route, "dev": name} for route in routes]


def _ask(probe: Probe, *words: str) -> list[dict[str, Any]]:
    """Return the entries of one answer of ``ip``; what is no complete JSON list of mappings has none."""
    # iproute2 prints an empty object for each interface that was not asked for.
    return [entry for entry in objects(parsed(probe.output("ip", "-json", *words))) if entry]


def _first(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return entries[0] if entries else {}
