# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads which IOMMU a machine has and whether it is on.

Drivers of IOMMUs name their units dmarN (Intel), ivhdN (AMD), smmu3.ADDRESS or arm-smmu... (Arm) in /sys/class/iommu.
"""

from __future__ import annotations

import re
from typing import Sequence

from ..machine.probe import Probe
from ..spec.arguments import IOMMU_OFF
from .shapes import Iommu

INTEL, AMD, ARM, OTHER = "intel", "amd", "arm", "other"
_UNITS = ((INTEL, re.compile(r"dmar\d+")), (AMD, re.compile(r"ivhd\d+")), (ARM, re.compile(r"(?:arm-)?smmu.*")))
# By which tables the firmware tells the kernel of its IOMMUs (ACPI: DMA remapping, I/O virtualization, I/O remapping).
_TABLES = (("DMAR", INTEL), ("IVRS", AMD), ("IORT", ARM))
SWITCHES_INTEL_ON = ("intel_iommu=on", "intel_iommu=sm_on")


def read_iommu(probe: Probe) -> Iommu:
    """Return ``active``, the kind of IOMMU that the kernel uses, and ``firmware``, the kind that the firmware shows."""
    names = probe.names("/sys/class/iommu")
    kinds = [kind for kind, pattern in _UNITS if any(map(pattern.fullmatch, names))]
    tables = [kind for table, kind in _TABLES if probe.host.exists(f"/sys/firmware/acpi/tables/{table}")]
    return {
        "active": kinds[0] if kinds else OTHER if names else None,
        "firmware": tables[0] if tables else None,
    }


def is_switched_on(firmware: str | None, line: Sequence[str]) -> bool:
    """Say whether the arguments of a kernel's line let it use the IOMMU that the firmware shows.

    Intel's is off without an argument unless the kernel was built so, AMD's is on unless one switches it off; no
    argument of an Arm kernel switches an SMMU on (Documentation/admin-guide/kernel-parameters.txt: intel_iommu,
    amd_iommu, iommu, iommu.passthrough).
    """
    if set(line) & set(IOMMU_OFF):
        return False
    return firmware == AMD or (firmware == INTEL and bool(set(line) & set(SWITCHES_INTEL_ON)))
