# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the driver stack, the network on it, and peer memory, for hosts whose spec has them.

``ip`` is run per interface: on a cluster node the output for all may exceed the limit of a command.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from ...machine.probe import NET, Probe, files_by_name, objects, parsed, pci_address_in, printable
from ...spec.driver import ABSENT
from ...spec.driver_families import INBOX
from ...spec.driver_version import parse_driver_version
from ...spec.host import HostSpec
from ..driver_shapes import DriverState, PeerState, Snapshot, Stacked, Symbols, SymbolTables
from ..eswitch import read_modes
from ..gpus import OPERATOR_FILES
from ..host_state import NETDEV_DRIVER
from ..next_boot import next_boot_of
from ..own_files import JOURNAL
from ..shapes import Facts, Nic, ReadNetdev, Stack, System
from ..users import stations_of_others
from .blockers import ADDRESS, FILTERING, SUBFUNCTION, VLAN, VRF
from .read import read_driver, read_on_disk
from .snapshot import take_snapshot
from .status import runs_what_is_installed

_AUXILIARY = "/sys/bus/auxiliary/devices"
# The kinds of hardware interfaces; others on a PCI function (IPoIB of another partition) were added by somebody.
_HARDWARE = ("physical", "representor", "sub-function")
# The first is exported by an RDMA stack with peer-memory clients (MLNX_OFED, DOCA-OFED, some vendors' kernels): up to
# MLNX_OFED 23.10 by its ib_core (lsmod in NVIDIA/nccl, issue 1537), later by its ib_uverbs (24.07: Makefile of
# drivers/infiniband/core in wjz304/mlnx-ofed-kernel; lsmod in openshift/openshift-docs,
# modules/rdma-configuring-the-gpu-operator.adoc). The second is exported by an ib_uverbs that registers DMA-BUF regions
# (kernel 5.12; backported to older kernels by distributions).
PEER_SYMBOL = "ib_register_peer_memory_client"
DMA_BUF_SYMBOL = "ib_umem_dmabuf_get"
CLIENTS = "/sys/kernel/mm/memory_peers"
MODULES = ("nvidia", "nvidia_peermem", "nv_peer_mem")
_LOAD_DIRECTORIES = (
    "/etc/modules-load.d",
    "/run/modules-load.d",
    "/usr/local/lib/modules-load.d",
    "/usr/lib/modules-load.d",
)


def read_snapshot(probe: Probe, driver: str, nics: Iterable[Nic], netdevs: Iterable[ReadNetdev]) -> Snapshot:
    """Return the configuration of the interfaces of ``driver`` and of those on top, as JSON data, to restore later.

    ``nics`` and ``netdevs`` are those of the facts; any PCI driver may be named. VFs are included with
    their physical one, whatever their driver.
    """
    functions = _functions(driver, nics)
    names = [name for nic in functions for name in nic["netdevs"]]
    links = {name: _first(_ask(probe, "-details", "address", "show", "dev", name)) for name in names}
    vlans = [link for link in _ask(probe, "-details", "address", "show", "type", "vlan") if link.get("link") in names]
    routed = [*names, *(str(link["ifname"]) for link in vlans if "ifname" in link)]
    routes = {version: [route for name in routed for route in _routes_of(probe, version, name)] for version in (4, 6)}
    ports = {netdev["name"]: netdev for netdev in netdevs}
    return take_snapshot(driver, functions, ports=ports, links=links, vlans=vlans, routes=routes)


def read_stacked(probe: Probe, driver: str, nics: Iterable[Nic], netdevs: Iterable[ReadNetdev]) -> list[Stacked]:
    """Return what is on top of the interfaces and functions of ``driver``: ``{"on", "name", "kind"}`` each.

    Kinds are the kernel's (``vlan``, ``bond``, ``macvlan``) and those of ``blockers``: foreign hardware addresses that
    a port accepts, sub-functions, bridges that filter VLANs. A VLAN is removed with the interface below it, so what is
    on top of the VLAN is included too; a master stays.
    """
    known = {netdev["name"]: netdev for netdev in netdevs}
    functions = _functions(driver, nics)
    addresses = {nic["address"] for nic in functions}
    found: list[Stacked] = [
        {"on": netdev["pci"], "name": name, "kind": netdev["kind"]}
        for name, netdev in known.items()
        if netdev["pci"] is not None and netdev["pci"] in addresses and netdev["kind"] not in _HARDWARE
    ]
    for name in probe.names(_AUXILIARY):
        parent = pci_address_in(probe.target(f"{_AUXILIARY}/{name}") or "")
        if name.startswith(f"{driver}.sf.") and parent in addresses:
            found.append({"on": parent, "name": printable(name), "kind": SUBFUNCTION})
    ports = [name for nic in functions for name in nic["netdevs"]]
    lowers = list(ports)
    others = stations_of_others(probe, ports, known.values())
    for name in lowers:
        layer: list[Stacked] = [
            {"on": name, "name": upper, "kind": _kind(probe, upper, known)}
            for entry in probe.names(f"{NET}/{name}")
            if entry.startswith("upper_")
            for upper in [printable(entry[len("upper_") :])]
        ]
        found += layer
        lowers += [entry["name"] for entry in layer if entry["kind"] == VLAN and entry["name"] not in lowers]
        # The port of a bond or bridge accepts frames for the interfaces above.
        is_own = name in ports and all(e["kind"] == VRF for e in layer if e["name"] == known[name]["master"])
        if is_own and name in others:
            found.append({"on": name, "name": others[name], "kind": ADDRESS})
    return found


def read_peer_memory(probe: Probe, system: System) -> PeerState:
    """Return symbols, modules, clients, owners and persistence of peer memory; None if unknown.

    ``symbols`` has two parts: those of the running code, and those of the modules on disk, which a reload would load.
    ``exporter`` is the module that accepts clients, according to the modules on disk (modules.symbols, written by
    depmod(8)), else to the running code.
    """
    kernel = system["kernel"]
    tables = {"running": "/proc/kallsyms", "on_disk": f"/lib/modules/{kernel}/modules.symbols"}
    symbols: SymbolTables = {
        "running": _symbols(probe, tables["running"]),
        "on_disk": _symbols(probe, tables["on_disk"]),
    }
    exporting = [tables["on_disk"]] if symbols["on_disk"]["peer_memory"] else []
    exporting += [tables["running"]] if symbols["running"]["peer_memory"] else []
    return {
        "symbols": symbols,
        "exporter": next(filter(None, (_exporter(probe, table) for table in exporting)), None),
        "modules": read_on_disk(probe, kernel, MODULES, identify=False),
        "clients": [printable(name, 64) for name in probe.names(CLIENTS)],
        "operator": [path for path in OPERATOR_FILES if probe.host.exists(path)],
        "loaded_at_boot": _loaded_at_boot(probe),
    }


def read_stack_state(probe: Probe, desired: HostSpec, facts: Facts) -> None:
    """Add to ``facts`` what ``desired`` needs about the driver and peer memory.

    The network is only recorded if the driver may be reloaded, as this takes a command per interface.
    """
    requests = desired["requests"]
    # A reload that was killed is completed even if the spec no longer has a driver.
    if desired["driver"] or any(request["driver"] for request in requests) or probe.host.exists(JOURNAL):
        facts["next_boot"] = next_boot_of(probe, facts)
        state = read_driver(probe, facts["system"], facts["next_boot"]["kernel"], desired["driver"])
        if _may_reload(desired, state, facts["stack"]):
            state["snapshot"] = read_snapshot(probe, NETDEV_DRIVER, facts["nics"], facts["netdevs"])
            state["stacked"] = read_stacked(probe, NETDEV_DRIVER, facts["nics"], facts["netdevs"])
            facts["eswitch"].update(read_modes(probe, _of_unknown_mode(facts)))
        facts["driver"] = state
    if (
        desired["peer_memory"]
        or desired.get("peer_memory_before") is not None
        or any(request["peer_memory"] is not None for request in requests)
    ):
        facts["peer_memory"] = read_peer_memory(probe, facts["system"])


def _functions(driver: str, nics: Iterable[Nic]) -> list[Nic]:
    """Return the PFs of a driver and their virtual ones, whatever the driver of these."""
    all_nics = {nic["address"]: nic for nic in nics}
    physical = [nic for nic in all_nics.values() if nic["driver"] == driver and not nic["pf"]]
    members = {vf for nic in physical if nic["sriov"] for vf in nic["sriov"]["vfs"]}
    return [nic for nic in all_nics.values() if nic in physical or nic["address"] in members]


def _kind(probe: Probe, name: str, known: Mapping[str, ReadNetdev]) -> str:
    """Return the kind of an upper interface; only netlink reports it for those without DEVTYPE (VRF, Open vSwitch)."""
    kind = known[name]["kind"] if name in known else "virtual"
    if kind == "virtual":
        info = _first(_ask(probe, "-details", "link", "show", "dev", name)).get("linkinfo")
        kind = printable(str((info if isinstance(info, dict) else {}).get("info_kind") or kind), 32)
    if kind == "bridge" and probe.text(f"{NET}/{name}/bridge/vlan_filtering") == "1":
        return FILTERING
    return kind


def _routes_of(probe: Probe, version: int, name: str) -> list[dict[str, Any]]:
    """Return the routes through an interface; for a single interface, ``ip`` does not print its name."""
    routes = _ask(probe, f"-{version}", "route", "show", "table", "all", "dev", name)
    return [route if "nexthops" in route else {**route, "dev": name} for route in routes]


def _ask(probe: Probe, *words: str) -> list[dict[str, Any]]:
    """Return the entries in the output of ``ip``; none if it is not a complete JSON list of mappings."""
    # iproute2 prints an empty object for each interface that was filtered out.
    return [entry for entry in objects(parsed(probe.json("ip", "-json", *words) or "")) if entry]


def _first(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return entries[0] if entries else {}


def _symbols(probe: Probe, path: str) -> Symbols:
    """Return the symbols in a table, which grep searches as it has megabytes; unknown without root."""
    result = None
    if probe.host.exists(path):
        result = probe.command("grep", "-o", "-w", "-e", PEER_SYMBOL, "-e", DMA_BUF_SYMBOL, path)
    if result is None or result.rc not in {0, 1}:
        return {"peer_memory": None, "dma_buf": None}
    found = set(result.stdout.split())
    return {"peer_memory": PEER_SYMBOL in found, "dma_buf": DMA_BUF_SYMBOL in found}


def _exporter(probe: Probe, path: str) -> str | None:
    """Return the module that exports the symbol according to a table.

    A line of modules.symbols is ``alias symbol:ib_register_peer_memory_client ib_uverbs``, one of /proc/kallsyms ends
    with ``ib_register_peer_memory_client	[ib_uverbs]``.
    """
    words = probe.output("grep", "-m", "1", "-w", PEER_SYMBOL, path).split()
    return printable(words[-1].strip("[]"), 64) if len(words) > 2 else None


def _loaded_at_boot(probe: Probe) -> dict[str, list[str]]:
    """Return the files of modules-load.d(5) that name a peer-memory module; a file in /etc masks its namesakes."""
    found: dict[str, list[str]] = {}
    for path in files_by_name(probe, _LOAD_DIRECTORIES, ".conf"):
        for line in (probe.content(path) or "").splitlines():
            module = line.strip().replace("-", "_")
            if module in MODULES[1:]:
                found.setdefault(module, []).append(path)
    return found


def _of_unknown_mode(facts: Facts) -> list[str]:
    """Return the PFs with a switch id, which may be in switchdev mode, whose mode was not read yet."""
    switched = {netdev["pci"] for netdev in facts["netdevs"] if netdev["switch_id"]}
    ports = [nic["address"] for nic in facts["nics"] if nic["function"] == "pf" and nic["driver"] == NETDEV_DRIVER]
    return [address for address in ports if address in switched and address not in facts["eswitch"]]


def _may_reload(desired: HostSpec, state: DriverState, stack: Stack) -> bool:
    """Return whether anything in ``desired`` differs from what runs; node selectors are ignored."""
    if state["journal"] or runs_what_is_installed(state) is False:
        return True
    own = desired["driver"]
    if own is not None:
        inbox = own["state"] == ABSENT or own["flavour"] == INBOX
        if inbox or (own["flavour"] and not own["version"]):
            return stack["flavour"] != (INBOX if inbox else own["flavour"])
    running = parse_driver_version(stack["version"] or "")
    texts = [own["version"] if own else None, *((one["driver"] or {}).get("version") for one in desired["requests"])]
    wanted = [parse_driver_version(str(text)) for text in texts if text]
    return any(release is None or running is None or release.fields != running.fields for release in wanted)
