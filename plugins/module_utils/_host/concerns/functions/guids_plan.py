# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans the GUIDs of InfiniBand virtual functions.

A new function has none, and its port stays down without one. The physical function keeps node and port GUID for each
(ndo_set_vf_guid of the kernel); a function takes them when its driver is bound.
"""

from __future__ import annotations

from typing import Dict, Union

from ...engine.context import ConcernPlan, Context
from ...engine.effects import BOUND
from ...engine.steps import NOTHING, NOW, Step, Wording, make_step
from ...facts.bluefield import arm_side_refusal
from ...facts.guids import device_guid, has_guid, port_guid, wanted_guid
from ...facts.interfaces import Interface
from ...facts.shapes import FunctionGuids
from ...facts.users import held
from ...spec.vf_guids import DETERMINISTIC, size_of
from .eswitch_mode import unbound_functions
from .settings_plan import numbered

CONCERN = "guids"
GUID, LINK_STATE = "guid", "link_state"
AUTO, DISABLED = "auto", "disable"

# By the function's number: which of ``guid``, ``link_state`` and ``bound`` it is to get.
Changes = Dict[int, Dict[str, Union[str, bool]]]


def plan(context: Context) -> ConcernPlan:
    """Return a step for each port whose functions have other GUIDs than wanted, or have not taken them yet."""
    steps: list[Step] = []
    notices: list[str] = []
    for interface in context.interfaces:
        if not interface.wanted["vf_guids"]:
            continue
        created = context.functions_planned(interface.key)
        count = interface.functions if created is None else created
        if count:
            steps += _steps(context, interface, count, created is not None)
        elif interface.wanted["vfs"] != 0:
            notices.append(f"{context.target_of(interface)}: vf_guids has no effect, there are no virtual functions")
    return steps, notices


def _steps(context: Context, interface: Interface, count: int, created: bool) -> list[Step]:
    own = port_guid(context.actual, interface.nic, interface.netdev) if interface.nic else None
    guids = [wanted_guid(interface.wanted["vf_guids"] or [], number, own) for number in range(count)]
    changes = _changes(context, interface, guids, created)
    refusal = _refusal(context, interface, guids, {} if created else changes)
    if not changes and not refusal:
        return []
    busy = [] if created else _bound(context, interface, changes)
    return [
        make_step(
            CONCERN,
            interface.key,
            **_wording(context, interface, changes),
            interrupts=f"traffic on virtual {numbered(busy)}, whose driver is bound again" if busy else NOTHING,
            undo="removing the functions ends it" if created else "set the former GUIDs",
            when=NOW,
            **context.consent("vf_reset", needed=bool(busy)),
            detail="ports of functions come up when the subnet manager allows virtual ports (OpenSM: virt_enabled 2)",
            refusal=refusal,
        )
    ]


def _known(context: Context, interface: Interface) -> list[FunctionGuids]:
    """Return the GUIDs that the port has set for its functions."""
    read = context.actual.facts["guids"].get(interface.key)
    return read["functions"] if read is not None else []


def _changes(context: Context, interface: Interface, guids: list[str | None], created: bool) -> Changes:
    known = _known(context, interface)
    functions = [] if created else context.actual.vfs_of(interface.nic)
    unbound = [] if created else unbound_functions(context.actual, interface)
    changes: Changes = {}
    for number, guid in enumerate(guids):
        now = known[number] if not created and number < len(known) else None
        taken = device_guid(context.actual, functions[number]) if number < len(functions) else None
        change: dict[str, str | bool] = {}
        if guid is not None and not has_guid(now, taken, guid):
            change[GUID] = guid
        if created or (now is not None and now["link_state"] == DISABLED):
            change[LINK_STATE] = AUTO
        if number in unbound:
            change[BOUND] = True
        if change:
            changes[number] = change
    return changes


def _refusal(context: Context, interface: Interface, guids: list[str | None], changes: Changes) -> str:
    nic = interface.nic
    if nic is None or nic["function"] != "pf":
        return "it is no physical function"
    if nic["link_layer"] != "InfiniBand":
        return "it is no InfiniBand port: functions of an Ethernet port have addresses (mac of vf_settings)"
    refusal = arm_side_refusal(context.actual, nic) or _guids_problem(context, interface, guids)
    refusal = refusal or context.uplink_refusal(nic, interface.netdev)
    again = {number for number, change in changes.items() if GUID in change}
    return refusal or held(context.actual, [vf for n, vf in enumerate(context.actual.vfs_of(nic)) if n in again])


def _guids_problem(context: Context, interface: Interface, guids: list[str | None]) -> str:
    if None in guids:
        wanted = interface.wanted["vf_guids"] or []
        if wanted == DETERMINISTIC:
            return "the GUID of the port is not known, from which those of its functions are made"
        return f"vf_guids holds {size_of(wanted)} GUIDs for {len(guids)} functions: add GUIDs, or lower vfs"
    read = context.actual.facts["guids"].get(interface.key)
    if interface.netdev is None and (read is None or read["files"] is None):
        return "it has no network interface, through which the driver takes GUIDs: load ib_ipoib"
    return _taken_elsewhere(context, interface, guids)


def _taken_elsewhere(context: Context, interface: Interface, guids: list[str | None]) -> str:
    """Return which wanted GUID another device of this host has."""
    own = set(context.actual.vf_addresses(interface.nic))
    for nic in context.actual.nics.values():
        guid = device_guid(context.actual, nic)
        if nic["address"] not in own and guid in guids:
            return f"{guid} is the GUID of {nic['address']} already; give each function its own"
    return ""


def _wording(context: Context, interface: Interface, changes: Changes) -> Wording:
    known = _known(context, interface)
    parts: list[str] = []
    for key, what in ((GUID, "set the GUIDs of"), (LINK_STATE, "let the links follow the port for"), (BOUND, "bind")):
        numbers = sorted(number for number, change in changes.items() if key in change)
        if numbers and not (key == LINK_STATE and parts):
            parts.append(f"{what} virtual {numbered(numbers)}")
    return {
        "target": context.target_of(interface),
        "action": " and ".join(parts) or "give the virtual functions GUIDs",
        "before": {str(number): known[number] if number < len(known) else None for number in sorted(changes)},
        "after": {str(number): change for number, change in sorted(changes.items())},
        "reason": "vf_guids of rdma_fabric_interfaces asks for it",
    }


def _bound(context: Context, interface: Interface, changes: Changes) -> list[int]:
    """Return the functions that are to take another GUID and have a driver now."""
    functions = context.actual.vfs_of(interface.nic)
    return [n for n, function in enumerate(functions) if GUID in changes.get(n, {}) and function["driver"]]
