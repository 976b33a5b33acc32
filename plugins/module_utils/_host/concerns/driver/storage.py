# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells which storage over RDMA a host would lose by a vendor's driver. Pure.

The kernel's own modules of storage stand on the kernel's own ``ib_core`` (NVIDIA Network Operator 25.10, driver
container), so the vendor has packages of its own for them. No package that is installed here pulls them in.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from . import needs
from .needs import Case


class _Part(NamedTuple):
    """Modules of one kind of storage, what it is called, and the vendor's package without what builds add to it."""

    modules: tuple[str, ...]
    title: str
    package: str


_PARTS = (
    _Part(("nvme_rdma", "nvmet_rdma"), "NVMe over RDMA", "mlnx-nvme"),
    _Part(("rpcrdma", "xprtrdma", "svcrdma"), "NFS over RDMA", "mlnx-nfsrdma"),
    _Part(("ib_iser",), "iSCSI over RDMA (iSER)", "iser"),
    _Part(("ib_isert",), "the target of iSCSI over RDMA (iSER)", "isert"),
    _Part(("ib_srp", "ib_srpt"), "SCSI over RDMA (SRP)", "srp"),
)


def lost_storage(case: Case) -> list[str]:
    """Return a notice for each kind of storage that is loaded and that the vendor's stack lacks the package of."""
    packages = case.state["packages"]
    changes = needs.needs_packages(case) or needs.needs_load(case)
    if not case.wish.is_vendor or packages is None or not changes:
        return []
    notices = []
    for part in _PARTS:
        loaded = [name for name in part.modules if name in case.state["loaded"]]
        pattern = re.compile(rf"(?:kmod-)?{part.package}(?:-(?:dkms|modules|kmp-.*))?")
        if loaded and not any(map(pattern.fullmatch, packages)):
            notices.append(
                f"{', '.join(loaded)} {'is' if len(loaded) == 1 else 'are'} loaded, and the vendor's package for that "
                f"({_name(case, part.package)}) is not installed: the kernel's own modules do not load on the ib_core "
                f"of {case.wish.title}, so {part.title} is gone after the reload or reboot; next: install that package "
                "in the driver's release, or keep this host on the inbox driver"
            )
    return notices


def _name(case: Case, package: str) -> str:
    return f"{package}-dkms" if case.family is not None and case.family.manager == "apt" else f"kmod-{package}"
