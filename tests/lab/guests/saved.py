# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts kept as they are once they are ready, memory and all: the next lab of the same making goes on from there.

An emulated guest boots in a minute of processor time, and is loaded in seconds. What is kept lies in the user's cache,
in the folders of a lab, under a name that changes with the disks, QEMU's commands and the files of the guests. Each lab
writes to files of its own above what is kept. Beside the guests, nothing goes on: the control plane begins anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Mapping, NamedTuple, Sequence

from ..gobuild import Report, make_once
from .cluster_server import AUTHORITY
from .image import require_space
from .layout import Guest, monitor_socket
from .monitor import MonitorRefused, execute
from .qemu import NODE, ROOT, config_disk, overlay_file
from .recipe import GIB

SWITCH = "RDMA_FABRIC_LAB_RESTORE"  # "no": every lab boots its guests, and none are kept
# Raised when what is kept of the same making changes.
STEPS = 1
OLDEST_SECONDS = 14 * 86400.0  # the certificates in there are good for 30 days
MOST_BYTES = 10 * GIB  # of all that is kept; some 700 MB for a guest
SAVE_SECONDS = 300.0  # then something is wrong, even on a busy machine
LEFT_SECONDS = 3600.0  # nobody is still saving what is as old as this
POLL_SECONDS = 0.1
KEY = "id_ed25519"  # of the lab's user
UNLIMITED = 1 << 40  # bytes per second: QEMU's own limit spares a network
# A lab's own: they come with what is kept, and so tell nothing of how it was made.
IDENTITY = ("etc/kubernetes/ca.crt", "etc/kubernetes/kubeconfig")


class Made(NamedTuple):
    """How one guest is made: QEMU's command, and the files of its configuration disk."""

    argv: list[str]
    files: Mapping[str, str]


def place_of(cache: Path, disks: Sequence[Path], guests: Sequence[Made]) -> Path:
    """Give where hosts of this making are kept; ``disks`` are those that all of them read."""
    found = [(str(disk), disk.stat().st_size, disk.stat().st_mtime_ns) for disk in disks]
    made = [(argv, {path: text for path, text in files.items() if path not in IDENTITY}) for argv, files in guests]
    digest = hashlib.sha256(json.dumps([STEPS, found, made], sort_keys=True).encode()).hexdigest()
    return cache / f"saved-{digest[:16]}"


def usable(place: Path) -> bool:
    """Tell whether there is something to go on from; what is too old is removed."""
    if not place.is_dir():
        return False
    if (place / KEY).stat().st_mtime < time.time() - OLDEST_SECONDS:
        shutil.rmtree(place)
        return False
    os.utime(place)  # in use: not to be removed
    return True


def memory_file(place: Path, guest: Guest) -> Path:
    """Give where the memory of a guest is kept."""
    return place / f"{guest.name}.memory"


def own_files(guests: Sequence[Guest], *, cluster: bool) -> list[str]:
    """Give the files, by their paths in a lab's directory, that are its guests' own beside what they have written."""
    keys = [f"keys/{guest.name}{end}" for guest in guests for end in ("", ".pub")]
    authority = [f"cluster/{name}" for name in AUTHORITY] if cluster else []
    return [KEY, f"{KEY}.pub", *keys, *authority, *(config_disk(guest) for guest in guests)]


def save(directory: Path, guests: Sequence[Guest], place: Path, report: Report, *, cluster: bool) -> None:
    """Keep the guests of a lab as they are; meanwhile they stand still. Raises ``MonitorRefused`` and OSError."""
    disks = [overlay_file(guest, disk) for guest in guests for disk in ((ROOT, NODE) if cluster else (ROOT,))]
    monitors = [directory / monitor_socket(guest.name) for guest in guests]

    def make(target: Path) -> None:
        target.chmod(0o700)  # keys
        needed = 2 * GIB * len(guests)
        require_space(place.parent, needed, "keeping the hosts", "Free some, or name a larger XDG_CACHE_HOME.")
        try:
            for monitor in monitors:
                execute(monitor, "stop", {})
                execute(monitor, "migrate-set-parameters", {"max-bandwidth": UNLIMITED})
            for guest, monitor in zip(guests, monitors):
                execute(monitor, "migrate", {"uri": f"file:{memory_file(target, guest)}"})
            for monitor in monitors:
                _await_saved(monitor)
            # Not before: with the memory QEMU writes what it knows of the disks alone.
            for path in (*own_files(guests, cluster=cluster), *disks):
                copy(directory / path, target / path)
        finally:
            for monitor in monitors:
                execute(monitor, "cont", {})

    started = time.monotonic()
    make_once(place, "these hosts as they are", make, report)
    report(f"the hosts are kept as they are, for later labs ({time.monotonic() - started:.0f} s)")
    remove_most(place.parent)


def _await_saved(monitor: Path) -> None:
    deadline = time.monotonic() + SAVE_SECONDS
    while (found := execute(monitor, "query-migrate", {}))["status"] != "completed":
        if found["status"] == "failed" or time.monotonic() > deadline:
            raise MonitorRefused(f"QEMU has not written its guest's memory: {found.get('error-desc', found['status'])}")
        time.sleep(POLL_SECONDS)


def copy(source: Path, target: Path) -> None:
    """Copy a file with its holes and permissions."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    argv = ["cp", "--sparse=always", "--preserve=mode", str(source), str(target)]
    subprocess.run(argv, check=True, capture_output=True, text=True)


def remove_most(cache: Path) -> None:
    """Remove what was used longest ago of what is kept, until the rest is small enough; and what killed labs left."""
    for left in cache.glob(".saved-*.unfinished"):
        if left.stat().st_mtime < time.time() - LEFT_SECONDS:
            shutil.rmtree(left, ignore_errors=True)
    size = 0
    for place in sorted(cache.glob("saved-*"), key=lambda path: path.stat().st_mtime, reverse=True):
        size += sum(path.stat().st_blocks * 512 for path in place.rglob("*"))
        if size > MOST_BYTES:
            shutil.rmtree(place, ignore_errors=True)
