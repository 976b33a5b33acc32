# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the steps of each concern are executed, by its name: the one place that knows it of all. Private: it may change.

A run that changes nothing needs none of it, so ``importing`` reads this module when something asks for what is in it.
It is imported by ``concerns`` alone: a second import statement would read it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Callable, Mapping, NamedTuple

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot import apply as boot
from ansible_collections.rdma.fabric.plugins.module_utils._host.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.desired import HostDesired
from ansible_collections.rdma.fabric.plugins.module_utils._host.driver import apply as driver
from ansible_collections.rdma.fabric.plugins.module_utils._host.eswitch import apply as eswitch
from ansible_collections.rdma.fabric.plugins.module_utils._host.firmware import apply as firmware
from ansible_collections.rdma.fabric.plugins.module_utils._host.guids import apply as guids
from ansible_collections.rdma.fabric.plugins.module_utils._host.hugepages import apply as hugepages
from ansible_collections.rdma.fabric.plugins.module_utils._host.kernel_arguments import apply as kernel_arguments
from ansible_collections.rdma.fabric.plugins.module_utils._host.kmods import apply as kmods
from ansible_collections.rdma.fabric.plugins.module_utils._host.leftovers import apply as leftovers
from ansible_collections.rdma.fabric.plugins.module_utils._host.limits import apply as limits
from ansible_collections.rdma.fabric.plugins.module_utils._host.link import apply as link
from ansible_collections.rdma.fabric.plugins.module_utils._host.mtu import apply as mtu
from ansible_collections.rdma.fabric.plugins.module_utils._host.naming import apply as naming
from ansible_collections.rdma.fabric.plugins.module_utils._host.operations import Work
from ansible_collections.rdma.fabric.plugins.module_utils._host.pcie import apply as pcie
from ansible_collections.rdma.fabric.plugins.module_utils._host.peer_memory import apply as peer_memory
from ansible_collections.rdma.fabric.plugins.module_utils._host.qos import apply as qos
from ansible_collections.rdma.fabric.plugins.module_utils._host.queues import apply as queues
from ansible_collections.rdma.fabric.plugins.module_utils._host.routing import apply as routing
from ansible_collections.rdma.fabric.plugins.module_utils._host.sriov import apply as sriov
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import Step
from ansible_collections.rdma.fabric.plugins.module_utils._host.sysctl import apply as sysctl


class Applier(NamedTuple):
    """How steps of one concern are executed.

    ``errors`` are causes and next steps (``...; next: ...``) for failures of its operations, by the errno's name or by
    a text that a program prints.
    ``restore`` adds to an empty desired state what brings an original value back: it gets the key of the step that
    first changed it and the step's ``from``. Without it a removal leaves the setting as it is.
    ``parts``: a mapping in ``from`` holds values of their own, so that another step of the same key may add some.
    """

    work: Callable[[Context, Step], Work]
    errors: Mapping[str, str] = MappingProxyType({})
    restore: Callable[[HostDesired, str, Any], None] | None = None
    parts: bool = False


APPLIERS: Mapping[str, Applier] = {
    "kernel_arguments": Applier(kernel_arguments.work, kernel_arguments.ERRORS),
    "firmware": Applier(firmware.work, firmware.ERRORS, firmware.restore, parts=True),
    "modules": Applier(kmods.work, kmods.ERRORS, kmods.restore),
    "driver": Applier(driver.work, driver.ERRORS),
    "peer_memory": Applier(peer_memory.work, peer_memory.ERRORS, peer_memory.restore),
    "pcie": Applier(pcie.work, pcie.ERRORS, pcie.restore),
    "naming": Applier(naming.work, naming.ERRORS, naming.restore, parts=True),
    "vfs": Applier(sriov.work, sriov.ERRORS, sriov.restore, parts=True),
    "eswitch": Applier(eswitch.work, eswitch.ERRORS, eswitch.restore),
    "guids": Applier(guids.work, guids.ERRORS, guids.restore, parts=True),
    "mtu": Applier(mtu.work, mtu.ERRORS, mtu.restore),
    "link": Applier(link.work, link.ERRORS, link.restore),
    "queues": Applier(queues.work, queues.ERRORS, queues.restore, parts=True),
    "qos": Applier(qos.work, qos.ERRORS, qos.restore),
    "boot": Applier(boot.work),
    "sysctl": Applier(sysctl.work, sysctl.ERRORS, sysctl.restore),
    "routing": Applier(routing.work, routing.ERRORS, routing.restore, parts=True),
    "limits": Applier(limits.work, limits.ERRORS),
    "hugepages": Applier(hugepages.work, hugepages.ERRORS, hugepages.restore),
    "leftovers": Applier(leftovers.work),
}
