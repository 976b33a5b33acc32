# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our files about kernel arguments; each lists the arguments that are ours. Pure."""

from __future__ import annotations

import re
from typing import Sequence

from ..machine.paths import marked
from ..spec.arguments import grouped

DROP_IN = "/etc/default/grub.d/90-rdma-fabric.cfg"
"""Read by grub-mkconfig after /etc/default/grub; a shell assignment."""
RECORD = "/etc/rdma-fabric/kernel-arguments"
"""Where no file of the boot loader can be ours: which arguments are."""
REMOVED = "/run/rdma-fabric/kernel-arguments"
"""What was taken out since the host booted and still is on the running line; a reboot takes the file away."""
_LISTED = re.compile(r"^# arguments:(.*)$", re.MULTILINE)


def listed(text: str) -> list[str]:
    """Return the arguments that a file of ours says are ours."""
    found = _LISTED.search(text)
    return grouped(found.group(1).split()) if found else []


def drop_in(arguments: Sequence[str], listing: Sequence[str]) -> str:
    """Return the drop-in that adds ``arguments``; ``listing`` may hold others that are just being taken out."""
    text = record(listing)
    if arguments:
        text += f'GRUB_CMDLINE_LINUX_DEFAULT="${{GRUB_CMDLINE_LINUX_DEFAULT}} {" ".join(arguments)}"\n'
    return text


def record(listing: Sequence[str]) -> str:
    """Return a file that only lists what is ours."""
    return marked([f"# arguments: {' '.join(listing)}"])
