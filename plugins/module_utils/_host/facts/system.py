# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the machine, its IOMMU and its operating system.

IOMMU drivers name their units dmarN (Intel), ivhdN (AMD), smmu3.ADDRESS or arm-smmu... (Arm) in /sys/class/iommu.
"""

from __future__ import annotations

import re
import shlex
from typing import Sequence

from ..machine.probe import Probe, printable
from ..spec.arguments import IOMMU_OFF
from .masks import mask_parameters
from .remote_storage import read_all_mounts
from .shapes import Iommu, Os, System
from .topology import all_nodes

# The variable's name ends with the vendor GUID of EFI's global variables.
_SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_CMDLINE_LIMIT = 4096
# The kernel makes this directory; its content, always including lsm, exists once it is mounted (security/inode.c).
_SECURITYFS = "/sys/kernel/security"
INTEL, AMD, ARM, OTHER = "intel", "amd", "arm", "other"
_UNITS = ((INTEL, re.compile(r"dmar\d+")), (AMD, re.compile(r"ivhd\d+")), (ARM, re.compile(r"(?:arm-)?smmu.*")))
# The tables by which the firmware describes its IOMMUs (ACPI: DMA remapping, I/O virtualization, I/O remapping).
_TABLES = (("DMAR", INTEL), ("IVRS", AMD), ("IORT", ARM))
SWITCHES_INTEL_ON = ("intel_iommu=on", "intel_iommu=sm_on")


def read_system(probe: Probe, with_processors: Sequence[int]) -> System:
    """Return the facts about hostname, kernel, distribution and restrictions of changes.

    NUMA nodes are those ``with_processors``: GPU memory (GB200 and similar) has nodes of its own.
    """
    system: System = {
        "hostname": probe.text("/proc/sys/kernel/hostname") or "",
        "machine": _machine(probe),
        "kernel": probe.text("/proc/sys/kernel/osrelease") or "",
        "os": _os(probe),
        "cmdline": mask_parameters(probe.text("/proc/cmdline", limit=_CMDLINE_LIMIT) or ""),
        "secure_boot": _secure_boot(probe),
        "lockdown": _lockdown(probe),
        "ostree": probe.host.exists("/run/ostree-booted"),
        "iommu": read_iommu(probe),
        "numa_nodes": len(with_processors) or max(1, len(all_nodes(probe))),
    }
    if system["lockdown"] is None and not probe.host.exists(f"{_SECURITYFS}/lsm"):
        system["no_securityfs"] = True
    if is_transactional(probe):
        system["transactional"] = True
    return system


def is_transactional(probe: Probe) -> bool:
    """Return whether the root is a read-only snapshot and only transactional-update makes the next one.

    openSUSE MicroOS, SUSE Linux Micro; zypper then refuses to install (zypper, src/utils/misc.cc).
    """
    if not probe.host.exists("/usr/sbin/transactional-update"):
        return False
    return any(mount.point == "/" and "ro" in mount.options for mount in read_all_mounts(probe))


def parse_os_release(text: str) -> dict[str, str]:
    """Parse os-release(5): shell-like assignments, quoted or not; other lines are ignored."""
    fields = {}
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if not equals or key.startswith("#"):
            continue
        try:
            words = shlex.split(value)
        except ValueError:
            continue
        fields[key] = printable(" ".join(words))
    return fields


def _machine(probe: Probe) -> str:
    """Return the output of ``uname -m``; kernels before 6.1 have no file for it."""
    machine = probe.text("/proc/sys/kernel/arch", limit=32)
    return machine or printable(probe.output("uname", "-m").strip(), 32)


def _os(probe: Probe) -> Os:
    content = probe.content("/etc/os-release")
    if content is None:
        content = probe.content("/usr/lib/os-release")
    fields = parse_os_release(content or "")
    return {
        # os-release(5): without ID, the distribution is linux; without the file, it is unknown.
        "id": fields.get("ID", "linux" if fields else ""),
        "id_like": fields.get("ID_LIKE", "").split(),
        "version_id": fields.get("VERSION_ID", ""),
        "name": fields.get("PRETTY_NAME", ""),
    }


def _secure_boot(probe: Probe) -> bool | None:
    """Return whether Secure Boot is on, None if unknown; a machine booted without EFI can't have it."""
    data = probe.data(_SECURE_BOOT)
    if data is not None and len(data) >= 5:
        return data[4] == 1
    return None if probe.host.exists("/sys/firmware/efi") else False


def _lockdown(probe: Probe) -> str | None:
    """Return the selected word of ``none [integrity] confidentiality``.

    No other source is reliable: ``lockdown=`` needs the module of that name in the kernel (security/lockdown), Secure
    Boot only locks down kernels that their distribution has patched to do so, and the kernel's log is truncated.
    """
    found = re.search(r"\[(\w{1,32})\]", probe.text(f"{_SECURITYFS}/lockdown") or "")
    return found.group(1) if found else None


def read_iommu(probe: Probe) -> Iommu:
    """Return ``active``, the kind of IOMMU that the kernel uses, and ``firmware``, the kind that the firmware has."""
    names = probe.names("/sys/class/iommu")
    kinds = [kind for kind, pattern in _UNITS if any(map(pattern.fullmatch, names))]
    tables = [kind for table, kind in _TABLES if probe.host.exists(f"/sys/firmware/acpi/tables/{table}")]
    return {
        "active": kinds[0] if kinds else OTHER if names else None,
        "firmware": tables[0] if tables else None,
    }


def is_switched_on(firmware: str | None, line: Sequence[str]) -> bool:
    """Return whether the kernel arguments let the kernel use the IOMMU that the firmware has.

    Intel's is off by default unless the kernel was built otherwise, AMD's is on unless an argument disables it; no
    argument of an Arm kernel enables an SMMU (Documentation/admin-guide/kernel-parameters.txt: intel_iommu, amd_iommu,
    iommu, iommu.passthrough).
    """
    if set(line) & set(IOMMU_OFF):
        return False
    return firmware == AMD or (firmware == INTEL and bool(set(line) & set(SWITCHES_INTEL_ON)))
