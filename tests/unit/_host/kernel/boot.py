# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for systemctl(1), as far as units of ours need it. Only tests use it.

Enabling makes the links that the unit's [Install] section asks for; a unit that is not there can't be enabled.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult
from ansible_collections.rdma.fabric.tests.unit._host.kernel.reactions import DONE, failed, program

if TYPE_CHECKING:
    from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

UNITS = "/etc/systemd/system"
# What of a host its disk keeps over a boot, as far as it is ours.
_KEPT = ("/etc/", "/usr/local/", "/var/lib/rdma-fabric/")


def with_disk_of(fresh: Kernel, former: Kernel) -> Kernel:
    """Return a host as the kernel makes it, with the files that were there before a boot, and the links to units."""
    for path, content in former.tree.files.items():
        if path.startswith(_KEPT):
            fresh.tree.add_file(path, content)
    for path, target in former.tree.links.items():
        if path.startswith("/etc/"):
            fresh.tree.add_link(path, target)
    return fresh


@program("systemctl")
def systemctl(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    argv = tuple(argv)
    if argv[1] == "daemon-reload" or argv[1:3] == ("--no-block", "try-restart"):
        return DONE
    if argv[1] != "enable":
        return failed(1, f"Unknown command verb {argv[1]}.")
    unit = argv[-1]
    path = f"{UNITS}/{unit}"
    if not kernel.exists(path):
        return failed(1, f"Failed to enable unit: Unit file {unit} does not exist.")
    for target in re.findall(r"^WantedBy=(\S+)$", kernel.read(path), re.MULTILINE):
        kernel.tree.add_link(f"{UNITS}/{target}.wants/{unit}", path)
    return DONE


@program("netplan")
def netplan(_kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    return DONE if tuple(argv[1:]) == ("generate",) else failed(2, f"argument command: invalid choice: {argv[1]!r}")
