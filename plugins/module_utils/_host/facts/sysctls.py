# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads settings of /proc/sys, what other files make of them at boot, and whether neighbour tables are large enough.

There is one table for IPv4 and one for IPv6, with the entries of all interfaces and of all pods. Above ``gc_thresh2``
entries that are in use are looked for others to drop, and at ``gc_thresh3`` a new one fails with ENOBUFS
(net/core/neighbour.c, neigh_alloc; Documentation/networking/ip-sysctl.rst).
"""

from __future__ import annotations

import posixpath
from typing import Iterable, Iterator, NamedTuple

from ..machine.access import HostError
from ..machine.probe import Probe, files_by_name, parse_int, printable
from ..spec import sysctls
from ..spec.host import HostSpec
from .settings_shapes import Later, Neighbours, Settings

# sysctl.d(5): of files with one name the first directory's counts; all of them are applied in the order of names.
DIRECTORIES = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
MAIN_FILE = "/etc/sysctl.conf"
_MOST_INTERFACES = 64
_LONGEST_VALUE = 1024
# Every procfs has it, no recording does: without it nothing can be said about a setting that is not there.
_LIVE = f"{sysctls.PROC_SYS}/fs"


class Assignment(NamedTuple):
    """One explicit ``name = value`` of a file of sysctl.d(5)."""

    name: str
    value: str


def read_sysctls(probe: Probe, desired: HostSpec, netdevs: Iterable[str]) -> Settings:
    """Return the wanted settings of this host, as facts["settings"] holds them.

    ``sysctl``: value by name, None where it can't be read; settings of an interface are read for every interface of
    ``netdevs``, because it may get its name later. ``sysctl_absent``: names that this kernel does not have.
    ``sysctl_later``: what a file applied after ours sets them to at boot. ``sysctl_conf``: what /etc/sysctl.conf sets
    them to where only sysctl(8) reads it.
    """
    wanted = list(desired["sysctls"])
    interfaces = list(netdevs)[:_MOST_INTERFACES]
    if desired["multirail_sysctls"]:
        wanted += [
            sysctls.canonical(f"net/ipv4/conf/{netdev}/{key}") for netdev in interfaces for key in sysctls.MULTIRAIL
        ]
    every = sorted({other for name in wanted for other in _with_relatives(name, interfaces)})
    values = {name: _value(probe, name) for name in every}
    live = probe.host.exists(_LIVE)
    absent = [
        name for name in wanted if live and values[name] is None and not probe.host.exists(sysctls.attribute(name))
    ]
    later, main_file = _at_boot(probe, frozenset(desired["sysctls"]))
    return {
        "sysctl": values,
        "sysctl_absent": sorted(set(absent)),
        "sysctl_later": later,
        "sysctl_conf": main_file,
    }


def _value(probe: Probe, name: str) -> str | None:
    """Return a value with one space where the kernel has tabs."""
    content = probe.content(sysctls.attribute(name), ("EACCES",))
    return None if content is None else printable(" ".join(content.split()), _LONGEST_VALUE)


def _with_relatives(name: str, interfaces: Iterable[str]) -> Iterator[str]:
    yield name
    yield from filter(None, (sysctls.accept_ra_of(name, interface) for interface in interfaces))
    if sysctls.is_accept_ra(name):
        yield from (sysctls.forwarding_of(interface) for interface in (*interfaces, "all"))
    if sysctls.interface_of(name) is not None:
        yield sysctls.for_interface(name, "all")
        yield from (sysctls.for_interface(name, interface) for interface in interfaces)


def _at_boot(probe: Probe, wanted: frozenset[str]) -> tuple[dict[str, Later], dict[str, str]]:
    """Return the last assignment after our file for each wanted name, and those that only sysctl(8) would do."""
    later: dict[str, Later] = {}
    read = set()
    for path in files_by_name(probe, DIRECTORIES, ".conf"):
        read.add(_real(probe, path))
        if posixpath.basename(path) <= posixpath.basename(sysctls.FILE):
            continue
        for assignment in parse(probe.content(path) or ""):
            if assignment.name in wanted:
                later[assignment.name] = {"file": path, "value": assignment.value}
    if MAIN_FILE in read or not wanted:
        return later, {}
    return later, {given.name: given.value for given in parse(probe.content(MAIN_FILE) or "") if given.name in wanted}


def _real(probe: Probe, path: str) -> str:
    try:
        return probe.host.realpath(path)
    except HostError:
        return path


def parse(text: str) -> list[Assignment]:
    """Parse sysctl.d(5) and return its explicit assignments; wildcards and exclusions never win over one of those."""
    assignments = []
    for raw in text.splitlines():
        line = raw.strip()
        name, equals, value = line.partition("=")
        name = name.strip().lstrip("-")
        if not equals or line.startswith(("#", ";")) or sysctls.name_problem(name):
            continue
        assignments.append(Assignment(sysctls.canonical(name), printable(value.strip())))
    return assignments


_TABLES = (("ipv4", "arp_cache"), ("ipv6", "ndisc_cache"))
# What kernels start with (net/ipv4/arp.c and net/ipv6/ndisc.c): nobody has made the table larger.
_KERNELS_OWN = 1024


def read_neighbours(probe: Probe) -> dict[str, Neighbours]:
    """Return the tables that are too small, by ``ipv4`` and ``ipv6``.

    One is where its entries have come to ``gc_thresh2``, or where it was full since the boot and is no larger than the
    kernel makes it: the count of that stays when it is made larger.
    """
    found = {family: _read(probe, family, name) for family, name in _TABLES}
    return {family: table for family, table in found.items() if table is not None and _is_short(table)}


def _is_short(table: Neighbours) -> bool:
    return table["entries"] >= table["soft"] or (table["overflows"] > 0 and table["hard"] <= _KERNELS_OWN)


def _read(probe: Probe, family: str, name: str) -> Neighbours | None:
    limits = [probe.number(f"/proc/sys/net/{family}/neigh/default/gc_thresh{number}") for number in (2, 3)]
    soft, hard = limits
    if soft is None or hard is None:
        return None
    counts = parse_statistics(probe.content(f"/proc/net/stat/{name}") or "")
    return None if counts is None else {"entries": counts[0], "overflows": counts[1], "soft": soft, "hard": hard}


def parse_statistics(text: str) -> tuple[int, int] | None:
    """Parse a table's file in /proc/net/stat: its entries, and how often it was full since the boot.

    A line of names, then one of hexadecimal numbers for each processor; entries are those of the whole table in each.
    """
    names, *rows = [line.split() for line in text.splitlines()] or [[]]
    if not rows or not {"entries", "table_fulls"} <= set(names):
        return None
    of_processors = [dict(zip(names, row)) for row in rows if len(row) == len(names)]
    entries = [parse_int(row["entries"], 16) for row in of_processors]
    fulls = [parse_int(row["table_fulls"], 16) for row in of_processors]
    return max((count or 0 for count in entries), default=0), sum(count or 0 for count in fulls)
