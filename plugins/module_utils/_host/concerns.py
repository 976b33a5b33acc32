# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of each concern by its name: the one place that knows them all. Private: it may change.

``steps.CONCERNS`` holds the order. Files of ours that no ``boot_files`` wants any more are removed by the concern
``leftovers``, except those for which a concern has planned a step of its own with the id ``<concern>:<path>``.
"""

from __future__ import annotations

from typing import Callable, Dict, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host import appliers
from ansible_collections.rdma.fabric.plugins.module_utils._host.boot import files as boot_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.boot import plan as boot
from ansible_collections.rdma.fabric.plugins.module_utils._host.context import ConcernPlan, Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.driver import files as driver_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.driver import plan as driver
from ansible_collections.rdma.fabric.plugins.module_utils._host.eswitch import plan as eswitch
from ansible_collections.rdma.fabric.plugins.module_utils._host.firmware import plan as firmware
from ansible_collections.rdma.fabric.plugins.module_utils._host.guids import plan as guids
from ansible_collections.rdma.fabric.plugins.module_utils._host.hugepages import files as hugepages_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.hugepages import plan as hugepages
from ansible_collections.rdma.fabric.plugins.module_utils._host.kernel_arguments import files as kernel_arguments_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.kernel_arguments import plan as kernel_arguments
from ansible_collections.rdma.fabric.plugins.module_utils._host.kmods import files as kmods_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.kmods import plan as kmods
from ansible_collections.rdma.fabric.plugins.module_utils._host.leftovers import plan as leftovers
from ansible_collections.rdma.fabric.plugins.module_utils._host.limits import files as limits_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.limits import plan as limits
from ansible_collections.rdma.fabric.plugins.module_utils._host.link import plan as link
from ansible_collections.rdma.fabric.plugins.module_utils._host.mtu import plan as mtu
from ansible_collections.rdma.fabric.plugins.module_utils._host.naming import files as naming_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.naming import plan as naming
from ansible_collections.rdma.fabric.plugins.module_utils._host.pcie import plan as pcie
from ansible_collections.rdma.fabric.plugins.module_utils._host.peer_memory import files as peer_memory_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.peer_memory import plan as peer_memory
from ansible_collections.rdma.fabric.plugins.module_utils._host.qos import files as qos_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.qos import plan as qos
from ansible_collections.rdma.fabric.plugins.module_utils._host.queues import plan as queues
from ansible_collections.rdma.fabric.plugins.module_utils._host.routing import plan as routing
from ansible_collections.rdma.fabric.plugins.module_utils._host.sriov import plan as sriov
from ansible_collections.rdma.fabric.plugins.module_utils._host.sysctl import files as sysctl_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.sysctl import plan as sysctl

BootFiles = Dict[str, str]


class Concern(NamedTuple):
    """What plans one concern.

    ``boot_files`` returns every file that it wants on the host, by path. ``staying`` returns the paths of those that a
    removal must leave, because what needs them stays as well.
    """

    plan: Callable[[Context], ConcernPlan]
    boot_files: Callable[[Context], BootFiles] | None = None
    staying: Callable[[Context], Sequence[str]] | None = None


def applier_of(concern: str) -> appliers.Applier | None:
    """Return how steps of a concern are executed, None for one that this release does not have."""
    return appliers.APPLIERS.get(concern)


CONCERNS: Mapping[str, Concern] = {
    "kernel_arguments": Concern(kernel_arguments.plan, kernel_arguments_files.boot_files),
    "firmware": Concern(firmware.plan),
    "modules": Concern(kmods.plan, kmods_files.boot_files),
    "driver": Concern(driver.plan, driver_files.boot_files, driver_files.staying),
    "peer_memory": Concern(peer_memory.plan, peer_memory_files.boot_files),
    "pcie": Concern(pcie.plan),
    "naming": Concern(naming.plan, naming_files.boot_files),
    "vfs": Concern(sriov.plan),
    "eswitch": Concern(eswitch.plan),
    "guids": Concern(guids.plan),
    "mtu": Concern(mtu.plan),
    "link": Concern(link.plan),
    "queues": Concern(queues.plan),
    "qos": Concern(qos.plan, qos_files.boot_files),
    "boot": Concern(boot.plan, boot_files.boot_files),
    "sysctl": Concern(sysctl.plan, sysctl_files.boot_files),
    "routing": Concern(routing.plan),
    "limits": Concern(limits.plan, limits_files.boot_files),
    "hugepages": Concern(hugepages.plan, hugepages_files.boot_files),
    "leftovers": Concern(leftovers.plan),
}
