# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads which GUIDs a physical function has set for its virtual ones.

Netlink tells them with the interface of the port (IFLA_VF_IB_NODE_GUID, since Linux 5.5); where it does not, the files
of the vendor's mlx5_ib do (``device/sriov/N/node`` and ``port`` of the RDMA device).
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ..machine.access import Host, HostError
from ..machine.probe import Probe
from ..spec.vf_guids import guid_number, guid_text
from .functions import show_command, shown_port
from .interfaces import Interface
from .shapes import FunctionGuids, Guids

INFINIBAND = "/sys/class/infiniband"
# What the file is called, and what the words in it mean to ip-link(8).
FILES = {"node_guid": "node", "port_guid": "port", "link_state": "policy"}
POLICIES = {"Follow": "auto", "Up": "enable", "Down": "disable"}


def read_guids(probe: Probe, ports: Sequence[Interface]) -> dict[str, Guids]:
    """Return ``{address: {"functions": [...], "files": RDMA device or None}}`` of the ports that have GUIDs asked for.

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
    """Return the vendor's file of a setting of one function."""
    return f"{_directory(device)}/{number}/{FILES[key]}"


def _directory(device: str) -> str:
    return f"{INFINIBAND}/{device}/device/sriov"


def _functions(probe: Probe, port: Interface, files: str | None) -> list[FunctionGuids]:
    enabled = port.functions
    if not enabled:
        return []
    shown: list[FunctionGuids] = []
    if port.netdev is not None:
        shown = parse(probe.output(*show_command(port.netdev["name"])))
    if files is not None and not any(function["node_guid"] for function in shown):
        shown = read_files(probe.host, files, enabled)
    return shown


def read_files(host: Host, device: str, count: int) -> list[FunctionGuids]:
    """Return what the vendor's files tell of each function."""
    functions: list[FunctionGuids] = []
    for number in range(count):
        words = {key: _content(host, file_of(device, number, key)) for key in FILES}
        node, port = _guid(words["node_guid"]), _guid(words["port_guid"])
        state = POLICIES.get(words["link_state"] or "")
        functions.append({"node_guid": node, "port_guid": port, "link_state": state})
    return functions


def parse(text: str) -> list[FunctionGuids]:
    """Parse what ``show_command`` prints of an InfiniBand port; a text that was cut off tells nothing."""
    _link, entries = shown_port(text)
    return [_function(entry) for entry in entries or []]


def _function(entry: Mapping[str, Any]) -> FunctionGuids:
    state = entry.get("link_state")
    return {
        # iproute2 writes these two members with a space.
        "node_guid": _guid(entry.get("node guid")),
        "port_guid": _guid(entry.get("port guid")),
        "link_state": state if state in POLICIES.values() else None,
    }


def _guid(value: object) -> str | None:
    number = guid_number(value) if isinstance(value, str) else None
    return None if number is None else guid_text(number)


def _content(host: Host, path: str) -> str | None:
    try:
        return host.read(path).strip()
    except HostError:
        return None
