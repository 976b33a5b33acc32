# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of ports that files of others make at boot, too: another value is refused, or said where it is no harm."""

from __future__ import annotations

from ..facts.host_state import Interface
from ..spec.interface_keys import KEYS
from .context import Context


def contested(context: Context, interface: Interface, key: str, wanted: object) -> str:
    """Return which files set up another value of a port at boot; empty if none does, and in a removal."""
    others = _others(context, interface, key)
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
        for key, value in {**interface.wanted, **(interface.wanted["queues"] or {})}.items():
            # Another value of these destroys VFs at each boot, and is refused.
            makes_vfs = key in KEYS and KEYS[key].makes_vfs
            for file, other in _others(context, interface, key) if value is not None else ():
                same = other == str(value)
                differs = f"sets {key} to {other} at boot, and rdma_fabric_interfaces to {value}"
                if same == makes_vfs:
                    said = f"asks for {key} {other} as well" if same else differs
                    found.append(f"{context.target_of(interface)}: {file} {said}: keep one")
        if interface.wanted["qos"] or context.desired["roce_qos"]:
            found += [
                f"{context.target_of(interface)}: {file} runs {command} at boot, beside rdma_fabric_roce_qos: keep one"
                for file, command in _others(context, interface, "qos")
            ]
    return found


def _others(context: Context, interface: Interface, key: str) -> list[tuple[str, str]]:
    given = context.actual.facts["boot"]["set_elsewhere"].get(interface.name, [])
    return [(each["file"], each["value"]) for each in given if each["key"] == key and not context.removing]
