# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for modprobe(8) and rmmod(8): they know which modules the kernel has on disk. Only tests use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult, HostError
from ansible_collections.rdma.fabric.tests.unit._host.kernel.reactions import DONE, PROGRAMS, failed, program

if TYPE_CHECKING:
    from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

PROC_MODULES = "/proc/modules"
# A module that no kernel has.
MISSING = "no_such_module"
# Changes nothing: whoever asks this wants to know whether there is such a program.
ASKED_FOR = ("--version",)


@program("modprobe", lambda argv: tuple(argv[1:]) == ASKED_FOR)
def modprobe(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    if tuple(argv[1:]) == ASKED_FOR:
        return DONE
    name = argv[-1].replace("-", "_")
    if name == MISSING:
        kernel_release = "6.8.0"
        return failed(1, f"modprobe: FATAL: Module {name} not found in directory /lib/modules/{kernel_release}")
    lines = _lines(kernel)
    loaded = any(line.split()[0] == name for line in lines)
    if "-r" in argv and loaded:
        _remove(kernel, name, with_needed=True)
    elif "-r" not in argv and not loaded:
        kernel.tree.add_file(f"/sys/module/{name}/refcnt", "0\n")
        _write(kernel, [f"{name} 16384 0 - Live 0x0000000000000000", *lines])
    return DONE


@program("rmmod")
def rmmod(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    name = argv[-1].replace("-", "_")
    line = next((line for line in _lines(kernel) if line.split()[0] == name), None)
    if line is None:
        return failed(1, f"rmmod: ERROR: Module {name} is not currently loaded")
    if line.split()[2] != "0":
        return failed(1, f"rmmod: ERROR: Module {name} is in use")
    _remove(kernel, name, with_needed=False)
    return DONE


def _remove(kernel: Kernel, name: str, *, with_needed: bool) -> None:
    """Take a module out, and with it those that only it used, as modprobe -r does."""
    kernel.tree.discard(f"/sys/module/{name}")
    kept, unused = [], []
    for line in _lines(kernel):
        other, size, count, users, *rest = line.split()
        if other == name:
            continue
        names = [user for user in users.split(",") if user not in ("", "-")]
        if name in names:
            names.remove(name)
            count = str(int(count) - 1)
            users = ",".join((*names, "")) if names else "-"
            if count == "0":
                unused.append(other)
        kept.append(" ".join((other, size, count, users, *rest)))
    _write(kernel, kept)
    for other in unused if with_needed else ():
        # What is in use stays, and nobody is told.
        PROGRAMS["modprobe"].run(kernel, ("modprobe", "-r", other))


def _write(kernel: Kernel, lines: Sequence[str]) -> None:
    kernel.tree.add_file(PROC_MODULES, "".join(f"{line}\n" for line in lines))


def _lines(kernel: Kernel) -> list[str]:
    try:
        return kernel.read(PROC_MODULES).splitlines()
    except HostError:
        return []
