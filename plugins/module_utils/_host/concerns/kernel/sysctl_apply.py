# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets /proc/sys now and at boot."""

from __future__ import annotations

from types import MappingProxyType

from ...engine.context import Context
from ...engine.operations import Operation, SetAttribute, Work
from ...engine.steps import Step, Value, key_of
from ...machine.access import Host
from ...spec import sysctl_names
from ...spec.host import HostSpec
from .sysctl_files import boot_files

_SECONDS = 10.0
_NOT_ALLOWED = (
    "the kernel rejects this write; next: run as root (become: true) on the host itself, not in a container, "
    "or leave it out of rdma_fabric_sysctls"
)
ERRORS = MappingProxyType(
    {
        "ENOENT": (
            "this kernel has no such setting, or its module or interface is gone; next: load the module "
            "(rdma_fabric_kernel_modules) or leave it out of rdma_fabric_sysctls"
        ),
        "EINVAL": "the kernel refuses the value; next: correct it in rdma_fabric_sysctls",
        "ERANGE": "the value is outside of what the kernel takes; next: correct it in rdma_fabric_sysctls",
        "EPERM": _NOT_ALLOWED,
        "EACCES": _NOT_ALLOWED,
        "EROFS": "/proc/sys is read only, as in a container; next: run on the host itself",
    }
)


def work(context: Context, step: Step) -> Work:
    """Return how a setting is made, or our file written."""
    key = key_of(step)
    if key == sysctl_names.FILE:
        return context.work_of_files(boot_files(context))
    name, wanted = str(step["target"]), str(step["to"])
    path = sysctl_names.attribute(name)
    undo: list[Operation] = [] if step["from"] is None else [SetAttribute(path, str(step["from"]), _SECONDS)]

    def verify(host: Host) -> str:
        now = host.read(path).strip()
        return (
            ""
            if sysctl_names.same_value(now, wanted)
            else f"{name} is {now}, not {wanted}: the kernel took another value"
        )

    return Work([SetAttribute(path, wanted, _SECONDS)], undo, verify)


def restore(desired: HostSpec, key: str, original: Value) -> None:
    """Ask for the value that a setting had; an interface's has its PCI address in place of its name."""
    if isinstance(original, str) and key != sysctl_names.FILE:
        desired["sysctls"][key] = original
