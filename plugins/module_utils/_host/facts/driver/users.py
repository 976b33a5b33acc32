# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds who has files open that a driver change has to wait for."""

from __future__ import annotations

from typing import NamedTuple

from ...machine.access import Host
from ...machine.probe import names_at, natural, printable, target_at, text_at
from ..driver_shapes import User

VERBS = "/dev/infiniband/"
# Package managers keep these open while they hold their lock.
LOCKS = (
    "/var/lib/dpkg/lock",
    "/var/lib/dpkg/lock-frontend",
    "/var/lib/apt/lists/lock",
    "/var/cache/apt/archives/lock",
    "/var/lib/rpm/.rpm.lock",
    "/usr/lib/sysimage/rpm/.rpm.lock",
    "/var/cache/dnf/metadata_lock.pid",
    "/run/zypp.pid",
)
# NVIDIA's driver container holds it while it runs, and leaves the file where it ends (Mellanox/doca-driver-build,
# entrypoint/internal/entrypoint/entrypoint.go, lock: flock(2)).
CONTAINER_LOCK = "/run/mellanox/drivers/.lock"
_MOST = 64


class OpenFiles(NamedTuple):
    """Processes by what they have open: ``{"pid", "program", "path"}`` each, in order of their numbers.

    ``container`` says whether any has the lock of the driver container open.
    """

    verbs: list[User]
    locks: list[User]
    container: bool


def read_open_files(host: Host) -> OpenFiles:
    """Return which processes have verbs devices and locks open, each device and process once.

    Processes in containers are seen as well; a process that ends meanwhile is left out.
    """
    found_verbs: list[User] = []
    found_locks: list[User] = []
    container = False
    for pid in sorted((name for name in names_at(host, "/proc") if name.isdecimal()), key=natural):
        paths = {target_at(host, f"/proc/{pid}/fd/{number}") for number in names_at(host, f"/proc/{pid}/fd")}
        verbs = sorted(path for path in paths if path.startswith(VERBS))
        locks = sorted(path for path in paths if path in LOCKS)
        container = container or CONTAINER_LOCK in paths
        if verbs or locks:
            program = printable(text_at(host, f"/proc/{pid}/comm").strip(), 32) or "?"
            found_verbs.extend({"pid": int(pid), "program": program, "path": printable(path)} for path in verbs)
            found_locks.extend({"pid": int(pid), "program": program, "path": path} for path in locks)
    return OpenFiles(found_verbs[:_MOST], found_locks[:_MOST], container)
