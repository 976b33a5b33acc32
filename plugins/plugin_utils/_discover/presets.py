# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines whose ports are published by their vendor: which are the rails, which carry storage."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """A known machine. ``group`` is the name of its inventory group where its rails are of ``fabric`` (ib or roce).

    ``rails`` are the PCI addresses of its compute ports, by which it is recognized; ``storage`` those of the ports that
    its vendor means for storage and in-band management.
    """

    group: str
    title: str
    source: str
    fabric: str
    rails: tuple[str, ...]
    storage: tuple[str, ...]


PRESETS = (
    Preset(
        "dgx_h100",
        "a DGX H100 or H200",
        "NVIDIA DGX H100/H200 User Guide, Network Modules: ibp24s0 to ibp220s0 and the GPU of each",
        "ib",
        tuple(f"0000:{bus}:00.0" for bus in ("18", "40", "4f", "5e", "9a", "c0", "ce", "dc")),
        tuple(f"0000:{bus}:00.{port}" for bus in ("29", "aa") for port in (0, 1)),
    ),
    Preset(
        "dgx_gb200",
        "a compute tray of a DGX GB200 or GB300",
        "NVIDIA Mission Control, North-South Network Deployment Guide for GB200, Compute Tray Network Ports",
        "ib",
        tuple(f"{domain}:03:00.0" for domain in ("0000", "0002", "0010", "0012")),
        tuple(f"{domain}:03:00.{port}" for domain in ("0006", "0016") for port in (0, 1)),
    ),
)
