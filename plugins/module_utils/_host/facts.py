# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything the planner and the report need to know of one host, read in one pass. Private: it may change."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.access import Host
from ansible_collections.rdma.fabric.plugins.module_utils._host.asked import ports_asked_for
from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.read import read_boot_state
from ansible_collections.rdma.fabric.plugins.module_utils._host.devices import PciId, nic_family
from ansible_collections.rdma.fabric.plugins.module_utils._host.driver.facts import read_stack_state
from ansible_collections.rdma.fabric.plugins.module_utils._host.eswitch.read import read_eswitches
from ansible_collections.rdma.fabric.plugins.module_utils._host.firmware.read import read_firmware
from ansible_collections.rdma.fabric.plugins.module_utils._host.guids.read import read_guids
from ansible_collections.rdma.fabric.plugins.module_utils._host.labels import node_labels
from ansible_collections.rdma.fabric.plugins.module_utils._host.owners.read import read_owners
from ansible_collections.rdma.fabric.plugins.module_utils._host.pcie.read import read_pcie
from ansible_collections.rdma.fabric.plugins.module_utils._host.qos.read import read_qos
from ansible_collections.rdma.fabric.plugins.module_utils._host.queues.read import read_queues
from ansible_collections.rdma.fabric.plugins.module_utils._host.read.boot import read_boot
from ansible_collections.rdma.fabric.plugins.module_utils._host.read.functions import read_port_settings
from ansible_collections.rdma.fabric.plugins.module_utils._host.read.kernel import read_modules, read_stack
from ansible_collections.rdma.fabric.plugins.module_utils._host.read.names import read_naming
from ansible_collections.rdma.fabric.plugins.module_utils._host.read.netdev import Netdev, read_netdevs
from ansible_collections.rdma.fabric.plugins.module_utils._host.read.pci import (
    Function,
    gpu_entry,
    nic_entry,
    read_functions,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.read.probe import Probe
from ansible_collections.rdma.fabric.plugins.module_utils._host.read.rdma import read_rdma
from ansible_collections.rdma.fabric.plugins.module_utils._host.read.settings import read_settings
from ansible_collections.rdma.fabric.plugins.module_utils._host.read.system import read_system
from ansible_collections.rdma.fabric.plugins.module_utils._host.read.uplink import (
    read_tables,
    read_uplinks,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.read.users import read_users
from ansible_collections.rdma.fabric.plugins.module_utils._host.routing.read import read_routing
from ansible_collections.rdma.fabric.plugins.module_utils._host.sriov.renewal import renewed_functions
from ansible_collections.rdma.fabric.plugins.module_utils._host.topology import distances, rails

FORMAT = 1
_LINK_LAYERS = {"infiniband": "InfiniBand", "ether": "Ethernet"}

Facts = Dict[str, Any]


def gather(
    host: Host,
    connection_address: str | None = None,
    kernel_modules: Iterable[str] = (),
    desired: Mapping[str, Any] | None = None,
) -> Facts:
    """Read a host once and return its facts as plain JSON data.

    ``connection_address`` is the address Ansible reaches the host by (it makes an uplink; names are ignored),
    ``kernel_modules`` are modules to report beside those of RDMA and GPUs, loaded or not. Of settings only those are
    read that ``desired`` asks for. No failed read is fatal: what a host does not tell is None, and what it unexpectedly
    refused is in ``unreadable``.
    """
    probe = Probe(host)
    system = read_system(probe)
    functions = read_functions(probe)
    tables = read_tables(probe, every_hop=desired is not None)
    named_uplinks = (desired or {}).get("uplinks") or ()
    netdevs = read_netdevs(probe, [*tables.defaults, *named_uplinks])
    rdma = read_rdma(probe, netdevs)
    nics = _nics(probe, functions, netdevs, rdma)
    gpus = [gpu_entry(probe, function) for function in functions if function.id.is_gpu]
    modules = read_modules(probe, system["kernel"], kernel_modules)
    boot = {**read_boot(probe), **read_boot_state(probe, [netdev.raw_name for netdev in netdevs])}
    netdev_facts = [netdev.facts for netdev in netdevs]
    ports = ports_asked_for(desired or {}, nics, netdev_facts)
    cards = {
        "eswitch": read_eswitches(probe, ports),
        "firmware": read_firmware(probe, ports),
        "guids": read_guids(probe, ports),
    }
    renewed = renewed_functions(desired or {}, {"nics": nics, "netdevs": netdev_facts, "rdma": rdma, **cards})
    settings = read_settings(probe, desired or {}, [netdev.facts["name"] for netdev in netdevs], boot["files"])
    settings.update(read_qos(probe, desired or {}, nics, netdev_facts, rdma))
    facts = {
        "format": FORMAT,
        "system": system,
        "nics": nics,
        "gpus": gpus,
        "netdevs": netdev_facts,
        "rdma": rdma,
        "modules": modules,
        "stack": read_stack(probe, modules),
        "distances": distances(nics, gpus),
        "rails": rails(nics, gpus),
        "pcie": read_pcie(probe, nics, gpus),
        "uplinks": read_uplinks(probe, tables, netdevs, connection_address, named_uplinks),
        "labels": node_labels(system, nics, bool(gpus)),
        "boot": boot,
        "naming": read_naming(probe, system, netdev_facts, nics, desired),
        "owners": read_owners(probe),
        "vf_users": read_users(probe, renewed, nics, {netdev["name"]: netdev for netdev in netdev_facts}),
        **cards,
        "queues": read_queues(probe, desired or {}, nics, netdev_facts),
        "settings": settings,
    }
    facts["routing"] = read_routing(probe, desired or {}, facts)
    facts.update(read_stack_state(probe, desired or {}, facts))
    facts["unreadable"] = probe.unreadable()
    return facts


def _nics(
    probe: Probe, functions: list[Function], netdevs: list[Netdev], rdma: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Join what the PCI function, its interfaces and its RDMA devices tell of every NIC."""
    ids = {function.address: function.id for function in functions}
    nics = []
    for function in functions:
        if not function.id.is_network:
            continue
        nic = nic_entry(probe, function)
        ports = [netdev.facts for netdev in netdevs if netdev.is_port and netdev.pci_parent == function.address]
        nic["netdevs"] = [port["name"] for port in ports]
        devices = [device for device in rdma if _is_on(device, nic)]
        nic["rdma"] = [device["name"] for device in devices]
        nic["link_layer"] = _link_layer(ports, devices, function.id)
        _set_up(probe, nic, ports)
        nic["family"] = nic_family(function.id, _parent_id(function, ids), _first(devices, "firmware"))
        nics.append(nic)
    return nics


def _is_on(device: Mapping[str, Any], nic: Mapping[str, Any]) -> bool:
    """Say whether an RDMA device is the function's own, or a software one (rxe, siw) on one of its interfaces."""
    if device["pci"] is not None:
        return bool(device["pci"] == nic["address"])
    return device["netdev"] in nic["netdevs"]


def _set_up(probe: Probe, nic: dict[str, Any], ports: list[dict[str, Any]]) -> None:
    """Add to a physical function how its virtual ones are set up; a bond's member also tells its own address."""
    sriov = nic["sriov"]
    if sriov is None:
        return
    sriov.update(settings=None, port_mac=None)
    asked = [port for port in ports if port["link_type"] == "ether" and (sriov["enabled"] or port["master"])]
    if sriov["total"] and len(asked) == 1:
        sriov["port_mac"], sriov["settings"] = read_port_settings(probe, asked[0]["name"])


def _parent_id(function: Function, ids: dict[str, PciId]) -> PciId | None:
    return ids.get(function.physfn) if function.physfn is not None else None


def _link_layer(ports: list[dict[str, Any]], devices: list[dict[str, Any]], pci_id: PciId) -> str | None:
    """Ask the RDMA port first (it decides), then the interface, then the class of an InfiniBand function."""
    for device in devices:
        for port in device["ports"]:
            if port["link_layer"]:
                return str(port["link_layer"])
    for port in ports:
        if port["link_type"] in _LINK_LAYERS:
            return _LINK_LAYERS[port["link_type"]]
    return "InfiniBand" if pci_id.pci_class.startswith("0207") else None


def _first(devices: list[dict[str, Any]], key: str) -> str | None:
    return next((str(device[key]) for device in devices if device[key]), None)
