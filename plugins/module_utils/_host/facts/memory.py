# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read huge pages, and the limits of services and logins."""

from __future__ import annotations

import re
from typing import Iterable, Iterator, Mapping

from ..machine.host_files import KUBELETS, RUNTIMES, UNIT_DIRECTORIES
from ..machine.probe import Probe, parse_int, printable, texts_of
from ..spec.host import HostSpec
from ..spec.memory import PAGE_SIZES
from .settings_shapes import Hugepages, LaterLimit, Limits, ServiceLimits, UnitLimits
from .shapes import Facts
from .sysctls import set_at_boot

POOLS = "/sys/kernel/mm/hugepages"
NODES = "/sys/devices/system/node"
# Larger than any block of the buddy allocator (MAX_PAGE_ORDER).
LARGEST = ("1Gi", "16Gi")
LIMITS = {"memlock": "MEMLOCK", "nofile": "NOFILE"}
"""Limits by their names in limits.conf(5), with the names that systemd uses after ``Limit``."""
INFINITY = "infinity"
SHOW_DEFAULTS = ("systemctl", "show", "-p", "DefaultLimitMEMLOCK", "-p", "DefaultLimitNOFILE")
SHOW_UNITS = ("systemctl", "show", "-p", "Id", "-p", "MainPID", "-p", "LimitMEMLOCK", "-p", "LimitNOFILE")
NR_OPEN = "/proc/sys/fs/nr_open"
LOGIN_FILE = "/etc/security/limits.d/90-rdma-fabric.conf"
"""Read by PAM for every new login."""
# Of lines for the same whom, the last counts (linux-pam, modules/pam_limits/pam_limits.c, process_limit).
_LOGIN_LINE = re.compile(r"(?m)^\s*(?:\*|root)\s+(?:soft|hard|-)\s+(memlock|nofile)\s+([^\s#]+)")
# default-ulimits of docker, default_ulimits of CRI-O, and process.rlimits of the runtime specification (OCI).
_RUNTIME_FILES = ("/etc/docker/daemon.json", "/etc/crio/crio.conf", "/etc/crio/crio.conf.d/")
_BASE_SPEC = re.compile(r"(?m)^\s*base_runtime_spec\s*=\s*[\"'](/[^\"']+)")
_RUNTIME_LIMIT = re.compile(r'"(?:RLIMIT_)?(memlock|nofile)(?:=|"[^}]*?"soft"\s*:\s*)(-?\d+)', re.I)
# /proc/PID/limits
_ROWS = {"memlock": "Max locked memory", "nofile": "Max open files"}


def pool_directory(size: str, node: str | None = None) -> str:
    """Return the directory of the pages of one size (``2Mi``), of the whole host or a NUMA node."""
    directory = f"hugepages-{PAGE_SIZES[size]}kB"
    return f"{POOLS}/{directory}" if node is None else f"{NODES}/node{node}/hugepages/{directory}"


def read_hugepages(probe: Probe, desired: Mapping[str, int | dict[str, int]]) -> Hugepages:
    """Return the ``sizes`` that the kernel supports, ``memory`` (KiB), and ``pages`` of each pool in the spec.

    ``pages`` has the key ``2Mi`` for the whole host and ``2Mi:1`` for NUMA node 1; None if it can't be read.
    ``kubelets`` are units, which count pages when they start; ``also`` is who sets ``vm.nr_hugepages`` at boot.
    """
    by_kib = {kib: size for size, kib in PAGE_SIZES.items()}
    found = (re.fullmatch(r"hugepages-(\d{1,9})kB", name) for name in probe.names(POOLS))
    kibs = sorted(int(match.group(1)) for match in found if match)
    pages: dict[str, int | None] = {}
    for size, wanted in desired.items():
        for node in wanted if isinstance(wanted, dict) else (None,):
            key = size if node is None else f"{size}:{node}"
            pages[key] = probe.number(f"{pool_directory(size, node)}/nr_hugepages")
    total = re.search(r"^MemTotal:\s+(\d{1,15}) kB", probe.content("/proc/meminfo") or "", re.MULTILINE)
    return {
        "sizes": [by_kib[kib] for kib in kibs if kib in by_kib],
        "memory": int(total.group(1)) if total else None,
        "pages": pages,
        "kubelets": _services(probe, KUBELETS),
        "also": set_at_boot(probe, "vm.nr_hugepages"),
    }


def supports(facts: Facts, size: str) -> bool:
    """Return whether the processor and kernel support pages of this size; true if the host does not report it."""
    read = facts["settings"].get("hugepages")
    return read is None or not read["sizes"] or size in read["sizes"]


def takes_argument(size: str, wanted: int) -> bool:
    """Return whether a kernel argument reserves the pages of a size; older kernels have none for single NUMA nodes."""
    return size in LARGEST and wanted > 0


def boot_arguments(desired: HostSpec, facts: Facts) -> list[str]:
    """Return the kernel arguments that reserve pages, one for each size that needs one."""
    if desired.get("removing"):
        return []
    return [
        argument_of(size, pages)
        for size, pages in desired["hugepages"].items()
        if isinstance(pages, int) and takes_argument(size, pages) and supports(facts, size)
    ]


def argument_of(size: str, pages: int) -> str:
    """Return the argument that reserves pages of a size; the kernel writes sizes without the i."""
    return f"hugepagesz={size.rstrip('i')} hugepages={pages}"


def read_limits(probe: Probe) -> ServiceLimits:
    """Return ``systemd`` (whether it is init), ``default`` limits of its services, and ``units`` that run containers.

    ``nr_open`` is the maximum number of open files of any process, None if unknown. A limit is bytes or files as a
    number, ``infinity``, or None if unknown. Each unit has ``limits``, which apply at its next start, and ``running``,
    those of its process, None if it does not run. ``later`` are those that logins and containers get after ours.
    """
    units = _services(probe, RUNTIMES)
    running = probe.host.exists("/run/systemd/system")
    return {
        "systemd": running,
        "default": parse_defaults(probe.output(*SHOW_DEFAULTS) if running else ""),
        "units": _units(probe, units, running),
        "nr_open": probe.number(NR_OPEN),
        "later": [*_of_logins(probe), *_of_containers(probe, units)],
    }


def parse_defaults(text: str) -> Limits:
    """Parse the output of SHOW_DEFAULTS."""
    return _limits(_properties(text), "DefaultLimit")


def _services(probe: Probe, names: Iterable[str]) -> list[str]:
    """Return the units that exist; one that is masked, a link to /dev/null, never starts and has no drop-ins."""
    units = [f"{name}.service" for name in names]
    found = [unit for unit in units if any(probe.host.exists(f"{place}/{unit}") for place in UNIT_DIRECTORIES)]
    masks = UNIT_DIRECTORIES[:2]
    return [unit for unit in found if "/dev/null" not in [probe.target(f"{place}/{unit}") for place in masks]]


def _units(probe: Probe, units: list[str], running: bool) -> dict[str, UnitLimits]:
    blocks = probe.output(*SHOW_UNITS, *units).split("\n\n") if units and running else []
    properties = {block.get("Id", ""): block for block in map(_properties, blocks)}
    found: dict[str, UnitLimits] = {}
    for unit in units:
        known = properties.get(unit, {})
        process = parse_int(known.get("MainPID", "0")) or 0
        found[unit] = {
            "limits": _limits(known, "Limit"),
            "running": _of_process(probe.content(f"/proc/{process}/limits") or "") if process > 0 else None,
        }
    return found


def _of_logins(probe: Probe) -> Iterator[LaterLimit]:
    """Yield the limits for everybody and for root in files after ours."""
    for path, text in texts_of(probe, ("/etc/security/limits.d/",), (".conf",)):
        for key, written in dict(_LOGIN_LINE.findall(text) if path > LOGIN_FILE else ()).items():
            limit = _value(written)
            limit = limit * 1024 if isinstance(limit, int) and key == "memlock" else limit
            yield {"file": printable(path), "whom": "logins", "key": key, "limit": limit}


def _of_containers(probe: Probe, units: Iterable[str]) -> Iterator[LaterLimit]:
    """Yield the limits that container runtimes themselves give containers, which would else inherit the service's."""
    specs = _BASE_SPEC.findall(probe.content("/etc/containerd/config.toml") or "")
    for path, text in texts_of(probe, (*_RUNTIME_FILES, *sorted(set(specs)))):
        if path in specs or f"{path.split('/')[2]}.service" in units:
            for key, written in dict(_RUNTIME_LIMIT.findall(re.sub(r"(?m)^\s*#.*", "", text))).items():
                yield {"file": printable(path), "whom": "containers", "key": key.lower(), "limit": _value(written)}


def _properties(text: str) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)


def _limits(properties: dict[str, str], prefix: str) -> Limits:
    return {key: _value(properties.get(f"{prefix}{name}", "")) for key, name in LIMITS.items()}


def _of_process(text: str) -> Limits | None:
    """Return the soft limits, which are the effective ones."""
    found = {key: re.search(rf"^{row}\s+(\S+)", text, re.MULTILINE) for key, row in _ROWS.items()}
    return {key: _value(match.group(1)) if match else None for key, match in found.items()} if text else None


def _value(text: str) -> int | str | None:
    # systemd before 228 prints infinity as the largest number.
    return INFINITY if text in {INFINITY, "unlimited", "-1", "-", "18446744073709551615"} else parse_int(text)
