# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remembers what waits for a reboot, so that no host is rebooted twice for it.

A reboot may not bring what it was for: the boot loader starts an old kernel or another entry, or something undoes it on
the way. A host that runs of every night may reboot would then be rebooted every night. So a step that waited already
when the host was last started is refused.
"""

from __future__ import annotations

from typing import Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import NEEDS_REBOOT, REFUSED, Step
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.pending_reboot import FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.shapes import Awaited, KnownAwaited

_NOT_BROUGHT = (
    "the host was started since it first waited for that, and came up without it: look at which entry and kernel the "
    "boot loader takes by default and at the log of the start (journalctl -b), and reboot it yourself; no run reboots "
    "the host for this again"
)


def refuse_unmet(steps: Sequence[Step], known: Mapping[str, KnownAwaited]) -> list[Step]:
    """Return the steps of a plan; those that a reboot did not bring are refused."""
    return [_refused(step) if _was_not_brought(step, known) else step for step in steps]


def _was_not_brought(step: Step, known: Mapping[str, KnownAwaited]) -> bool:
    entry = known.get(step["id"])
    return step["status"] == NEEDS_REBOOT and entry is not None and entry["to"] == step["to"] and not entry["this_boot"]


def _refused(step: Step) -> Step:
    detail = f"{step['detail']}; {_NOT_BROUGHT}" if step["detail"] else _NOT_BROUGHT
    return {**step, "status": REFUSED, "undo": "nothing is changed", "detail": detail}


def pending_after(
    left: Sequence[Step], known: Mapping[str, KnownAwaited], concerns: Sequence[str], boot_id: str
) -> dict[str, Awaited]:
    """Return what waits when a run ends: ``left`` is the plan then, ``known`` what was read of the run before.

    What waited already keeps the boot that it was first seen in. A run about some ``concerns`` knows nothing of others.
    Where the kernel does not tell one boot from another (an empty ``boot_id``), nothing new is remembered.
    """
    found: dict[str, Awaited] = {key: entry for key, entry in known.items() if key.split(":", 1)[0] not in concerns}
    for step in left:
        key = step["id"]
        if key in known and known[key]["to"] == step["to"] and step["status"] in (NEEDS_REBOOT, REFUSED):
            found[key] = known[key]
        elif step["status"] == NEEDS_REBOOT and boot_id:
            found[key] = {"to": step["to"], "boot_id": boot_id}
    return stored(found)


def stored(known: Mapping[str, Awaited]) -> dict[str, Awaited]:
    """Return what the file holds of these entries."""
    return {key: {"to": entry["to"], "boot_id": entry["boot_id"]} for key, entry in sorted(known.items())}


def text_of(awaited: Mapping[str, Awaited]) -> str:
    """Return the file's text."""
    return FILE.text({"steps": awaited})
