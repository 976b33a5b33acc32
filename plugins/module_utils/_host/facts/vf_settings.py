# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings and GUIDs of VFs: current and in the spec.

Netlink reports them with the interface of the port (IFLA_VF_IB_NODE_GUID, since Linux 5.5); otherwise they are read
from the files of the vendor's mlx5_ib (``device/sriov/N/node`` and ``port`` of the RDMA device).
"""

from __future__ import annotations

import hashlib
from typing import Any, Dict, Mapping, Sequence, Union

from ..machine.access import Host
from ..machine.probe import INFINIBAND, Probe, text_at
from ..spec.by_range import per_vf, spans
from ..spec.functions import DETERMINISTIC, VF_KEYS, VfGuids, canonical, guid_number, guid_text
from .functions import show_command, shown_port
from .host_state import HostState, Interface
from .netdev import permanent_mac
from .shapes import FunctionGuids, Guids, Netdev, Nic

# By name: those of ``VF_KEYS``, and those that engine/context.py adds.
Settings = Dict[str, Union[str, int]]
# By the number of the function.
Changes = Dict[int, Settings]
# IEEE 802 and EUI-64: in the first octet, bit 0 marks group addresses, bit 1 locally administered ones.
_GROUP, _LOCAL = 0x01, 0x02
# The names of the files, and the option of ip-link(8) for each word in them.
FILES = {"node_guid": "node", "port_guid": "port", "link_state": "policy"}
POLICIES = {"Follow": "auto", "Up": "enable", "Down": "disable"}
_OCTETS = 8


def own_octets(port: str, number: int, count: int) -> bytes:
    """Return the MAC or GUID of a VF, which only depends on the port's address and the number.

    It is locally administered and made from a digest: the ports of a card have consecutive addresses, so adding the
    number would give functions of two ports the same one.
    """
    digest = hashlib.sha256(f"{port.lower()} vf {number}".encode("ascii", "replace")).digest()
    return bytes(((digest[0] | _LOCAL) & ~_GROUP, *digest[1:count]))


def deterministic_mac(port_mac: str, number: int) -> str:
    """Return the MAC of a VF derived from that of its port."""
    return ":".join(f"{octet:02x}" for octet in own_octets(port_mac, number, 6))


def settings_asked(interface: Interface, count: int) -> list[Settings]:
    """Return the settings in the spec for each of ``count`` functions; in a removal, their original settings."""
    found: list[Settings] = [{} for _number in range(count)]
    port = mac_of_port(interface)
    for first, last, given in spans(interface.wanted["vf_settings"]):
        macs = per_vf(given.get("mac"), count) if given is not None else []
        for number, mac in enumerate(macs[first : last + 1], first):
            derived = deterministic_mac(port, number) if port and mac == DETERMINISTIC else None
            own: Mapping[str, Any] = {**(given or {}), "mac": derived if mac == DETERMINISTIC else mac}
            found[number] = {key: own[key] for key in VF_KEYS if own.get(key) is not None}
    return found


def mac_of_port(interface: Interface) -> str | None:
    """Return the address of a port from which those of its functions are derived; None if unknown."""
    return permanent_mac(interface.netdev) if interface.netdev is not None else None


def differences(wanted: Sequence[Settings], actual: Sequence[Mapping[str, object]] | None) -> Changes:
    """Return the settings to change, by function; all of them if the current ones are unknown."""
    known = actual or []
    changes: Changes = {}
    for number, settings in enumerate(wanted):
        now: Mapping[str, object] = known[number] if number < len(known) else {}
        differing = {key: value for key, value in settings.items() if now.get(key) != value}
        if differing:
            changes[number] = differing
    return changes


def read_guids(probe: Probe, ports: Sequence[Interface]) -> dict[str, Guids]:
    """Return ``{address: {"functions": [...], "files": RDMA device or None}}`` of the ports whose spec has GUIDs.

    ``files`` is the RDMA device whose directory has the vendor's files.
    """
    found: dict[str, Guids] = {}
    for port in ports:
        if not port.wanted["vf_guids"]:
            continue
        devices = port.nic["rdma"] if port.nic is not None else []
        files = next((name for name in devices if probe.host.exists(_directory(name))), None)
        found[port.key] = {"functions": _functions(probe, port, files), "files": files}
    return found


def file_of(device: str, number: int, key: str) -> str:
    """Return the vendor's file for a setting of one function."""
    return f"{_directory(device)}/{number}/{FILES[key]}"


def read_files(host: Host, device: str, count: int) -> list[FunctionGuids]:
    """Return the content of the vendor's files for each function."""
    functions: list[FunctionGuids] = []
    for number in range(count):
        words = {key: text_at(host, file_of(device, number, key)).strip() for key in FILES}
        node, port = canonical(words["node_guid"]), canonical(words["port_guid"])
        functions.append({"node_guid": node, "port_guid": port, "link_state": POLICIES.get(words["link_state"])})
    return functions


def parse(text: str) -> list[FunctionGuids]:
    """Parse the output of ``show_command`` for an InfiniBand port; truncated output yields nothing."""
    _link, entries = shown_port(text)
    return [_function(entry) for entry in entries or []]


def deterministic_guid(port_guid: str, number: int) -> str:
    """Return the GUID of a VF derived from that of its port."""
    return guid_text(int.from_bytes(own_octets(port_guid, number, _OCTETS), "big"))


def port_guid(actual: HostState, nic: Nic, port: Netdev | None) -> str | None:
    """Return the GUID of a port as eight octets: that of its RDMA device, or the last octets of its IPoIB address."""
    for device in actual.facts["rdma"]:
        if device["pci"] == nic["address"]:
            number = guid_number(device["node_guid"] or "")
            if number:
                return guid_text(number)
    octets = ((port["mac"] if port is not None else None) or "").split(":")
    number = guid_number(":".join(octets[-_OCTETS:])) if len(octets) > _OCTETS else None
    return guid_text(number) if number else None


def guids_asked(interface: Interface, count: int, port: str | None) -> dict[int, str | None]:
    """Return the GUID in the spec for each of ``count`` functions that is to have one.

    None if the list or range is too short, or the GUID of the ``port`` is unknown. Lists and ranges of GUIDs begin with
    the first function that they are for.
    """
    ends = [(first, min(last + 1, count), guids) for first, last, guids in spans(interface.wanted["vf_guids"])]
    return {n: _guid(guids, n, n - first, port) for first, end, guids in ends if guids for n in range(first, end)}


def _guid(guids: VfGuids, number: int, index: int, port: str | None) -> str | None:
    if guids == DETERMINISTIC:
        return deterministic_guid(port, number) if port else None
    if isinstance(guids, dict):
        guid = (guid_number(guids["first"]) or 0) + index
        return guid_text(guid) if guid <= (guid_number(guids["last"]) or 0) else None
    return guids[index] if isinstance(guids, list) and index < len(guids) else None


def device_guid(actual: HostState, function: Nic) -> str | None:
    """Return the current GUID of a function's RDMA device as eight octets; None if it has no device."""
    found = (device["node_guid"] for device in actual.facts["rdma"] if device["pci"] == function["address"])
    return canonical(next(found, None) or "")


def has_guid(now: FunctionGuids | None, taken: str | None, guid: str | None) -> bool:
    """Return whether a function has its GUID: ``now`` is what the port has set, ``taken`` what the device has.

    All zero means none. A function without RDMA device has no value, and older kernels do not report what the port has
    set.
    """
    if taken is not None and taken != guid:
        return False
    guids = {None} if now is None else {now["node_guid"], now["port_guid"]}
    return guids == {guid} or (guids == {None} and taken == guid)


def _directory(device: str) -> str:
    return f"{INFINIBAND}/{device}/device/sriov"


def _functions(probe: Probe, port: Interface, files: str | None) -> list[FunctionGuids]:
    enabled = port.functions
    if not enabled:
        return []
    shown: list[FunctionGuids] = []
    if port.netdev is not None:
        shown = parse(probe.json(*show_command(port.netdev["name"])) or "")
    if files is not None and not any(function["node_guid"] for function in shown):
        shown = read_files(probe.host, files, enabled)
    return shown


def _function(entry: Mapping[str, Any]) -> FunctionGuids:
    state = entry.get("link_state")
    return {
        # iproute2 writes these two members with a space.
        "node_guid": canonical(str(entry.get("node guid"))),
        "port_guid": canonical(str(entry.get("port guid"))),
        "link_state": state if state in POLICIES.values() else None,
    }
