# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that read a host's configuration in production, from packages that are unpacked beside the machine's own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Mapping, NamedTuple, Sequence

from .gobuild import Report
from .unpacked import libraries, say, unpack

# Packages with a reader each; what they need and this machine lacks comes along.
NETWORK = ("netplan.io", "network-manager", "ifupdown", "systemd", "udev", "iproute2")
SYSTEM = ("kmod", "procps", "libpam-modules", "dnf", "zypper")
BOOT = ("grub-common", "initramfs-tools-core", "dracut-core", "dkms", "systemd-boot")
PACKAGES = (*NETWORK, *SYSTEM, *BOOT)
# An InfiniBand subnet without hardware: switches and ports that answer management datagrams, and who sends them.
SUBNET = ("ibsim-utils", "libumad2sim0", "opensm", "infiniband-diags")


class Readers(NamedTuple):
    """The unpacked packages."""

    root: Path

    def program(self, *places: str) -> Path:
        """Give the first of several places that a program may have in its package."""
        return next(path for path in (self.root / place for place in places) if path.exists())

    def run(self, argv: Sequence[str | Path], **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the packages with their libraries."""
        environment = {**os.environ, "LC_ALL": "C", **libraries(self.root), **variables}
        return subprocess.run(
            [str(word) for word in argv], capture_output=True, text=True, check=False, timeout=60, env=environment
        )


def gather_readers(environ: Mapping[str, str], report: Report = say) -> Readers:
    """Give the programs, from the cache or through apt; raises ``ProgramsUnavailable``."""
    return Readers(unpack("readers", PACKAGES, environ, report))


def gather_subnet(environ: Mapping[str, str], report: Report = say) -> Readers:
    """Give the programs of an InfiniBand subnet, from the cache or through apt; raises ``ProgramsUnavailable``."""
    return Readers(unpack("subnet", SUBNET, environ, report))
