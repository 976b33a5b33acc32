# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How slow this machine is beside the one that times are given for: at emulating guests, and by what else it does."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Mapping

from ..gobuild import Report, cache_root
from .boot import Trial, boots
from .budget import load, processors
from .qemu import Image, qemu_environment, trial_argv
from .remembered import recall, remember

# Processor time of the trial boot on the machine that times are given for: 4.6 to 5.3 s on Xeons of 2023, whatever else
# they did.
REFERENCE_SECONDS = 5.0
LIMIT_SECONDS = 120.0
WORTH_SAYING = 1.5


def measure_slowness(image: Image, environ: Mapping[str, str], report: Report, trial: Trial = boots) -> float:
    """Return how many times as much processor time emulation takes here; it is kept until the machine restarts."""
    place = _place(environ)
    known = recall(place)
    if known.get("qemu") != image.qemu.name:
        report("measuring how fast guests are emulated here")
        scratch = {**environ, **qemu_environment(image.qemu)}
        before = _processor_seconds()
        # A guest that does not boot says so on its console when the lab boots it.
        booted = trial(trial_argv(image, "tcg"), scratch, LIMIT_SECONDS * load())
        slowness = max(1.0, (_processor_seconds() - before) / REFERENCE_SECONDS) if booted else 1.0
        known = remember(place, qemu=image.qemu.name, slowness=slowness)
    return float(known["slowness"])


def pace(environ: Mapping[str, str]) -> float:
    """Return how many times as long something takes here and now; slowness counts once a lab has measured it."""
    return known_slowness(environ) * load()


def describe_pace(environ: Mapping[str, str]) -> str:
    """Say in one sentence why things take longer here than times that are given; empty where they do not."""
    slow, busy = known_slowness(environ), load()
    if slow * busy < WORTH_SAYING:
        return ""
    reasons = []
    if slow >= WORTH_SAYING:
        reasons.append(f"its processors emulate {slow:.1f} times as slowly as those that times are given for")
    if busy >= WORTH_SAYING:
        reasons.append(f"it is busy, with a load of {os.getloadavg()[0]:.0f} on {processors()} processors")
    why = " and ".join(reasons) or "it is slow and busy"
    return f"This machine takes about {slow * busy:.1f} times as long, and limits are as much longer: {why}."


def known_slowness(environ: Mapping[str, str]) -> float:
    """Return what a lab has measured here; 1 before."""
    return float(recall(_place(environ)).get("slowness", 1.0))


def _place(environ: Mapping[str, str]) -> Path:
    return cache_root(environ) / "guests" / "speed.json"


def _processor_seconds() -> float:
    """Return the processor time of the programs that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
