# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths of this collection's files on a host, and the format of its state files.

A state file is read completely or not at all (``access.read_text``). One that is truncated, was edited, or comes from
another release is reported with its name and the next step, and never misread.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, Iterable, Mapping, NamedTuple

from .access import Host, HostError

# The first line of every file of ours, after the comment sign of its format; removal takes exactly the files with it.
MARKER = "Managed by rdma.fabric: changes are overwritten, rdma.fabric removes this file"
# systemd's unit directories; the first that has a unit is used (systemd.unit(5)).
UNIT_DIRECTORIES = ("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
# Services of distributions of Kubernetes that are container runtime and kubelet in one.
_BOTH = ("k3s", "k3s-agent", "rke2-server", "rke2-agent", "k0scontroller", "k0sworker")
# Those that start containers, which inherit their limits, and those with a kubelet; snaps name theirs after themselves.
RUNTIMES = ("containerd", "crio", "docker", "snap.microk8s.daemon-containerd", "snap.k8s.containerd", *_BOTH)
KUBELETS = ("kubelet", "snap.microk8s.daemon-kubelite", "snap.k8s.kubelet", *_BOTH)
# The default of all services that set no limit themselves.
MANAGER_FILE = "/etc/systemd/system.conf.d/90-rdma-fabric.conf"
UNIT = "rdma-fabric-host.service"
UNIT_FILE = f"/etc/systemd/system/{UNIT}"
ENABLED_BY = f"/etc/systemd/system/multi-user.target.wants/{UNIT}"
# They set up RDMA devices that appear after the boot unit has run, as its file says: nothing without it.
DEVICES_UNIT = "rdma-fabric-devices.service"
DEVICES_FILES = (f"/etc/systemd/system/{DEVICES_UNIT}", "/etc/udev/rules.d/90-rdma-fabric-devices.rules")
# Installed by an image or a first-boot step, removed by the run in which the node joined (docs/guide-new-nodes.md).
JOIN_UNIT_FILE = "/etc/systemd/system/rdma-fabric-join.service"
JOIN_ENABLED_BY = "/etc/systemd/system/multi-user.target.wants/rdma-fabric-join.service"
BOOT_SPEC_FILE = "/etc/rdma-fabric/host.json"
NETPLAN_FILE = "/etc/netplan/90-rdma-fabric.yaml"
# The beginning of the path of our policy script, which ends with the digest of its text.
IRQBALANCE_SCRIPT = "/etc/rdma-fabric/irqbalance-"
# Not below /usr, which image-based systems mount read-only.
PROGRAM_DIRECTORY = "/var/lib/rdma-fabric/program"
RESULT_FILE = "/var/lib/rdma-fabric/boot.json"
# An uplink change that takes effect at the next boot; removed then.
STAGED_FILE = "/var/lib/rdma-fabric/guard-at-boot.json"
GUARD_FILE = "/var/lib/rdma-fabric/guard.json"
REVERTING_FILE = "/var/lib/rdma-fabric/guard-reverting.json"
REVERTED_FILE = "/var/lib/rdma-fabric/guard-reverted.json"
CONFIRMED_FILE = "/var/lib/rdma-fabric/guard-confirmed.json"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
# Isolated and without site packages: only the program and the standard library can be imported.
PYTHON_OPTIONS = ("-I", "-S")
FORMAT = 2
# The format of the first release: the same members without a checksum.
_WITHOUT_CHECKSUM = 1
_ENVELOPE = ("format", "note", "managed_by", "sha256")
Content = Dict[str, Any]


class BrokenState(Exception):
    """A state file that can't be used; the message names it, the reason, and the next step."""


class StateFile(NamedTuple):
    """A state file. ``holds`` completes the sentence "does not hold", ``remedy`` follows "next:"."""

    path: str
    holds: str
    remedy: str

    def text(self, content: Mapping[str, Any]) -> str:
        """Return the file's text; equal content gives equal text."""
        # Parsed once more, as keys become text, which sorts differently from numbers.
        plain = json.loads(json.dumps(dict(content)))
        document = {**plain, "format": FORMAT, "note": MARKER, "sha256": _checksum(plain)}
        return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=True) + "\n"

    def parse(self, text: str) -> Content:
        """Return the content of a text; raises BrokenState."""
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
            raise self.broken("its checksum does not match")
        return content

    def read(self, host: Host) -> Content | None:
        """Return the content of the file, None if it does not exist; raises BrokenState."""
        try:
            return self.parse(host.read(self.path))
        except HostError as error:
            if error.code == "ENOENT":
                return None
            if error.code == "EFBIG":
                raise self.broken("it is longer than any file of ours") from error
            raise BrokenState(f"{error}: {self.holds} can't be read; next: run as root") from error

    def broken(self, reason: str) -> BrokenState:
        """Return the error with the reason why the file can't be used."""
        return BrokenState(
            f"{self.path} does not hold {self.holds} ({reason}); nothing was changed; next: {self.remedy}"
        )


def marked(lines: Iterable[str]) -> str:
    """Return the text of a file of ours with these lines, in a format whose comments start with ``#``."""
    return "".join(f"{line}\n" for line in (f"# {MARKER}", *lines))


def mode_of(path: str) -> int:
    """Return the permissions of a file of ours: netplan warns about files that others may read."""
    if path in (BOOT_SPEC_FILE, NETPLAN_FILE):
        return 0o600
    return 0o755 if path.startswith(IRQBALANCE_SCRIPT) else 0o644


def check(host: Host, files: Iterable[StateFile]) -> None:
    """Raise BrokenState with all files that exist and are broken; unreadable files are skipped."""
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
    """Return a state file's text with a new checksum, for callers that replaced names in it; other text unchanged."""
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
