# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel modules, loaded now and at every boot."""

from __future__ import annotations

from types import MappingProxyType
from typing import Iterable

from ...engine.context import ConcernPlan, Context, Handler
from ...engine.failures import LOCKDOWN
from ...engine.operations import Operation, PutFile, Run, Work
from ...engine.steps import BOOT, NOW, Step, Value, key_of, make_step, moment
from ...machine.access import Host
from ...machine.host_files import marked
from ...spec.host import HostSpec

# Programs open what these offer and other modules call them: the kernel counts both, so one with a count of 0 is in
# nobody's way (drivers/infiniband/core). Nothing counts the interfaces of a driver, of ib_ipoib or 8021q, nor what
# br_netfilter filters: they would be gone without a word.
_COUNTED = ("ib_cm", "ib_umad", "ib_uverbs", "iw_cm", "rdma_cm", "rdma_ucm")
# Read by systemd-modules-load.service: one name a line, # and ; start comments (modules-load.d(5)).
LOAD_FILE = "/etc/modules-load.d/rdma-fabric.conf"
# Loading some modules initialises devices, which takes a while.
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
# Messages of modprobe(8), which prints those of init_module(2).
ERRORS = MappingProxyType(
    {
        "not found in directory": _MISSING,
        "ENOENT": _MISSING,
        "ENOEXEC": _NOT_FOR_THIS_KERNEL,
        "EINVAL": _NOT_FOR_THIS_KERNEL,
        "ENOKEY": _NOT_SIGNED,
        "EKEYREJECTED": _NOT_SIGNED,
        "is in use": "the module is in use now; next: stop what uses it, or reboot, and run again",
        "ENODEV": "the module found no device of its kind; next: leave it out of rdma_fabric_kernel_modules",
        "EPERM": (
            "loading modules is forbidden; next: run as root (become: true) outside of a container, with "
            f"kernel.modules_disabled=0, and look at {LOCKDOWN}"
        ),
    }
)


def plan(context: Context) -> ConcernPlan:
    """Return a step for each module of the spec that is not loaded now or at boot, and for unwanted ones."""
    if context.removing:
        return _unloading(context)
    missing = missing_modules(context)
    coming, is_refused = context.brings_modules(context) if missing else ("", False)
    steps = [_refused(context, name, coming) for name in missing if is_refused or not coming]
    notices = [
        f"{name}: the kernel has no such module yet; it is loaded by the run after {coming}'s"
        for name in missing
        if coming and not is_refused
    ]
    for name in wanted_modules(context):
        if name in missing:
            continue
        # Unlike modprobe(8), systemd-modules-load(8) looks at it.
        denied = context.actual.modules[name].get("denied") if name in context.actual.modules else None
        if denied:
            notices.append(f"{denied} denies {name} (blacklist): it is not loaded at boot; next: remove that line")
        now = not context.actual.is_loaded(name)
        boot = name not in listed_modules(context)
        if now or boot:
            steps.append(_load(name, now, boot))
    unwanted = sorted(set(listed_modules(context)) - set(wanted_modules(context)))
    if boot_files(context) and (unwanted or (not steps and context.boot_differs(boot_files(context)))):
        steps.append(_tidy(unwanted))
    return steps, notices


def _load(name: str, now: bool, boot: bool) -> Step:
    return make_step(
        "modules",
        name,
        action=f"load the kernel module {name}" if now else f"load the kernel module {name} at every boot",
        before="not loaded" if now else "loaded",
        after="loaded",
        reason=(
            f"rdma_fabric_kernel_modules asks for {name}; it is neither loaded nor built into the kernel"
            if now
            else f"rdma_fabric_kernel_modules asks for {name}; it is loaded, and nothing of ours loads it at boot"
        ),
        when=moment(now, boot),
        undo=f"rmmod {name} and remove it from {LOAD_FILE}" if now else f"remove it from {LOAD_FILE}",
        detail=f"{LOAD_FILE} loads it at every boot",
    )


def _refused(context: Context, name: str, coming: str) -> Step:
    kernel = context.actual.facts["system"]["kernel"]
    unless = f", and {coming}, which may bring it, is refused" if coming else ""
    return make_step(
        "modules",
        name,
        action=f"load the kernel module {name}",
        before="not loaded",
        after="loaded",
        reason=f"rdma_fabric_kernel_modules asks for {name}",
        refusal=(
            f"the running kernel {kernel} has no module of this name (modinfo){unless}; next: "
            "correct the name, or install the package that has the module for this kernel"
        ),
    )


def _tidy(unwanted: list[str]) -> Step:
    names = ", ".join(unwanted)
    return make_step(
        "modules",
        LOAD_FILE,
        action=f"load {names} no longer at boot" if unwanted else f"write {LOAD_FILE} as rdma.fabric writes it",
        before=unwanted,
        after=[],
        reason=f"rdma_fabric_kernel_modules does not ask for {names}" if unwanted else "somebody changed it",
        when=BOOT,
        undo=f"write {names} to {LOAD_FILE} again" if unwanted else f"write the former text to {LOAD_FILE}",
        detail="what is loaded now stays loaded" if unwanted else "",
    )


def _unloading(context: Context) -> ConcernPlan:
    """Return a step for each module that was not loaded before the first run and is certainly unused."""
    steps, notices = [], []
    for name in sorted({kernel_name(given) for given in context.desired.get("unload_modules", [])}):
        known = context.actual.modules.get(name)
        if known is None or not known["loaded"]:
            continue
        if known["refcount"] or known["users"]:
            users = ", ".join(known["users"]) or f"{known['refcount']} processes or devices"
            notices.append(f"the kernel module {name} stays loaded until the next boot: it is used by {users}")
            continue
        if name not in _COUNTED:
            notices.append(
                f"the kernel module {name} stays loaded until the next boot: its devices, interfaces or rules would go "
                "with it"
            )
            continue
        steps.append(
            make_step(
                "modules",
                name,
                action=f"unload the kernel module {name}",
                before="loaded",
                after="not loaded",
                reason="it was not loaded before rdma.fabric loaded it, and nothing uses it",
                when=NOW,
                undo=f"modprobe {name}",
            )
        )
    return steps, notices


def kernel_name(name: str) -> str:
    """Return the name as in ``/proc/modules``: modprobe treats - and _ alike."""
    return name.replace("-", "_")


def wanted_modules(context: Context) -> list[str]:
    """Return the names of the modules to load at every boot, without those built into the kernel.

    A name without a module is left out, too, unless our file lists it: then another kernel had it.
    """
    listed = listed_modules(context)
    wanted = {kernel_name(name) for name in context.desired["kernel_modules"]} - set(missing_modules(context))
    wanted |= {name for name in missing_modules(context) if name in listed}
    modules = context.actual.modules
    return sorted(name for name in wanted if name not in modules or not modules[name]["builtin"])


def missing_modules(context: Context) -> list[str]:
    """Return the names of the spec for which the kernel has no module (modinfo)."""
    wanted = {kernel_name(name) for name in context.desired["kernel_modules"]}
    modules = context.actual.modules
    return sorted(name for name in wanted if name in modules and modules[name].get("missing"))


def listed_modules(context: Context) -> list[str]:
    """Return the names that our file lists now."""
    lines = context.boot_files.get(LOAD_FILE, "").splitlines()
    return [kernel_name(line.strip()) for line in lines if line.strip() and not line.lstrip().startswith(("#", ";"))]


def load_file(names: Iterable[str]) -> str:
    """Return the text of the file that loads the modules at boot."""
    return marked(sorted(names))


def boot_files(context: Context) -> dict[str, str]:
    """Return the file that loads the modules at boot, none if there are none."""
    names = wanted_modules(context)
    return {LOAD_FILE: load_file(names)} if names else {}


def work(context: Context, step: Step) -> Work:
    """Return how a module is loaded, now, at boot or both, or unloaded in a removal."""
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
    """Add a module to the spec's list to unload, if it was not loaded before the first run."""
    if original == "not loaded":
        desired.setdefault("unload_modules", []).append(key)


def _unload(name: str) -> Run:
    """Return how a module is unloaded; modprobe -r would also unload what only it needed, including a driver."""
    return Run(("rmmod", name), _SECONDS)


def _is_loaded(host: Host, name: str, *, wanted: bool) -> str:
    if host.exists(f"/sys/module/{name}") == wanted:
        return ""
    return f"the module {name} is {'not ' if wanted else 'still '}loaded"


HANDLER = Handler(work, ERRORS, restore)
