# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read in one pass all facts of a host that planning and reporting need."""

from __future__ import annotations

from typing import Iterable, NamedTuple, Sequence

from ..machine.access import Host
from ..machine.probe import Probe
from ..spec.by_range import values_of
from ..spec.host import HostSpec, check_spec
from .boot import read_boot_state
from .devices import MELLANOX, VFIO_DRIVERS, PciId, nic_family
from .functions import read_port_settings
from .host_state import HostState
from .kernel import is_loaded, read_modules, read_stack
from .labels import node_labels
from .matching import Matched, match_spec
from .names import read_naming
from .netdev import Netdev, read_netdevs
from .own_files import JOURNAL, read_own_files
from .owners import read_owners
from .pci import Function, add_slots, gpu_entry, nic_entry, read_functions, read_pcie
from .rdma import read_rdma
from .remote_storage import read_all_mounts, read_remote_storage
from .settings import read_settings
from .shapes import Facts, Gpu, Nic, RdmaDevice, ReadNetdev, SetElsewhere
from .system import read_system
from .topology import distances, place_by_processors, processor_nodes, rails
from .uplink import Tables, read_carried, read_shared_subnets, read_tables, read_uplinks

FORMAT = 1
_LINK_LAYERS = {"infiniband": "InfiniBand", "ether": "Ethernet"}


class Reading(NamedTuple):
    """The facts from one pass, and the entries of the spec with their devices."""

    facts: Facts
    matched: Matched


def gather(
    host: Host,
    connection_address: str | None = None,
    kernel_modules: Iterable[str] = (),
    desired: HostSpec | None = None,
) -> Facts:
    """Read a host once and return its facts; see ``read_host``."""
    return read_host(host, connection_address, kernel_modules, desired).facts


def read_host(
    host: Host,
    connection_address: str | None = None,
    kernel_modules: Iterable[str] = (),
    desired: HostSpec | None = None,
    *,
    everything: bool = False,
) -> Reading:
    """Read a host once; its facts are plain JSON data.

    ``connection_address`` is the address by which Ansible reaches the host (its interface is an uplink; names are
    ignored), ``kernel_modules`` are reported, loaded or not, in addition to those of RDMA and GPUs. Only settings that
    ``desired`` names are read; ``everything`` reads, for a recording, whatever any spec may name. A failed read is
    never fatal: a value that the host does not report is None, and unexpected errors are in ``unreadable``.
    """
    spec = check_spec({}) if desired is None else desired
    probe = Probe(host)
    with_processors = processor_nodes(probe)
    system = read_system(probe, with_processors)
    functions, tables = read_functions(probe), read_tables(probe, every_hop=desired is not None)
    mounts = read_all_mounts(probe)
    carried = read_carried(probe, tables, read_remote_storage(probe, mounts))
    netdevs = read_netdevs(probe, [*tables.defaults, *spec["protected_interfaces"], *(each.netdev for each in carried)])
    rdma = read_rdma(probe, netdevs, tables.addressed)
    nics, gpus, managers = _read_devices(probe, functions, netdevs, rdma, with_processors)
    fabric = [nic for nic in nics if nic["address"] not in managers]
    modules, own_files = read_modules(probe, system["kernel"], kernel_modules), read_own_files(probe)
    uplinks = read_uplinks(probe, tables, netdevs, connection_address, spec["protected_interfaces"], carried=carried)
    netdev_facts = [netdev.facts for netdev in netdevs]
    set_elsewhere = _read_set_elsewhere(probe, spec, netdev_facts, nics, rdma)
    indexes = {netdev.raw_name: netdev.ifindex for netdev in netdevs}
    facts: Facts = {
        "format": FORMAT,
        "system": system,
        "nics": nics,
        "gpus": gpus,
        "netdevs": netdev_facts,
        "rdma": rdma,
        "modules": modules,
        "stack": read_stack(probe, modules),
        "distances": distances(fabric, gpus),
        "rails": rails(fabric, gpus, {uplink["pci"] for uplink in uplinks if uplink["pci"]}),
        "pcie": read_pcie(probe, fabric, gpus),
        "uplinks": uplinks,
        "labels": node_labels(system, nics, bool(gpus)),
        "boot": read_boot_state(probe, indexes, own_files, set_elsewhere, mounts),
        "naming": read_naming(probe, system, netdev_facts, nics, spec),
        "owners": read_owners(probe),
        # Read below for the devices that entries of the spec select.
        "vf_users": {},
        "eswitch": {},
        "firmware": {"tool": None, "set_since_boot": {}, "cards": {}},
        "firmware_images": {"tool": None, "cards": {}, "files": {}},
        "guids": {},
        "queues": {},
        "interrupts": {},
        "settings": read_settings(probe, spec, [netdev["name"] for netdev in netdev_facts], own_files),
        "routing": {},
        "unreadable": [],
    }
    _add_port_state(probe, tables, facts)
    _add_gpu_state(probe, functions, facts, managers)
    # The ports of a virtual machine are emulated and say nothing about the slots of its devices.
    if not facts["pcie"]["virtual"]:
        add_slots(probe, [*facts["nics"], *facts["gpus"]])
    matched = match_spec(spec, HostState(facts))
    _read_for_spec(probe, spec, matched, facts, kernel_modules)
    if everything:
        from .target_ports import read_every_port

        read_every_port(probe, facts)
    facts["unreadable"] = probe.unreadable()
    return Reading(facts, matched)


def _read_set_elsewhere(
    probe: Probe, desired: HostSpec, netdevs: Sequence[ReadNetdev], nics: Sequence[Nic], rdma: Sequence[RdmaDevice]
) -> dict[str, list[SetElsewhere]]:
    """Return the settings of ports that others make, if the spec has one of these."""
    wanted = ((one["vfs"], one["eswitch_mode"], one["mtu"], one["queues"], one["qos"]) for one in desired["interfaces"])
    if not desired["roce_qos"] and all(value is None for values in wanted for value in values):
        return {}
    from .set_elsewhere import read_set_elsewhere

    return read_set_elsewhere(probe, netdevs, nics, rdma)


def _switch_managers(probe: Probe, nics: Sequence[Nic], gpus: Sequence[Gpu]) -> list[str]:
    """Return the functions that manage NVSwitches; only hosts with GPUs have some."""
    if not gpus:
        return []
    from .gpus import switch_managers

    return switch_managers(probe, nics, gpus)


def _add_gpu_state(probe: Probe, functions: list[Function], facts: Facts, managers: Sequence[str]) -> None:
    """Add the facts of hosts with GPUs: NVLink and MIG instances."""
    if not facts["gpus"]:
        return
    from .gpus import read_instances, read_nvlink

    nvlink = read_nvlink(probe, functions, facts["gpus"], managers)
    if nvlink is not None:
        facts["nvlink"] = nvlink
    instances = read_instances(probe, facts["gpus"])
    if instances:
        facts["mig"] = instances


def _add_port_state(probe: Probe, tables: Tables, facts: Facts) -> None:
    """Add the subnets that RDMA ports share, and neighbour tables that are too small for them."""
    addresses = {nic["address"] for nic in facts["nics"] if nic["vendor"] == MELLANOX}
    ports = {netdev["name"] for netdev in facts["netdevs"] if netdev["pci"] in addresses}
    shared = read_shared_subnets(probe, tables.routes, ports)
    if shared:
        facts["settings"]["shared_subnets"] = shared
    if not ports:
        return
    from .neighbours import read_neighbours

    too_small = read_neighbours(probe)
    if too_small:
        facts["settings"]["neighbours"] = too_small


def _read_for_spec(
    probe: Probe, desired: HostSpec, matched: Matched, facts: Facts, kernel_modules: Iterable[str]
) -> None:
    """Add the facts that are only read if the spec names them, or if files of ours show that an earlier one did.

    Readers are imported here, as each imported module is compiled on the host in every run.
    """
    if desired["interfaces"] or facts["boot"]["files"]:
        from .target_ports import read_target_ports

        read_target_ports(probe, desired, matched.interfaces, facts)
    restores_peer_memory = desired.get("peer_memory_before") is not None
    has_driver = restores_peer_memory or desired["driver"] or desired["peer_memory"] or desired["requests"]
    if has_driver or probe.host.exists(JOURNAL):
        from .driver.stack import read_stack_state

        read_stack_state(probe, desired, facts)
    if _may_load(desired, kernel_modules, facts) and probe.lacks("modprobe"):
        facts["without_kmod"] = True


def _may_load(desired: HostSpec, kernel_modules: Iterable[str], facts: Facts) -> bool:
    """Return whether the run may load modules: some are not loaded, or modinfo reports none of the driver's."""
    of_functions = [driver for entry in desired["interfaces"] for driver in values_of(entry["vf_driver"])]
    names = [*kernel_modules, *(name for name in of_functions if name in VFIO_DRIVERS)]
    driver, peer_memory = facts.get("driver"), facts.get("peer_memory")
    is_unknown = (driver is not None and driver["on_disk"] is None) or (
        peer_memory is not None and peer_memory["modules"] is None
    )
    loads = not all(is_loaded(facts["modules"], name.replace("-", "_")) for name in names)
    return is_unknown or loads or _needs_rdma_cm(desired, facts)


def _needs_rdma_cm(desired: HostSpec, facts: Facts) -> bool:
    """Return whether the spec has a ToS of RDMA-CM and the kernel lacks the directory in which it is set."""
    host = facts["settings"].get("qos")
    if host is None or host["rdma_cm"]:
        return False
    sections = (desired["roce_qos"], *(entry["qos"] for entry in desired["interfaces"]))
    return any(isinstance(section, dict) and "tos" in section for section in sections)


def _read_devices(
    probe: Probe,
    functions: list[Function],
    netdevs: list[Netdev],
    rdma: list[RdmaDevice],
    with_processors: Sequence[int],
) -> tuple[list[Nic], list[Gpu], list[str]]:
    """Return NICs, GPUs, and the functions that manage NVSwitches.

    A device in a NUMA node without processors is assigned to the nearest node with processors.
    """
    nics = _nics(probe, functions, netdevs, rdma)
    gpus = [gpu_entry(probe, function) for function in functions if function.id.is_gpu]
    place_by_processors(probe, [*nics, *gpus], with_processors)
    return nics, gpus, _switch_managers(probe, nics, gpus)


def _nics(probe: Probe, functions: list[Function], netdevs: list[Netdev], rdma: list[RdmaDevice]) -> list[Nic]:
    """Return every NIC with the facts of its PCI function, interfaces and RDMA devices."""
    ids = {function.address: function.id for function in functions}
    ports_of: dict[str | None, list[ReadNetdev]] = {}
    for netdev in netdevs:
        if netdev.is_port:
            ports_of.setdefault(netdev.pci_parent, []).append(netdev.facts)
    nics = []
    for function in functions:
        if not function.id.is_network:
            continue
        nic = nic_entry(probe, function)
        ports = ports_of.get(function.address, [])
        nic["netdevs"] = [port["name"] for port in ports]
        devices = [device for device in rdma if _is_on(device, nic)]
        nic["rdma"] = [device["name"] for device in devices]
        nic["link_layer"] = _link_layer(ports, devices, function.id)
        _add_vf_settings(probe, nic, ports)
        firmware = next((device["firmware"] for device in devices if device["firmware"]), None)
        nic["family"] = nic_family(function.id, ids.get(function.physfn or ""), firmware)
        nics.append(nic)
    return nics


def _is_on(device: RdmaDevice, nic: Nic) -> bool:
    """Return whether an RDMA device is the function's own, or a software device (rxe, siw) on one of its interfaces."""
    if device["pci"] is not None:
        return device["pci"] == nic["address"]
    return device["netdev"] in nic["netdevs"]


def _add_vf_settings(probe: Probe, nic: Nic, ports: list[ReadNetdev]) -> None:
    """Add the settings of its VFs to a PF, and the permanent address to its port."""
    sriov = nic["sriov"]
    if sriov is None:
        return
    candidates = [port for port in ports if port["link_type"] == "ether" and (sriov["enabled"] or port["master"])]
    if sriov["total"] and len(candidates) == 1:
        permanent, sriov["settings"] = read_port_settings(probe, candidates[0]["name"])
        if permanent:
            candidates[0]["permanent_mac"] = permanent


def _link_layer(ports: list[ReadNetdev], devices: list[RdmaDevice], pci_id: PciId) -> str | None:
    """Return the link layer of the RDMA port, else of the interface, else by the class of an InfiniBand function."""
    for device in devices:
        for port in device["ports"]:
            if port["link_layer"]:
                return port["link_layer"]
    for netdev in ports:
        if netdev["link_type"] in _LINK_LAYERS:
            return _LINK_LAYERS[netdev["link_type"]]
    return "InfiniBand" if pci_id.pci_class.startswith("0207") else None
