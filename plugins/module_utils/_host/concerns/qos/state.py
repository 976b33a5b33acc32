# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each setting is and what it shall be, in one form for both. Pure.

Tables are whole, as ranges: only so can an original one come back after several runs have changed it.
"""

from __future__ import annotations

from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts import qos_paths
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.interfaces import Interface
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec import qos_values
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.qos import DSCP

# A whole table instead of single entries: so original ones are asked for.
EXACTLY = "exactly"


def of_host(context: Context) -> Mapping[str, Any]:
    """Return what the facts tell of the host's QoS, nothing for a host that was not asked."""
    found: Mapping[str, Any] = context.actual.facts["settings"].get("qos", {})
    return found


def port_of(context: Context, interface: Interface) -> Mapping[str, Any]:
    """Return what the facts tell of one port, nothing where it was not asked."""
    ports: Mapping[str, Any] = of_host(context).get("ports", {})
    name = interface.netdev["name"] if interface.netdev is not None else ""
    port: Mapping[str, Any] = ports.get(name) or {}
    return port


def has_file(port: Mapping[str, Any], which: str) -> bool:
    """Return whether the port has one of the files of the vendor's driver."""
    return which in (port.get("files") or ())


def is_renamed(context: Context, interface: Interface) -> bool:
    """Return whether the plan gives the RDMA device a new name: its directory in configfs is under the old one."""
    return context.planned(f"naming:{interface.key}:rdma") is not None


def now_and_wanted(
    context: Context, interface: Interface, port: Mapping[str, Any], setting: str, wanted: Mapping[str, Any]
) -> tuple[Any, Any]:
    """Return the present and the wanted value of a setting; None where the present one is not known."""
    to = wanted[setting]
    if setting == "pause":
        return port.get("pause"), {"rx": to, "tx": to} if isinstance(to, bool) else to
    if setting == "dscp_priority":
        return _tables(port, wanted)
    if setting == "ets":
        return port.get("ets"), qos_values.ets_wanted(to)
    if setting == "ecn":
        return port.get("ecn"), _points(port.get("ecn") or {}, to)
    if setting in {"tos", "traffic_class"}:
        now = (port.get("rdma") or {}).get(setting)
        return None if setting == "tos" and to is not None and is_renamed(context, interface) else now, to
    return port.get(setting), to


def holds(context: Context, interface: Interface, setting: str, now: Any, to: Any) -> bool:
    """Return whether a setting is what it shall be once the steps before it are done.

    RDMA-CM keeps the ToS of a device that gets another name, and its directory stays under the former one.
    """
    return bool(now == to and not (setting == "tos" and is_renamed(context, interface)))


def _tables(port: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the table after the port trusts DSCP as it shall, and the wanted one."""
    given = wanted["dscp_priority"]
    now = port.get("dscp")
    if not has_file(port, qos_paths.TRUST):
        if wanted.get("trust") not in {None, DSCP}:
            # Entries are what makes a port trust DSCP here: they have all gone.
            return now, now
        if port.get("trust") == "pcp" and wanted.get("trust") == DSCP:
            now = qos_values.compact(qos_values.default_table())
    if EXACTLY in given:
        return now, dict(given[EXACTLY])
    return now, qos_values.compact({**qos_values.expanded(now or {}), **qos_values.expanded(given)})


def _points(now: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return the priorities that shall be on at each side."""
    if EXACTLY in wanted:
        return {point: list(on) for point, on in wanted[EXACTLY].items()}
    sides = {point: set(now.get(point) or ()) for point in qos_values.POINTS}
    for priority, points in wanted.items():
        for point, on in points.items():
            (sides[point].add if on else sides[point].discard)(int(priority))
    return {point: sorted(on) for point, on in sides.items()}
