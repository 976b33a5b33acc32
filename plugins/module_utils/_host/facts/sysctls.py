# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read settings in /proc/sys, and what other files set them to at boot."""

from __future__ import annotations

import posixpath
from typing import Iterable, Iterator, NamedTuple

from ..machine.access import HostError
from ..machine.probe import Probe, files_by_name, printable
from ..spec import sysctls
from ..spec.host import HostSpec
from . import openib
from .settings_shapes import Later, Settings
from .tuned import read_tuned, reapplies_sysctls

# sysctl.d(5): of files with the same name, the one in the first directory is used; all are applied in order of their
# names.
DIRECTORIES = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
MAIN_FILE = "/etc/sysctl.conf"
_MOST_INTERFACES = 64
_LONGEST_VALUE = 1024
# Every procfs has it, no recording does: without it, nothing is known about settings that are missing.
_LIVE = f"{sysctls.PROC_SYS}/fs"


class Assignment(NamedTuple):
    """One explicit ``name = value`` in a file of sysctl.d(5)."""

    name: str
    value: str


def read_sysctls(probe: Probe, desired: HostSpec, netdevs: Iterable[str]) -> Settings:
    """Return the host's values of the settings in the spec, as in facts["settings"].

    ``sysctl``: value by name, None if unreadable; settings of an interface are read for all of ``netdevs``, as any may
    be renamed to it. ``sysctl_absent``: names that this kernel does not have. ``sysctl_later``: what a file applied
    after ours sets them to at boot. ``sysctl_conf``: what /etc/sysctl.conf sets them to if only sysctl(8) reads it.
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


def set_at_boot(probe: Probe, name: str) -> list[Later]:
    """Return what files, and profiles of TuneD, set one name to, in the order in which they do."""
    files = [(path, dict(parse(probe.content(path) or ""))) for path in files_by_name(probe, DIRECTORIES, ".conf")]
    given = [(path, found.get(name)) for path, found in (*files, *read_tuned(probe, "sysctl"))]
    return [{"file": path, "value": value} for path, value in given if value]


def parse(text: str) -> list[Assignment]:
    """Parse sysctl.d(5) and return its explicit assignments; wildcards and exclusions never override those."""
    assignments = []
    for raw in text.splitlines():
        line = raw.strip()
        name, equals, value = line.partition("=")
        name = name.strip().lstrip("-")
        if not equals or line.startswith(("#", ";")) or sysctls.name_problem(name):
            continue
        assignments.append(Assignment(sysctls.canonical(name), printable(value.strip())))
    return assignments


def _value(probe: Probe, name: str) -> str | None:
    """Return a value with its parts separated by single spaces; the kernel uses tabs."""
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
    """Return the last assignment after our file for each name, and those that only sysctl(8) would make.

    The vendor's driver service sets its own later, and TuneD later still, unless it applies the files in /etc again.
    """
    later: dict[str, Later] = {}
    read = set()
    for path in files_by_name(probe, DIRECTORIES, ".conf"):
        read.add(_real(probe, path))
        if posixpath.basename(path) <= posixpath.basename(sysctls.FILE):
            continue
        for assignment in parse(probe.content(path) or ""):
            if assignment.name in wanted:
                later[assignment.name] = {"file": path, "value": assignment.value}
    if openib.runs_sysctl_script(probe.content(openib.FILE) or ""):
        file = f"{openib.SYSCTL_SCRIPT} (RUN_SYSCTL=yes in {openib.FILE})"
        for name, value in openib.written_sysctls(probe.content(openib.SYSCTL_SCRIPT) or ""):
            if sysctls.canonical(name) in wanted:
                later[sysctls.canonical(name)] = {"file": file, "value": printable(value)}
    if wanted and not reapplies_sysctls(probe):
        for path, given in read_tuned(probe, "sysctl"):
            named = {sysctls.canonical(name): value for name, value in given.items() if not sysctls.name_problem(name)}
            later.update({name: {"file": path, "value": named[name]} for name in wanted if named.get(name)})
    if MAIN_FILE in read or not wanted:
        return later, {}
    return later, {given.name: given.value for given in parse(probe.content(MAIN_FILE) or "") if given.name in wanted}


def _real(probe: Probe, path: str) -> str:
    try:
        return probe.host.realpath(path)
    except HostError:
        return path
