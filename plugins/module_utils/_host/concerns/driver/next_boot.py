# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks whether the kernel of the next boot has the driver of the spec. Pure.

If it lacks the driver, the host comes up with another one, or without any and so without its network.
"""

from __future__ import annotations

from typing import Collection

from ...engine.context import Context
from ...facts.driver.status import container_owns
from ...facts.host_state import NETDEV_DRIVER
from ...spec.driver import CONTAINER
from ...spec.driver_families import DKMS, headers_of, initrd_command, way_to_inbox
from . import needs
from .needs import Case, DriverRequest, case_of, request_of


def noticed(problem: str) -> str:
    """Return the notice of a problem, for a plan that needs no reboot."""
    return f"the kernel that the next boot starts is another one, and {problem}"


def problems(context: Context, done: Collection[str]) -> list[str]:
    """Return problems of the next boot's kernel, each with the next step; ``done`` are ids of steps that will be
    executed before."""
    request = request_of(context)
    if not isinstance(request, DriverRequest) or request.settings["source"] == CONTAINER:
        return []
    case = case_of(context, request)
    if needs.waits_for_consent(case):
        # The present driver stays, whatever its release.
        case = case._replace(request=request._replace(version=None))
    kernel = needs.other_kernel(case)
    if kernel is None or container_owns(case.state) or not context.actual.nvidia_nics():
        return []

    goes_back = not request.is_vendor and "driver:packages" in done
    found = [] if goes_back or f"driver:build:{kernel}" in done else _driver(case, kernel)
    initrd = case.state["initrds"].get(kernel)
    if initrd is not None and initrd["stale"] and not found and f"driver:initrd:{kernel}" not in done:
        way = " ".join(initrd_command(case.family, kernel)) if case.family is not None else "make it again"
        found.append(f"the initial RAM disk {initrd['image']} holds another {NETDEV_DRIVER} than the disk; next: {way}")
    return found


def _driver(case: Case, kernel: str) -> list[str]:
    request, on_disk = case.request, case.state["next_on_disk"]
    without = kernel in needs.kernels_without(case)
    fails, limit = needs.too_new(request, kernel)
    if without and fails:
        return [f"{request.title} {limit}"]
    if without and kernel not in needs.kernels_to_build(case):
        package = headers_of(case.family, kernel)[0].partition("=")[0] if case.family is not None else "its headers"
        return [
            f"{request.title} can't be built for {kernel}, as {package} is neither installed nor in any repository of "
            f"this host; next: add the repository that has it, or have the boot loader take {case.state['kernel']}"
        ]
    if on_disk is None:
        problem = f"{request.title} is not built for {kernel}; next: {' '.join(needs.build_command(case, kernel))}"
        return [problem] if without else []
    problem = needs.unfit(request, on_disk.get(NETDEV_DRIVER), kernel)
    if not problem:
        return []
    return [f"{problem}; next: {_way(case, kernel)}"]


def _way(case: Case, kernel: str) -> str:
    """Return how to install the driver for the kernel, in words."""
    if not case.request.is_vendor:
        return way_to_inbox(case.family, kernel) if case.family is not None else "install its modules"
    if case.request.settings["build"] == DKMS and case.state["built"]:
        return " ".join(needs.build_command(case, kernel))
    return (
        "install the vendor's modules that were built for it (on RHEL weak-modules --add-kernel "
        f"{kernel} links those that fit it), or have the boot loader take {case.state['kernel']}"
    )
