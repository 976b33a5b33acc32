# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of the interfaces of hosts: which they have, and what one means that none of them has. Pure."""

from __future__ import annotations

import difflib
import re
from typing import Any, Mapping, Sequence

# The number of the port, which kernels since 5.x and drivers of the vendor add to a name, and others don't; that of a
# VF follows it (Mellanox/doca-driver-build, whose container cuts both: enp8s0f0np1v12 is enp8s0f0v12 then).
_PORT_NUMBER = re.compile(r"np\d+(?=(?:v\d+)?\Z)", re.ASCII)
_NEAREST = 3
_ALTERNATIVE, _OTHER_KERNEL = "an alternative name of", "what another kernel or driver calls"
_ADDRESS, _DEVICE = "the PCI address of", "the RDMA device of"
_KINDS = (_ALTERNATIVE, _ADDRESS, _DEVICE, _OTHER_KERNEL)


def meaning_of(name: str, documents: Sequence[Mapping[str, Any]]) -> str:
    """Return what a name that no interface has stands for on these hosts, and what to write; empty if it is unknown.

    The kernel finds an interface by its alternative names as well, so nobody believes that there is none; CNI programs
    and device plugins compare names.
    """
    found: dict[str, list[str]] = {}
    for document in documents:
        _names, moved = names_of(document)
        for netdev in document["facts"]["netdevs"]:
            kind = _kind_of_name(name, netdev, document["facts"])
            if kind:
                found.setdefault(kind, []).append(moved.get(netdev["name"], str(netdev["name"])))
    kind = next((kind for kind in _KINDS if kind in found), "")
    names = sorted({*found.get(kind, ())})
    return f"it is {kind} {' or '.join(names)}: write {' or '.join(names)}" if names else ""


def _kind_of_name(name: str, netdev: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    others, address = netdev.get("other_names") or (), netdev.get("pci") or ""
    if name in others:
        return _ALTERNATIVE
    if address and name in (address, address.partition(":")[2]):
        return _ADDRESS
    if any(each.get("name") == name and each.get("netdev") == netdev["name"] for each in facts.get("rdma") or ()):
        return _DEVICE
    bare = _PORT_NUMBER.sub("", name)
    return _OTHER_KERNEL if bare in [_PORT_NUMBER.sub("", each) for each in (netdev["name"], *others)] else ""


def nearest_to(key: str, value: str, facts: Mapping[str, Any]) -> str:
    """Return up to three interfaces of a host with similar selectors (``pci``, ``mac``, ``current_name``)."""
    own = {"pci": "pci", "mac": "mac", "current_name": "name"}[key]
    ports = [each for each in facts["netdevs"] if each[own] and each["kind"] == "physical"]
    labels = {nic["address"]: "" for nic in facts["nics"]} if key == "pci" else {}
    labels.update({str(each[own]): str(each["name"]) for each in ports})
    near = difflib.get_close_matches(value, sorted(labels), n=_NEAREST) or sorted(labels)[:_NEAREST]
    shown = [each if labels[each] in ("", each) else f"{each} ({labels[each]})" for each in near]
    return f"nearest here: {', '.join(shown)}" if shown else ""


def names_of(document: Mapping[str, Any]) -> tuple[set[str], dict[str, str]]:
    """Return the names that a host's interfaces have once its plan is done, and what becomes of those they lose."""
    names = {str(netdev["name"]) for netdev in document["facts"]["netdevs"]}
    asked = (document.get("desired") or {}).get("interfaces") or []
    wanted = {str(entry["name"]) for entry in asked if entry.get("name")}
    moved = {}
    for step in document["plan"]["steps"]:
        renames = step["concern"] == "naming" and step["status"] == "planned" and step["when"] != "boot"
        if renames and step.get("from") in names:
            moved[step["from"]] = str(step.get("to"))
    return (names - set(moved)) | wanted, moved
