# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells what a reboot does to the GPUs of a host: NVLink that nothing sets up again, MIG that goes or comes. Pure.

Sources: facts/gpus.py; for MIG the MIG User Guide (enabling MIG mode): from Hopper on the mode lasts as long as the
driver is loaded, on Ampere a change that is pending takes effect when the GPU is reset. nvidia-mig-manager.service
(NVIDIA/mig-parted) and the GPU Operator's MIG manager bring it back.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ..concerns.peer_memory.decide import generation
from ..facts.gpu_shapes import Nvlink
from ..facts.gpus import FABRIC_MANAGER, IMEX
from ..facts.host_state import HostState
from ..facts.shapes import Facts

_KEEPS_MIG = ("Ampere",)
_LOSES_MIG = ("Hopper", "Blackwell")
_MOST_NAMED = 4


class GpuForecast(NamedTuple):
    """Why a reboot has to wait, empty where nothing speaks against it, and what it will change."""

    problem: str
    notices: list[str]


def forecast(actual: HostState) -> GpuForecast:
    """Return what the next boot does to NVLink and MIG."""
    facts = actual.facts
    nvlink = facts.get("nvlink")
    problem = ""
    notices: list[str] = []
    # In a virtual machine NVLink may be the business of the machine below it.
    if nvlink is not None and nvlink["service"] and not nvlink["by_container"] and not facts["pcie"]["virtual"]:
        problem, notices = _of_fabric_manager(nvlink) if nvlink["service"] == FABRIC_MANAGER else _of_imex(nvlink)
    return GpuForecast(problem, [*notices, *_of_mig(facts)])


def _of_fabric_manager(nvlink: Nvlink) -> tuple[str, list[str]]:
    state = nvlink["state"]
    if state["enabled"]:
        return "", []
    switches = f"NVSwitches ({_some(nvlink['switches'])})" if nvlink["switches"] else "NVSwitches"
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
            f"MIG is on for {_some(going)} and lasts only as long as the GPU driver is loaded: after the reboot they "
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
                f"MIG goes {word} with the reboot for {_some(changing)}, as somebody asked for it earlier (pending); "
                f"next: nvidia-smi -i ADDRESS -mig {int(not pending)} takes that back"
            )
    return notices


def _some(addresses: Sequence[str]) -> str:
    return named(list(addresses), _MOST_NAMED)
