# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remembers steps that need a reboot, so that no host is rebooted twice for the same step.

A reboot may not have its effect: the boot loader starts an old kernel or another entry, or something reverts the
change during the boot. Nightly runs would then reboot the host every night. So a step that already waited at the last
boot is refused, and so are reboots of a host that came up with an older kernel than the expected one.
"""

from __future__ import annotations

from typing import Mapping, Sequence

from ..facts.own_files import PENDING_REBOOT
from ..facts.shapes import Awaited, KnownAwaited
from ..machine.probe import natural
from .concerns import CONCERNS
from .steps import NEEDS_REBOOT, REFUSED, Step, is_executable, refused, with_reason

# The file's entry of the expected kernel; no concern has this name, so the entry is not about a step.
REBOOT = "reboot"
KERNEL = f"{REBOOT}:kernel"
_NOT_BROUGHT = (
    "the host has rebooted since it first waited for this, without effect: check the boot loader's default entry and "
    "kernel and the log of the boot (journalctl -b), and reboot it yourself; no run reboots the host for this again"
)


def refuse_unmet(steps: Sequence[Step], known: Mapping[str, KnownAwaited]) -> list[Step]:
    """Return the steps of a plan; those that the last reboot should have completed are refused."""
    return [refused(step, with_reason(step, _NOT_BROUGHT)) if _was_not_brought(step, known) else step for step in steps]


def leads_to_reboot(step: Step) -> bool:
    """Return whether a step needs a reboot, or leads to one that does."""
    return step["status"] == NEEDS_REBOOT or (is_executable(step) and CONCERNS[step["concern"]].at_reboot)


def missed_kernel(known: Mapping[str, KnownAwaited], running: str) -> str:
    """Return the expected kernel if the last reboot started the former or an older one instead, else nothing.

    A newer one is fine, as it may have been installed since.
    """
    entry = known.get(KERNEL)
    if entry is None or entry["this_boot"] or not isinstance(entry["to"], dict):
        return ""
    expected, former = str(entry["to"].get("expected", running)), entry["to"].get("former")
    is_missed = running != expected and (running == former or natural(running) < natural(expected))
    return expected if is_missed else ""


def _was_not_brought(step: Step, known: Mapping[str, KnownAwaited]) -> bool:
    entry = known.get(step["id"])
    return step["status"] == NEEDS_REBOOT and entry is not None and entry["to"] == step["to"] and not entry["this_boot"]


def pending_after(
    left: Sequence[Step],
    known: Mapping[str, KnownAwaited],
    concerns: Sequence[str],
    boot_id: str,
    kernels: tuple[str | None, str],
) -> dict[str, Awaited]:
    """Return what waits for a reboot at the end of a run: ``left`` is the plan then, ``known`` are the file's entries.

    A known entry keeps the boot in which it was first seen. Entries of other ``concerns`` than the run's stay.
    ``kernels`` are the kernel of the next boot, if known, and the running one. If the kernel does not identify boots
    (an empty ``boot_id``), nothing new is remembered.
    """
    found: dict[str, Awaited] = {key: entry for key, entry in known.items() if key.split(":", 1)[0] not in concerns}
    of_kernel = found.pop(KERNEL, None)
    for step in left:
        key = step["id"]
        if key in known and known[key]["to"] == step["to"] and step["status"] in (NEEDS_REBOOT, REFUSED):
            found[key] = known[key]
        elif step["status"] == NEEDS_REBOOT and boot_id:
            found[key] = {"to": step["to"], "boot_id": boot_id}
    expected, running = kernels
    if any(step["status"] == NEEDS_REBOOT for step in left) and expected and boot_id:
        found[KERNEL] = {"to": {"expected": expected, "former": running}, "boot_id": boot_id}
    elif of_kernel is not None and (found or missed_kernel(known, running)):
        found[KERNEL] = of_kernel
    return stored(found)


def stored(known: Mapping[str, Awaited]) -> dict[str, Awaited]:
    """Return these entries as the file has them."""
    return {key: {"to": entry["to"], "boot_id": entry["boot_id"]} for key, entry in sorted(known.items())}


def text_of(awaited: Mapping[str, Awaited]) -> str:
    """Return the file's text."""
    return PENDING_REBOOT.text({"steps": awaited})
