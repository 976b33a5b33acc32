# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where this collection keeps its files on a host, and how state files are read and written.

A state file is read whole or not at all (``access.read_text``). One that was cut off, edited or written by another
release is reported with its name and the next step, and never taken for what it is not.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, Iterable, Mapping, NamedTuple

from .access import Host, HostError

# First line of every file of ours, after the comment sign of its format; removal takes exactly the files that have it.
MARKER = "Managed by rdma.fabric: changes are overwritten, rdma.fabric removes this file"

# Where systemd looks for units, the first that has one counts (systemd.unit(5)).
UNIT_DIRECTORIES = ("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
# The default of every service that sets no limit itself.
MANAGER_FILE = "/etc/systemd/system.conf.d/90-rdma-fabric.conf"
UNIT = "rdma-fabric-host.service"
UNIT_FILE = f"/etc/systemd/system/{UNIT}"
ENABLED_BY = f"/etc/systemd/system/multi-user.target.wants/{UNIT}"
# An image or a first-boot step brings it, the run that has let the node join takes it away (docs/guide-new-nodes.md).
JOIN_UNIT_FILE = "/etc/systemd/system/rdma-fabric-join.service"
JOIN_ENABLED_BY = "/etc/systemd/system/multi-user.target.wants/rdma-fabric-join.service"
WISHES_FILE = "/etc/rdma-fabric/host.json"
NETPLAN_FILE = "/etc/netplan/90-rdma-fabric.yaml"
# Start of the path of our policy script; the rest is the digest of its text.
IRQBALANCE_SCRIPT = "/etc/rdma-fabric/irqbalance-"
PROGRAM_DIRECTORY = "/usr/local/lib/rdma-fabric"
RESULT_FILE = "/var/lib/rdma-fabric/boot.json"
# A change of the uplink that acts at the next boot, until then.
STAGED_FILE = "/var/lib/rdma-fabric/guard-at-boot.json"
GUARD_FILE = "/var/lib/rdma-fabric/guard.json"
REVERTING_FILE = "/var/lib/rdma-fabric/guard-reverting.json"
REVERTED_FILE = "/var/lib/rdma-fabric/guard-reverted.json"
CONFIRMED_FILE = "/var/lib/rdma-fabric/guard-confirmed.json"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
# Isolated and without site packages: nothing but the program and the standard library is imported.
PYTHON_OPTIONS = ("-I", "-S")


def marked(lines: Iterable[str]) -> str:
    """Return the text of a file of ours that has these lines, and takes comments that start with ``#``."""
    return "".join(f"{line}\n" for line in (f"# {MARKER}", *lines))


def mode_of(path: str) -> int:
    """Return the permissions of a file of ours: netplan warns about files that others may read."""
    if path in (WISHES_FILE, NETPLAN_FILE):
        return 0o600
    return 0o755 if path.startswith(IRQBALANCE_SCRIPT) else 0o644


FORMAT = 2
# What the first release wrote: the same members without a checksum.
_WITHOUT_CHECKSUM = 1
_ENVELOPE = ("format", "note", "managed_by", "sha256")

Content = Dict[str, Any]


class BrokenState(Exception):
    """A file of state that can't be used; the text names it, why, and what to do."""


class StateFile(NamedTuple):
    """One such file. ``holds`` ends the sentence "does not hold", ``remedy`` follows "next:"."""

    path: str
    holds: str
    remedy: str

    def text(self, content: Mapping[str, Any]) -> str:
        """Return the file's text: the same content gives the same text."""
        # As it is read back: keys are text then, which sorts in another order than numbers.
        plain = json.loads(json.dumps(dict(content)))
        document = {**plain, "format": FORMAT, "note": MARKER, "sha256": _checksum(plain)}
        return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=True) + "\n"

    def parse(self, text: str) -> Content:
        """Return what a text holds; raises BrokenState."""
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self.broken(f"it is not JSON: {error}") from error
        if not isinstance(document, dict):
            raise self.broken("it is not a mapping")
        content = {key: value for key, value in document.items() if key not in _ENVELOPE}
        form = document.get("format")
        if form not in (FORMAT, _WITHOUT_CHECKSUM):
            raise self.broken(f"its format is {form}, this release reads {FORMAT}")
        if form == FORMAT and document.get("sha256") != _checksum(content):
            raise self.broken("its checksum is another")
        return content

    def read(self, host: Host) -> Content | None:
        """Return what the file holds, None where there is none; raises BrokenState."""
        try:
            return self.parse(host.read(self.path))
        except HostError as error:
            if error.code == "ENOENT":
                return None
            if error.code == "EFBIG":
                raise self.broken("it is longer than any file of ours") from error
            raise BrokenState(f"{error}: {self.holds} can't be read; next: run as root") from error

    def broken(self, reason: str) -> BrokenState:
        """Return the error that says why the file can't be used."""
        return BrokenState(
            f"{self.path} does not hold {self.holds} ({reason}); nothing was changed; next: {self.remedy}"
        )


def check(host: Host, files: Iterable[StateFile]) -> None:
    """Raise BrokenState with all of the files that are there and broken; one that can't be read tells nothing."""
    problems = []
    for file in files:
        try:
            file.parse(host.read(file.path))
        except BrokenState as error:
            problems.append(str(error))
        except HostError as error:
            problems += [str(file.broken("it is longer than any file of ours"))] if error.code == "EFBIG" else []
    if problems:
        raise BrokenState("\n".join(problems))


def checksummed_again(text: str) -> str:
    """Return a text with the checksum of what it holds now, for who has replaced names in it; any other stays."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(document, dict) or document.get("format") != FORMAT or "sha256" not in document:
        return text
    content = {key: value for key, value in document.items() if key not in _ENVELOPE}
    return text.replace(str(document["sha256"]), _checksum(content))


def _checksum(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
