# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster's policy from the rails of a fleet, as text in the shape of a NicClusterPolicy's spec. Pure.

One resource per rail: a pod that asks for one of each gets the NICs beside its GPUs, and two rails never share a quota.
The names of interfaces select the devices, as only they are the same on hosts whose PCI addresses differ.
"""

from __future__ import annotations

import json
from typing import Any, Iterable, Sequence

from .rails import ETHERNET, INFINIBAND, Fleet, Slot

_SHARED = 63  # pods that may share a device of a node: what the vendor's chart made of no number
_LINK_TYPES = {INFINIBAND: "infiniband", ETHERNET: "ether"}
_WORD = {INFINIBAND: "ib", ETHERNET: "roce"}


def policy_file(fleet: Fleet) -> str:
    """Return the variables of the cluster."""
    shared, functions = _resources(fleet, with_functions=False), _resources(fleet, with_functions=True)
    layers = {slot.link_layer for slot in _rails(fleet)}
    lines = [
        "# The spec of a NicClusterPolicy, as it would be written for the operator.",
        "rdma_fabric_nic_cluster_policy:",
    ]
    if shared:
        lines += [
            "  # Rails without VFs: pods share the port itself, at most rdmaHcaMax on a node.",
            f"  # One resource per rail: a pod requests {_asked('rdma', shared)}.",
            "  rdmaSharedDevicePlugin:",
            "    config: |",
            *_config("configList", [_shared_item(name, *each) for name, each in shared.items()]),
        ]
    if functions:
        lines += [
            "  # Rails with VFs: a pod gets one of its own. One resource per rail.",
            f"  # A pod requests {_asked('nvidia.com', functions)}.",
            "  sriovDevicePlugin:",
            "    config: |",
            *_config("resourceList", [_sriov_item(name, *each) for name, each in functions.items()]),
        ]
    lines += [
        "  # CNI programs for networks over the rails; remove those that the cluster has already.",
        "  secondaryNetwork:",
        "    multus: {} # gives pods more than one interface",
        "    cniPlugins: {} # macvlan and host-device among others",
    ]
    lines += ["    ipoib: {} # interfaces of pods over InfiniBand"] if INFINIBAND in layers else []
    lines += ["  nvIpam: {} # assigns addresses from the pools below"]
    return "\n".join([*lines, *_networks(fleet, layers)]) + "\n"


def offered_twice(fleet: Fleet) -> list[str]:
    """Return a notice for each name that pods share the port of on some hosts, and get VFs of on others.

    Plugins select by the name alone, so the port itself is offered on those others as well.
    """
    shared, functions = _resources(fleet, with_functions=False), _resources(fleet, with_functions=True)
    names = {(layer, name) for layer, interfaces in shared.values() for name in interfaces}
    return [
        f"{name}: some hosts have VFs there and others none, so rdma/{resource} offers the port itself "
        f"beside them on all; next: give one of both an entry of its own name, or drop rdma/{resource}"
        for resource, (layer, interfaces) in functions.items()
        for name in interfaces
        if (layer, name) in names
    ]


def _networks(fleet: Fleet, layers: Iterable[str]) -> list[str]:
    """Return an example of networks and their pools as comments: no host tells which addresses are free."""
    examples: dict[str, list[str]] = {}
    for number, layer in enumerate(sorted(layers)):
        slot, at = next(each for each in _ports(fleet) if each[0].link_layer == layer)
        name = f"{slot.name}-{_WORD[layer]}"
        kind = "host_device" if slot.vfs else "ipoib" if layer == INFINIBAND else "macvlan"
        device = f"resourceName: {_resource(slot, fleet)}" if slot.vfs else f"master: {_name(slot, at, fleet)}"
        ipam = f'ipam: \'{{"type": "nv-ipam", "poolName": "{name}"}}\''
        examples.setdefault(f"rdma_fabric_{kind}_networks", []).extend(
            [f"  {name}:", "    networkNamespace: default", f"    {device}", f"    {ipam}"]
        )
        subnet = f"192.168.{200 + number}"
        examples.setdefault("rdma_fabric_ip_pools", []).extend(
            [f"  {name}:", f"    subnet: {subnet}.0/24", "    perNodeBlockSize: 8", f"    gateway: {subnet}.1"]
        )
    lines = ["# Add networks yourself: no host knows which addresses are free. For rail0, for example:"]
    for variable, example in examples.items():
        lines += [f"# {line}" for line in (f"{variable}:", *example)]
    return lines


def _rails(fleet: Fleet) -> list[Slot]:
    return [slot for each in fleet.classes for slot in each.slots if slot.rail]


def _ports(fleet: Fleet) -> list[tuple[Slot, int]]:
    return [(slot, at) for slot in _rails(fleet) for at in range(len(slot.ports))]


def _name(slot: Slot, at: int, fleet: Fleet) -> str:
    """Return the name that the interface of a rail will have on one host."""
    return slot.name if fleet.options.rename else slot.ports[at].netdev


def _resource(slot: Slot, fleet: Fleet) -> str:
    """Return the name of a rail's resource: another one for each link layer, as a pod can't use one for the other."""
    both = len({each.link_layer for each in _rails(fleet)}) > 1
    return f"{slot.name}_{_WORD[slot.link_layer]}" if both else slot.name


def _resources(fleet: Fleet, with_functions: bool) -> dict[str, tuple[str, list[str]]]:
    """Return link layer and names of the interfaces of every resource, by its name."""
    found: dict[str, tuple[str, list[str]]] = {}
    for slot, at in _ports(fleet):
        if bool(slot.vfs) != with_functions:
            continue
        names = found.setdefault(_resource(slot, fleet), (slot.link_layer, []))[1]
        if _name(slot, at, fleet) not in names:
            names.append(_name(slot, at, fleet))
    return dict(sorted(found.items(), key=lambda entry: (entry[1][0], len(entry[0]), entry[0])))


def _shared_item(name: str, layer: str, interfaces: list[str]) -> dict[str, Any]:
    selectors = {"ifNames": interfaces, "linkTypes": [_LINK_TYPES[layer]]}
    return {"resourceName": name, "rdmaHcaMax": _SHARED, "selectors": selectors}


def _sriov_item(name: str, layer: str, interfaces: list[str]) -> dict[str, Any]:
    selectors = {"pfNames": interfaces, "linkTypes": [_LINK_TYPES[layer]], "isRdma": True}
    return {"resourceName": name, "resourcePrefix": "nvidia.com", "selectors": selectors}


def _asked(prefix: str, resources: dict[str, tuple[str, list[str]]]) -> str:
    names = [f"{prefix}/{name}" for name in resources]
    return names[0] if len(names) == 1 else f"one or more of {names[0]} to {names[-1]}"


def _config(key: str, items: Sequence[dict[str, Any]]) -> list[str]:
    """Return the configuration as a block of JSON with one line per resource."""
    texts = [json.dumps(item) for item in items]
    lines = [f'{{"{key}": [', *(f"  {text}," for text in texts[:-1]), f"  {texts[-1]}", "]}"]
    return [f"      {line}" for line in lines]
