# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unloads a driver from a running kernel, loads it again, and restores the settings of its interfaces. Pure."""

from __future__ import annotations

from typing import Callable, Iterable, NamedTuple, Sequence

from ...engine.operations import Each, Operation, PutFile, RemoveFile, Run, SetAttribute, WaitFor, Work, set_link
from ...facts import module_graph
from ...facts.driver.read import read_identity, read_on_disk
from ...facts.driver.snapshot import as_text
from ...facts.driver.status import same_build
from ...facts.driver_shapes import DriverState, Managed, Snapshot, SnapshotFunction, SnapshotLink, SnapshotVlan
from ...facts.own_files import JOURNAL
from ...machine.access import Host
from ...machine.probe import DRIVERS_PROBE, NET, PCI, Probe, names_at, target_at

# Firmware needs up to half a minute for a card with many functions.
_APPEARS_WITHIN = 90.0
_SETTLE = ("udevadm", "settle", "--timeout=30")
SERVICE = "openibd"
# Without any of these, interfaces may be missing.
_OF_THE_NETWORK = frozenset(module_graph.REPLACED) - frozenset(module_graph.AUXILIARY)
# Functions of large cards take seconds each to stop and to start.
_SECONDS = 300.0


def restore_operations(snapshot: Snapshot) -> list[Operation]:
    """Return the operations that restore the state once the driver is loaded, in order.

    Each may be repeated: they also run after an attempt that was interrupted at any of them.
    """
    physical = {function["pci"] for function in snapshot["functions"]}
    present = {link["pci"] for link in snapshot["links"]}
    operations: list[Operation] = [*_appear(physical & present), Run(_SETTLE, 40.0)]
    # A port that comes up resets its VFs, which then reject commands for a while, so it comes first.
    for function in snapshot["functions"]:
        for link in snapshot["links"]:
            if link["pci"] == function["pci"]:
                operations.extend(_restored_link(link))
        operations.extend(_virtual_functions(function))
    operations += _appear(present - physical)
    for link in snapshot["links"]:
        if link["pci"] not in physical:
            operations += _restored_link(link)
    for vlan in snapshot["vlans"]:
        operations.extend(_restored_vlan(vlan))
    for link in snapshot["links"]:
        operations.extend(_addresses(f"{{port:{link['pci']}}}", link["addresses"]))
    for vlan in snapshot["vlans"]:
        operations.extend(_addresses(vlan["name"], vlan["addresses"]))
    for route in snapshot["routes"]:
        operations.append(Run(("ip", f"-{route['version']}", "route", "replace", *route["words"])))
    return operations


def missing(snapshot: Snapshot, host: Host) -> str:
    """Return what of the snapshot is missing, in one clause; empty if nothing is."""
    problems = []
    for function in snapshot["functions"]:
        count = _count(host, f"{PCI}/{function['pci']}")
        if count != function["vfs"]:
            problems.append(f"{function['pci']} has {count} of {function['vfs']} VFs")
    for link in snapshot["links"]:
        names = names_at(host, f"{PCI}/{link['pci']}/net")
        if not names:
            problems.append(f"{link['name']} ({link['pci']}) is not there")
        elif link["master"] and not any(_master(host, name) == link["master"] for name in names):
            problems.append(f"{link['name']} is not a port of {link['master']}")
    problems += [
        f"{vlan['name']} is not there" for vlan in snapshot["vlans"] if not host.exists(f"{NET}/{vlan['name']}")
    ]
    return "; ".join(problems)


def _appear(addresses: Iterable[str]) -> list[Operation]:
    """Return one wait for the interfaces of all functions, so that the time limit applies only once."""
    wanted = sorted(addresses)

    def there(host: Host) -> bool:
        return all(host.list(f"{PCI}/{address}/net") for address in wanted)

    if not wanted:
        return []
    return [WaitFor(f"the interface{'s' if len(wanted) > 1 else ''} of {', '.join(wanted)}", there, _APPEARS_WITHIN)]


def _virtual_functions(function: SnapshotFunction) -> list[Operation]:
    address, count = function["pci"], function["vfs"]
    if not count:
        return []
    device = f"{PCI}/{address}"
    # Addresses are set before the driver is bound, which takes the address that it finds.
    operations: list[Operation] = [
        SetAttribute(f"{device}/sriov_drivers_autoprobe", "0"),
        SetAttribute(f"{device}/sriov_numvfs", str(count), 120.0),
    ]

    def there(host: Host) -> bool:
        return _count(host, device) == count

    operations.append(WaitFor(f"the {count} VFs of {address}", there, _APPEARS_WITHIN))
    for entry in function["managed"]:
        # One setting per call: drivers reject those that they do not support (EOPNOTSUPP, 2).
        for words in _managed_words(entry):
            operations.append(set_link(f"{{port:{address}}}", "vf", str(entry["vf"]), *words, accepted=(0, 2)))
    # Without autoprobe the kernel binds a VF to no driver, not even on an explicit request
    # (pci_device_can_probe, drivers/pci/pci-driver.c).
    operations.append(SetAttribute(f"{device}/sriov_drivers_autoprobe", "1"))
    operations += [SetAttribute(DRIVERS_PROBE, bound, 60.0) for bound in function["bound"]]
    if not function["autoprobe"]:
        operations.append(SetAttribute(f"{device}/sriov_drivers_autoprobe", "0"))
    operations.append(Run(_SETTLE, 40.0))
    return operations


def _managed_words(entry: Managed) -> Iterable[tuple[str, ...]]:
    for key, value in entry.items():
        if isinstance(value, list):
            yield (key, str(value[0]), "qos", str(value[1]), "proto", str(value[2]))
        elif isinstance(value, bool):
            yield (key, "on" if value else "off")
        elif key != "vf":
            yield (key, str(value))


def _restored_link(link: SnapshotLink) -> list[Operation]:
    port = f"{{port:{link['pci']}}}"
    operations: list[Operation] = []
    # A hardware address and a master are given to an interface that is down. So is a name by older kernels (EBUSY, 2):
    # one that a network manager's "up" gets ahead of is given by the concern that owns names.
    if link["mac"] or link["master"]:
        operations.append(set_link(port, "down"))
    operations.append(set_link(port, "name", link["name"], accepted=(0, 2)))
    if link["mac"]:
        # A VF whose physical one has set its address may not set it itself (2), and has it already.
        operations.append(set_link(port, "address", link["mac"], accepted=(0, 2)))
    # Before the master: a bridge adopts the smallest MTU of its ports at once (br_mtu_auto_adjust, net/bridge/br_if.c).
    if link["mtu"]:
        operations.append(set_link(port, "mtu", str(link["mtu"])))
    if link["master"]:
        operations.append(set_link(port, "master", link["master"]))
    if link["up"]:
        operations.append(set_link(port, "up"))
    return operations


def _restored_vlan(vlan: SnapshotVlan) -> list[Operation]:
    name, parent = vlan["name"], f"{{port:{vlan['parent']}}}"
    kind = ("type", "vlan", "protocol", vlan["protocol"], "id", str(vlan["id"]))
    # A network manager may have created it already (EEXIST, 2); the next operation shows whether it is right.
    operations: list[Operation] = [Run(("ip", "link", "add", "link", parent, "name", name, *kind), accepted=(0, 2))]
    if vlan["settings"]:
        operations.append(set_link(name, "type", "vlan", *vlan["settings"]))
    if vlan["mac"]:
        operations.append(set_link(name, "address", vlan["mac"]))
    if vlan["mtu"]:
        operations.append(set_link(name, "mtu", str(vlan["mtu"])))
    if vlan["master"]:
        operations.append(set_link(name, "master", vlan["master"]))
    operations.append(set_link(name, "up" if vlan["up"] else "down"))
    return operations


def _addresses(device: str, addresses: Iterable[Sequence[str]]) -> list[Operation]:
    return [Run(("ip", "address", "replace", *words, "dev", device)) for words in addresses]


def _count(host: Host, device: str) -> int:
    return sum(name.startswith("virtfn") for name in names_at(host, device))


def _master(host: Host, name: str) -> str | None:
    return target_at(host, f"{NET}/{name}/master").rsplit("/", 1)[-1] or None


class Reload(NamedTuple):
    """The modules to unload and load, in order, and whether the vendor's service reloads the stack in between."""

    unload: tuple[str, ...]
    load: tuple[str, ...]
    by_service: bool = False


def reload_of_stack(state: DriverState, by_service: bool, interrupted: Snapshot | None) -> Reload:
    """Return how the RDMA stack is reloaded: its users are unloaded first and loaded last.

    The service (openibd) replaces the modules of the stack itself; modprobe handles the others. Modules that an
    ``interrupted`` reload had unloaded are loaded, too.
    """
    loaded = state["loaded"]
    peers = [name for name in module_graph.PEER_MEMORY if name in loaded]
    # Users of a storage module are unloaded before it.
    storage = sorted(
        (name for name in module_graph.STORAGE if name in loaded), key=lambda name: len(loaded[name]["users"])
    )
    replaced = [name for name in module_graph.REPLACED if name in loaded]
    auxiliary = [name for name in replaced if name in module_graph.AUXILIARY]
    again = [name for name in module_graph.LOADED_AGAIN if name in loaded or name in module_graph.ALWAYS_LOADED]
    unloaded = interrupted.get("modules", []) if interrupted is not None else []
    return Reload(
        unload=(*peers, *storage, *(auxiliary if by_service else replaced)),
        load=tuple(dict.fromkeys((*unloaded, *again, *reversed(storage), *peers))),
        by_service=by_service,
    )


def reload_work(reload: Reload, snapshot: Snapshot, compared: tuple[str, ...] = ()) -> Work:
    """Return how the reload is executed: record the network, unload, load, and restore the network.

    The record stays until everything is restored, so that the next run can finish the work. ``compared`` are
    modules that must be loaded in their version on the disk afterwards.
    """
    do: list[Operation] = [PutFile(JOURNAL, as_text({**snapshot, "modules": list(reload.load)}), 0o600)]
    do += [Run(("modprobe", "-r", name), _SECONDS) for name in reload.unload]
    if reload.by_service:
        do.append(Run(("systemctl", "restart", SERVICE), 2 * _SECONDS))
    back = [*(Run(("modprobe", name), _SECONDS) for name in reload.load), *restore_operations(snapshot)]
    return Work([*do, *_ended(reload, snapshot)], undo=back, verify=_verified(snapshot, compared))


def restore_work(reload: Reload, snapshot: Snapshot) -> Work:
    """Return how an interrupted reload is finished."""
    return Work(_ended(reload, snapshot), verify=_verified(snapshot, ()))


def _ended(reload: Reload, snapshot: Snapshot) -> list[Operation]:
    """Return how everything is restored; the record is removed once the network is back.

    A module that the network does not need may not load with another stack (nvidia-peermem until DKMS has
    rebuilt it, NVIDIA/gpu-operator, issue 2868; storage that the vendor has not built): that fails once, here.
    """
    others = [name for name in reload.load if name not in _OF_THE_NETWORK]
    tried = [Run(("modprobe", name), _SECONDS, (0, 1)) for name in others]
    back = [Run(("modprobe", name), _SECONDS) for name in reload.load if name in _OF_THE_NETWORK]
    ended: list[Operation] = [_all_of([*back, *tried, *restore_operations(snapshot)])]
    if not others:
        return [*ended, RemoveFile(JOURNAL)]
    advice = (
        "the network is back, and no later run loads it: have it built for the driver that runs now (nvidia-peermem: "
        "dkms remove and dkms install of nvidia), and load it with modprobe"
    )
    strict = [Run(("modprobe", name), _SECONDS) for name in others]
    return [*ended, Each("load again what had been unloaded", [*strict, RemoveFile(JOURNAL)], advice)]


def _all_of(back: Sequence[Operation]) -> Each:
    """Return operations that restore as much of the host's network as possible, even if one of them fails."""
    advice = (
        f"bring back by hand what is named and remove {JOURNAL}, or reboot the host; each run tries again while that "
        "file is there"
    )
    return Each("bring all of the network back", back, advice)


def _verified(snapshot: Snapshot, compared: tuple[str, ...]) -> Callable[[Host], str]:
    def verify(host: Host) -> str:
        return "; ".join(filter(None, (missing(snapshot, host), _other_builds(host, compared))))

    return verify


def _other_builds(host: Host, compared: tuple[str, ...]) -> str:
    if not compared:
        return ""
    probe = Probe(host)
    on_disk = read_on_disk(probe, probe.text("/proc/sys/kernel/osrelease") or "", compared) or {}
    different = [name for name in compared if same_build(read_identity(probe, name), on_disk.get(name)) is False]
    return f"{', '.join(different)} still run{'s' if len(different) == 1 else ''} as before" if different else ""
