# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Loads kernel modules and has them loaded at every boot."""

from __future__ import annotations

from types import MappingProxyType

from ...engine.context import Context
from ...engine.failures import LOCKDOWN
from ...engine.operations import Operation, PutFile, Run, Work
from ...engine.steps import BOOT, NOW, Step, Value, key_of
from ...machine.access import Host
from ...spec.host import HostSpec
from .modules_files import LOAD_FILE, listed_modules, load_file, wanted_modules

# Loading the modules of some devices initialises them, which takes a while.
_SECONDS = 120.0
_NOT_FOR_THIS_KERNEL = (
    "the module does not fit the running kernel; next: install the build of it for this kernel (uname -r), or reboot "
    "into the kernel that it was built for, and run again"
)
_MISSING = (
    "the module, or one of its symbols, is not in the running kernel's /lib/modules; next: install the package that "
    "has it for this kernel (uname -r), and run again"
)
_NOT_SIGNED = (
    "Secure Boot is on and the kernel knows no key that signed the module; next: enrol the key that signed it "
    "(mokutil --import) or use a signed module, and run again"
)
# Texts of modprobe(8), which prints those of init_module(2).
ERRORS = MappingProxyType(
    {
        "not found in directory": _MISSING,
        "ENOENT": _MISSING,
        "ENOEXEC": _NOT_FOR_THIS_KERNEL,
        "EINVAL": _NOT_FOR_THIS_KERNEL,
        "ENOKEY": _NOT_SIGNED,
        "EKEYREJECTED": _NOT_SIGNED,
        "is in use": "somebody came to use the module; next: end that, or reboot, and run again",
        "ENODEV": "the module found no device of its kind; next: leave it out of rdma_fabric_kernel_modules",
        "EPERM": (
            "loading modules is forbidden; next: run as root (become: true) outside of a container, with "
            f"kernel.modules_disabled=0, and look at {LOCKDOWN}"
        ),
    }
)


def work(context: Context, step: Step) -> Work:
    """Return how a module is loaded, now or at boot or both, or unloaded when everything of ours goes."""
    key = key_of(step)
    if key == LOAD_FILE:
        return Work([PutFile(LOAD_FILE, load_file(wanted_modules(context)))])
    if step["to"] != "loaded":
        return Work([_unload(key)], verify=lambda host: _is_loaded(host, key, wanted=False))
    do: list[Operation] = []
    undo: list[Operation] = []
    if step["when"] != BOOT:
        do.append(Run(("modprobe", key), _SECONDS))
        undo.append(_unload(key))
    if step["when"] != NOW:
        # Steps go by name: with this one the file holds what it held, and every wanted module up to this one.
        listed = listed_modules(context)
        do.append(PutFile(LOAD_FILE, load_file({*listed, *(name for name in wanted_modules(context) if name <= key)})))
    return Work(do, undo, lambda host: _is_loaded(host, key, wanted=True))


def restore(desired: HostSpec, key: str, original: Value) -> None:
    """Ask for a module to be unloaded that was not loaded before the first run."""
    if original == "not loaded":
        desired.setdefault("unload_modules", []).append(key)


def _unload(name: str) -> Run:
    """Return how one module goes; modprobe -r takes along what it needed and nobody else does, a driver included."""
    return Run(("rmmod", name), _SECONDS)


def _is_loaded(host: Host, name: str, *, wanted: bool) -> str:
    if host.exists(f"/sys/module/{name}") == wanted:
        return ""
    return f"the module {name} is {'not ' if wanted else 'still '}loaded"
