# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compares the names that interfaces have with those they shall have. Pure. Private: it may change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.context import Context, Interface
from ansible_collections.rdma.fabric.plugins.module_utils._host.naming.files import Files, name_file
from ansible_collections.rdma.fabric.plugins.module_utils._host.naming.order import Rename, Turn, in_turn, refusals_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.naming.release import renames_live
from ansible_collections.rdma.fabric.plugins.module_utils._host.naming.representors import Representors


@dataclass(frozen=True)
class Name:
    """One interface that shall have a name."""

    interface: Interface
    current: str
    wanted: str
    uplink: str | None
    boot_differs: bool
    goes_down: bool
    """Whether the interface has to be down for a rename."""

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
        return name_file(self.interface, self.wanted)


class Names:
    """All wanted names of a host, sorted by what becomes of them.

    ``turns``: renames now, in order. ``staged``: uplinks, which get their name at boot. ``kept``: names that are right
    and that a boot would not give. ``refusals``: why a rename can't be done, by current name.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._leaving = Representors(context).leaving
        names = _wanted_names(context)
        self.by_current: dict[str, Name] = {name.current: name for name in names}
        self.refusals = self._refused()
        going = [name for name in names if name.differs and name.current not in self.refusals]
        self.staged = [name for name in going if not name.live]
        self.kept = [name for name in names if not name.differs and name.boot_differs]
        renames = [Rename(name.interface.key, name.current, name.wanted) for name in going if name.live]
        self.turns: list[Turn] = in_turn(renames, context.actual.netdevs)

    def _refused(self) -> dict[str, str]:
        """Return why renames can't be done."""
        renames = {current: name for current, name in self.by_current.items() if name.differs}
        placeless = [current for current, name in renames.items() if name.interface.nic is None]
        refused = dict.fromkeys(placeless, "it has no PCI function, so no boot file could find it")
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


def _wanted_names(context: Context) -> list[Name]:
    goes_down = not renames_live(str(context.actual.facts["system"]["kernel"]))
    found = []
    for interface in context.interfaces:
        wanted, netdev = interface.wanted.get("name"), interface.netdev
        if wanted is None or netdev is None:
            continue
        if interface.nic is None and netdev["name"] == wanted:
            continue
        uplink = context.actual.uplink_reason(interface.nic, netdev)
        differs = context.boot_differs(name_file(interface, wanted))
        found.append(Name(interface, netdev["name"], wanted, uplink, differs, goes_down and bool(netdev["up"])))
    return found
