# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets the GUIDs of InfiniBand virtual functions."""

from __future__ import annotations

from types import MappingProxyType
from typing import Mapping

from ...engine.context import Context
from ...engine.effects import BOUND
from ...engine.operations import Operation, Run, SetAttribute, WaitFor, Work
from ...engine.ports import port_of
from ...engine.steps import Step, Value, as_planned, key_of
from ...facts.functions import show_command
from ...facts.guids import POLICIES, file_of, parse, read_files
from ...facts.host_state import binds_functions
from ...facts.interfaces import Interface
from ...machine.access import Host, HostError
from ...spec.former import wanted_interface
from ...spec.host import HostSpec
from ...spec.vf_guids import guid_number, guid_text
from .binding import PCI, bind, driver_at, settle, unbind
from .guids_plan import GUID, LINK_STATE

_DEVICES_SECONDS = 30.0
_GUIDS = ("node_guid", "port_guid")

ERRORS = MappingProxyType(
    {
        "EOPNOTSUPP": (
            "the port is no InfiniBand port, or its driver takes no GUIDs; next: compare link_layer of the port with "
            "what is wanted (LINK_TYPE_P1 of the firmware), or load ib_ipoib and mlx5_ib"
        ),
        "EINVAL": (
            "the driver does not know the function, or the GUID is none that it takes; next: compare vfs and vf_guids "
            "with ip link show, and run again"
        ),
        "EIO": (
            "a command of the firmware failed; next: read the kernel's log (dmesg: mlx5_cmd_out_err, syndrome), update "
            "the firmware, and run again"
        ),
        "EBUSY": "somebody uses the function; next: end that (rdma resource show), and run again",
    }
)


def work(context: Context, step: Step) -> Work:
    """Return how functions get their GUIDs: unbound, set, bound again, and their RDMA devices waited for."""
    address = key_of(step)
    interface = context.interface_of(address)
    files = _files(context, interface)
    binds = binds_functions(interface.nic)
    binds = binds or interface.wanted["vf_driver"] is not None
    before: dict[str, dict[str, str | None] | None] = as_planned(step["from"], dict)
    after: dict[str, dict[str, str | bool]] = as_planned(step["to"], dict)
    do: list[Operation] = []
    undo: list[Operation] = []
    for text, change in after.items():
        number = int(text)
        former = {key: value for key, value in (before.get(text) or {}).items() if value is not None}
        again = [bind(address, number)] if binds and (GUID in change or BOUND in change) else []
        if again and GUID in change:
            do.append(unbind(address, number))
        do += [*_set(files, address, number, _settings(change)), *again]
        undo += [*_set(files, address, number, former), *again]
    do += settle(context)
    wanted = {int(text): str(change[GUID]) for text, change in after.items() if GUID in change}
    if wanted and context.actual.is_loaded("mlx5_ib"):
        do.append(_wait_for_devices(address, wanted))
    return Work(do, undo, lambda host: _problem(host, interface, files, after))


def restore(desired: HostSpec, key: str, original: Value) -> None:
    """Ask for the GUIDs that functions had, where all of them had some: none can't be asked for."""
    found = [(entry or {}).get("node_guid") for entry in original.values()] if isinstance(original, dict) else []
    former = [guid for guid in found if guid and guid_number(guid)]
    if former and len(former) == len(found):
        wanted_interface(desired, key)["vf_guids"] = former


def _files(context: Context, interface: Interface) -> str | None:
    """Return the RDMA device through whose files GUIDs are set, None where ``ip`` does it with the interface."""
    found = context.actual.facts["guids"].get(interface.key)
    return found["files"] if found is not None and interface.netdev is None else None


def _settings(change: Mapping[str, object]) -> dict[str, str]:
    settings = dict.fromkeys(_GUIDS, str(change[GUID])) if GUID in change else {}
    return {**settings, **({LINK_STATE: str(change[LINK_STATE])} if LINK_STATE in change else {})}


def _set(files: str | None, address: str, number: int, settings: Mapping[str, str]) -> list[Operation]:
    if files is not None:
        policies = {state: word for word, state in POLICIES.items()}
        return [
            SetAttribute(file_of(files, number, key), policies[value] if key == LINK_STATE else value)
            for key, value in settings.items()
        ]
    words = {LINK_STATE: "state"}
    argv = [word for key, value in settings.items() for word in (words.get(key, key), value)]
    return [Run(("ip", "link", "set", "dev", f"{{port:{address}}}", "vf", str(number), *argv))] if argv else []


def _wait_for_devices(address: str, wanted: Mapping[int, str]) -> WaitFor:
    """Return the wait until the RDMA device of each function that has a driver for it has taken its GUID."""

    def condition(host: Host) -> bool:
        return all(_taken(host, f"{PCI}/{address}/virtfn{number}", guid) for number, guid in wanted.items())

    return WaitFor(f"the GUIDs of the RDMA devices of the functions of {address}", condition, _DEVICES_SECONDS)


def _taken(host: Host, function: str, guid: str) -> bool:
    if driver_at(host, function) != "mlx5_core":
        return True
    names = host.list(f"{function}/infiniband")
    return all(_guid_at(host, f"{function}/infiniband/{name}/node_guid") == guid for name in names) and bool(names)


def _guid_at(host: Host, path: str) -> str | None:
    number = guid_number(host.read(path))
    return None if number is None else guid_text(number)


def _problem(host: Host, interface: Interface, files: str | None, wanted: Mapping[str, Mapping[str, object]]) -> str:
    if files is None:
        shown = parse(host.run(show_command(port_of(host, interface.key)), 30.0).stdout)
    else:
        shown = read_files(host, files, max(map(int, wanted)) + 1)
    problems = []
    for text, change in wanted.items():
        now: Mapping[str, object] = shown[int(text)] if int(text) < len(shown) else {}
        # An older ip does not tell GUIDs: then the function's device does.
        told = {key: value for key, value in _settings(change).items() if now.get(key) is not None or key == LINK_STATE}
        wrong = [f"{key} is {now.get(key)}, not {value}" for key, value in told.items() if now.get(key) != value]
        wrong = wrong or _device_problem(host, interface.key, int(text), change)
        problems += [f"function {text}: {', '.join(wrong)}"] if wrong else []
    return "; ".join(problems)


def _device_problem(host: Host, address: str, number: int, change: Mapping[str, object]) -> list[str]:
    directory = f"{PCI}/{address}/virtfn{number}/infiniband"
    try:
        found = {name: _guid_at(host, f"{directory}/{name}/node_guid") for name in host.list(directory)}
    except HostError:
        return []
    return [f"{name} has the GUID {guid}" for name, guid in found.items() if GUID in change and guid != change[GUID]]
