# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says why arguments about the IOMMU would have no effect on this host. Pure.

Sources: Documentation/admin-guide/kernel-parameters.txt (intel_iommu, amd_iommu, iommu), drivers/iommu/intel (it is off
without intel_iommu=on unless the kernel was built with INTEL_IOMMU_DEFAULT_ON), drivers/iommu/amd (on by itself).
"""

from __future__ import annotations

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.kernel.arguments_files import wanted_arguments
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.iommu import INTEL, SWITCHES_INTEL_ON
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.arguments import (
    IOMMU_OFF,
    name_of,
    words_of,
)

_NAMES = ("iommu", "intel_iommu", "amd_iommu", "iommu.passthrough", "iommu.strict")
_X86 = ("x86_64", "i686")


def remarks(context: Context) -> list[str]:
    """Return why the IOMMU that the wanted arguments are about is off and stays off, nothing where it is on."""
    system = context.actual.facts["system"]
    iommu = system["iommu"]
    wanted = [argument for argument in wanted_arguments(context) if name_of(argument) in _NAMES]
    asking = [argument for argument in wanted if argument not in IOMMU_OFF]
    if iommu["active"] or not asking or system["machine"] not in _X86:
        return []
    named = ", ".join(asking)
    line = words_of(system["cmdline"])
    if not iommu["firmware"]:
        return [
            f"{named} will have no effect: the firmware of this host shows no IOMMU; switch VT-d (Intel) or AMD-Vi "
            "(AMD) on in the BIOS"
        ]
    off = [word for word in line if word in IOMMU_OFF and name_of(word) not in map(name_of, asking)]
    if off:
        return [f"{named} will have no effect while the kernel line has {', '.join(off)}: take it out where it is set"]
    if iommu["firmware"] == INTEL and not set(SWITCHES_INTEL_ON) & {*asking, *line}:
        return [f"{named} will have no effect: this kernel leaves Intel's IOMMU off without intel_iommu=on; add it"]
    return []
