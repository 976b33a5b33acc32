# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read neighbour tables that are too small for the fabric.

IPv4 and IPv6 have one table each, with the entries of all interfaces and all pods. Above ``gc_thresh2`` entries the
kernel drops some to make room, and at ``gc_thresh3`` a new one fails with ENOBUFS (net/core/neighbour.c, neigh_alloc;
Documentation/networking/ip-sysctl.rst).
"""

from __future__ import annotations

from ..machine.probe import Probe, parse_int
from .settings_shapes import Neighbours

_TABLES = (("ipv4", "arp_cache"), ("ipv6", "ndisc_cache"))
# The kernel's defaults (net/ipv4/arp.c and net/ipv6/ndisc.c): nobody has enlarged the table.
_KERNELS_OWN = 1024


def read_neighbours(probe: Probe) -> dict[str, Neighbours]:
    """Return the tables that are too small, by ``ipv4`` and ``ipv6``.

    A table is too small if it has reached ``gc_thresh2`` entries, or if it was full since boot and still has the
    kernel's default size: the counter is not reset when the table is enlarged.
    """
    found = {family: _read(probe, family, name) for family, name in _TABLES}
    return {family: table for family, table in found.items() if table is not None and _is_short(table)}


def parse_statistics(text: str) -> tuple[int, int] | None:
    """Parse a table's file in /proc/net/stat: its entries, and how often it was full since boot.

    A line of names precedes one line of hexadecimal numbers per processor; entries are those of the whole table in
    each.
    """
    names, *rows = [line.split() for line in text.splitlines()] or [[]]
    if not rows or not {"entries", "table_fulls"} <= set(names):
        return None
    of_processors = [dict(zip(names, row)) for row in rows if len(row) == len(names)]
    entries = [parse_int(row["entries"], 16) for row in of_processors]
    fulls = [parse_int(row["table_fulls"], 16) for row in of_processors]
    return max((count or 0 for count in entries), default=0), sum(count or 0 for count in fulls)


def _is_short(table: Neighbours) -> bool:
    return table["entries"] >= table["soft"] or (table["overflows"] > 0 and table["hard"] <= _KERNELS_OWN)


def _read(probe: Probe, family: str, name: str) -> Neighbours | None:
    limits = [probe.number(f"/proc/sys/net/{family}/neigh/default/gc_thresh{number}") for number in (2, 3)]
    soft, hard = limits
    if soft is None or hard is None:
        return None
    counts = parse_statistics(probe.content(f"/proc/net/stat/{name}") or "")
    return None if counts is None else {"entries": counts[0], "overflows": counts[1], "soft": soft, "hard": hard}
