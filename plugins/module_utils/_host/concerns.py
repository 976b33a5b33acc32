# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of each concern by its name: the one place that knows them all. Private: it may change.

``steps.CONCERNS`` holds the order. Files of ours that no ``boot_files`` wants any more are removed by the concern
``leftovers``, except those for which a concern has planned a step of its own with the id ``<concern>:<path>``.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Callable, Dict, Mapping, NamedTuple

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot import apply as boot_apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.boot import files as boot_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.boot import plan as boot
from ansible_collections.rdma.fabric.plugins.module_utils._host.context import ConcernPlan, Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.desired import HostDesired
from ansible_collections.rdma.fabric.plugins.module_utils._host.driver import apply as driver_apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.driver import files as driver_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.driver import plan as driver
from ansible_collections.rdma.fabric.plugins.module_utils._host.eswitch import apply as eswitch_apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.eswitch import plan as eswitch
from ansible_collections.rdma.fabric.plugins.module_utils._host.firmware import apply as firmware_apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.firmware import plan as firmware
from ansible_collections.rdma.fabric.plugins.module_utils._host.guids import apply as guids_apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.guids import plan as guids
from ansible_collections.rdma.fabric.plugins.module_utils._host.hugepages import apply as hugepages_apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.hugepages import files as hugepages_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.hugepages import plan as hugepages
from ansible_collections.rdma.fabric.plugins.module_utils._host.kernel_arguments import apply as kernel_arguments_apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.kernel_arguments import files as kernel_arguments_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.kernel_arguments import plan as kernel_arguments
from ansible_collections.rdma.fabric.plugins.module_utils._host.kmods import apply as kmods_apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.kmods import files as kmods_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.kmods import plan as kmods
from ansible_collections.rdma.fabric.plugins.module_utils._host.leftovers import apply as leftovers_apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.leftovers import plan as leftovers
from ansible_collections.rdma.fabric.plugins.module_utils._host.limits import apply as limits_apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.limits import files as limits_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.limits import plan as limits
from ansible_collections.rdma.fabric.plugins.module_utils._host.link import apply as link_apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.link import plan as link
from ansible_collections.rdma.fabric.plugins.module_utils._host.mtu import apply as mtu_apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.mtu import plan as mtu
from ansible_collections.rdma.fabric.plugins.module_utils._host.naming import apply as naming_apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.naming import files as naming_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.naming import plan as naming
from ansible_collections.rdma.fabric.plugins.module_utils._host.operations import Work
from ansible_collections.rdma.fabric.plugins.module_utils._host.pcie import apply as pcie_apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.pcie import plan as pcie
from ansible_collections.rdma.fabric.plugins.module_utils._host.peer_memory import apply as peer_memory_apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.peer_memory import files as peer_memory_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.peer_memory import plan as peer_memory
from ansible_collections.rdma.fabric.plugins.module_utils._host.qos import apply as qos_apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.qos import files as qos_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.qos import plan as qos
from ansible_collections.rdma.fabric.plugins.module_utils._host.sriov import apply as sriov_apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.sriov import plan as sriov
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import Step
from ansible_collections.rdma.fabric.plugins.module_utils._host.sysctl import apply as sysctl_apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.sysctl import files as sysctl_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.sysctl import plan as sysctl

BootFiles = Dict[str, str]


class Concern(NamedTuple):
    """The parts of one concern; ``boot_files`` returns every file that it wants on the host, by path.

    ``errors`` are causes and next steps (``...; next: ...``) for failures of its operations, by the errno's name or by
    a text that a program prints.
    ``restore`` adds to an empty desired state what brings an original value back: it gets the key of the step that
    first changed it and the step's ``from``. Without it a removal leaves the setting as it is.
    """

    plan: Callable[[Context], ConcernPlan]
    work: Callable[[Context, Step], Work] | None = None
    boot_files: Callable[[Context], BootFiles] | None = None
    errors: Mapping[str, str] = MappingProxyType({})
    restore: Callable[[HostDesired, str, Any], None] | None = None


CONCERNS: Mapping[str, Concern] = {
    "kernel_arguments": Concern(
        kernel_arguments.plan,
        kernel_arguments_apply.work,
        kernel_arguments_files.boot_files,
        kernel_arguments_apply.ERRORS,
    ),
    "firmware": Concern(
        firmware.plan, firmware_apply.work, errors=firmware_apply.ERRORS, restore=firmware_apply.restore
    ),
    "modules": Concern(kmods.plan, kmods_apply.work, kmods_files.boot_files, kmods_apply.ERRORS, kmods_apply.restore),
    "driver": Concern(driver.plan, driver_apply.work, driver_files.boot_files, driver_apply.ERRORS),
    "peer_memory": Concern(
        peer_memory.plan, peer_memory_apply.work, peer_memory_files.boot_files, peer_memory_apply.ERRORS
    ),
    "pcie": Concern(pcie.plan, pcie_apply.work, errors=pcie_apply.ERRORS, restore=pcie_apply.restore),
    "naming": Concern(
        naming.plan, naming_apply.work, naming_files.boot_files, naming_apply.ERRORS, naming_apply.restore
    ),
    "vfs": Concern(sriov.plan, sriov_apply.work, errors=sriov_apply.ERRORS, restore=sriov_apply.restore),
    "eswitch": Concern(eswitch.plan, eswitch_apply.work, errors=eswitch_apply.ERRORS, restore=eswitch_apply.restore),
    "guids": Concern(guids.plan, guids_apply.work, errors=guids_apply.ERRORS, restore=guids_apply.restore),
    "mtu": Concern(mtu.plan, mtu_apply.work, errors=mtu_apply.ERRORS, restore=mtu_apply.restore),
    "link": Concern(link.plan, link_apply.work, errors=link_apply.ERRORS, restore=link_apply.restore),
    "qos": Concern(qos.plan, qos_apply.work, qos_files.boot_files, qos_apply.ERRORS, qos_apply.restore),
    "boot": Concern(boot.plan, boot_apply.work, boot_files.boot_files),
    "sysctl": Concern(
        sysctl.plan, sysctl_apply.work, sysctl_files.boot_files, sysctl_apply.ERRORS, sysctl_apply.restore
    ),
    "limits": Concern(limits.plan, limits_apply.work, limits_files.boot_files, limits_apply.ERRORS),
    "hugepages": Concern(
        hugepages.plan,
        hugepages_apply.work,
        hugepages_files.boot_files,
        hugepages_apply.ERRORS,
        hugepages_apply.restore,
    ),
    "leftovers": Concern(leftovers.plan, leftovers_apply.work),
}
