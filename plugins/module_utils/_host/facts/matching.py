# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Match the interfaces of the spec to devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Collection, Iterable, Mapping, NamedTuple

from ..spec import syntax
from ..spec.host import HostSpec
from ..spec.interface_keys import OF_MANAGERS
from .host_state import NETDEV_DRIVER, HostState, Interface
from .netdev import permanent_mac
from .own_files import naming_line_ends, part_of_name
from .shapes import Netdev, Nic

if TYPE_CHECKING:
    from ..spec.interfaces import InterfaceSpec

NO_SUCH = "this host has no such interface"


class Unmatched(NamedTuple):
    """Why an entry has no device of its own: ``key`` identifies it, ``refusal`` says what to do."""

    key: str
    target: str
    action: str
    after: str | list[str] | None
    reason: str
    refusal: str


class Matched(NamedTuple):
    """The matched interfaces in order of PCI address, and the entries without a device of their own."""

    interfaces: tuple[Interface, ...]
    unmatched: list[Unmatched]


def match_spec(desired: HostSpec, actual: HostState) -> Matched:
    """Return the devices for the entries of ``desired``; of a removal, only for those that still exist."""
    wanted = desired["interfaces"]
    return match_interfaces(_still_there(wanted, actual) if desired.get("removing") else wanted, actual)


def match_interfaces(wanted: Iterable[InterfaceSpec], actual: HostState) -> Matched:
    """Return the device of each entry."""
    interfaces: list[Interface] = []
    unknown = []
    entries = [(*selector_of(entry), entry) for entry in wanted]
    placed = [
        netdev
        for key, value, entry in entries
        if key != "current_name"
        for _nic, netdev in _candidates(actual, key, value, entry["name"])
    ]
    others = {netdev["name"] for netdev in placed if netdev is not None}
    for key, value, entry in entries:
        found = _candidates(actual, key, value, entry["name"], others)
        if len(found) == 1:
            interfaces.append(Interface(entry, *found[0]))
        else:
            unknown.append((key, value, entry, found))
    made = functions_to_come(interfaces) if unknown else {}
    unknown = [each for each in unknown if each[0] != "pci" or each[1] not in made]
    coming = any((interface.wanted["vfs"] or 0) > interface.functions for interface in interfaces)
    refused = [_unmatched(*one, coming=coming) for one in unknown]
    managing = [_managing(interface) for interface in interfaces if interface.key in actual.switch_managers]
    interfaces = [interface for interface in interfaces if interface.key not in actual.switch_managers]
    unique, doubled = _split_doubled(interfaces)
    without_netdev = [_without_netdev(actual, i) for i in unique if i.netdev is None and _wants_netdev(i.wanted)]
    ordered = tuple(sorted(unique, key=lambda interface: interface.key))
    return Matched(ordered, sorted(refused + managing + doubled + without_netdev, key=lambda entry: entry.key))


def _still_there(wanted: Iterable[InterfaceSpec], actual: HostState) -> list[InterfaceSpec]:
    """Return the entries whose interface still exists; the original values of others are not restored."""
    return [entry for entry in wanted if _candidates(actual, *selector_of(entry), entry["name"])]


def functions_to_come(interfaces: Iterable[Interface]) -> dict[str, Interface]:
    """Return the addresses of the VFs in the spec, each with its port.

    The first one is ``offset`` routing ids after the port, each further one by ``stride`` (the kernel's
    drivers/pci/iov.c, pci_iov_virtfn_bus and pci_iov_virtfn_devfn).
    """
    found = {}
    for interface in interfaces:
        nic = interface.nic
        sriov = nic["sriov"] if nic is not None else None
        if nic is None or sriov is None or "offset" not in sriov:
            continue
        domain, bus, place = nic["address"].split(":")
        slot, function = place.split(".")
        first = (int(bus, 16) << 8) + (int(slot, 16) << 3) + int(function) + sriov["offset"]
        for number in range(interface.wanted["vfs"] or 0):
            at = first + number * sriov["stride"]
            found[f"{domain}:{at >> 8:02x}:{at >> 3 & 0x1F:02x}.{at & 7}"] = interface
    return found


def selector_of(entry: InterfaceSpec) -> tuple[str, str]:
    """Return the selector of an entry: its kind and its value."""
    return next((key, str(entry.get(key))) for key in syntax.SELECTORS if entry.get(key) is not None)


def _candidates(
    actual: HostState, key: str, value: str, new_name: str | None, others: Collection[str] = ()
) -> list[tuple[Nic | None, Netdev | None]]:
    """Return the devices that a selector matches; ``others`` are the interfaces that entries select by pci or mac."""
    if key == "pci":
        nic = actual.nics.get(value)
        return [(nic, actual.port_of(nic))] if nic else []
    if key == "mac":
        ports = [netdev for netdev in actual.netdevs.values() if netdev["kind"] == "physical"]
        netdevs = [port for port in ports if same_address(permanent_mac(port), value)]
        # An interface whose address was changed is also found by the current one.
        netdevs = netdevs or [port for port in ports if same_address(port["mac"], value)]
    else:
        # The entry's own name matches too: after the rename, the interface has no other.
        names = [name for name in (value, new_name) if name in actual.netdevs]
        if len(names) > 1 and names[1] not in others and _is_named_here(actual, actual.netdevs[names[1]]):
            # A new interface has taken the free name, for example a VF the first ethN.
            names.reverse()
        netdevs = [actual.netdevs[name] for name in names[:1]]
    return [(_function_of(actual, netdev), netdev) for netdev in netdevs]


def _is_named_here(actual: HostState, netdev: Netdev) -> bool:
    """Return whether a file of ours (concerns/naming/files.py) gives an interface its current name."""
    end = part_of_name(netdev["pci"] or "")
    return bool(end) and any(
        path.rsplit(".", 1)[0].endswith(f"-{end}") and line.endswith(naming_line_ends(netdev["name"]))
        for path, text in actual.facts["boot"]["files"].items()
        for line in text.splitlines()
    )


def _function_of(actual: HostState, netdev: Netdev) -> Nic | None:
    """Return the PCI function whose port an interface is.

    Representors, sub-functions and IPoIB interfaces of other partitions are on the function too, but their settings are
    not those of the port.
    """
    return actual.nics.get(netdev["pci"] or "") if netdev["kind"] == "physical" else None


def same_address(actual: str | None, wanted: str) -> bool:
    """Return whether two hardware addresses are those of one port.

    The first octets of an IPoIB address contain a queue pair number that changes when the driver loads; the last eight
    are the port GUID, so only those are compared for anything longer than a MAC address.
    """
    ours, theirs = (actual or "").lower().split(":"), wanted.split(":")
    if len(theirs) == 6 or len(ours) < 8:
        return ours == theirs
    return ours[-8:] == theirs[-8:]


def _wants_netdev(entry: InterfaceSpec) -> bool:
    wanted: Mapping[str, object] = entry
    return entry["name"] is not None or any(wanted[key] is not None for key in OF_MANAGERS)


def _unmatched(
    key: str,
    value: str,
    entry: InterfaceSpec,
    found: list[tuple[Nic | None, Netdev | None]],
    *,
    coming: bool,
) -> Unmatched:
    if found:
        names = ", ".join(netdev["name"] for _nic, netdev in found if netdev)
        detail = f"{names} all have this address; select the interface by pci"
    else:
        detail = NO_SUCH
        detail += "; a VF that this plan makes is set up by the run that makes it: select it by pci" if coming else ""
    what = {"pci": "PCI address", "mac": "hardware address", "current_name": "name"}[key]
    return Unmatched(
        key=f"{key}={value}",
        target=entry["name"] or value,
        action=f"find the interface with the {what} {value}",
        after=value,
        reason=f"rdma_fabric_interfaces asks for the {what} {value}, which no single interface of this host has",
        refusal=detail,
    )


def _managing(interface: Interface) -> Unmatched:
    selector = "{} {}".format(*selector_of(interface.wanted))
    return Unmatched(
        key=f"{interface.key}:manages-nvswitches",
        target=interface.wanted["name"] or interface.key,
        action=f"leave {selector} alone",
        after=None,
        reason=f"rdma_fabric_interfaces has an entry for {selector}",
        refusal="the fabric manager manages this host's NVSwitches through it (SW_MNG in its vital product data)",
    )


def _split_doubled(interfaces: list[Interface]) -> tuple[list[Interface], list[Unmatched]]:
    """Separate interfaces that two entries select: this is ambiguous, so neither is used."""
    by_key: dict[str, list[Interface]] = {}
    for interface in interfaces:
        by_key.setdefault(interface.key, []).append(interface)
    unique = [group[0] for group in by_key.values() if len(group) == 1]
    doubled = []
    for key, group in by_key.items():
        if len(group) > 1:
            selectors = sorted("{} {}".format(*selector_of(interface.wanted)) for interface in group)
            doubled.append(
                Unmatched(
                    key=f"{key}:selected-twice",
                    target=key,
                    action=f"choose between {' and '.join(selectors)}",
                    after=selectors,
                    reason=f"{' and '.join(selectors)} are one interface",
                    refusal="merge them into one entry of rdma_fabric_interfaces",
                )
            )
    return unique, doubled


def _without_netdev(actual: HostState, interface: Interface) -> Unmatched:
    ports = actual.ports_of(interface.nic) if interface.nic is not None else []
    driver = interface.nic["driver"] if interface.nic is not None else None
    if ports:
        detail = f"it has several: {', '.join(port['name'] for port in ports)}; select one by current_name or mac"
    elif driver == NETDEV_DRIVER:
        detail = "its driver is loaded, and no interface is here"
    elif driver:
        detail = f"it is bound to {driver}, and no interface is here: a network namespace may have it"
    else:
        detail = "no driver is bound to it"
    return Unmatched(
        key=f"{interface.key}:no-interface",
        target=interface.key,
        action="find its network interface",
        after=interface.wanted["name"],
        reason="name, MTU, link state and routes are properties of a network interface",
        refusal=detail,
    )
