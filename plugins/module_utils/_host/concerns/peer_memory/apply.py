# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Loads and unloads peer memory's modules, and keeps that over a reboot."""

from __future__ import annotations

from types import MappingProxyType
from typing import Mapping

from ...engine.context import Context
from ...engine.operations import Operation, RemoveFile, Run, Work
from ...engine.steps import BOOT, Step, Value, as_planned
from ...machine.access import Host
from ...spec.host import HostSpec
from ...spec.peer_memory import MODULE_OF
from .files import OWN, boot_files

_SECONDS = 120.0
_MIXED = (
    "the module was built against another RDMA stack than the one that runs; next: rebuild it (dkms remove and install "
    "of the GPU driver) with the present stack installed, and run again"
)
# Texts of modprobe(8) and of the kernel's log, as NVIDIA's and the operators' issue trackers have them.
ERRORS: Mapping[str, str] = MappingProxyType(
    {
        "disagrees about version of symbol": _MIXED,
        "Unknown symbol": _MIXED,
        "Invalid argument": (
            "the module was built without peer-memory symbols, or against another RDMA stack (then the kernel's log "
            "names the symbol); next: use DMA-BUF, or install the vendor's RDMA stack, rebuild the GPU driver's DKMS "
            "module, and run again"
        ),
        "not found in directory": (
            "the GPU driver was installed without the module for the running kernel; next: install or build it, and "
            "run again"
        ),
        "Key was rejected by service": (
            "Secure Boot is on and the firmware does not trust the key that signed the module; next: enrol it (mokutil "
            "--import, then confirm at the console during a reboot)"
        ),
        "is in use": "GPU programs came to use the module; next: end them, or reboot, and run again",
        "EBUSY": "GPU programs came to use the module; next: end them, or reboot, and run again",
    }
)


def work(context: Context, step: Step) -> Work:
    """Return how the modules of ``step["from"]`` become those of ``step["to"]``, now, at boot, or both."""
    before: list[str] = as_planned(step["from"], list)
    wanted: list[str] = as_planned(step["to"], list)
    do, undo = _of_files(context)
    if step["when"] == BOOT:
        return Work(do, undo)
    away = [name for name in before if name not in wanted]
    # Not modprobe -r: it takes along what the module needed and nobody else does, the GPU driver included.
    do += [Run(("rmmod", MODULE_OF[name]), _SECONDS) for name in away]
    do += [Run(("modprobe", name), _SECONDS) for name in wanted]
    # 1: it never came to be loaded.
    back: list[Operation] = [
        Run(("rmmod", MODULE_OF[name]), _SECONDS, accepted=(0, 1)) for name in wanted if name not in before
    ]
    back += [Run(("modprobe", name), _SECONDS) for name in away]

    def verify(host: Host) -> str:
        wrong = [name for name in (*wanted, *away) if host.exists(f"/sys/module/{MODULE_OF[name]}") != (name in wanted)]
        return "; ".join(f"{name} is {'not' if name in wanted else 'still'} loaded" for name in wrong)

    return Work(do, [*back, *undo], verify)


def restore(desired: HostSpec, _key: str, original: Value) -> None:
    """Ask for the modules that were loaded before the first run."""
    if isinstance(original, list):
        desired["peer_memory_before"] = [name for name in original if name in MODULE_OF]


def _of_files(context: Context) -> tuple[list[Operation], list[Operation]]:
    """Return how our files become those that are wanted, and how that is taken back; a removal has steps for them."""
    if context.removing:
        return [], []
    files = boot_files(context)
    do: list[Operation] = [RemoveFile(path) for path in OWN if path in context.boot_files and path not in files]
    do += context.boot_operations(files)
    return do, context.boot_undo({path: "" for path in OWN if path in files or path in context.boot_files})
