# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each setting is and what it shall be, in one form for both. Pure.

Tables are whole, as ranges: only so can an original one come back after several runs have changed it.
"""

from __future__ import annotations

from typing import Callable, Mapping, cast

from ...engine.context import Context
from ...engine.steps import Value
from ...facts import qos_paths
from ...facts.interfaces import Interface
from ...facts.qos_scope import OF_DEVICE
from ...facts.settings_shapes import HostQos, QosPort
from ...spec import qos_values
from ...spec.qos import DSCP, Qos

_UNTOLD: HostQos = {"ports": {}, "lldpad": False, "mlnx_qos": False, "configfs": False, "rdma_cm": False}
_UNTOLD_PORT: QosPort = {"files": [], "dcb": None, "rdma": None}


def of_host(context: Context) -> HostQos:
    """Return what the facts tell of the host's QoS, nothing for a host that was not asked."""
    return context.actual.facts["settings"].get("qos", _UNTOLD)


def port_of(context: Context, interface: Interface) -> QosPort:
    """Return what the facts tell of one port, nothing where it was not asked."""
    return of_host(context)["ports"].get(interface.name, _UNTOLD_PORT)


def is_told(port: QosPort) -> bool:
    """Return whether a port was asked."""
    return port is not _UNTOLD_PORT


def has_file(port: QosPort, which: str) -> bool:
    """Return whether the port has one of the files of the vendor's driver."""
    return which in port["files"]


def notification_tree(port: QosPort, setting: str) -> str:
    """Return the tree that has what congestion notifications are marked with, empty where none has."""
    return (port.get("cnp_dscp_in") if setting == "cnp_dscp" else port.get("cnp_priority_in")) or ""


def is_renamed(context: Context, interface: Interface) -> bool:
    """Return whether the plan gives the RDMA device a new name: its directory in configfs is under the old one."""
    return context.planned(f"naming:{interface.key}:rdma") is not None


def now_and_wanted(
    context: Context, interface: Interface, port: QosPort, setting: str, wanted: Qos
) -> tuple[Value, Value]:
    """Return the present and the wanted value of a setting; None where the present one is not known.

    While everything of ours is to go, wanted are values that were present ones.
    """
    if setting == "dscp_priority":
        return _tables(context, port, wanted)
    # To mypy a member is an object where its name is no literal.
    now, to = cast(Value, port.get(setting)), cast(Value, wanted.get(setting))
    if setting in OF_DEVICE:
        device = port["rdma"]
        hidden = setting == "tos" and to is not None and is_renamed(context, interface)
        now = None if device is None or hidden else cast(Value, device.get(setting))
    elif setting in _FORMS and not context.removing:
        to = _FORMS[setting](port, wanted)
    return now, to


def holds(context: Context, interface: Interface, setting: str, now: object, to: object) -> bool:
    """Return whether a setting is what it shall be once the steps before it are done.

    RDMA-CM keeps the ToS of a device that gets another name, and its directory stays under the former one.
    """
    return now == to and not (setting == "tos" and is_renamed(context, interface))


def _tables(context: Context, port: QosPort, wanted: Qos) -> tuple[dict[str, int] | None, dict[str, int] | None]:
    """Return the table after the port trusts DSCP as it shall, and the wanted one."""
    given = wanted["dscp_priority"]
    now = port.get("dscp")
    if not has_file(port, qos_paths.TRUST):
        if wanted.get("trust") not in {None, DSCP}:
            # Entries are what makes a port trust DSCP here: they have all gone.
            return now, now
        if port.get("trust") == "pcp" and wanted.get("trust") == DSCP:
            now = qos_values.compact(qos_values.default_table())
    if context.removing:
        return now, given
    return now, qos_values.compact({**qos_values.expanded(now or {}), **qos_values.expanded(given)})


def _points(now: dict[str, list[int]], wanted: dict[str, dict[str, bool]]) -> dict[str, list[int]]:
    """Return the priorities that shall be on at each side."""
    sides = {point: set(now.get(point) or ()) for point in qos_values.POINTS}
    for priority, points in wanted.items():
        for point, on in points.items():
            (sides[point].add if on else sides[point].discard)(int(priority))
    return {point: sorted(on) for point, on in sides.items()}


# Of what is asked for in another form than ports tell it.
_FORMS: Mapping[str, Callable[[QosPort, Qos], Value]] = {
    "pause": lambda _port, wanted: dict.fromkeys(("rx", "tx"), wanted["pause"]),
    "ets": lambda _port, wanted: qos_values.ets_wanted(wanted["ets"]),
    "ecn": lambda port, wanted: _points(port.get("ecn", {}), wanted["ecn"]),
}
