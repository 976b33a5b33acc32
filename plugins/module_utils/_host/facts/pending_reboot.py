# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what an earlier run left for a reboot."""

from __future__ import annotations

from ..machine.paths import BOOT_ID
from ..machine.probe import Probe
from ..machine.state_file import BrokenState, StateFile
from .shapes import KnownAwaited

PATH = "/var/lib/rdma-fabric/awaiting-reboot.json"
FILE = StateFile(
    PATH,
    "what waits for a reboot",
    "remove the file; a step that a reboot did not bring may then have this host rebooted for it once more",
)


def read_awaited(probe: Probe) -> dict[str, KnownAwaited]:
    """Return what waited after the last run: ``to``, ``boot_id`` and ``this_boot`` (it still is the same start)."""
    text = probe.content(PATH)
    if not text:
        return {}
    try:
        content = FILE.parse(text)
        steps = {str(key): (entry["to"], str(entry["boot_id"])) for key, entry in dict(content["steps"]).items()}
    except (BrokenState, ValueError, KeyError, TypeError):
        # The run ends with it, before anything is changed; the boot unit has no use for it.
        return {}
    now = probe.text(BOOT_ID)
    return {key: {"to": to, "boot_id": boot, "this_boot": boot == now} for key, (to, boot) in steps.items()}
