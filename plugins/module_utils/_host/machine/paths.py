# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the boot unit and the guard keep their files, what all files of ours have, and where units are."""

from __future__ import annotations

from typing import Iterable

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
