# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of each concern by its name: the one place that knows them all. Private: it may change.

``steps.CONCERNS`` holds the order. Files of ours that no ``boot_files`` wants any more are removed by the concern
``leftovers``, except those for which a concern has planned a step of its own with the id ``<concern>:<path>``.
"""

from __future__ import annotations

from typing import Callable, Dict, Mapping, NamedTuple

from ansible_collections.rdma.fabric.plugins.module_utils._host.context import ConcernPlan, Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.driver import plan as driver
from ansible_collections.rdma.fabric.plugins.module_utils._host.kmods import plan as kmods
from ansible_collections.rdma.fabric.plugins.module_utils._host.link import plan as link
from ansible_collections.rdma.fabric.plugins.module_utils._host.mtu import plan as mtu
from ansible_collections.rdma.fabric.plugins.module_utils._host.naming import plan as naming
from ansible_collections.rdma.fabric.plugins.module_utils._host.operations import Work
from ansible_collections.rdma.fabric.plugins.module_utils._host.peer_memory import plan as peer_memory
from ansible_collections.rdma.fabric.plugins.module_utils._host.sriov import plan as sriov
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import Step

BootFiles = Dict[str, str]


class Concern(NamedTuple):
    """The parts of one concern; ``boot_files`` returns every file that it wants on the host, by path.

    ``errors`` are causes and next steps by the errno's name, for failures of this concern's operations.
    """

    plan: Callable[[Context], ConcernPlan]
    work: Callable[[Context, Step], Work] | None = None
    boot_files: Callable[[Context], BootFiles] | None = None
    errors: Mapping[str, str] = {}


CONCERNS: Mapping[str, Concern] = {
    "modules": Concern(kmods.plan),
    "driver": Concern(driver.plan),
    "peer_memory": Concern(peer_memory.plan),
    "naming": Concern(naming.plan),
    "vfs": Concern(sriov.plan),
    "mtu": Concern(mtu.plan),
    "link": Concern(link.plan),
}
