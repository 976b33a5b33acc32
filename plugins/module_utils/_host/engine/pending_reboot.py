# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remembers what waits for a reboot, so that no host is rebooted twice for it.

A reboot may not bring what it was for: the boot loader starts an old kernel or another entry, or something undoes it on
the way. A host that runs of every night may reboot would then be rebooted every night. So a step that waited already
when the host was last started is refused, and so is everything for a host that came up with an older kernel than the
boot loader was to start.
"""

from __future__ import annotations

from typing import Mapping, Sequence

from ..facts.own_files import PENDING_REBOOT
from ..facts.shapes import Awaited, KnownAwaited
from ..machine.probe import natural
from .steps import NEEDS_REBOOT, REFUSED, Step, is_executable, refused, with_reason

# Where the file keeps which kernel is to come; no concern has that name, so it is no step of any.
REBOOT = "reboot"
KERNEL = f"{REBOOT}:kernel"
# What their steps set takes effect with a reboot, for which another step waits once they are done.
_OF_THE_NEXT_BOOT = ("kernel_arguments", "firmware", "firmware_image")
_NOT_BROUGHT = (
    "the host was started since it first waited for that, and came up without it: look at which entry and kernel the "
    "boot loader takes by default and at the log of the start (journalctl -b), and reboot it yourself; no run reboots "
    "the host for this again"
)


def refuse_unmet(steps: Sequence[Step], known: Mapping[str, KnownAwaited]) -> list[Step]:
    """Return the steps of a plan; those that a reboot did not bring are refused."""
    return [refused(step, with_reason(step, _NOT_BROUGHT)) if _was_not_brought(step, known) else step for step in steps]


def leads_to_reboot(step: Step) -> bool:
    """Return whether a step waits for a reboot, or another one will once it is done."""
    return step["status"] == NEEDS_REBOOT or (is_executable(step) and step["concern"] in _OF_THE_NEXT_BOOT)


def missed_kernel(known: Mapping[str, KnownAwaited], running: str) -> str:
    """Return the kernel that a reboot was to start when the former or an older one came up; else empty.

    A newer one may have been installed since.
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
    """Return what waits when a run ends: ``left`` is the plan then, ``known`` what was read of the run before.

    What waited already keeps the boot that it was first seen in. A run about some ``concerns`` knows nothing of others.
    ``kernels`` are that of the next boot, where it is told, and the running one. Where the kernel does not tell one
    boot from another (an empty ``boot_id``), nothing new is remembered.
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
    """Return what the file holds of these entries."""
    return {key: {"to": entry["to"], "boot_id": entry["boot_id"]} for key, entry in sorted(known.items())}


def text_of(awaited: Mapping[str, Awaited]) -> str:
    """Return the file's text."""
    return PENDING_REBOOT.text({"steps": awaited})
