# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read this collection's own files on a host: those that act at boot, and records of one run for later ones."""

from __future__ import annotations

import re
from typing import Dict, Mapping, Sequence

from ..machine.access import OURS, is_temporary
from ..machine.host_files import BOOT_ID, MARKER, BrokenState, StateFile, marked
from ..machine.probe import Probe
from ..spec.arguments import grouped
from .shapes import KnownAwaited

# Directories in which the names of our files contain ours.
PLACES = (
    "/etc/NetworkManager/conf.d",
    "/etc/NetworkManager/system-connections",
    "/etc/apt/preferences.d",
    "/etc/apt/sources.list.d",
    "/etc/default/grub.d",
    "/etc/modprobe.d",
    "/etc/modules-load.d",
    "/etc/netplan",
    "/etc/network/interfaces.d",
    "/etc/pki/rpm-gpg",
    "/etc/security/limits.d",
    "/etc/sysctl.d",
    "/etc/systemd/network",
    "/etc/systemd/system",
    "/etc/systemd/system.conf.d",
    "/etc/systemd/user.conf.d",
    "/etc/tmpfiles.d",
    "/etc/udev/rules.d",
    "/etc/yum.repos.d",
    "/etc/zypp/repos.d",
    "/etc/rdma-fabric",
)
# Directories whose *.d subdirectories hold drop-ins.
_WITH_DROP_INS = ("/etc/systemd/network", "/etc/systemd/system")
DROP_IN = "/etc/default/grub.d/90-rdma-fabric.cfg"
"""Read by grub-mkconfig after /etc/default/grub; a shell assignment."""
RECORD = "/etc/rdma-fabric/kernel-arguments"
"""Lists our arguments where no file of the boot loader can be ours."""
REMOVED = "/run/rdma-fabric/kernel-arguments"
"""Arguments removed since the host booted that the running kernel still has; a reboot deletes the file."""
_LISTED = re.compile(r"^# arguments:(.*)$", re.MULTILINE)

PENDING_REBOOT_FILE = "/var/lib/rdma-fabric/awaiting-reboot.json"
PENDING_REBOOT = StateFile(
    PENDING_REBOOT_FILE,
    "what waits for a reboot",
    "remove the file; a step that a reboot did not complete may then cause one more reboot",
)
# Below /run: after a reboot, which restores the network itself, an old record must not be restored.
JOURNAL = "/run/rdma-fabric-driver-reload.json"
DRIVER_JOURNAL = StateFile(
    JOURNAL,
    "what an interrupted driver reload removed",
    "reboot the host, which restores its network, or restore it by hand and remove the file",
)
# Deleted by the next boot.
SET_SINCE_BOOT = "/run/rdma-fabric/firmware"
FIRMWARE_RECORD = StateFile(
    SET_SINCE_BOOT,
    "the firmware values that were set since this boot",
    "reboot the host, or remove the file to treat the values that the cards show as those of the next boot",
)
# Device -> parameter -> value.
Record = Dict[str, Dict[str, str]]


def part_of_name(address: str) -> str:
    """Return a PCI address in the form used in the names of our naming files."""
    return address.replace(":", "-")


def naming_line_ends(name: str) -> tuple[str, str]:
    """Return the end of the line that names an interface: in a .link file, and in a udev rule."""
    return f"Name={name}", f', NAME="{name}"'


def read_own_files(probe: Probe) -> dict[str, str]:
    """Return all files in our directories that carry our marker, complete, by path, and what killed runs left of some.

    A file without the marker is no longer ours.
    """
    files: dict[str, str] = {}
    for place in PLACES:
        names = probe.names(place)
        if place in _WITH_DROP_INS:
            for directory in [name for name in names if name.endswith(".d")]:
                names += [f"{directory}/{name}" for name in probe.names(f"{place}/{directory}") if OURS in name]
        for name in names:
            if OURS in place or OURS in name:
                text = probe.content(f"{place}/{name}", ("EISDIR",))
                if text is not None and (MARKER in text or is_temporary(name)):
                    files[f"{place}/{name}"] = text
    return files


def listed(text: str) -> list[str]:
    """Return the arguments that a file of ours lists."""
    found = _LISTED.search(text)
    return grouped(found.group(1).split()) if found else []


def drop_in(arguments: Sequence[str], listing: Sequence[str]) -> str:
    """Return the drop-in that adds ``arguments``; ``listing`` may include arguments that are being removed."""
    text = record(listing)
    if arguments:
        text += f'GRUB_CMDLINE_LINUX_DEFAULT="${{GRUB_CMDLINE_LINUX_DEFAULT}} {" ".join(arguments)}"\n'
    return text


def record(listing: Sequence[str]) -> str:
    """Return a file that only lists our arguments."""
    return marked([f"# arguments: {' '.join(listing)}"])


def read_awaited(probe: Probe) -> dict[str, KnownAwaited]:
    """Return the steps pending a reboot after the last run: ``to``, ``boot_id``, ``this_boot`` (no reboot since)."""
    text = probe.content(PENDING_REBOOT_FILE)
    if not text:
        return {}
    try:
        content = PENDING_REBOOT.parse(text)
        steps = {str(key): (entry["to"], str(entry["boot_id"])) for key, entry in dict(content["steps"]).items()}
    except (BrokenState, ValueError, KeyError, TypeError):
        # A run reports the broken file before it changes anything; the boot unit does not need it.
        return {}
    now = probe.text(BOOT_ID)
    return {key: {"to": to, "boot_id": boot, "this_boot": boot == now} for key, (to, boot) in steps.items()}


def record_text(record: Mapping[str, Mapping[str, str]]) -> str:
    """Return the file that records, until the next boot, which values were set since this one."""
    return FIRMWARE_RECORD.text({"set": record})


def record_of(text: str | None) -> Record:
    """Return the content of such a file, empty if there is none or it is broken."""
    try:
        found = FIRMWARE_RECORD.parse(text or "").get("set")
    except BrokenState:
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(device): dict(values) for device, values in found.items() if isinstance(values, dict)}
