# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds reboots after which the host would not match the spec, and reports one that did not start its kernel. Pure.

The boot loader's own files are checked: its entry with image and initial RAM disk, the kernel's modules, those
of NICs and GPUs, and the driver of the spec. Notices report NVLink that nothing sets up again (facts/gpus.py),
and MIG that changes (MIG User Guide, enabling MIG mode): from Hopper on the mode lasts as long as the driver is
loaded, on Ampere a change that is pending takes effect when the GPU is reset. nvidia-mig-manager.service
(NVIDIA/mig-parted) and the GPU Operator's MIG manager restore it.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

from ..concerns.driver import next_boot as of_driver
from ..concerns.pcie.remarks import some
from ..concerns.peer_memory.decide import generation
from ..engine.context import Context
from ..engine.pending_reboot import KERNEL, REBOOT
from ..engine.steps import NEEDS_REBOOT, Plan, Step, digest, is_executable, make_step, refused, with_reason
from ..facts.driver_shapes import Nvlink
from ..facts.gpus import FABRIC_MANAGER, IMEX
from ..facts.host_state import NETDEV_DRIVER, HostState
from ..facts.next_boot import GPU_DRIVER, RDMA_DRIVER
from ..facts.own_files import PENDING_REBOOT_FILE
from ..facts.shapes import Facts, NextBoot
from ..spec.driver_families import Family, family_of, initrd_command, way_to_inbox

_KEEPS_MIG = ("Ampere",)
_LOSES_MIG = ("Hopper", "Blackwell")
_UNTOLD = (
    "the kernel of the next boot is in no file that this release reads, so it was not checked for completeness and "
    "drivers"
)
_KEXEC = (
    "a kernel is loaded for kexec (/sys/kernel/kexec_loaded), which the reboot would start as it is: with neither "
    "boot loader nor a reset of the cards, so kernel arguments, initial RAM disk and firmware stay as they were; next: "
    "kexec --unload, and run again"
)
_HELD = "held back: the reboot is refused"


class GpuForecast(NamedTuple):
    """Why a reboot must wait, empty if it need not, and notices about what it changes."""

    problem: str
    notices: list[str]


def forecast(actual: HostState) -> GpuForecast:
    """Return the effects of the next boot on NVLink and MIG."""
    facts = actual.facts
    nvlink = facts.get("nvlink")
    problem = ""
    notices: list[str] = []
    # In a virtual machine the host below may manage NVLink.
    if nvlink is not None and nvlink["service"] and not nvlink["by_container"] and not facts["pcie"]["virtual"]:
        if nvlink["service"] == FABRIC_MANAGER:
            problem, notices = _of_fabric_manager(nvlink, facts["next_boot"]["fabric_manager"])
        else:
            problem, notices = _of_imex(nvlink)
    return GpuForecast(problem, [*notices, *_of_mig(facts)])


def _of_fabric_manager(nvlink: Nvlink, differing: Sequence[str]) -> tuple[str, list[str]]:
    state = nvlink["state"]
    if state["enabled"]:
        return _of_another_release(*differing) if differing else "", []
    switches = f"NVSwitches ({some(nvlink['switches'])})" if nvlink["switches"] else "NVSwitches"
    lost = (
        f"this host's GPUs are joined by {switches}, and nothing starts {FABRIC_MANAGER} at boot: until it has set "
        "them up, CUDA ends with error 802 (system not yet initialized)"
    )
    if state["active"]:
        return f"{lost}; it runs now; next: {_enable(nvlink, FABRIC_MANAGER)}, and run again", []
    if not state["installed"] and not state["masked"]:
        advice = f"install {FABRIC_MANAGER} in the release of the GPU driver and enable it"
    else:
        advice = _enable(nvlink, f"--now {FABRIC_MANAGER}")
    return "", [f"{lost}; it does not run now either; next: {advice}"]


def _of_another_release(manager: str, driver: str) -> str:
    return (
        f"it loads GPU driver {driver}, and {FABRIC_MANAGER} {manager} starts with a driver of its own version alone: "
        "until it has set the NVSwitches up, CUDA ends with error 802 (system not yet initialized); it runs now, with "
        f"the driver that is loaded; next: install {FABRIC_MANAGER} and GPU driver in one version, and run again"
    )


def _of_imex(nvlink: Nvlink) -> tuple[str, list[str]]:
    state = nvlink["state"]
    if not state["active"] or state["enabled"]:
        return "", []
    return "", [
        "nvidia-imex runs now and nothing starts it at boot: after the reboot GPUs of this host and of others of its "
        f"rack share no memory over NVLink; next: {_enable(nvlink, IMEX)}, unless ComputeDomains of the DRA driver "
        "start it in pods"
    ]


def _enable(nvlink: Nvlink, what: str) -> str:
    unmask = f"systemctl unmask {nvlink['service']} && " if nvlink["state"]["masked"] else ""
    return f"{unmask}systemctl enable {what}"


def _of_mig(facts: Facts) -> list[str]:
    modes = facts.get("mig_modes", {})
    divided = {*facts.get("mig", {}), *(address for address, mode in modes.items() if mode["current"])}
    keeping, losing = (
        {gpu["address"] for gpu in facts["gpus"] if generation(gpu["device"]) in names}
        for names in (_KEEPS_MIG, _LOSES_MIG)
    )
    going = sorted(divided & losing)
    notices = []
    if going:
        notices.append(
            f"MIG is on for {some(going)} and lasts only as long as the GPU driver is loaded: after the reboot they "
            "are whole GPUs again, and pods that ask for parts of them find none, unless nvidia-mig-manager.service or "
            "the GPU Operator's MIG manager divides them; next: make sure that one of these does"
        )
    for pending, word in ((True, "on"), (False, "off")):
        changing = sorted(
            address
            for address, mode in modes.items()
            if address in keeping and mode["pending"] is pending and mode["current"] is not pending
        )
        if changing:
            notices.append(
                f"MIG goes {word} with the reboot for {some(changing)}, as requested earlier (pending); "
                f"next: nvidia-smi -i ADDRESS -mig {int(not pending)} takes that back"
            )
    return notices


class _Problem(NamedTuple):
    """A problem of the next boot: a short name for the step's id, and the cause with what to do."""

    key: str
    detail: str


def hold_reboots(plan: Plan, context: Context, missed: str, unread: Mapping[str, str], *, runs: bool) -> Plan:
    """Return the plan; if the next boot has problems, with these, and with steps that need a reboot refused.

    ``missed`` is the expected kernel that the last reboot did not start, if any; ``unread`` are files that tell what
    the next one starts and can't be read, with that as text. Steps of this plan about the
    next boot count as done if the plan ``runs``, not if a run has left it.
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
        reported = {of_driver.noticed(text) for text in of_driver_now}
        notices = [*(text for text in notices if text not in reported), *_notices(next_boot, kernel, running)]
    found += [_refusal(kernel or running, running, _Problem(*gap)) for gap in unread.items()]
    if next_boot["kexec"]:
        found.append(_refusal(kernel or running, running, _Problem("kexec", _KEXEC)))
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
    """Return problems of the kernel's own files; what the running kernel lacks, too, is none."""
    family = family_of(context.actual.facts["system"]["os"])
    initramfs = context.actual.facts["naming"]["initramfs"]
    # The driver's own concern reports problems of the spec's driver.
    of_driver_concern = (NETDEV_DRIVER, RDMA_DRIVER) if "driver" in context.actual.facts else ()
    lacks = [name for name in next_boot["lacks"] if name not in (*of_driver_concern, GPU_DRIVER)]
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
            "or one was chosen at the console (journalctl --list-boots)"
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
            f"loader take {expected} and reboot it yourself, or, to stay on {running}, remove {PENDING_REBOOT_FILE}"
        ),
    )
