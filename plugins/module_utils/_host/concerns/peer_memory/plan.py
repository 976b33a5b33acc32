# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans how GPUs give NICs access to their memory."""

from __future__ import annotations

from typing import Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ...engine.context import ConcernPlan, Context
from ...engine.steps import NEEDS_REBOOT, NOW, PLANNED, Step, Wording, as_planned, make_step, moment
from ...facts.host_state import HostState, pci_id
from ...spec.peer_memory import MODULE_OF, NONE
from .decide import without_gpudirect
from .files import OWN, wanted_files
from .request import Wish, wish_of
from .status import loaded_mechanisms, nvidia_gpus, operator_evidence, reachable_gpus

KEY = "gpudirect"
_MOST_NAMED = 4


def plan(context: Context) -> ConcernPlan:
    """Return a step when a module has to be loaded, unloaded, or kept from the next boot; without a request none."""
    wish = wish_of(context)
    if wish is None or context.removing:
        return _returning(context)
    if wish.left_alone:
        return [], [*_left_alone(wish), *_nothing_to_reach(context.actual, wish), *_divided(context.actual, wish)]
    wording = _wording(context, wish)
    if wish.decision.obstacle:
        return [make_step("peer_memory", KEY, **wording, refusal=wish.decision.obstacle)], []
    files = wanted_files(context, wish)
    unwanted = [path for path in OWN if path in context.boot_files and path not in files]
    now = loaded_mechanisms(context.actual) != _wanted_modules(wish)
    boot = context.boot_differs(files) or bool(unwanted)
    notices = [*_notices(wish), *_divided(context.actual, wish)]
    if not now and not boot:
        return [], notices
    used = _used(context.actual, _wanted_modules(wish))
    if used:
        detail = f"it stays until the next boot: {used}"
        steps = (
            [_step(wording, now=now, boot=True, detail=detail, status=NEEDS_REBOOT)]
            if not boot
            else [_step(wording, now=False, boot=True, detail=detail)]
        )
        return steps, notices
    return [_step(wording, now=now, boot=boot, detail=wish.decision.cause)], notices


def _left_alone(wish: Wish) -> list[str]:
    if not wish.operator:
        return []
    evidence = ", ".join(wish.operator)
    return [f"{wish.asked_by}: peer memory is left to the GPU Operator, which owns the GPU driver here ({evidence})"]


def _nothing_to_reach(actual: HostState, wish: Wish) -> list[str]:
    gpus = nvidia_gpus(actual)
    if wish.operator or not gpus:
        return []
    if not reachable_gpus(actual):
        why = without_gpudirect([pci_id(gpu["device"]) for gpu in gpus])
        return [f"{wish.asked_by}: nothing is done for peer memory: {why}"]
    return [f"{wish.asked_by}: nothing is done for peer memory, as this host has GPUs and no NIC of NVIDIA"]


def _notices(wish: Wish) -> list[str]:
    if wish.decision.mechanism in MODULE_OF or wish.decision.mechanism == NONE:
        return []
    return [f"{wish.asked_by}: peer memory needs no module here: {wish.decision.cause}"]


def _divided(actual: HostState, wish: Wish) -> list[str]:
    """Name GPUs in parts (MIG): what peer memory is good for there (MIG User Guide, deployment considerations)."""
    divided = actual.facts.get("mig", {})
    if not divided or wish.decision.mechanism == NONE:
        return []
    parts = named([f"{address} ({count})" for address, count in sorted(divided.items())], _MOST_NAMED)
    return [
        f"{wish.asked_by}: MIG divides GPUs of this host into instances: {parts}; GPUDirect RDMA works in each, "
        "but NCCL supports none of them; next: nothing for jobs of one instance, and nvidia-smi -i ADDRESS -mig 0 for "
        "jobs over several GPUs"
    ]


def _wanted_modules(wish: Wish) -> list[str]:
    return [wish.decision.mechanism] if wish.decision.mechanism in MODULE_OF else []


def _wording(context: Context, wish: Wish) -> Wording:
    mechanism = wish.decision.mechanism
    loaded = loaded_mechanisms(context.actual)
    if mechanism in MODULE_OF:
        action = f"give the NICs access to GPU memory by {mechanism}"
    else:
        action = f"unload {' and '.join(loaded) or 'nothing'} and load no peer-memory module at boot"
    others = [name for name in loaded if name != mechanism and mechanism in MODULE_OF]
    if others:
        action += f" in place of {' and '.join(others)}"
    return {
        "target": _target(context.actual),
        "action": action,
        "before": loaded,
        "after": _wanted_modules(wish),
        "reason": f"{wish.asked_by} asks for peer memory; {wish.decision.cause or 'none is active'}",
    }


def _step(wording: Wording, *, now: bool, boot: bool, detail: str, status: str = PLANNED) -> Step:
    before = " and ".join(as_planned(wording["before"], list)) or "no module"
    return make_step(
        "peer_memory",
        KEY,
        **wording,
        undo=f"return to {before}",
        when=moment(now, boot),
        status=status,
        detail=detail,
    )


def _returning(context: Context) -> ConcernPlan:
    """Return a step when a module is to be unloaded that was not loaded before the first run, or one it replaced."""
    actual = context.actual
    loaded = loaded_mechanisms(actual)
    before: list[str] = context.desired.get("peer_memory_before", loaded)
    away = [name for name in loaded if name not in before]
    if not away:
        return [], []
    names = " and ".join(away)
    operator = operator_evidence(actual, actual.facts["labels"])
    obstacle = (
        f"the GPU Operator owns the GPU driver here ({', '.join(operator)})" if operator else _used(actual, before)
    )
    if obstacle:
        return [], [f"peer memory: {names} stays loaded until the next boot: {obstacle}"]
    step = make_step(
        "peer_memory",
        KEY,
        target=_target(actual),
        action=f"unload {names}" + (f" and load {' and '.join(before)} again" if before else ""),
        before=loaded,
        after=before,
        reason="rdma.fabric loaded it",
        undo=f"return to {names}",
        when=NOW,
    )
    return [step], []


def _target(actual: HostState) -> str:
    count = len(nvidia_gpus(actual))
    return f"{count} GPU{'s' if count != 1 else ''}"


def _used(actual: HostState, wanted: Sequence[str]) -> str:
    """Return which module can't be unloaded now because GPU programs use it; empty when none has to be or all can."""
    used = [
        name for name in loaded_mechanisms(actual) if name not in wanted and actual.modules[MODULE_OF[name]]["refcount"]
    ]
    return f"{' and '.join(used)} is in use by GPU programs" if used else ""
