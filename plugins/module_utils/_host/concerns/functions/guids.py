# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GUIDs of InfiniBand VFs.

A new function has none, and its port stays down without one. The PF keeps node and port GUID for each
(ndo_set_vf_guid of the kernel); a function takes them when its driver is bound.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Dict, Mapping, Union

from ...engine.context import BOUND, ConcernPlan, Context, Handler
from ...engine.failures import FIRMWARE_FAILED
from ...engine.operations import Operation, SetAttribute, WaitFor, Work
from ...engine.ports import port_of
from ...engine.steps import NOTHING, NOW, Step, Value, Wording, as_planned, key_of, make_step, numbered
from ...facts.firmware import arm_side_refusal
from ...facts.functions import show_command
from ...facts.host_state import Interface, binds_functions
from ...facts.shapes import FunctionGuids
from ...facts.users import held
from ...facts.vf_settings import POLICIES, device_guid, file_of, guids_asked, has_guid, parse, port_guid, read_files
from ...machine.access import Host, HostError
from ...machine.probe import PCI
from ...spec.by_range import values_of
from ...spec.functions import DETERMINISTIC, VfGuids, canonical, guid_number
from ...spec.host import HostSpec, wanted_interface
from .settings_plan import driver_at, set_on_port, set_up_again, settle, unbound_functions

CONCERN = "guids"
GUID, LINK_STATE = "guid", "link_state"
AUTO, DISABLED = "auto", "disable"

# By number of the function: which of ``guid``, ``link_state`` and ``bound`` differ.
Changes = Dict[int, Dict[str, Union[str, bool]]]

_DEVICES_SECONDS = 30.0
_GUIDS = ("node_guid", "port_guid")

ERRORS = MappingProxyType(
    {
        "EOPNOTSUPP": (
            "the port is not an InfiniBand port, or its driver takes no GUIDs; next: compare its link_layer "
            "with LINK_TYPE_P1 of the firmware, or load ib_ipoib and mlx5_ib"
        ),
        "EINVAL": (
            "the driver does not know the VF or take the GUID; next: compare vfs and vf_guids "
            "with ip link show, and run again"
        ),
        "EIO": FIRMWARE_FAILED,
        "EBUSY": "the VF is in use; next: end that (rdma resource show), and run again",
    }
)


def plan(context: Context) -> ConcernPlan:
    """Return a step for each port whose functions' GUIDs differ from the spec, or were not taken over yet."""
    steps: list[Step] = []
    for interface in context.interfaces:
        if not interface.wanted["vf_guids"]:
            continue
        created = context.functions_planned(interface.key)
        count = interface.functions if created is None else created
        if count:
            steps += _steps(context, interface, count, created is not None)
    return steps, []


def _steps(context: Context, interface: Interface, count: int, created: bool) -> list[Step]:
    own = port_guid(context.actual, interface.nic, interface.netdev) if interface.nic else None
    guids = guids_asked(interface, count, own)
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
            interrupts=f"traffic on {numbered(busy)}, whose driver is bound again" if busy else NOTHING,
            undo="removing the VFs ends it" if created else "set the former GUIDs",
            when=NOW,
            **context.consent("vf_reset", needed=bool(busy)),
            detail="ports of VFs come up when the subnet manager allows virtual ports (OpenSM: virt_enabled 2)",
            refusal=refusal,
        )
    ]


def _known(context: Context, interface: Interface) -> list[FunctionGuids]:
    """Return the GUIDs that the port has set for its functions."""
    read = context.actual.facts["guids"].get(interface.key)
    return read["functions"] if read is not None else []


def _changes(context: Context, interface: Interface, guids: Mapping[int, str | None], created: bool) -> Changes:
    known = _known(context, interface)
    functions = [] if created else context.actual.vfs_of(interface.nic)
    unbound = [] if created else unbound_functions(context, interface)
    changes: Changes = {}
    for number, guid in guids.items():
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


def _refusal(context: Context, interface: Interface, guids: Mapping[int, str | None], changes: Changes) -> str:
    nic = interface.nic
    if nic is None or nic["function"] != "pf":
        return "it is not a PF"
    if nic["link_layer"] != "InfiniBand":
        return "it is not an InfiniBand port: VFs of others have addresses (mac of vf_settings)"
    refusal = arm_side_refusal(context.actual, nic) or _guids_problem(context, interface, guids)
    refusal = refusal or context.uplink_refusal(nic, interface.netdev)
    again = {number for number, change in changes.items() if GUID in change}
    return refusal or held(context.actual, [vf for n, vf in enumerate(context.actual.vfs_of(nic)) if n in again])


def _guids_problem(context: Context, interface: Interface, guids: Mapping[int, str | None]) -> str:
    lacking = [number for number, guid in guids.items() if guid is None]
    if lacking and DETERMINISTIC in values_of(interface.wanted["vf_guids"]):
        return "the GUID of the port is not known, from which those of its VFs are made"
    if lacking:
        return f"vf_guids holds too few GUIDs, and none for {numbered(lacking)}: add GUIDs, or lower vfs"
    read = context.actual.facts["guids"].get(interface.key)
    if interface.netdev is None and (read is None or read["files"] is None):
        return "it has no network interface, through which the driver takes GUIDs: load ib_ipoib"
    return _taken_elsewhere(context, interface, guids)


def _taken_elsewhere(context: Context, interface: Interface, guids: Mapping[int, str | None]) -> str:
    """Return a wanted GUID that another device of this host has, in words."""
    own = set(context.actual.vf_addresses(interface.nic))
    for nic in context.actual.nics.values():
        guid = device_guid(context.actual, nic)
        if nic["address"] not in own and guid in guids.values():
            return f"{guid} is the GUID of {nic['address']} already; give each VF its own"
    return ""


def _wording(context: Context, interface: Interface, changes: Changes) -> Wording:
    known = _known(context, interface)
    parts: list[str] = []
    for key, what in ((GUID, "set the GUIDs of"), (LINK_STATE, "let the links follow the port for"), (BOUND, "bind")):
        numbers = sorted(number for number, change in changes.items() if key in change)
        if numbers and not (key == LINK_STATE and parts):
            parts.append(f"{what} {numbered(numbers)}")
    return {
        "target": context.target_of(interface),
        "action": " and ".join(parts) or "give the VFs GUIDs",
        "before": {str(number): known[number] if number < len(known) else None for number in sorted(changes)},
        "after": {str(number): change for number, change in sorted(changes.items())},
        "reason": "vf_guids of rdma_fabric_interfaces asks for it",
    }


def _bound(context: Context, interface: Interface, changes: Changes) -> list[int]:
    """Return the functions that get another GUID and have a driver now."""
    functions = context.actual.vfs_of(interface.nic)
    return [n for n, function in enumerate(functions) if GUID in changes.get(n, {}) and function["driver"]]


def work(context: Context, step: Step) -> Work:
    """Return how functions get their GUIDs: unbind, set, bind again, wait for their RDMA devices."""
    address = key_of(step)
    interface = context.interface_of(address)
    files = _files(context, interface)
    binds = binds_functions(interface.nic)
    binds = binds or interface.wanted["vf_driver"] is not None
    after: dict[str, dict[str, str | bool]] = as_planned(step["to"], dict)
    do, undo, _bound_again = set_up_again(
        address, step, binds, lambda number, change: _set(files, address, number, _settings(change))
    )
    do += settle(context)
    wanted = {int(text): str(change[GUID]) for text, change in after.items() if GUID in change}
    if wanted and context.actual.is_loaded("mlx5_ib"):
        do.append(_wait_for_devices(address, wanted))
    return Work(do, undo, lambda host: _problem(host, interface, files, after))


def restore(desired: HostSpec, key: str, original: Value) -> None:
    """Add the original GUIDs to the spec, for those functions that had one: a GUID can't be unset."""
    found = {n: (entry or {}).get("node_guid") for n, entry in original.items()} if isinstance(original, dict) else {}
    former: dict[str, VfGuids | None] = {n: [guid] for n, guid in found.items() if guid and guid_number(guid)}
    if former:
        wanted_interface(desired, key)["vf_guids"] = former


def _files(context: Context, interface: Interface) -> str | None:
    """Return the RDMA device whose files set GUIDs, None if ``ip`` sets them through the interface."""
    found = context.actual.facts["guids"].get(interface.key)
    return found["files"] if found is not None and interface.netdev is None else None


def _settings(change: Mapping[str, object]) -> dict[str, str]:
    settings = dict.fromkeys(_GUIDS, str(change[GUID])) if GUID in change else {}
    return {**settings, **{key: str(change[key]) for key in (*_GUIDS, LINK_STATE) if key in change}}


def _set(files: str | None, address: str, number: int, settings: Mapping[str, str]) -> list[Operation]:
    if files is not None:
        policies = {state: word for word, state in POLICIES.items()}
        return [
            SetAttribute(file_of(files, number, key), policies[value] if key == LINK_STATE else value)
            for key, value in settings.items()
        ]
    return set_on_port(address, number, settings)


def _wait_for_devices(address: str, wanted: Mapping[int, str]) -> WaitFor:
    """Return the wait until the RDMA device of each function that has a driver for it has taken its GUID."""

    def condition(host: Host) -> bool:
        return all(_taken(host, f"{PCI}/{address}/virtfn{number}", guid) for number, guid in wanted.items())

    return WaitFor(f"the GUIDs of the RDMA devices of the VFs of {address}", condition, _DEVICES_SECONDS)


def _taken(host: Host, function: str, guid: str) -> bool:
    if driver_at(host, function) != "mlx5_core":
        return True
    names = host.list(f"{function}/infiniband")
    found = [canonical(host.read(f"{function}/infiniband/{name}/node_guid")) for name in names]
    return bool(found) and all(each == guid for each in found)


def _problem(host: Host, interface: Interface, files: str | None, wanted: Mapping[str, Mapping[str, object]]) -> str:
    if files is None:
        shown = parse(host.run(show_command(port_of(host, interface.key)), 30.0).stdout)
    else:
        shown = read_files(host, files, max(map(int, wanted)) + 1)
    problems = []
    for text, change in wanted.items():
        now: Mapping[str, object] = shown[int(text)] if int(text) < len(shown) else {}
        # An older ip does not print GUIDs; then the function's device is read.
        told = {key: value for key, value in _settings(change).items() if now.get(key) is not None or key == LINK_STATE}
        wrong = [f"{key} is {now.get(key)}, not {value}" for key, value in told.items() if now.get(key) != value]
        wrong = wrong or _device_problem(host, interface.key, int(text), change)
        problems += [f"VF {text}: {', '.join(wrong)}"] if wrong else []
    return "; ".join(problems)


def _device_problem(host: Host, address: str, number: int, change: Mapping[str, object]) -> list[str]:
    directory = f"{PCI}/{address}/virtfn{number}/infiniband"
    try:
        found = {name: canonical(host.read(f"{directory}/{name}/node_guid")) for name in host.list(directory)}
    except HostError:
        return []
    return [f"{name} has the GUID {guid}" for name, guid in found.items() if GUID in change and guid != change[GUID]]


HANDLER = Handler(work, ERRORS, restore, parts=True, of_card=True)
