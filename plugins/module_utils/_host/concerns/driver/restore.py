# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings back what the interfaces of a driver had before it was reloaded."""

from __future__ import annotations

from typing import Iterable, Sequence

from ...engine.operations import Operation, Run, SetAttribute, WaitFor
from ...facts.driver_shapes import Managed, Snapshot, SnapshotFunction, SnapshotLink, SnapshotVlan
from ...machine.access import Host
from ...machine.probe import names_at, target_at

PCI = "/sys/bus/pci/devices"
PROBE = "/sys/bus/pci/drivers_probe"
NET = "/sys/class/net"
# Firmware needs up to half a minute for a card with many functions.
_APPEARS_WITHIN = 90.0
_SETTLE = ("udevadm", "settle", "--timeout=30")


def restore_operations(snapshot: Snapshot) -> list[Operation]:
    """Return the operations that bring the state back, in order, once the driver is loaded.

    Every one may be done again: they also run after an earlier attempt that was interrupted at any of them.
    """
    physical = {function["pci"] for function in snapshot["functions"]}
    present = {link["pci"] for link in snapshot["links"]}
    operations: list[Operation] = [*_appear(physical & present), Run(_SETTLE, 40.0)]
    # A port that comes up resets its virtual functions, which then take no orders for a while: it goes first.
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
    """Return what of the snapshot is not there, in one clause; empty when all of it is."""
    problems = []
    for function in snapshot["functions"]:
        count = _count(host, f"{PCI}/{function['pci']}")
        if count != function["vfs"]:
            problems.append(f"{function['pci']} has {count} of {function['vfs']} virtual functions")
    for link in snapshot["links"]:
        names = names_at(host, f"{PCI}/{link['pci']}/net")
        if not names:
            problems.append(f"{link['name']} ({link['pci']}) is not there")
        elif link["master"] and not any(_master(host, name) == link["master"] for name in names):
            problems.append(f"{link['name']} is no port of {link['master']}")
    problems += [
        f"{vlan['name']} is not there" for vlan in snapshot["vlans"] if not host.exists(f"{NET}/{vlan['name']}")
    ]
    return "; ".join(problems)


def _appear(addresses: Iterable[str]) -> list[Operation]:
    """Wait for the interfaces of all functions together: where many are missing, the time is waited for once."""
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
    # Their addresses are set before their driver looks at them: it takes the address that it finds.
    operations: list[Operation] = [
        SetAttribute(f"{device}/sriov_drivers_autoprobe", "0"),
        SetAttribute(f"{device}/sriov_numvfs", str(count), 120.0),
    ]

    def there(host: Host) -> bool:
        return _count(host, device) == count

    operations.append(WaitFor(f"the {count} virtual functions of {address}", there, _APPEARS_WITHIN))
    for entry in function["managed"]:
        # One setting a call: drivers refuse the ones that they do not have (EOPNOTSUPP, 2).
        for words in _managed_words(entry):
            argv = ("ip", "link", "set", "dev", f"{{port:{address}}}", "vf", str(entry["vf"]), *words)
            operations.append(Run(argv, accepted=(0, 2)))
    # Without autoprobe the kernel binds a virtual function to no driver, not even when asked for that one
    # (pci_device_can_probe, drivers/pci/pci-driver.c).
    operations.append(SetAttribute(f"{device}/sriov_drivers_autoprobe", "1"))
    operations += [SetAttribute(PROBE, bound, 60.0) for bound in function["bound"]]
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
        operations.append(Run(("ip", "link", "set", "dev", port, "down")))
    operations.append(Run(("ip", "link", "set", "dev", port, "name", link["name"]), accepted=(0, 2)))
    if link["mac"]:
        # A virtual function whose physical one has set its address may not set it itself (2), and has it already.
        operations.append(Run(("ip", "link", "set", "dev", port, "address", link["mac"]), accepted=(0, 2)))
    # Before the master: a bridge takes the smallest MTU of its ports at once (br_mtu_auto_adjust, net/bridge/br_if.c).
    if link["mtu"]:
        operations.append(Run(("ip", "link", "set", "dev", port, "mtu", str(link["mtu"]))))
    if link["master"]:
        operations.append(Run(("ip", "link", "set", "dev", port, "master", link["master"])))
    if link["up"]:
        operations.append(Run(("ip", "link", "set", "dev", port, "up")))
    return operations


def _restored_vlan(vlan: SnapshotVlan) -> list[Operation]:
    name, parent = vlan["name"], f"{{port:{vlan['parent']}}}"
    kind = ("type", "vlan", "protocol", vlan["protocol"], "id", str(vlan["id"]))
    # It may be there already: a network manager is quicker at times (EEXIST, 2); the next operation tells.
    operations: list[Operation] = [Run(("ip", "link", "add", "link", parent, "name", name, *kind), accepted=(0, 2))]
    if vlan["settings"]:
        operations.append(Run(("ip", "link", "set", "dev", name, "type", "vlan", *vlan["settings"])))
    if vlan["mac"]:
        operations.append(Run(("ip", "link", "set", "dev", name, "address", vlan["mac"])))
    if vlan["mtu"]:
        operations.append(Run(("ip", "link", "set", "dev", name, "mtu", str(vlan["mtu"]))))
    if vlan["master"]:
        operations.append(Run(("ip", "link", "set", "dev", name, "master", vlan["master"])))
    operations.append(Run(("ip", "link", "set", "dev", name, "up" if vlan["up"] else "down")))
    return operations


def _addresses(device: str, addresses: Iterable[Sequence[str]]) -> list[Operation]:
    return [Run(("ip", "address", "replace", *words, "dev", device)) for words in addresses]


def _count(host: Host, device: str) -> int:
    return sum(name.startswith("virtfn") for name in names_at(host, device))


def _master(host: Host, name: str) -> str | None:
    return target_at(host, f"{NET}/{name}/master").rsplit("/", 1)[-1] or None
