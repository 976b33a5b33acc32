# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our files for the driver."""

from __future__ import annotations

from ...engine.context import Context
from ...machine.host_files import KUBELETS, MARKER
from ...spec.driver import CONTAINER
from . import packages
from .needs import Case, DriverRequest, Unclear, case_of, needs_packages, request_of

# Pods must not start before the driver: kubelet waits for the unit that loads it (systemd.unit(5), Before=).
ORDER_FILE = "/etc/systemd/system/openibd.service.d/rdma-fabric.conf"
# systemd-modules-load.service runs before sysinit.target, and so before kubelet.
LOAD_FILE = "/etc/modules-load.d/rdma-fabric-driver.conf"
# Without it kernels of SUSE reject modules that SUSE does not support.
UNSUPPORTED_FILE = "/etc/modprobe.d/rdma-fabric-driver.conf"
INBOX_MODULES = ("mlx5_core", "mlx5_ib", "ib_umad", "rdma_ucm")
_OWN = (ORDER_FILE, LOAD_FILE, UNSUPPORTED_FILE)


def repository_files(case: Case) -> dict[str, str]:
    """Return the files of the spec's repository."""
    repository = case.request.repository
    if not case.request.is_vendor or case.family is None or repository is None:
        return {}
    return packages.repository_files(case.family, repository)


def ordering_files(case: Case) -> dict[str, str]:
    """Return the files that load the driver at boot before anything that needs it."""
    if not case.request.is_vendor:
        lines = (f"# {MARKER}", *INBOX_MODULES)
        return {} if case.request.returns else {LOAD_FILE: "".join(f"{line}\n" for line in lines)}
    files = {}
    if case.state["openibd"] or needs_packages(case):
        files[ORDER_FILE] = f"# {MARKER}\n[Unit]\nBefore={' '.join(f'{name}.service' for name in KUBELETS)}\n"
    if case.family is not None and case.family.manager == "zypper":
        files[UNSUPPORTED_FILE] = f"# {MARKER}\nallow_unsupported_modules 1\n"
    return files


def boot_files(context: Context) -> dict[str, str]:
    """Return every file that the driver needs; present ones stay if the spec has no driver."""
    request = request_of(context)
    if isinstance(request, DriverRequest):
        if request.settings["source"] == CONTAINER:
            return {}
        case = case_of(context, request)
        return {**repository_files(case), **ordering_files(case)}
    return _present(context)


def staying(context: Context) -> list[str]:
    """Return our files that a removal leaves with the vendor's driver, which may not be loaded without them."""
    return [path for path in _present(context) if path != LOAD_FILE]


def staying_notices(context: Context) -> list[str]:
    """Return a notice of a removal about files that stay with the vendor's driver, and how to remove both."""
    left = ", ".join(sorted(staying(context))) if context.removing else ""
    if not left:
        return []
    return [
        f"the vendor's NIC driver stays, and with it {left}: without, it may not be loaded at boot; next: a task with "
        "rdma.fabric.mofed_driver and state: absent, which returns the host to the kernel's driver and removes them"
    ]


def unwanted_files(context: Context, request: DriverRequest | Unclear | None) -> list[str]:
    """Return our files that the driver no longer needs."""
    if not isinstance(request, DriverRequest):
        return []
    wanted = boot_files(context)
    return [path for path in _present(context) if path not in wanted]


def _present(context: Context) -> dict[str, str]:
    known = {*_OWN, *packages.OWNED}
    return {path: text for path, text in context.boot_files.items() if path in known}
