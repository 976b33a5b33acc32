# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reserves huge pages now and at boot."""

from __future__ import annotations

from types import MappingProxyType

from ...engine.context import Context
from ...engine.operations import Operation, SetAttribute, Work
from ...engine.steps import Step, Value, as_planned, key_of
from ...facts.hugepages import pool
from ...machine.access import Host
from ...spec.host import HostSpec
from .hugepages_files import boot_files

# The kernel moves memory about to make room, page by page.
_SECONDS = 300.0
ERRORS = MappingProxyType(
    {
        "ENOENT": "the kernel has no pages of this size or no such NUMA node; next: correct rdma_fabric_hugepages",
        "EINVAL": (
            "the kernel reserves pages of this size only while it boots; next: reboot with the kernel argument that is "
            "set for it (rdma_fabric_allow_reboot: true)"
        ),
    }
)


def work(context: Context, step: Step) -> Work:
    """Return how a pool gets its pages, or one of our files is written."""
    key = key_of(step)
    if key.startswith("/"):
        return context.work_of_files({key: boot_files(context)[key]})
    size, _colon, node = key.partition(":")
    path, wanted = f"{pool(size, node or None)}/nr_hugepages", as_planned(step["to"], int)
    undo: list[Operation] = [] if step["from"] is None else [SetAttribute(path, str(step["from"]), _SECONDS)]

    def verify(host: Host) -> str:
        return _shortfall(host.read(path).strip(), wanted, size)

    return Work([SetAttribute(path, str(wanted), _SECONDS)], undo, verify)


def restore(desired: HostSpec, key: str, original: Value) -> None:
    """Ask for the pages that there were."""
    if isinstance(original, bool) or not isinstance(original, int):
        return
    size, _colon, node = key.partition(":")
    if node:
        nodes = desired["hugepages"].setdefault(size, {})
        if isinstance(nodes, dict):
            nodes[node] = original
    else:
        desired["hugepages"][size] = original


def _shortfall(text: str, wanted: int, size: str) -> str:
    now = int(text) if text.isdecimal() else -1
    if now == wanted:
        return ""
    if now > wanted:
        return (
            f"{now} pages of {size} are left, {wanted} were asked for: programs use the others; next: end them and run "
            "again"
        )
    return (
        f"the kernel gave {max(now, 0)} of {wanted} pages of {size}: memory is in use or broken into pieces; next: "
        "free memory and run again, or reboot, as they are reserved at boot before memory is used"
    )
