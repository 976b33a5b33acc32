# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run leaves for later ones: steps that wait for a reboot, values of firmware, a reload of the driver."""

from __future__ import annotations

from typing import Dict, Mapping

from ..machine.host_files import BOOT_ID, BrokenState, StateFile
from ..machine.probe import Probe
from .shapes import KnownAwaited

PENDING_REBOOT_FILE = "/var/lib/rdma-fabric/awaiting-reboot.json"
PENDING_REBOOT = StateFile(
    PENDING_REBOOT_FILE,
    "what waits for a reboot",
    "remove the file; a step that a reboot did not bring may then have this host rebooted for it once more",
)
# Below /run: a reboot brings the network back by itself, and what was written down before it must not be restored.
JOURNAL = "/run/rdma-fabric-driver-reload.json"
DRIVER_JOURNAL = StateFile(
    JOURNAL,
    "what an interrupted reload of the driver has taken away",
    "reboot the host, which brings its network back, or bring it back by hand and remove the file",
)
# The next start of the host takes the file away.
SET_SINCE_BOOT = "/run/rdma-fabric/firmware"
FIRMWARE_RECORD = StateFile(
    SET_SINCE_BOOT,
    "the firmware values that were set since this boot",
    "reboot the host, or remove the file to take the values that the cards show for those of the next boot",
)

# Device -> parameter -> value.
Record = Dict[str, Dict[str, str]]


def read_awaited(probe: Probe) -> dict[str, KnownAwaited]:
    """Return what waited after the last run: ``to``, ``boot_id`` and ``this_boot`` (it still is the same start)."""
    text = probe.content(PENDING_REBOOT_FILE)
    if not text:
        return {}
    try:
        content = PENDING_REBOOT.parse(text)
        steps = {str(key): (entry["to"], str(entry["boot_id"])) for key, entry in dict(content["steps"]).items()}
    except (BrokenState, ValueError, KeyError, TypeError):
        # The run ends with it, before anything is changed; the boot unit has no use for it.
        return {}
    now = probe.text(BOOT_ID)
    return {key: {"to": to, "boot_id": boot, "this_boot": boot == now} for key, (to, boot) in steps.items()}


def record_text(record: Mapping[str, Mapping[str, str]]) -> str:
    """Return the file that tells until the next boot which values were set since this one."""
    return FIRMWARE_RECORD.text({"set": record})


def record_of(text: str | None) -> Record:
    """Return what such a file tells, nothing where there is none or it is broken."""
    try:
        found = FIRMWARE_RECORD.parse(text or "").get("set")
    except BrokenState:
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(device): dict(values) for device, values in found.items() if isinstance(values, dict)}
