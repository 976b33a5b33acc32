# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules by which GPUs give NICs access to their memory, now and, by files of ours, at boot."""

from __future__ import annotations

from types import MappingProxyType
from typing import Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ...engine.context import ConcernPlan, Context, Handler, requests_for
from ...engine.failures import KEY_REJECTED
from ...engine.operations import Operation, RemoveFile, Run, Work
from ...engine.steps import (
    BOOT,
    NEEDS_CONSENT,
    NEEDS_REBOOT,
    NOW,
    PLANNED,
    REFUSED,
    Step,
    Value,
    Wording,
    as_planned,
    make_step,
    moment,
)
from ...facts.host_state import HostState, pci_id
from ...machine.access import Host
from ...machine.host_files import marked
from ...spec.driver import ABSENT
from ...spec.driver_families import INBOX, VENDOR_FLAVOURS
from ...spec.host import HostSpec
from ...spec.peer_memory import AUTO, MODULE_OF, NONE
from .decide import (
    Decision,
    decide,
    loaded_mechanisms,
    nvidia_gpus,
    operator_evidence,
    reachable_gpus,
    situation_of,
    without_gpudirect,
)

KEY = "gpudirect"
_MOST_NAMED = 4
VARIABLE = "rdma_fabric_peer_memory"
# The first loads the module at boot (modules-load.d(5)), the second has it loaded after what it needs, and again
# whenever the GPU driver is (modprobe.d(5), softdep).
LOAD_FILE = "/etc/modules-load.d/rdma-fabric-peer-memory.conf"
ORDER_FILE = "/etc/modprobe.d/rdma-fabric-peer-memory.conf"
OWN = (LOAD_FILE, ORDER_FILE)
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
        "Key was rejected by service": KEY_REJECTED,
        "is in use": "GPU programs came to use the module; next: end them, or reboot, and run again",
        "EBUSY": "GPU programs came to use the module; next: end them, or reboot, and run again",
    }
)


class PeerMemoryRequest(NamedTuple):
    """The peer memory of the spec, and the decision for this host.

    ``operator`` is evidence that the GPU Operator's driver container owns the GPU driver. ``left_alone``: nothing is
    set up, because it does, or because the host has no NIC of NVIDIA or no GPU that one could reach.
    """

    asked_by: str
    decision: Decision
    operator: Sequence[str]
    left_alone: bool


def plan(context: Context) -> ConcernPlan:
    """Return a step if a module must be loaded or unloaded now or at boot, none if the spec has no peer memory."""
    request = request_of(context)
    if request is None or context.removing:
        return _returning(context)
    if request.left_alone:
        return [], [
            *_left_alone(request),
            *_nothing_to_reach(context.actual, request),
            *_divided(context.actual, request),
        ]
    wording = _wording(context, request)
    if request.decision.obstacle:
        return [make_step("peer_memory", KEY, **wording, refusal=request.decision.obstacle)], []
    files = wanted_files(context, request)
    unwanted = [path for path in OWN if path in context.boot_files and path not in files]
    now = loaded_mechanisms(context.actual) != _wanted_modules(request)
    boot = context.boot_differs(files) or bool(unwanted)
    notices = [*_notices(request), *_without_clients(context, request), *_divided(context.actual, request)]
    if not now and not boot:
        return [], notices
    used = _used(context.actual, _wanted_modules(request))
    if used:
        detail = f"it stays until the next boot: {used}"
        steps = (
            [_step(wording, now=now, boot=True, detail=detail, status=NEEDS_REBOOT)]
            if not boot
            else [_step(wording, now=False, boot=True, detail=detail)]
        )
        return steps, notices
    return [_step(wording, now=now, boot=boot, detail=request.decision.cause)], notices


def _left_alone(request: PeerMemoryRequest) -> list[str]:
    if not request.operator:
        return []
    evidence = ", ".join(request.operator)
    return [f"{request.asked_by}: peer memory is left to the GPU Operator, which owns the GPU driver here ({evidence})"]


def _nothing_to_reach(actual: HostState, request: PeerMemoryRequest) -> list[str]:
    gpus = nvidia_gpus(actual)
    if request.operator or not gpus:
        return []
    if not reachable_gpus(actual):
        why = without_gpudirect([pci_id(gpu["device"]) for gpu in gpus])
        return [f"{request.asked_by}: nothing is done for peer memory: {why}"]
    return [f"{request.asked_by}: nothing is done for peer memory, as this host has GPUs and no NIC of NVIDIA"]


def _notices(request: PeerMemoryRequest) -> list[str]:
    if request.decision.mechanism in MODULE_OF or request.decision.mechanism == NONE:
        return []
    return [f"{request.asked_by}: peer memory needs no module here: {request.decision.cause}"]


def _without_clients(context: Context, request: PeerMemoryRequest) -> list[str]:
    """Return a notice about a loaded module whose RDMA stack this plan replaces."""
    flavours = [
        as_planned(step["to"], dict)["flavour"]
        for step in context.earlier
        if step["id"] == "driver:load" and step["status"] != REFUSED
    ]
    if INBOX not in flavours or request.decision.mechanism not in MODULE_OF:
        return []
    return [
        f"{request.asked_by}: {request.decision.mechanism} needs an RDMA stack that takes peer-memory clients, and "
        "this plan brings the inbox driver, which does so in few kernels only: elsewhere the module no longer loads; "
        "next: use the open GPU kernel modules, which share memory by DMA-BUF, or keep the vendor's driver"
    ]


def _divided(actual: HostState, request: PeerMemoryRequest) -> list[str]:
    """Return a notice about GPUs divided by MIG, without NCCL (MIG User Guide, deployment considerations)."""
    divided = actual.facts.get("mig", {})
    if not divided or request.decision.mechanism == NONE:
        return []
    parts = named([f"{address} ({count})" for address, count in sorted(divided.items())], _MOST_NAMED)
    return [
        f"{request.asked_by}: MIG divides GPUs of this host into instances: {parts}; GPUDirect RDMA works in each, "
        "but NCCL supports none of them; next: nothing for jobs of one instance, and nvidia-smi -i ADDRESS -mig 0 for "
        "jobs over several GPUs"
    ]


def _wanted_modules(request: PeerMemoryRequest) -> list[str]:
    return [request.decision.mechanism] if request.decision.mechanism in MODULE_OF else []


def _wording(context: Context, request: PeerMemoryRequest) -> Wording:
    mechanism = request.decision.mechanism
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
        "after": _wanted_modules(request),
        "reason": f"{request.asked_by} asks for peer memory; {request.decision.cause or 'none is active'}",
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
    """Return the step of a removal that unloads modules and loads those that they replaced."""
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
    """Return which modules can't be unloaded now because GPU programs use them, in words; empty if none."""
    used = [
        name for name in loaded_mechanisms(actual) if name not in wanted and actual.modules[MODULE_OF[name]]["refcount"]
    ]
    return f"{' and '.join(used)} is in use by GPU programs" if used else ""


def request_of(context: Context) -> PeerMemoryRequest | None:
    """Return the peer memory of the spec, None if it has none."""
    own = context.desired["peer_memory"]
    requests = requests_for(context, "peer_memory")
    if own is None and not requests:
        return None
    asked_by = VARIABLE if own is not None else str(requests[0]["source"])
    wanted = AUTO if own is None else NONE if own["state"] == ABSENT else own["mechanism"]
    actual = context.actual
    labels = {**actual.facts["labels"], **context.desired["node_labels"]}
    operator = operator_evidence(actual, labels)
    decision = decide(wanted, situation_of(actual, _replaces_stack(context)))
    loaded = loaded_mechanisms(actual)
    if wanted == AUTO and len(loaded) == 1:
        # What works stays: a module that is loaded has found its symbols.
        decision = Decision(loaded[0], f"{loaded[0]} is loaded already")
    elif wanted in loaded:
        decision = Decision(wanted, f"{wanted} is requested and already loaded")
    nothing_here = not reachable_gpus(actual) or not actual.nvidia_nics()
    return PeerMemoryRequest(
        asked_by, decision, operator, bool(operator) or (nothing_here and decision.mechanism != NONE)
    )


def _replaces_stack(context: Context) -> bool:
    """Return whether an earlier step loads a vendor's stack, which takes peer-memory clients."""
    loads = (step for step in context.earlier if step["id"] == "driver:load")
    return any(
        step["status"] in {PLANNED, NEEDS_CONSENT} and as_planned(step["to"], dict)["flavour"] in VENDOR_FLAVOURS
        for step in loads
    )


def files_of(mechanism: str) -> dict[str, str]:
    """Return the files that load a mechanism's module at boot, none for one without a module."""
    if mechanism not in MODULE_OF:
        return {}
    return {
        ORDER_FILE: marked([f"softdep {mechanism} pre: ib_core nvidia", f"softdep nvidia post: {mechanism}"]),
        LOAD_FILE: marked([mechanism]),
    }


def wanted_files(context: Context, request: PeerMemoryRequest) -> dict[str, str]:
    """Return our files that this host needs, none if other files load the module at boot."""
    mechanism = request.decision.mechanism
    state = context.actual.facts.get("peer_memory")
    at_boot = state["loaded_at_boot"] if state is not None else {}
    others = [path for path in at_boot.get(MODULE_OF.get(mechanism, ""), []) if path not in OWN]
    ours = any(path in context.boot_files for path in OWN)
    is_kept = mechanism in loaded_mechanisms(context.actual) and (bool(others) or state is None)
    return {} if is_kept and not ours else files_of(mechanism)


def boot_files(context: Context) -> dict[str, str]:
    """Return every file that peer memory needs; present ones stay if the spec has no peer memory."""
    request = request_of(context)
    if request is not None and not request.left_alone:
        return {} if request.decision.obstacle else wanted_files(context, request)
    return {path: text for path, text in context.boot_files.items() if path in OWN}


def work(context: Context, step: Step) -> Work:
    """Return how the modules of ``step["from"]`` are replaced by those of ``step["to"]``, now, at boot, or both."""
    before: list[str] = as_planned(step["from"], list)
    wanted: list[str] = as_planned(step["to"], list)
    do, undo = _of_files(context)
    if step["when"] == BOOT:
        return Work(do, undo)
    away = [name for name in before if name not in wanted]
    # Not modprobe -r, which would also unload what only this module needed, including the GPU driver.
    do += [Run(("rmmod", MODULE_OF[name]), _SECONDS) for name in away]
    do += [Run(("modprobe", name), _SECONDS) for name in wanted]
    # 1: it was never loaded.
    back: list[Operation] = [
        Run(("rmmod", MODULE_OF[name]), _SECONDS, accepted=(0, 1)) for name in wanted if name not in before
    ]
    back += [Run(("modprobe", name), _SECONDS) for name in away]

    def verify(host: Host) -> str:
        wrong = [name for name in (*wanted, *away) if host.exists(f"/sys/module/{MODULE_OF[name]}") != (name in wanted)]
        return "; ".join(f"{name} is {'not' if name in wanted else 'still'} loaded" for name in wrong)

    return Work(do, [*back, *undo], verify)


def restore(desired: HostSpec, _key: str, original: Value) -> None:
    """Add the modules that were loaded before the first run to the spec."""
    if isinstance(original, list):
        desired["peer_memory_before"] = [name for name in original if name in MODULE_OF]


def _of_files(context: Context) -> tuple[list[Operation], list[Operation]]:
    """Return how our files are written or removed, and how that is undone; a removal has separate steps for them."""
    if context.removing:
        return [], []
    files = boot_files(context)
    do: list[Operation] = [RemoveFile(path) for path in OWN if path in context.boot_files and path not in files]
    do += context.boot_operations(files)
    return do, context.boot_undo({path: "" for path in OWN if path in files or path in context.boot_files})


HANDLER = Handler(work, ERRORS, restore)
