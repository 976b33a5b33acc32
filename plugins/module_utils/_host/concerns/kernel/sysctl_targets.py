# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which values are asked for by the names of settings, and which ones they have. Pure."""

from __future__ import annotations

from ...engine.context import Context
from ...facts.shapes import Netdev
from ...spec import sysctl_names


def asked(context: Context) -> dict[str, str]:
    """Return the values that rdma_fabric_sysctls, or a removal, asks for by the names of the settings.

    A removal may know one setting twice: earlier versions kept its value by the name of the interface, so where both
    are known the value by the name is the older one.
    """
    given = context.desired["sysctls"]
    found = {name: value for name, value in given.items() if _port_of(context, name) is None}
    for key, value in given.items():
        port = _port_of(context, key)
        if port is not None:
            found.setdefault(sysctl_names.for_interface(key, context.name_of(port)), value)
    return found


def _port_of(context: Context, key: str) -> Netdev | None:
    """Return the interface whose PCI address a key has in place of a name; None for every other key."""
    nic = context.actual.nics.get(sysctl_names.interface_of(key) or "")
    return context.actual.port_of(nic) if nic is not None else None


def value_of(context: Context, name: str) -> str | None:
    """Return the value of a setting as the facts have it, None when it is unknown."""
    value = context.actual.facts["settings"].get("sysctl", {}).get(name)
    return None if value is None else " ".join(value.split())
