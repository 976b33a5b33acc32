# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What reserves huge pages at boot: our file, and arguments of the kernel. Pure. Private: it may change.

tmpfiles.d(5) is early enough for all but the largest pages. Of those there may not be enough unbroken memory by then,
so the kernel reserves them before anything else runs. Neither goes by the kernel's default size, as ``vm.nr_hugepages``
does: the next boot's ``default_hugepagesz`` may be another one.
"""

from __future__ import annotations

from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.hugepages.read import pool
from ansible_collections.rdma.fabric.plugins.module_utils._host.operations import MARKER

TMPFILES_FILE = "/etc/tmpfiles.d/90-rdma-fabric-hugepages.conf"
# More than any buddy allocator keeps in one piece (MAX_PAGE_ORDER).
_LARGEST = ("1Gi", "16Gi")


def found(context: Context) -> Mapping[str, Any]:
    """Return what the facts tell of huge pages, nothing for a host that was not asked."""
    settings: Mapping[str, Any] = context.actual.facts.get("settings", {}).get("hugepages", {})
    return settings


def supported(context: Context, size: str) -> bool:
    """Return whether the processor and the kernel have pages of this size; a host that does not tell may have them."""
    sizes = found(context).get("sizes")
    return not sizes or size in sizes


def takes_argument(size: str, wanted: Any) -> bool:
    """Return whether a kernel argument reserves what is wanted of a size; NUMA nodes have none on older kernels."""
    return size in _LARGEST and isinstance(wanted, int) and wanted > 0


def boot_arguments(context: Context) -> list[str]:
    """Return the kernel arguments that reserve pages, one for each size that needs it."""
    if context.removing:
        return []
    return [
        argument_of(size, pages)
        for size, pages in context.desired["hugepages"].items()
        if takes_argument(size, pages) and supported(context, size)
    ]


def argument_of(size: str, pages: int) -> str:
    """Return the argument that reserves pages of a size; the kernel writes sizes without the i."""
    return f"hugepagesz={size.rstrip('i')} hugepages={pages}"


def boot_files(context: Context) -> dict[str, str]:
    """Return our file, none when it has nothing to say."""
    lines: list[str] = []
    for size, wanted in context.desired["hugepages"].items():
        if not supported(context, size):
            continue
        if isinstance(wanted, dict):
            lines += [_line(pool(size, node), pages) for node, pages in wanted.items()]
        elif size not in _LARGEST:
            lines.append(_line(pool(size), wanted))
    return {TMPFILES_FILE: "".join(f"{line}\n" for line in (f"# {MARKER}", *lines))} if lines else {}


def _line(directory: str, pages: int) -> str:
    return f"w {directory}/nr_hugepages - - - - {pages}"
