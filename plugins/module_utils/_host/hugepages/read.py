# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads huge pages as the kernel has them. Private to this collection: it may change."""

from __future__ import annotations

import re
from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.read.probe import Probe
from ansible_collections.rdma.fabric.plugins.module_utils._host.wanted.memory import PAGE_SIZES

POOLS = "/sys/kernel/mm/hugepages"
NODES = "/sys/devices/system/node"


def pool(size: str, node: str | None = None) -> str:
    """Return the directory of the pages of one size (``2Mi``), of the whole host or of one NUMA node."""
    directory = f"hugepages-{PAGE_SIZES[size]}kB"
    return f"{POOLS}/{directory}" if node is None else f"{NODES}/node{node}/hugepages/{directory}"


def read_hugepages(probe: Probe, desired: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``sizes`` that the kernel has, ``default`` (KiB), ``memory`` (KiB) and ``pages`` of each wanted pool.

    ``pages`` has the key ``2Mi`` for the whole host and ``2Mi:1`` for NUMA node 1; None is what can't be read.
    """
    by_kib = {kib: size for size, kib in PAGE_SIZES.items()}
    found = (re.fullmatch(r"hugepages-(\d{1,9})kB", name) for name in probe.names(POOLS))
    kibs = sorted(int(match.group(1)) for match in found if match)
    pages: dict[str, int | None] = {}
    for size, wanted in desired.items():
        for node in wanted if isinstance(wanted, dict) else (None,):
            key = size if node is None else f"{size}:{node}"
            pages[key] = probe.number(f"{pool(size, node)}/nr_hugepages")
    meminfo = probe.content("/proc/meminfo") or ""
    return {
        "sizes": [by_kib[kib] for kib in kibs if kib in by_kib],
        "default": _meminfo(meminfo, "Hugepagesize"),
        "memory": _meminfo(meminfo, "MemTotal"),
        "pages": pages,
    }


def _meminfo(text: str, key: str) -> int | None:
    found = re.search(rf"^{key}:\s+(\d{{1,15}}) kB", text, re.MULTILINE)
    return int(found.group(1)) if found else None
