# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the wish to have original values back."""

from __future__ import annotations

from .host import HostSpec, check_spec
from .interfaces import InterfaceSpec
from .syntax import pci_address_problem


def wanted_interface(desired: HostSpec, key: str) -> InterfaceSpec:
    """Return the entry of ``desired`` for the interface that steps call ``key``, after adding it where it is missing.

    ``key`` is a PCI address, or the name of an interface without one.
    """
    selector = "current_name" if pci_address_problem(key) else "pci"
    for entry in desired["interfaces"]:
        if entry.get(selector) == key:
            return entry
    # Checked like a user's entry, it has every key that an entry has.
    added = check_spec({"interfaces": [{selector: key}]})["interfaces"][0]
    desired["interfaces"].append(added)
    return added
