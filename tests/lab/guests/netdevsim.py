# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's simulated network devices for guests: a module that Debian does not build, made of Debian's sources.

Ports also have operations for DCB, which are the lab's: ``netdevsim_dcb.c``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Mapping

from ..gobuild import Report
from .image import gather_image
from .kernel_modules import Source, gather_module, kernel_in

DCB = Path(__file__).with_name("netdevsim_dcb.c")
# Where the driver registers a port, the lab's function does.
MADE_WITH_DCB = "\nnetdevsim-objs += dcb.o\nCFLAGS_netdev.o += -Dregister_netdevice=nsim_register_with_dcb\n"
NETDEVSIM = Source(
    "netdevsim",
    "drivers/net/netdevsim",
    "CONFIG_NETDEVSIM=m",
    (("Makefile", MADE_WITH_DCB), ("dcb.c", DCB.read_text(encoding="utf-8"))),
)


def gather_netdevsim(environ: Mapping[str, str], report: Report) -> Path:
    """Give the module for the guests' kernel, building it where the cache lacks it. Raises ``ProgramsUnavailable``."""
    image = gather_image(environ, report).guest
    kernel = kernel_in((image / "packages.txt").read_text(encoding="utf-8"))
    return gather_module(NETDEVSIM, kernel, environ, report)
