# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says whether the host's network configuration finds an interface under another name. Pure.

An interface that its manager does not find any more has no address and no route after the next boot.
"""

from __future__ import annotations

from typing import Mapping

from ...engine.context import Context
from ...facts.managers.owner import NETPLAN, Owner, owner_of
from ...facts.name_references import without_new_name
from ...facts.shapes import Netdev


def refusal(context: Context, netdev: Netdev, wanted: str, *, is_uplink: bool) -> str:
    """Return why an interface can't be renamed as long as configuration knows it by its present name, else nothing."""
    current = netdev["name"]
    files = without_new_name(_references(context), current, wanted)
    if files:
        return (
            f"{', '.join(files)} {'knows' if len(files) == 1 else 'know'} it as {current}: renamed, it has no address "
            f"and no route after the next boot; next: configure {wanted} there as well, run again, and remove "
            f"{current} there once the host has started with the new name"
        )
    owner = owner_of(context.actual, netdev, current)
    if not is_uplink or not _is_specific(owner) or _is_specific(owner_of(context.actual, netdev, wanted)):
        return ""
    file = owner.file if owner is not None else ""
    generated = " in /etc/netplan, run netplan generate" if owner is not None and owner.manager == NETPLAN else ""
    return (
        f"{file} configures this uplink as {current}, and no file configures {wanted}; next: configure {wanted} as "
        f"well{generated}, and run again"
    )


def notice(context: Context, netdev: Netdev, wanted: str) -> str:
    """Return what is left to do about configuration that knows an interface by both names, nothing without any."""
    current = netdev["name"]
    references = _references(context)
    files = references.get(current, []) if references.get(wanted) else []
    return f"{', '.join(files)} still has {current}; remove it there once the host runs with {wanted}" if files else ""


def leads_back(context: Context, netdev: Netdev, wanted: str) -> bool:
    """Return whether the host's configuration would find the interface if it got its present name back after a boot.

    Where it only knows the new one, the present name is what would cut the host off.
    """
    current = netdev["name"]
    now, then = (owner_of(context.actual, netdev, name) for name in (current, wanted))
    known = _references(context)
    return _is_specific(now) or (now == then and (current in known or wanted not in known))


def _is_specific(owner: Owner | None) -> bool:
    return owner is not None and bool(owner.file)


def _references(context: Context) -> Mapping[str, list[str]]:
    return context.actual.facts["naming"]["references"]
