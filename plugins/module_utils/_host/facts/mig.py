# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads which GPUs are divided into instances (MIG).

The driver has a directory for each instance that anybody may list (/proc/driver/nvidia/capabilities/gpuN/mig/giN; MIG
User Guide, device nodes and capabilities); N of gpuN is the minor number of the GPU's device. Whether a GPU that has no
instance is in MIG mode, and in which it will be after its next reset, only nvidia-smi tells.
"""

from __future__ import annotations

import re
from typing import Iterable

from ..machine.probe import Probe
from .gpu_shapes import MigMode
from .shapes import Gpu

CAPABILITIES = "/proc/driver/nvidia/capabilities"
QUERY = ("nvidia-smi", "--query-gpu=pci.bus_id,mig.mode.current,mig.mode.pending", "--format=csv,noheader")
# It brings GPUs up that no program uses, one after the other.
_SECONDS = 60.0
_ROW = re.compile(r"([0-9a-f]{4,8}):(\S{7}),\s*(Enabled|Disabled),\s*(Enabled|Disabled)", re.IGNORECASE)


def read_instances(probe: Probe, gpus: Iterable[Gpu]) -> dict[str, int]:
    """Return how many instances the GPUs have that have any, by PCI address."""
    by_minor: dict[str, int] = {}
    for name in probe.names(CAPABILITIES):
        if re.fullmatch(r"gpu\d{1,4}", name):
            found = [part for part in probe.names(f"{CAPABILITIES}/{name}/mig") if re.fullmatch(r"gi\d{1,3}", part)]
            if found:
                by_minor[name[3:]] = len(found)
    if not by_minor:
        return {}
    minors = {gpu["address"]: _minor(probe, gpu["address"]) for gpu in gpus}
    return {address: by_minor[minor] for address, minor in minors.items() if minor in by_minor}


def read_modes(probe: Probe, gpus: Iterable[Gpu]) -> dict[str, MigMode]:
    """Ask nvidia-smi for the mode of each GPU that can be divided; nothing where it does not answer."""
    if not any(gpu["driver"] == "nvidia" for gpu in gpus) or not probe.host.exists(CAPABILITIES):
        return {}
    return parse_modes(probe.output(*QUERY, seconds=_SECONDS))


def parse_modes(text: str) -> dict[str, MigMode]:
    """Read rows such as ``00000000:36:00.0, Enabled, Enabled``; GPUs without MIG have [N/A] there."""
    found: dict[str, MigMode] = {}
    for line in text.splitlines():
        row = _ROW.fullmatch(line.strip())
        if row:
            address = f"{row[1][-4:]}:{row[2]}".lower()
            found[address] = {"current": row[3].lower() == "enabled", "pending": row[4].lower() == "enabled"}
    return found


def _minor(probe: Probe, address: str) -> str | None:
    content = probe.content(f"/proc/driver/nvidia/gpus/{address}/information") or ""
    found = re.search(r"^Device Minor:\s*(\d{1,4})\s*$", content, re.MULTILINE)
    return found[1] if found else None
