# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The entries of the boot unit: the part of the spec that no other file keeps. Pure.

An interface may be absent for a while: its driver reloads, its card is in reset, or a pod has it. The plan then refuses
its settings, but what the host keeps for the next boot must stay.
"""

from __future__ import annotations

import json
from typing import Mapping, Pattern

from ..concerns.links.mtu import Stack
from ..concerns.qos.settings import lasting
from ..engine.context import Context
from ..engine.steps import PLANNED
from ..facts.eswitch import LEGACY, present_mode, vf_lag_refusal
from ..facts.host_state import Interface, is_guest_function
from ..facts.managers import ifupdown, netplan, network_manager, networkd
from ..facts.managers.owner import owner_of
from ..machine.host_files import BOOT_SPEC_FILE, NETPLAN_FILE
from ..spec.by_range import values_of
from ..spec.cards import Cards
from ..spec.interface_keys import KEPT, MANAGER_OR_UNIT, OF_MANAGERS, UNIT
from ..spec.persisted import MAKER, BootEntry, boot_entries_in, cards_in, device_of, only
from .persistence import BOOT_UNIT, boot_name, is_refused, persistence

# The files with more than one interface, and the first line of an interface's section.
_SECTIONS = {
    ifupdown.OWN_FILE: ifupdown.OWN_SECTION,
    NETPLAN_FILE: netplan.OWN_SECTION,
    network_manager.OWN_FILE: network_manager.OWN_SECTION,
}


# The boot unit applies only these concerns, in the order of every plan.
AT_BOOT = frozenset({"pcie", *(kept.concern for kept in KEPT.values())})
# When the boot unit runs, only those VFs exist that it has created itself.
_OF_VFS = [key for key, kept in KEPT.items() if kept.of_vfs]


def boot_entries(context: Context) -> list[BootEntry]:
    """Return the boot unit's entries as they would be with every consent given.

    They have the shape of ``interfaces`` in the spec, and select interfaces by PCI function, which exists before any
    name. A VF that another entry creates names its PF (``pf``).
    """
    if context.removing:
        return []
    kept = {each.interface.key: each for each in context.once(persistence)}
    stack = Stack(context)
    found: list[BootEntry] = []
    for interface in context.kept_interfaces:
        wanted = interface.wanted
        entry = only(wanted, [key for key in KEPT if KEPT[key].keeper == UNIT and wanted.get(key)])
        _hold_back(context, interface, entry)
        if not entry.get("vfs"):
            for key in _OF_VFS:
                entry.pop(key, None)
        keep = kept.get(interface.key)
        if keep is not None and keep.manager == BOOT_UNIT:
            if keep.mtu is not None:
                entry["mtu"] = keep.mtu
            if keep.state is not None:
                entry["state"] = keep.state
        entry.update(of_interface(context, interface))
        carried = _carried_for_functions(context, interface, entry, stack)
        if carried and "mtu" not in entry:
            entry["mtu"] = carried
        qos = lasting(context, interface)
        if qos:
            entry["qos"] = qos
        if entry:
            found.append({**_selector(context, interface), **only(entry, sorted(entry))})
    left = former_entries(context, matched=False)
    return _with_makers(context, sorted([*found, *left.values()], key=device_of))


def known_cards(context: Context) -> Cards:
    """Return the cards of the boot unit's entries, without those that the boot unit found replaced at this boot.

    The spec of such an address now applies to the card that is there.
    """
    known = cards_in(context.boot_files.get(BOOT_SPEC_FILE))
    result = context.actual.facts["boot"]["result"]
    others = result["other_cards"] if result is not None and result["this_boot"] else {}
    return {address: card for address, card in known.items() if others.get(address) != card}


def entries_of_present_cards(context: Context) -> list[BootEntry]:
    """Return the boot unit's present entries for interfaces, without those whose address has another card now."""
    text = context.boot_files.get(BOOT_SPEC_FILE)
    entries = [entry for entry in boot_entries_in(text) or [] if "pcie" not in entry]
    others = {*cards_in(text)}.difference(context.once(known_cards))
    return [entry for entry in entries if device_of(entry) not in others and entry.get(MAKER) not in others]


def former_entries(context: Context, *, matched: bool) -> dict[str, BootEntry]:
    """Return the boot unit's present entries for devices that have no interface now, by device.

    ``matched``: for devices that match an entry of the spec, else for those that may match an entry without a device.
    An entry that selects by ``mac`` or ``current_name`` may match any device.
    """
    known = {interface.key for interface in context.interfaces}
    addresses = [entry.get("pci") for entry in context.entries_without_device]
    found: dict[str, BootEntry] = {}
    for entry in context.once(entries_of_present_cards):
        device = device_of(entry)
        nic = context.actual.nics.get(device)
        netdev = context.actual.netdevs.get(device) if nic is None else context.actual.port_of(nic)
        selected = device in known if matched else device not in known and (device in addresses or None in addresses)
        if netdev is None and selected:
            found[device] = entry
    return found


def of_interface(context: Context, interface: Interface) -> BootEntry:
    """Return the MTU and state from the boot unit's present entry for a device whose interface is absent."""
    if interface.netdev is not None:
        return {}
    former = former_entries(context, matched=True).get(interface.key, {})
    keys = [
        key for key, kept in KEPT.items() if kept.keeper == MANAGER_OR_UNIT and interface.wanted.get(key) is not None
    ]
    return only(former, keys)


def manager_files(context: Context, wanted: Mapping[str, str]) -> dict[str, str]:
    """Return our files for network managers: those ``wanted``, and what must stay while an interface is absent.

    These files refer to interfaces by name, so it is unknown which part belongs to an absent one. A file that would be
    removed stays as it is, and the others keep their sections of interfaces that the host lacks now.
    """
    entries = [*context.entries_without_device, *(one.wanted for one in context.interfaces if one.netdev is None)]
    if not any(entry.get(key) for entry in entries for key in OF_MANAGERS):
        return dict(wanted)
    drop_ins = f".network.d/{networkd.DROP_IN}"
    present = {path: text for path, text in context.boot_files.items() if path in _SECTIONS or path.endswith(drop_ins)}
    merged = {
        path: _merged(context, path, present[path], wanted[path])
        for path in _SECTIONS
        if path in {*present} & {*wanted}
    }
    return {**present, **wanted, **merged}


def _carried_for_functions(context: Context, interface: Interface, entry: BootEntry, stack: Stack) -> int:
    """Return the MTU that the boot unit must give a port for the sake of its functions, 0 if none.

    The functions are set up before a manager or bond gives the port its MTU, and none may exceed it. The port gets its
    present MTU, so not less than what a udev file may have given it.
    """
    if not entry.get("vfs") or interface.netdev is None or interface.nic is None:
        return 0
    own = [
        other.wanted["mtu"]
        for other in context.kept_interfaces
        if other.nic is not None
        and other.nic["pf"] == interface.nic["address"]
        and not is_refused(context, f"mtu:{other.key}")
    ]
    needed = max(mtu or 0 for mtu in (*values_of(entry.get("vf_mtu")), *own, 0))
    carried = stack.final(interface.netdev["name"])
    return carried if 0 < needed <= carried else 0


def _with_makers(context: Context, entries: list[BootEntry]) -> list[BootEntry]:
    """Mark the functions that the entry of another one creates: the boot unit does not wait for them at its start."""
    makers = {entry["pci"] for entry in entries if entry.get("vfs") and entry.get("pci")}

    def with_maker(entry: BootEntry) -> BootEntry:
        function = context.actual.nics.get(entry.get("pci") or "")
        maker = function["pf"] if function is not None else None
        return {"pci": entry["pci"], MAKER: maker, **entry} if maker in makers else entry

    return list(map(with_maker, entries))


def _hold_back(context: Context, interface: Interface, entry: BootEntry) -> None:
    """Remove from an entry what the plan refuses or holds for consent now: the boot unit must not set it either.

    The number of VFs and the mode of an e-switch then stay at their present values. The function of a
    virtual machine has neither.
    """
    nic = interface.nic
    waiting = {step["id"] for step in context.earlier if step["status"] != PLANNED}
    held = interface.wanted["vfs"] is not None and f"vfs:{interface.key}" in waiting
    if held or (nic is not None and is_guest_function(nic)):
        entry.pop("vfs", None)
        if interface.functions:
            entry["vfs"] = interface.functions
    if interface.wanted["eswitch_mode"] is not None and f"eswitch:{interface.key}" in waiting:
        entry["eswitch_mode"] = present_mode(context.actual, interface)
        former = map(device_of, context.once(entries_of_present_cards))
        if entry == {"eswitch_mode": LEGACY} and interface.key not in former:
            # A boot gives it that mode by itself: the unit would be installed for nothing.
            entry.clear()
    if vf_lag_refusal(context.actual, context.interfaces, interface):
        # It would bind the functions before the bond is made.
        for key in ("eswitch_mode", *_OF_VFS):
            entry.pop(key, None)
    if nic is not None and nic["function"] != "pf":
        entry.pop("eswitch_mode", None)
    for key, kept in KEPT.items():
        if kept.held and kept.step_id(interface.key) in waiting:
            entry.pop(key, None)


def _selector(context: Context, interface: Interface) -> BootEntry:
    """Return how the boot unit selects an interface: by name only if it is not the single port of its function."""
    nic, netdev = interface.nic, interface.netdev
    if nic is not None and (netdev is None or context.actual.port_of(nic) is not None):
        return {"pci": nic["address"]}
    return {"current_name": interface.wanted["name"] or interface.name}


def _merged(context: Context, path: str, former: str, wanted: str) -> str:
    """Return the wanted text of a file, plus the former sections of interfaces that are absent."""
    head, sections = _split(_SECTIONS[path], wanted)
    _head, before = _split(_SECTIONS[path], former)
    present = _definitions(context) if path == NETPLAN_FILE else _names(context)
    sections.update({name: text for name, text in before.items() if name not in present and name not in sections})
    return head + "".join(sections[name] for name in sorted(sections))


def _split(start: Pattern[str], text: str) -> tuple[str, dict[str, str]]:
    """Return the text before the first section, and each section by the name in its first line."""
    head = ""
    sections: dict[str, str] = {}
    name: str | None = None
    for line in text.splitlines(keepends=True):
        match = start.fullmatch(line.rstrip("\n"))
        name = match.group(1) if match else name
        if name is None:
            head += line
        else:
            sections[name] = sections.get(name, "") + line
    return head, sections


def _names(context: Context) -> set[str]:
    """Return the names of the host's interfaces, now and after the next boot."""
    return {*context.actual.netdevs, *_names_at_boot(context).values()}


def _names_at_boot(context: Context) -> dict[str, str]:
    """Return the name after the next boot of each interface, by its present name."""
    names = {name: name for name in context.actual.netdevs}
    there = [(one, one.netdev) for one in context.interfaces if one.netdev is not None]
    return {**names, **{netdev["name"]: boot_name(context, one, netdev) for one, netdev in there}}


def _definitions(context: Context) -> set[str]:
    """Return netplan's ids for the host's interfaces, escaped as in JSON."""
    named = _names_at_boot(context)
    owners = [owner_of(context.actual, netdev, named[name]) for name, netdev in context.actual.netdevs.items()]
    ids = [owner.definition for owner in owners if owner is not None and owner.definition is not None]
    return {json.dumps(definition)[1:-1] for definition in ids}
