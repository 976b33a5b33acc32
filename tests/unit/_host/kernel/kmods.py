# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for modprobe(8): it knows which modules the kernel has on disk. Only tests use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.access import CommandResult, HostError
from ansible_collections.rdma.fabric.tests.unit._host.kernel.reactions import DONE, failed, program

if TYPE_CHECKING:
    from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

PROC_MODULES = "/proc/modules"
# A module that no kernel has.
MISSING = "no_such_module"


@program("modprobe")
def modprobe(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    removes = "-r" in argv
    name = argv[-1].replace("-", "_")
    if name == MISSING:
        kernel_release = "6.8.0"
        return failed(1, f"modprobe: FATAL: Module {name} not found in directory /lib/modules/{kernel_release}")
    lines = _lines(kernel)
    loaded = any(line.split()[0] == name for line in lines)
    if removes and loaded:
        kernel.tree.discard(f"/sys/module/{name}")
        lines = [line for line in lines if line.split()[0] != name]
    elif not removes and not loaded:
        kernel.tree.add_file(f"/sys/module/{name}/refcnt", "0\n")
        lines = [f"{name} 16384 0 - Live 0x0000000000000000", *lines]
    kernel.tree.add_file(PROC_MODULES, "".join(f"{line}\n" for line in lines))
    return DONE


def _lines(kernel: Kernel) -> list[str]:
    try:
        return kernel.read(PROC_MODULES).splitlines()
    except HostError:
        return []
