# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compares the present names of interfaces with those of the spec and of network configuration. Pure.

An interface whose new name its manager does not know has no address and no route after the next boot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping

from ...engine.context import Context
from ...facts.competing_rules import CLOUD_INIT, PROGRAM, overruling
from ...facts.host_state import Interface
from ...facts.kernel import renames_live
from ...facts.managers.owner import NETPLAN, Owner, owner_of
from ...facts.names import without_new_name
from ...facts.shapes import Netdev, OtherName, ReplacedLink
from .files import Files, name_file, name_path, replaced_by
from .order import Rename, Turn, in_turn, refusals_of
from .representors import Representors


def refusal_of_unknown_name(context: Context, name: Name) -> str:
    """Return why a rename must wait until network configuration has the new name; empty if it need not."""
    netdev, current, wanted = name.netdev, name.current, name.wanted
    files = without_new_name(_references(context), current, wanted)
    if files:
        return (
            f"{', '.join(files)} {'knows' if len(files) == 1 else 'know'} it as {current}: renamed, it has no address "
            "and no route after the next boot"
        )
    owner = owner_of(context.actual, netdev, current)
    if name.live or not _is_specific(owner) or _is_specific(owner_of(context.actual, netdev, wanted)):
        return ""
    file = owner.file if owner is not None else ""
    generated = " in /etc/netplan, run netplan generate" if owner is not None and owner.manager == NETPLAN else ""
    return (
        f"{file} configures this uplink as {current}, and no file configures {wanted}; next: configure {wanted} as "
        f"well{generated}, and run again"
    )


def notice_of_old_name(context: Context, name: Name) -> str:
    """Return what to remove from configuration that has both names of an interface, empty if nothing."""
    current, wanted, references = name.current, name.wanted, _references(context)
    files = references.get(current, []) if references.get(wanted) else []
    return f"{', '.join(files)} still has {current}; remove it there once the host runs with {wanted}" if files else ""


def leads_back(context: Context, name: Name) -> bool:
    """Return whether the host's configuration has the interface's present name, so that a revert after a boot works.

    If it has only the new name, going back to the present one would cut the host off.
    """
    current, wanted = name.current, name.wanted
    now, then = (owner_of(context.actual, name.netdev, each) for each in (current, wanted))
    known = _references(context)
    return _is_specific(now) or (now == then and (current in known or wanted not in known))


def _is_specific(owner: Owner | None) -> bool:
    return owner is not None and bool(owner.file)


def _references(context: Context) -> Mapping[str, list[str]]:
    return context.actual.facts["naming"]["references"]


@dataclass(frozen=True)
class Name:
    """An interface with a name in the spec."""

    interface: Interface
    netdev: Netdev
    current: str
    wanted: str
    uplink: str | None
    boot_differs: bool
    goes_down: bool
    """Whether the interface has to be down for a rename."""
    replaced: ReplacedLink | None
    """The ``.link`` file of others that the file of ours takes the place of."""

    @property
    def live(self) -> bool:
        """Return whether the name may change while the host runs."""
        return self.uplink is None

    @property
    def differs(self) -> bool:
        """Return whether the interface has another name now."""
        return self.current != self.wanted

    @property
    def files(self) -> Files:
        """Return the file that gives the name at boot."""
        return name_file(self.interface, self.wanted, self.replaced)


class Names:
    """All names of the spec, grouped by what happens to them.

    ``overruled``: why a boot would give another name, by current name. ``programs``: the file of the rule whose program
    may do so. ``turns``: renames now, in order. ``staged``:
    uplinks, which get their name at boot. ``kept``: names that are right now but missing in our files. ``refusals``:
    why a rename can't be done, by current name.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._leaving = context.once(Representors).leaving
        names = _wanted_names(context)
        self.by_current: dict[str, Name] = {name.current: name for name in names}
        others = {name.current: _overruling(context, name) for name in names}
        self.programs = {key: each["file"] for key, each in others.items() if each and each["kind"] == PROGRAM}
        self.overruled = {
            name.current: why for name in names for why in [_overruled(name, others[name.current])] if why
        }
        self.refusals = self._refused()
        going = [name for name in names if name.differs and name.current not in self.refusals]
        self.staged = [name for name in going if not name.live]
        self.kept = [name for name in names if not name.differs and name.boot_differs]
        renames = [Rename(name.interface.key, name.current, name.wanted) for name in going if name.live]
        self.turns: list[Turn] = in_turn(renames, context.actual.netdevs)

    def _refused(self) -> dict[str, str]:
        """Return why renames can't be done."""
        renames = {current: name for current, name in self.by_current.items() if name.differs}
        refused = {
            name.current: why
            for name in renames.values()
            for why in [refusal_of_unknown_name(self._context, name)]
            if why
        }
        placeless = [current for current, name in renames.items() if name.interface.nic is None]
        refused.update({current: why for current, why in self.overruled.items() if current in renames})
        refused.update(dict.fromkeys(placeless, "it has no PCI function, so no boot file could find it"))
        return refusals_of(renames, refused, lambda name, so_far: self._held(renames[name], renames, so_far))

    def _held(self, name: Name, renames: Mapping[str, Name], refused: Mapping[str, str]) -> str:
        holder = self._context.actual.netdevs.get(name.wanted)
        if holder is None or name.wanted in self._leaving:
            return ""
        who = f"{name.wanted} is the name of {holder.get('pci') or 'another interface'} now"
        leaving = renames.get(name.wanted)
        if leaving is None:
            return f"{who}; give that one another name in rdma_fabric_interfaces"
        if name.wanted in refused:
            return f"{who}, and its own rename is refused"
        if not leaving.live and (name.live or not self._context.consents_to("uplink_change")):
            return f"{who}, and as an uplink it keeps it until the next boot"
        return ""


def _overruling(context: Context, name: Name) -> OtherName | None:
    if name.interface.nic is None:
        return None
    others = context.actual.facts["naming"]["others"].get(name.current, [])
    return overruling(others, name_path(name.interface), name.wanted)


def _overruled(name: Name, other: OtherName | None) -> str:
    """Return why the next boot would give another name despite our file; empty if it would not, or may not."""
    if name.interface.nic is None:
        return ""
    path = name_path(name.interface)
    unjudged = name.replaced["unjudged"] if name.replaced is not None and path.endswith(".link") else []
    if unjudged:
        return (
            f"udev uses one .link file for an interface, and {path} would take the place of {', '.join(unjudged)}, of "
            "which it can't be told from here whether it is about this one; next: let it match by Path= or "
            "PermanentMACAddress=, and run again"
        )
    if other is None or other["kind"] == PROGRAM:
        return ""
    file, theirs = other["file"], f"names it {other['name']}" if other["name"] else "has it named by a policy"
    if other["kind"] == "link":
        return (
            f"{file} is used in place of {path} and {theirs} at every boot: give that file a name that sorts after it, "
            f"or write Name={name.wanted} there"
        )
    way = "remove that rule"
    if other["kind"] == CLOUD_INIT:
        way = "switch that off by network: {config: disabled} in a file of /etc/cloud/cloud.cfg.d (.cfg)"
    if "netplan" in file:
        way = "remove its set-name from /etc/netplan and run netplan generate"
    return f"{file} {theirs} at every boot, whatever {path} says: {way}, or ask for the name {other['name']}"


def _wanted_names(context: Context) -> list[Name]:
    goes_down = not renames_live(context.actual.facts["system"]["kernel"])
    found = []
    for interface in context.interfaces:
        wanted, netdev = interface.wanted["name"], interface.netdev
        if wanted is None or netdev is None:
            continue
        if interface.nic is None and netdev["name"] == wanted:
            continue
        uplink = context.actual.uplink_reason(interface.nic, netdev)
        replaced = replaced_by(context, interface)
        differs = context.boot_differs(name_file(interface, wanted, replaced))
        down = goes_down and netdev["up"]
        found.append(Name(interface, netdev, netdev["name"], wanted, uplink, differs, down, replaced))
    return found
