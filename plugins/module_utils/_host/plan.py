# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the plan of one host: what is wanted against what is there. Pure. Private: it may change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Dict

from ansible_collections.rdma.fabric.plugins.module_utils._host import steps
from ansible_collections.rdma.fabric.plugins.module_utils._host.actual import Actual, Facts
from ansible_collections.rdma.fabric.plugins.module_utils._host.context import ConcernPlan, Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.desired import HostDesired
from ansible_collections.rdma.fabric.plugins.module_utils._host.driver import plan as driver
from ansible_collections.rdma.fabric.plugins.module_utils._host.kmods import plan as kmods
from ansible_collections.rdma.fabric.plugins.module_utils._host.link import plan as link
from ansible_collections.rdma.fabric.plugins.module_utils._host.matching import match_interfaces
from ansible_collections.rdma.fabric.plugins.module_utils._host.mtu import plan as mtu
from ansible_collections.rdma.fabric.plugins.module_utils._host.naming import plan as naming
from ansible_collections.rdma.fabric.plugins.module_utils._host.peer_memory import plan as peer_memory
from ansible_collections.rdma.fabric.plugins.module_utils._host.sriov import plan as sriov
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import Step

Plan = Dict[str, Any]

FORMAT = 1
# Each concern sees the steps of those before it; steps.CONCERNS holds the same order.
_PLANNERS: dict[str, Callable[[Context], ConcernPlan]] = {
    "modules": kmods.plan,
    "driver": driver.plan,
    "peer_memory": peer_memory.plan,
    "naming": naming.plan,
    "vfs": sriov.plan,
    "mtu": mtu.plan,
    "link": link.plan,
}


def make_plan(desired: HostDesired, facts: Facts) -> Plan:
    """Return the ordered steps that bring a host from ``facts`` to ``desired``; no step means nothing is to be done.

    ``desired`` is what ``desired.check_desired`` accepts, ``facts`` what ``facts.gather`` returns. The order of
    lists in either does not matter.
    """
    actual = Actual(facts, desired["uplinks"])
    interfaces, unmatched = match_interfaces(desired["interfaces"], actual)
    context = Context(desired, actual, interfaces)
    planned: list[Step] = []
    notices = _unknown_uplinks(desired, actual)
    for concern in steps.CONCERNS:
        if concern == "naming":
            planned.extend(unmatched)
        found, said = _PLANNERS[concern](replace(context, earlier=tuple(planned)))
        planned.extend(found)
        notices.extend(said)
    return {"format": FORMAT, "steps": planned, "notices": notices, "digest": steps.digest(planned)}


def _unknown_uplinks(desired: HostDesired, actual: Actual) -> list[str]:
    """Say which names of rdma_fabric_uplinks protect nothing, as a misspelt one would."""
    missing = sorted(set(desired["uplinks"]) - set(actual.netdevs))
    return [f"rdma_fabric_uplinks: {name} is not an interface of this host, so it protects nothing" for name in missing]
