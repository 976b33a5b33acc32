# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mechanisms of peer memory in the spec, and their modules."""

from __future__ import annotations

DMA_BUF = "dma-buf"
PEERMEM = "nvidia-peermem"
LEGACY = "nv_peer_mem"
NONE = "none"
AUTO = "auto"
MODULE_OF = {PEERMEM: "nvidia_peermem", LEGACY: "nv_peer_mem"}
