# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn the policies for a host's ports into entries of its interfaces. Pure.

Policies are merged as by the SR-IOV network operator (its ``api/v1/helper.go``: Apply, mergeConfigs).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation

from ..spec.by_range import NETDEVICE, VFIO, per_vf, ranged
from ..spec.functions import DETERMINISTIC, FunctionRequest
from ..spec.host import HostRequest, HostSpec, check_spec
from ..spec.interfaces import InterfaceSpec
from .host_state import HostState, is_guest_function
from .labels import fits
from .matching import match_interfaces
from .shapes import Facts, Nic

# Checked like a user's entry once it is complete.
Entry = Dict[str, object]

_MOST_NAMES = 4
# The parts of the spec that the check of interfaces depends on.
_CHECKED = ("roce_qos", "kernel_modules", "kernel_arguments", "netns_mode", "hugepages", "peer_memory")


class _Group(NamedTuple):
    """A range of functions of a port that one policy configures, from the first number to the last."""

    source: str
    functions: tuple[int, int]
    request: FunctionRequest


class _Port(NamedTuple):
    """The settings of a port from all policies; the first group has the highest precedence."""

    vfs: int
    mtu: int
    groups: list[_Group]

    def by_range(self, values: Sequence[object], other: object, count: int) -> object:
        """Return the values of the groups, by range where some of the VFs have ``other``, the one of no group."""
        each = [other] * count
        for group, value in zip(self.groups, values):
            some = slice(group.functions[0], group.functions[1] + 1)
            each[some] = [value or other] * len(each[some])
        return ranged(each, other)


def with_requests(desired: HostSpec, facts: Facts) -> tuple[HostSpec, list[str]]:
    """Return the spec with the policies for this host's ports and RDMA mode merged in, and notices.

    The host's own variables take precedence. Raises InvalidInput for a combination that no spec can express.
    """
    actual = HostState(facts, desired["protected_interfaces"])
    labels = {**facts["labels"], **desired["node_labels"]}
    selecting = [each for each in desired["requests"] if fits(each, labels)]
    mode, mode_notices = _rdma_mode(desired, selecting)
    function_requests = [
        (str(each["source"]), each["functions"]) for each in selecting if each["functions"] is not None
    ]
    matched, _unmatched = match_interfaces(desired["interfaces"], actual)
    own = {interface.key: interface.wanted for interface in matched}
    ports, notices = _merged(function_requests, actual, own)
    violations: list[Violation] = []
    entries: list[Mapping[str, object]] = list(desired["interfaces"])
    for address, port in sorted(ports.items()):
        known = own.get(address)
        count = port.vfs if known is None or known["vfs"] is None else known["vfs"]
        wanted = _entry(actual, actual.nics[address], port, count, violations)
        if known is None:
            entries.append({"pci": address, **wanted})
        else:
            position = next(index for index, entry in enumerate(entries) if entry is known)
            entries[position], more_notices = _with_own_entry(
                known, wanted, count, _title(actual, actual.nics[address]), port
            )
            notices += more_notices
    if violations:
        raise InvalidInput(violations)
    merged: HostSpec = {**desired, "netns_mode": mode}
    try:
        checked = check_spec({**{key: merged.get(key) for key in _CHECKED}, "interfaces": entries})["interfaces"]
    except InvalidInput as error:
        asking = _few([str(each["source"]) for each in selecting if each["functions"] or each["netns_mode"]])
        source = f"variables of the host with {asking}"
        raise InvalidInput([replace(each, source=source) for each in error.violations]) from None
    return {**merged, "interfaces": checked}, [*notices, *mode_notices]


def with_modules(desired: HostSpec, facts: Facts) -> HostSpec:
    """Return the spec with the kernel modules that policies need on this host."""
    labels = {**facts["labels"], **desired["node_labels"]}
    modules, layers = list(desired["kernel_modules"]), {None, *(nic["link_layer"] for nic in facts["nics"])}
    for request in desired["requests"]:
        known = [name.replace("-", "_") for name in modules]
        fitting = fits(request, labels) and request["link_layer"] in layers
        modules += [name for name in request["kernel_modules"] if fitting and name not in known]
    return {**desired, "kernel_modules": modules}


def _rdma_mode(desired: HostSpec, requests: Sequence[HostRequest]) -> tuple[str | None, list[str]]:
    """Return the RDMA mode, and notices where the host's own variable overrides a policy."""
    modes = {request["netns_mode"]: str(request["source"]) for request in requests if request["netns_mode"]}
    if len(modes) > 1:
        problem = "ask for different modes of RDMA on one host"
        hint = "select each node by one of them"
        raise InvalidInput([Violation(" and ".join(sorted(modes.values())), "", problem, hint)])
    own = desired["netns_mode"]
    notices = [
        f"rdma_fabric_netns_mode is {own}, {source} asks for {mode}"
        for mode, source in modes.items()
        if own is not None and own != mode
    ]
    return own or next(iter(modes), None), notices


def _merged(
    requests: Sequence[tuple[str, FunctionRequest]], actual: HostState, own: Mapping[str, InterfaceSpec]
) -> tuple[dict[str, _Port], list[str]]:
    """Return the settings of each port by address, and notices about policies without effect.

    ``requests`` are pairs of the name of a policy and its settings.
    """
    ports: dict[str, _Port] = {}
    notices: list[str] = []
    last_priority = None
    for source, request in requests:
        selected = [
            nic for nic in actual.nics.values() if nic["function"] == "pf" and _matches(request, nic, actual, own)
        ]
        if not selected:
            guests = [nic["address"] for nic in actual.nics.values() if is_guest_function(nic)]
            passed = [address for address in guests if _matches(request, actual.nics[address], actual, own)]
            why = _guest_functions(passed) if passed else _unmatched(request, actual)
            notices.append(f"{source} selects this host and none of its ports{why}")
        for nic in selected:
            ranges = _functions(request, _all_names(actual, nic, own))
            port = _Port(request["vfs"], request["mtu"] or 0, [_Group(source, each, request) for each in ranges])
            known = ports.get(nic["address"])
            if known is not None:
                port = _combined(port, known, request["priority"] == last_priority, _title(actual, nic), notices)
            ports[nic["address"]] = port
        last_priority = request["priority"]
    return ports, notices


def _unmatched(request: FunctionRequest, actual: HostState) -> str:
    """Return what a policy selects by, for a notice that there is none, and the cards that there are.

    Alternative names are not among the names of ports.
    """
    ids = [f"{key} {request[key]}" for key in ("vendor", "device") if request[key]]
    cards = sorted({f"{nic['vendor']}:{nic['device']}" for nic in actual.nics.values() if nic["function"] == "pf"})
    parts = [f"by {', '.join(ids)}, and its cards are {_few(cards) or 'none'}"] if ids else []
    names = list(dict.fromkeys(str(port["name"]) for port in request["ports"]))
    parts += [f"by name: {_few(names)}; alternative names do not count"] if names else []
    return f" ({'; '.join(parts)})" if parts else ""


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")


def _combined(port: _Port, known: _Port, equal: bool, called: str, notices: list[str]) -> _Port:
    """Return the settings of a port after a policy that follows others for the same port."""
    group = port.groups[0]
    others = []
    for other in known.groups:
        first, last = other.functions
        overlap = any(first <= each.functions[1] and each.functions[0] <= last for each in port.groups)
        if overlap == (other.request["resource"] != group.request["resource"]):
            notice = f"{called}: {group.source} takes precedence over {other.source}"
            notices += [notice] if notice not in notices else []
        elif not overlap:
            others.append(other)
    for other in others:
        mode = other.request["eswitch_mode"]
        if mode and mode != (group.request["eswitch_mode"] or "legacy"):
            notices.append(f"{called}: eswitch_mode is that of {group.source}, {other.source} asks for {mode}")
    groups = [*port.groups, *others]
    if not equal and not others:
        return port
    return _Port(max(port.vfs, known.vfs), max(port.mtu, known.mtu), groups)


def _guest_functions(functions: Sequence[str]) -> str:
    """Return why a policy that selects functions passed through to this guest has no effect."""
    return (
        f": {_few(functions)} are VFs in a guest, which makes none of its own; "
        "the device plugin offers them as they are"
    )


def _matches(request: FunctionRequest, nic: Nic, actual: HostState, own: Mapping[str, InterfaceSpec]) -> bool:
    if any(request[key] and request[key] != nic[key] for key in ("vendor", "device")):
        return False
    if request["pci"] and nic["address"] not in request["pci"]:
        return False
    names = _all_names(actual, nic, own)
    return not request["ports"] or any(port["name"] in names for port in request["ports"])


def _all_names(actual: HostState, nic: Nic, own: Mapping[str, InterfaceSpec]) -> list[str]:
    """Return the names of a port, including the one that this run gives it."""
    known = own.get(nic["address"])
    return [*(port["name"] for port in actual.ports_of(nic)), *([known["name"]] if known and known["name"] else [])]


def _title(actual: HostState, nic: Nic) -> str:
    return " ".join([nic["address"], *(f"({port['name']})" for port in actual.ports_of(nic)[:1])])


def _functions(request: FunctionRequest, names: Sequence[str]) -> list[tuple[int, int]]:
    """Return the ranges of a port that a policy names, as its device plugin offers them; the operator takes the first.

    One item without a range is all of them.
    """
    items = [port["range"] for port in request["ports"] if port["name"] in names]
    ranges = [(each[0], each[1]) for each in items if each]
    return ranges if ranges and len(ranges) == len(items) else [(0, request["vfs"] - 1)]


def _entry(actual: HostState, nic: Nic, port: _Port, count: int, violations: list[Violation]) -> Entry:
    """Return the entry of a port with this many VFs; note another link layer than its own."""
    called, asked = _title(actual, nic), [group.request for group in port.groups]
    layers = {request["link_layer"]: group.source for group, request in zip(port.groups, asked)}
    for layer, source in layers.items():
        if layer and nic["link_layer"] and layer != nic["link_layer"]:
            number = int(nic["address"][-1]) + 1
            value = "IB" if layer == "InfiniBand" else "ETH"
            hint = (
                f"set firmware: {{LINK_TYPE_P{number}: {value}}} in rdma_fabric_interfaces for it, with "
                "rdma_fabric_allow_firmware, and reboot; or select other ports"
            )
            problem = f"asks for {layer}, and the port is {nic['link_layer']}"
            violations.append(Violation(source, called, problem, hint))
    drivers = [request["vf_driver"] for request in asked]
    mtus = [None if request["vf_driver"] == VFIO else request["mtu"] for request in asked]
    entry: Entry = {
        "vfs": port.vfs,
        "vf_driver": port.by_range(drivers, NETDEVICE, count),
        "vf_mtu": port.by_range(mtus, None, count),
        "eswitch_mode": asked[0]["eswitch_mode"],
        # VFs of a port that is down have no link; the operator sets it up once they are made (configSriovDevice).
        "state": "up" if port.vfs else None,
    }
    layer = nic["link_layer"] or next(filter(None, layers), None)
    if layer == "InfiniBand":
        entry["vf_guids"] = DETERMINISTIC
    elif layer and any(request["rdma"] for request in asked):
        # mlx5 derives the GUID of a function's RDMA device from the MAC address that the port sets.
        entry["vf_settings"] = {"mac": DETERMINISTIC}
    present = actual.port_of(nic)
    # Raised if it is lower, and never lowered.
    if port.mtu and present and (present["mtu"] < port.mtu or (present["mtu"] == port.mtu and not present["master"])):
        entry["mtu"] = port.mtu
    return entry


def _with_own_entry(own: InterfaceSpec, wanted: Entry, count: int, called: str, port: _Port) -> tuple[Entry, list[str]]:
    """Return the host's own entry completed by the policies, and notices where the entry differs from them."""
    entry: Entry = {**own}
    notices = []
    sources = ", ".join(dict.fromkeys(group.source for group in port.groups))
    for key, value in wanted.items():
        existing = entry[key]
        if key == "vf_settings" and existing is not None:
            own_settings = [settings or {} for settings in per_vf(existing, count)]
            settings = [{**each, "mac": each.get("mac") or DETERMINISTIC} for each in own_settings]
            entry[key] = ranged(settings, existing)
        elif existing is None:
            entry[key] = value
        elif existing != value and value not in (None, DETERMINISTIC) and key != "mtu":
            notices.append(f"{called}: {key} is {existing} by rdma_fabric_interfaces, {sources} asks for {value}")
    return entry, notices
