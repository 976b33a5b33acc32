# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds reboots that would not bring the host back as it is to be, and tells of one that failed to. Pure.

Judged is what the boot loader's own files name: its entry with image and initial RAM disk, the kernel's modules, those
of NICs and GPUs, and the driver that is asked for.
"""

from __future__ import annotations

from typing import NamedTuple

from ..concerns.driver import next_boot as of_driver
from ..engine.context import Context
from ..engine.pending_reboot import KERNEL, REBOOT
from ..engine.steps import NEEDS_REBOOT, Plan, Step, digest, is_executable, make_step, refused, with_reason
from ..facts.host_state import NETDEV_DRIVER
from ..facts.next_boot import GPU_DRIVER, RDMA_DRIVER
from ..facts.pending_reboot import PATH
from ..facts.shapes import NextBoot
from ..spec.driver_families import Family, family_of, initrd_command, way_to_inbox
from .next_boot_gpus import forecast

_UNTOLD = (
    "no file that this release reads tells which kernel the next boot starts, so nobody has looked whether it is "
    "complete and has its drivers"
)
_HELD = "held back: the reboot is refused"


class _Problem(NamedTuple):
    """What keeps the next boot from coming up as it is to: a short name for the step's id, why, and what to do."""

    key: str
    detail: str


def hold_reboots(plan: Plan, context: Context, missed: str, *, runs: bool) -> Plan:
    """Return the plan; where the next boot is wrong, it says so, and the steps that need a reboot are refused.

    ``missed`` is the kernel that the last reboot was to start, where it did not. What steps of this plan do about the
    next boot counts as done where the plan ``runs``, not where it is what a run has left.
    """
    next_boot, running = context.actual.facts["next_boot"], context.actual.facts["system"]["kernel"]
    found = [_missed(missed, running, next_boot)] if missed else []
    notices = list(plan["notices"])
    kernel = next_boot["kernel"]
    if kernel is None:
        notices.append(_UNTOLD)
    else:
        done = {step["id"] for step in plan["steps"] if runs and is_executable(step)}
        of_driver_now = of_driver.problems(context, done)
        found += [_refusal(kernel, running, problem) for problem in _of_boot(context, next_boot, kernel)]
        found += [_refusal(kernel, running, _Problem("driver", text)) for text in of_driver_now]
        told = {of_driver.noticed(text) for text in of_driver_now}
        notices = [*(text for text in notices if text not in told), *_notices(next_boot, kernel, running)]
    gpus = forecast(context.actual)
    notices += gpus.notices
    if gpus.problem:
        found.append(_refusal(kernel or running, running, _Problem("nvlink", gpus.problem)))
    if found:
        steps = [*map(_held, plan["steps"]), *found]
        return {**plan, "steps": steps, "notices": notices, "digest": digest(steps)}
    return {**plan, "notices": notices}


def _held(step: Step) -> Step:
    if step["status"] != NEEDS_REBOOT:
        return step
    return refused(step, with_reason(step, _HELD))


def _refusal(kernel: str, running: str, problem: _Problem) -> Step:
    return make_step(
        REBOOT,
        problem.key,
        target=f"kernel {kernel}",
        action="start it with the next boot",
        before=running,
        after=kernel,
        reason="a step of this plan needs a reboot",
        refusal=problem.detail,
    )


def _notices(next_boot: NextBoot, kernel: str, running: str) -> list[str]:
    if kernel == running and not next_boot["once"]:
        return []
    once = ", for that boot only" if next_boot["once"] else ""
    return [f"the next boot starts kernel {kernel} by {_entry(next_boot)}{once}; {running} runs now"]


def _entry(next_boot: NextBoot) -> str:
    return f"the entry {next_boot['entry']} (taken by {next_boot['named_by']})"


def _of_boot(context: Context, next_boot: NextBoot, kernel: str) -> list[_Problem]:
    """Return what the kernel itself lacks; what the running one does without is no lack."""
    family = family_of(context.actual.facts["system"]["os"])
    initramfs = context.actual.facts["naming"]["initramfs"]
    # Of the driver that is asked for its own concern tells.
    told = (NETDEV_DRIVER, RDMA_DRIVER) if "driver" in context.actual.facts else ()
    lacks = [name for name in next_boot["lacks"] if name not in (*told, GPU_DRIVER)]
    found = []
    if next_boot["absent"]:
        found.append(
            _Problem(
                "files",
                f"{_entry(next_boot)} names {' and '.join(next_boot['absent'])}, which is not there; next: "
                f"{_make_initrd(family, kernel)} where it is the initial RAM disk, else install the kernel's package "
                "again, or have the boot loader take another entry",
            )
        )
    elif next_boot["initrd"] is None and initramfs is not None:
        found.append(
            _Problem(
                "initrd",
                f"{_entry(next_boot)} names no initial RAM disk, and the running kernel has one "
                f"({initramfs['image']}); next: {_make_initrd(family, kernel)}, and make the boot loader's menu again "
                "(a full /boot is a common cause)",
            )
        )
    if not next_boot["modules"]:
        found.append(
            _Problem(
                "modules",
                f"/lib/modules/{kernel} has no modules.dep, so it would load no module; next: install the package with "
                f"its modules, or run depmod -a {kernel}",
            )
        )
    elif lacks:
        way = way_to_inbox(family, kernel) if family is not None else "install the package with its modules"
        found.append(
            _Problem(
                "nics",
                f"it has no {', '.join(lacks)}, which NICs of this host use now; next: {way}, or build the module for "
                "it",
            )
        )
    if next_boot["modules"] and GPU_DRIVER in next_boot["lacks"]:
        found.append(
            _Problem(
                "gpus",
                f"it has no {GPU_DRIVER}, which drives GPUs of this host now; next: build the GPU driver for it (dkms "
                f"autoinstall -k {kernel}), or install the driver's package for this kernel",
            )
        )
    return found


def _make_initrd(family: Family | None, kernel: str) -> str:
    if family is None:
        return f"make it (update-initramfs -c -k {kernel}, or dracut --force --kver {kernel})"
    return " ".join("-c" if word == "-u" else word for word in initrd_command(family, kernel))


def _missed(expected: str, running: str, next_boot: NextBoot) -> Step:
    if next_boot["kernel"] is None:
        cause = "look at which entry the boot loader takes by default"
    elif next_boot["kernel"] == expected:
        cause = (
            f"the boot loader still takes {expected} by {_entry(next_boot)}, so that one failed and another was tried, "
            "or somebody chose one at the console (journalctl --list-boots)"
        )
    else:
        cause = f"the boot loader takes {next_boot['kernel']} by {_entry(next_boot)}"
    return make_step(
        REBOOT,
        KERNEL.split(":", 1)[1],
        target=f"kernel {expected}",
        action="start it",
        before=running,
        after=expected,
        reason="an earlier run left steps to a reboot that was to start it",
        refusal=(
            f"the host was started since and runs {running}: {cause}; no run reboots it again; next: have the boot "
            f"loader take {expected} and reboot it yourself, or, to stay on {running}, remove {PATH}"
        ),
    )
