# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans kernel modules: loaded now and at every boot."""

from __future__ import annotations

from ...engine.context import ConcernPlan, Context
from ...engine.steps import BOOT, NOW, Step, make_step, moment
from .modules_files import LOAD_FILE, boot_files, kernel_name, listed_modules, missing_modules, wanted_modules

# Programs open what these offer and other modules call them: the kernel counts both, so one with a count of 0 is in
# nobody's way (drivers/infiniband/core). Nothing counts the interfaces of a driver, of ib_ipoib or 8021q, nor what
# br_netfilter filters: they would be gone without a word.
_COUNTED = ("ib_cm", "ib_umad", "ib_uverbs", "iw_cm", "rdma_cm", "rdma_ucm")


def plan(context: Context) -> ConcernPlan:
    """Return a step for each wanted module that is not loaded, or not loaded at boot, and for what is not wanted."""
    if context.removing:
        return _unloading(context)
    missing = missing_modules(context)
    coming = context.brings_modules(context) if missing else ""
    steps = [] if coming else [_refused(context, name) for name in missing]
    notices = [
        f"{name}: the kernel has no such module yet; it is loaded by the run after {coming}'s"
        for name in missing
        if coming
    ]
    for name in wanted_modules(context):
        if name in missing:
            continue
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
        target=name,
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


def _refused(context: Context, name: str) -> Step:
    kernel = context.actual.facts["system"]["kernel"]
    return make_step(
        "modules",
        name,
        target=name,
        action=f"load the kernel module {name}",
        before="not loaded",
        after="loaded",
        reason=f"rdma_fabric_kernel_modules asks for {name}",
        refusal=(
            f"the running kernel {kernel} has no module of this name (modinfo); next: "
            "correct the name, or install the package that has the module for this kernel"
        ),
    )


def _tidy(unwanted: list[str]) -> Step:
    names = ", ".join(unwanted)
    return make_step(
        "modules",
        LOAD_FILE,
        target=LOAD_FILE,
        action=f"load {names} no longer at boot" if unwanted else f"write {LOAD_FILE} as rdma.fabric writes it",
        before=unwanted,
        after=[],
        reason=f"rdma_fabric_kernel_modules does not ask for {names}" if unwanted else "somebody changed it",
        when=BOOT,
        undo=f"write {names} to {LOAD_FILE} again" if unwanted else f"write the former text to {LOAD_FILE}",
        detail="what is loaded now stays loaded" if unwanted else "",
    )


def _unloading(context: Context) -> ConcernPlan:
    """Return a step for each module that was not loaded before the first run and that certainly nobody uses."""
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
                target=name,
                action=f"unload the kernel module {name}",
                before="loaded",
                after="not loaded",
                reason="it was not loaded before rdma.fabric loaded it, and nothing uses it",
                when=NOW,
                undo=f"modprobe {name}",
            )
        )
    return steps, notices
