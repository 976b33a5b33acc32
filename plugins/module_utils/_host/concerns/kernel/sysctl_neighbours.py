# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says where the kernel's tables of neighbours are too small for a fabric. Pure.

A connection of RDMA over Ethernet needs the neighbour's address, too: in a flat subnet every rail of a host has an
entry for every port that it talks to.
"""

from __future__ import annotations

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import Context

_LIMIT = "net.{family}.neigh.default.gc_thresh{number}"
_SPOKEN = {"ipv4": "IPv4", "ipv6": "IPv6"}


def remarks(context: Context) -> list[str]:
    """Return a sentence for each table that is too small, and that nothing asks to be made larger."""
    if context.removing or not context.interfaces:
        return []
    found = []
    for family, table in context.actual.facts["settings"].get("neighbours", {}).items():
        name = _LIMIT.format(family=family, number=3)
        asked = context.desired["sysctls"].get(name, "")
        if asked.isdecimal() and int(asked) > table["hard"]:
            continue
        full = f", and was full {table['overflows']} times since the boot" if table["overflows"] else ""
        found.append(
            f"the table of {_SPOKEN[family]} neighbours holds {table['entries']} of at most {table['hard']} entries "
            f"({name}){full}: without room in it connections to further hosts fail (neighbour table overflow in the "
            f"kernel's log); next: raise {_LIMIT.format(family=family, number='1')} to 3 with rdma_fabric_sysctls"
        )
    return found
