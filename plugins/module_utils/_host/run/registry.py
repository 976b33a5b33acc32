# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of each concern by its name: the one place that knows them all, and their order.

Files of ours that no ``boot_files`` wants any more are removed by the concern ``leftovers``, except those for which a
concern has planned a step of its own with the id ``<concern>:<path>``.
"""

from __future__ import annotations

from typing import Callable, Dict, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot import files as boot_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.boot import orphaned_plan as leftovers
from ansible_collections.rdma.fabric.plugins.module_utils._host.boot import plan as boot
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.driver import files as driver_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.driver import plan as driver
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.firmware import image_plan as firmware_image
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.firmware import plan as firmware
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.functions import eswitch_plan as eswitch
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.functions import guids_plan as guids
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.functions import vfs_plan as sriov
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.kernel import (
    arguments_files as kernel_arguments_files,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.kernel import (
    arguments_plan as kernel_arguments,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.kernel import modules_files as kmods_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.kernel import modules_plan as kmods
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.kernel import sysctl_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.kernel import sysctl_plan as sysctl
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.links import irq_affinity
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.links import link_plan as link
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.links import mtu_plan as mtu
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.links import queues_plan as queues
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.memory import hugepages_files, limits_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.memory import hugepages_plan as hugepages
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.memory import limits_plan as limits
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.naming import files as naming_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.naming import plan as naming
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.pcie import plan as pcie
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.peer_memory import files as peer_memory_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.peer_memory import plan as peer_memory
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.qos import files as qos_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.qos import plan as qos
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.routing import plan as routing
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import ConcernPlan, Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.handler import Handler

BootFiles = Dict[str, str]


class Concern(NamedTuple):
    """What plans one concern.

    ``boot_files`` returns every file that it wants on the host, by path. ``staying`` returns the paths of those that a
    removal must leave, because what needs them stays as well. ``handler`` executes its steps, where that is a file with
    the planner; those of other concerns are in ``handlers.py``.
    """

    plan: Callable[[Context], ConcernPlan]
    boot_files: Callable[[Context], BootFiles] | None = None
    staying: Callable[[Context], Sequence[str]] | None = None
    handler: Handler | None = None


def handler_of(concern: str) -> Handler | None:
    """Return how steps of a concern are executed, None for one that this release does not have."""
    own = CONCERNS[concern].handler if concern in CONCERNS else None
    if own is not None:
        return own
    # A run that changes nothing reads no code of changes: on a slow host it is half of what a run compiles.
    from ansible_collections.rdma.fabric.plugins.module_utils._host.run.handlers import HANDLERS  # noqa: PLC0415

    return HANDLERS.get(concern)


def brings_modules(context: Context) -> str:
    """Return what is asked for, is not there yet and may bring kernel modules; empty when nothing is.

    It is set up after the modules are loaded: that is for the next run. A driver of which nothing is left to do has
    brought what it has.
    """
    steps, left_to_others = driver.plan(context)
    if steps or (left_to_others and context.actual.nvidia_nics()):
        return "the driver"
    return "peer memory" if peer_memory.plan(context)[0] else ""


# In the order of execution.
CONCERNS: Mapping[str, Concern] = {
    "kernel_arguments": Concern(kernel_arguments.plan, kernel_arguments_files.boot_files),
    "firmware_image": Concern(firmware_image.plan),
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
    "irqbalance": Concern(
        irq_affinity.plan_irqbalance, irq_affinity.boot_files, handler=irq_affinity.HANDLER_OF_IRQBALANCE
    ),
    "irq_affinity": Concern(irq_affinity.plan, handler=irq_affinity.HANDLER),
    "sysctl": Concern(sysctl.plan, sysctl_files.boot_files),
    "routing": Concern(routing.plan),
    "limits": Concern(limits.plan, limits_files.boot_files),
    "hugepages": Concern(hugepages.plan, hugepages_files.boot_files),
    "boot": Concern(boot.plan, boot_files.boot_files, boot_files.staying),
    "leftovers": Concern(leftovers.plan),
}
ORDER = tuple(CONCERNS)
