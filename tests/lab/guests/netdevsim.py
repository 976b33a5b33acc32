# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's simulated network devices for guests: a module that Debian does not build, made of Debian's sources."""

from __future__ import annotations

from pathlib import Path
from typing import Mapping

from ..gobuild import Report
from .image import gather_image
from .kernel_modules import Source, gather_module, kernel_in

NETDEVSIM = Source("netdevsim", "drivers/net/netdevsim", "CONFIG_NETDEVSIM=m")


def gather_netdevsim(environ: Mapping[str, str], report: Report) -> Path:
    """Give the module for the guests' kernel, building it where the cache lacks it. Raises ``ProgramsUnavailable``."""
    image = gather_image(environ, report).guest
    kernel = kernel_in((image / "packages.txt").read_text(encoding="utf-8"))
    return gather_module(NETDEVSIM, kernel, environ, report)
