# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads huge pages as the kernel has them."""

from __future__ import annotations

import re
from typing import Mapping

from ..machine.probe import Probe
from ..spec.host import HostSpec
from ..spec.memory import PAGE_SIZES
from .settings_shapes import Hugepages
from .shapes import Facts

POOLS = "/sys/kernel/mm/hugepages"
NODES = "/sys/devices/system/node"
# More than any buddy allocator keeps in one piece (MAX_PAGE_ORDER).
LARGEST = ("1Gi", "16Gi")


def pool_directory(size: str, node: str | None = None) -> str:
    """Return the directory of the pages of one size (``2Mi``), of the whole host or of one NUMA node."""
    directory = f"hugepages-{PAGE_SIZES[size]}kB"
    return f"{POOLS}/{directory}" if node is None else f"{NODES}/node{node}/hugepages/{directory}"


def read_hugepages(probe: Probe, desired: Mapping[str, int | dict[str, int]]) -> Hugepages:
    """Return ``sizes`` that the kernel has, ``memory`` (KiB) and ``pages`` of each wanted pool.

    ``pages`` has the key ``2Mi`` for the whole host and ``2Mi:1`` for NUMA node 1; None is what can't be read.
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
    }


def supports(facts: Facts, size: str) -> bool:
    """Return whether the processor and the kernel have pages of this size; a host that does not tell may have them."""
    read = facts["settings"].get("hugepages")
    return read is None or not read["sizes"] or size in read["sizes"]


def takes_argument(size: str, wanted: int) -> bool:
    """Return whether a kernel argument reserves what is wanted of a size; NUMA nodes have none on older kernels."""
    return size in LARGEST and wanted > 0


def boot_arguments(desired: HostSpec, facts: Facts) -> list[str]:
    """Return the kernel arguments that reserve pages, one for each size that needs it."""
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
