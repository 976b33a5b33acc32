# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What reserves huge pages at boot: our files, and arguments of the kernel. Pure. Private: it may change.

Pages of the default size are reserved early enough by sysctl.d(5), those of single NUMA nodes by tmpfiles.d(5). Of the
other sizes there may not be enough unbroken memory by then, so the kernel reserves them before anything else runs.
"""

from __future__ import annotations

from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.hugepages.read import pool
from ansible_collections.rdma.fabric.plugins.module_utils._host.operations import MARKER
from ansible_collections.rdma.fabric.plugins.module_utils._host.wanted.memory import PAGE_SIZES

SYSCTL_FILE = "/etc/sysctl.d/90-rdma-fabric-hugepages.conf"
TMPFILES_FILE = "/etc/tmpfiles.d/90-rdma-fabric-hugepages.conf"
# What most kernels have as default, for hosts that do not tell.
_USUAL_KIB = 2048


def found(context: Context) -> Mapping[str, Any]:
    """Return what the facts tell of huge pages, nothing for a host that was not asked."""
    settings: Mapping[str, Any] = context.actual.facts.get("settings", {}).get("hugepages", {})
    return settings


def supported(context: Context, size: str) -> bool:
    """Return whether the processor and the kernel have pages of this size; a host that does not tell may have them."""
    sizes = found(context).get("sizes")
    return not sizes or size in sizes


def is_default(context: Context, size: str) -> bool:
    """Return whether ``vm.nr_hugepages`` is about pages of this size."""
    return PAGE_SIZES[size] == (found(context).get("default") or _USUAL_KIB)


def boot_arguments(context: Context) -> list[str]:
    """Return the kernel arguments that reserve pages, one for each size that needs it."""
    if context.removing:
        return []
    return [
        argument_of(size, pages)
        for size, pages in context.desired["hugepages"].items()
        if isinstance(pages, int) and pages and supported(context, size) and not is_default(context, size)
    ]


def argument_of(size: str, pages: int) -> str:
    """Return the argument that reserves pages of a size; the kernel writes sizes without the i."""
    return f"hugepagesz={size.rstrip('i')} hugepages={pages}"


def boot_files(context: Context) -> dict[str, str]:
    """Return our files, none of those that have nothing to say."""
    sysctl: list[str] = []
    tmpfiles: list[str] = []
    for size, wanted in context.desired["hugepages"].items():
        if not supported(context, size):
            continue
        if isinstance(wanted, dict):
            tmpfiles += [f"w {pool(size, node)}/nr_hugepages - - - - {pages}" for node, pages in wanted.items()]
        elif is_default(context, size):
            sysctl.append(f"vm.nr_hugepages = {wanted}")
    texts = {SYSCTL_FILE: sysctl, TMPFILES_FILE: tmpfiles}
    return {path: "".join(f"{line}\n" for line in (f"# {MARKER}", *lines)) for path, lines in texts.items() if lines}
