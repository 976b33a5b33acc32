# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells whether the driver of the GPUs comes from a container of the GPU Operator."""

from __future__ import annotations

from ..machine.probe import Probe

# The GPU Operator's driver container makes these (NVIDIA/gpu-operator, NVIDIA/gpu-driver-container).
OPERATOR_FILES = (
    "/run/nvidia/validations/.driver-ctr-ready",
    "/run/nvidia/nvidia-driver.pid",
    "/run/nvidia/driver/usr/bin/nvidia-smi",
)


def container_runs(probe: Probe) -> bool:
    """Say whether the GPU Operator's driver container runs here."""
    return any(probe.host.exists(path) for path in OPERATOR_FILES)
