# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Further kernels for guests that are up, of the suite that the image's kernel is from, and a driver built for one.

Debian makes them of the same sources. By their names GRUB takes them for newer than the image's, so each is the next
boot's once it is installed.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Mapping, NamedTuple

from ..gobuild import Report
from .kernel_modules import Kernel, Source, gather_module, kernel_in
from .packages import gather_packages
from .recipe import KERNEL_SUITE

CLOUD = "linux-image-cloud-amd64"  # has no igb, as clouds have no such card
REALTIME = "linux-image-rt-amd64"  # has all that the image's has
# The kernel's own driver tells no version, so this one is known by it.
IGB_VERSION = "rdma-lab-1"
IGB = Source(
    "igb",
    "drivers/net/ethernet/intel/igb",
    "CONFIG_IGB=m",
    (("igb_main.c", f'\nMODULE_VERSION("{IGB_VERSION}");\n'),),
)


class NextKernel(NamedTuple):
    """A kernel that can be installed: the archives of its packages, and what it is."""

    archives: list[Path]
    kernel: Kernel


def gather_kernel(package: str, environ: Mapping[str, str], report: Report) -> NextKernel:
    """Give a kernel by the name of its package. Raises ``ProgramsUnavailable``."""
    archives = gather_packages((package,), environ, report, KERNEL_SUITE)
    show = ["dpkg-deb", "--show", "--showformat=${Package}\\t${Version}\\n"]
    shown = [subprocess.run([*show, str(each)], check=True, capture_output=True, text=True).stdout for each in archives]
    return NextKernel(archives, kernel_in("".join(shown)))


def gather_igb(kernel: Kernel, environ: Mapping[str, str], report: Report) -> Path:
    """Give the driver of the guests' cards, built out of the tree of a kernel. Raises ``ProgramsUnavailable``."""
    return gather_module(IGB, kernel, environ, report)
