# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that has no program which loads kernel modules: what would need one is refused before anything changes. Pure.

systemd loads those of modules-load.d(5) at boot by itself. Packages of a driver bring kmod along: DKMS needs it.
"""

from __future__ import annotations

from typing import Iterable

from ..engine.context import Context
from ..engine.steps import BOOT, NEEDS_CONSENT, NOTHING, PLANNED, Step, is_executable, refused
from ..spec.driver_families import VENDOR_FLAVOURS
from ..spec.functions import VFIO

_PACKAGES = "driver:packages"
_REFUSAL = (
    "this host has no modprobe, so no kernel module can be loaded now; next: install kmod (the package has this name "
    "on every distribution) and run again"
)


def refuse_steps(context: Context, planned: Iterable[Step]) -> list[Step]:
    """Return the steps; those that load a kernel module now are refused."""
    steps = list(planned)
    if any(map(_brings_kmod, (*context.earlier, *steps))):
        return steps
    return [_refused(step) if _loads(step) else step for step in steps]


def _brings_kmod(step: Step) -> bool:
    to = step["to"]
    vendor = isinstance(to, dict) and to.get("flavour") in VENDOR_FLAVOURS
    return step["id"] == _PACKAGES and vendor and is_executable(step)


def _loads(step: Step) -> bool:
    if step["status"] not in (PLANNED, NEEDS_CONSENT) or step["when"] == BOOT:
        return False
    to = step["to"]
    if step["concern"] == "modules":
        return to == "loaded"
    if step["concern"] == "peer_memory":
        return isinstance(to, list) and bool(to)
    if step["concern"] == "vfs":
        return isinstance(to, dict) and VFIO in to.values()
    return step["id"] in ("driver:load", "driver:restore")


def _refused(step: Step) -> Step:
    return {**refused(step, _REFUSAL), "consent": None, "interrupts": NOTHING}
