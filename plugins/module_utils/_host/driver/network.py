# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the network state that a reload of a driver takes away. Private to this collection: it may change.

``ip`` is asked interface by interface: on a node of a cluster all of them are more than one answer may hold.
"""

from __future__ import annotations

import json
from typing import Any, Dict, Iterable, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.driver.snapshot import take_snapshot
from ansible_collections.rdma.fabric.plugins.module_utils._host.read.probe import Probe

Entries = Sequence[Mapping[str, Any]]

Snapshot = Dict[str, Any]


def read_snapshot(
    probe: Probe, driver: str, nics: Iterable[Mapping[str, Any]], netdevs: Iterable[Mapping[str, Any]]
) -> Snapshot:
    """Return what the interfaces of ``driver`` and what stands on them have, as JSON data, to be restored later.

    ``nics`` and ``netdevs`` are those of the facts; any PCI driver may be named, virtual functions come with their
    physical one whatever driver they have.
    """
    all_nics = {nic["address"]: nic for nic in nics}
    physical = [nic for nic in all_nics.values() if nic["driver"] == driver and not nic["pf"]]
    members = {vf for nic in physical for vf in (nic.get("sriov") or {}).get("vfs") or []}
    functions = [nic for nic in all_nics.values() if nic in physical or nic["address"] in members]
    names = [name for nic in functions for name in nic["netdevs"]]
    links = {name: _first(_ask(probe, "-details", "address", "show", "dev", name)) for name in names}
    vlans = [link for link in _ask(probe, "-details", "address", "show", "type", "vlan") if link.get("link") in names]
    routed = [*names, *(str(link["ifname"]) for link in vlans if "ifname" in link)]
    routes = {version: [route for name in routed for route in _routes_of(probe, version, name)] for version in (4, 6)}
    ports = {netdev["name"]: netdev for netdev in netdevs}
    return take_snapshot(driver, functions, ports=ports, links=links, vlans=vlans, routes=routes)


def _routes_of(probe: Probe, version: int, name: str) -> list[dict[str, Any]]:
    """Return the routes through an interface; asked for one interface, ``ip`` leaves its name out."""
    routes = _ask(probe, f"-{version}", "route", "show", "table", "all", "dev", name)
    return [route if "nexthops" in route else {**route, "dev": name} for route in routes]


def _ask(probe: Probe, *words: str) -> list[dict[str, Any]]:
    """Return the entries of one answer of ``ip``; what is no complete JSON list of mappings has none."""
    result = probe.command("ip", "-json", *words)
    if result is None or result.rc != 0 or not result.stdout.strip():
        return []
    try:
        entries = json.loads(result.stdout)
    except (ValueError, RecursionError):
        return []
    return [entry for entry in entries if isinstance(entry, dict) and entry] if isinstance(entries, list) else []


def _first(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return entries[0] if entries else {}
