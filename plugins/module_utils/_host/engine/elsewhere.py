# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of ports that files of others make at boot, too: another value is refused, or said where it is no harm."""

from __future__ import annotations

from typing import Mapping

from ..facts.host_state import Interface
from .context import Context

# Another value of these destroys functions at each boot.
_REFUSED = ("vfs", "eswitch_mode")


def contested(context: Context, interface: Interface, key: str, wanted: object) -> str:
    """Return which files set up another value of a port at boot; empty if none does, and in a removal."""
    others = _others(context, interface, key, {key: wanted})
    said = " and ".join(f"{file} asks for {value}" for file, value in others if value != str(wanted))
    if not said:
        return ""
    return (
        f"{said}, and each boot would make one and then the other; next: ask for {wanted} there, remove it there, or "
        f"leave {key} out here"
    )


def also_set(context: Context) -> list[str]:
    """Return a notice about each file that makes a setting of the spec as well, which then has two owners."""
    found = []
    for interface in context.interfaces:
        keys = ("vfs", "eswitch_mode", "mtu")
        wanted = {**{key: interface.wanted.get(key) for key in keys}, **(interface.wanted["queues"] or {})}
        for key, value in wanted.items():
            for file, other in _others(context, interface, key, wanted):
                said = ""
                if key in _REFUSED and other == str(value):
                    said = f"asks for {key} {other} as well"
                elif key not in _REFUSED and other != str(value):
                    said = f"sets {key} to {other} at boot, and rdma_fabric_interfaces to {value}"
                found += [f"{context.target_of(interface)}: {file} {said}: keep one"] if said else []
    return found


def _others(context: Context, interface: Interface, key: str, wanted: Mapping[str, object]) -> list[tuple[str, str]]:
    given = context.actual.facts["boot"]["set_elsewhere"].get(interface.name, [])
    if context.removing or wanted[key] is None:
        return []
    return [(each["file"], each["value"]) for each in given if each["key"] == key]
