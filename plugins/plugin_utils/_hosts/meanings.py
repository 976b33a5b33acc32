# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of the interfaces of hosts: which they have, and what one means that none of them has. Pure."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks import devplugin
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.driver_container import policies_of
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.names import is_alternative
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.objects import Object
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.proof_pods import networks_of
from ansible_collections.rdma.fabric.plugins.module_utils._violations import nearest

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


_MOST_NAMES = 8
# A VF that a run makes is called after its port, by kernel and udev.
_FUNCTION = re.compile(r"v\d+\Z", re.ASCII)
# Interfaces of Open vSwitch stand on no hardware, so they are not read of hosts.
_OPEN_VSWITCH = "ovs-system"


def unknown_interfaces(spec: Mapping[str, Any], documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a notice for each name by which networks and device plugins find an interface, and that no host has.

    ``documents`` are those of hosts (``host``, ``desired``, ``facts``, ``plan``). A name that a host gives up in its
    plan counts for nothing, one that it is given counts. Nothing is said unless every host of the spec was read, or
    where a host has bridges of Open vSwitch: another host or a bridge may have the name.
    """
    hosts, named = set(spec.get("hosts") or {}), interfaces_named(dict(spec))
    read = [each for each in documents if each["host"] in hosts]
    if not read or len(read) < len(hosts) or not named:
        return []
    names: set[str] = set()
    renamed: dict[str, str] = {}
    rdma: Counter[str] = Counter()
    for document in read:
        own, moved = names_of(document)
        names |= own
        renamed.update(moved)
        rdma.update(_rdma_names(document, moved))
    if _OPEN_VSWITCH in names:
        return []
    unknown = [each for each in named if each.name not in names and _FUNCTION.sub("", each.name) not in names]
    meanings = {each.name: meaning_of(each.name, read) for each in unknown}
    return [_notice(each, len(read), renamed.get(each.name, ""), rdma, meanings[each.name]) for each in unknown]


def _rdma_names(document: Mapping[str, Any], moved: Mapping[str, str]) -> Iterable[str]:
    ports = [nic for nic in document["facts"]["nics"] if nic["rdma"] and nic["function"] == "pf"]
    return [moved.get(name, name) for nic in ports for name in nic["netdevs"]]


def _notice(each: NamedInterface, hosts: int, renamed: str, rdma: Counter[str], meaning: str) -> str:
    if meaning and not renamed:
        return f"{each.by}: {each.field} {each.name}: {meaning}"
    who = "the host that was read has" if hosts == 1 else f"none of the {hosts} hosts that were read has"
    no = "no" if hosts == 1 else "an"
    lost = f"{each.by}: {each.field} {each.name}: {who} {no} interface of this name"
    if renamed:
        return f"{lost} once it is renamed to {renamed}: write {renamed}"
    known = [name for name, _count in rdma.most_common(_MOST_NAMES)]
    meant = nearest(each.name, known)
    more = f" and {len(rdma) - _MOST_NAMES} more" if len(rdma) > _MOST_NAMES else ""
    ports = f"; ports with RDMA are {', '.join(known)}{more}" if known else ""
    return f"{lost}{f' ({meant})' if meant else ''}{ports}"


_SECTIONS = {"rdma_shared": "rdmaSharedDevicePlugin", "sriov": "sriovDevicePlugin"}


class NamedInterface(NamedTuple):
    """An interface that a network or a resource of a device plugin finds by its own name."""

    by: str
    """``network NAMESPACE/NAME`` or ``resource PREFIX/NAME``."""
    field: str
    name: str


def interfaces_named(spec: Object) -> list[NamedInterface]:
    """Return every name that networks and device plugins of a valid FabricSpec find interfaces by, each use once.

    Names of more than 15 bytes are left out: they are alternative ones.
    """
    found = [
        NamedInterface(f"network {each['network']}", key, plugin[key])
        for each in networks_of(spec)
        for plugin in each["plugins"]
        for key in ("master", "device")
        if isinstance(plugin.get(key), str) and plugin[key] and (key == "master" or plugin.get("type") == "host-device")
    ]
    for policy in policies_of(spec):
        for kind, section in _SECTIONS.items():
            found += _of_plugin(kind, policy.get(section))
    return [each for each in dict.fromkeys(found) if not is_alternative(each.name)]


def _of_plugin(kind: str, section: Object | None) -> Iterator[NamedInterface]:
    given = (section or {}).get("config")
    config, problems = devplugin.CHECKS[kind](given) if given else ({}, [])
    if problems or not config:
        return
    entries: list[dict[str, Any]] = config["configList" if kind == "rdma_shared" else "resourceList"]
    for resource, entry in zip(devplugin.resource_names(kind, config), entries):
        if kind == "rdma_shared":
            selectors = [entry.get("selectors") or {}, {"ifNames": entry.get("devices")}]
        else:
            selectors = [each for _path, each in devplugin.selector_groups("", entry["selectors"])]
        for each in selectors:
            for field in ("ifNames", "pfNames"):
                for name in each.get(field) or []:
                    yield NamedInterface(f"resource {resource}", field, str(name).partition("#")[0])
