# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the plan of one host: what is wanted against what is there. Pure. Private: it may change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host import steps
from ansible_collections.rdma.fabric.plugins.module_utils._host.actual import Actual, Facts
from ansible_collections.rdma.fabric.plugins.module_utils._host.awaited import judged
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns import CONCERNS, Concern
from ansible_collections.rdma.fabric.plugins.module_utils._host.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.desired import HostDesired
from ansible_collections.rdma.fabric.plugins.module_utils._host.matching import match_interfaces, still_there
from ansible_collections.rdma.fabric.plugins.module_utils._host.owners.respect import notices as notices_of_owners
from ansible_collections.rdma.fabric.plugins.module_utils._host.owners.respect import respecting
from ansible_collections.rdma.fabric.plugins.module_utils._host.pcie.remarks import remarks

Plan = Dict[str, Any]

FORMAT = 1


def make_plan(desired: HostDesired, facts: Facts) -> Plan:
    """Return the ordered steps that bring a host from ``facts`` to ``desired``; no step means nothing is to be done.

    ``desired`` is what ``desired.check_desired`` accepts, ``facts`` what ``facts.gather`` returns. The order of
    lists in either does not matter.
    """
    return plan_with_context(desired, facts)[0]


def plan_with_context(
    desired: HostDesired, facts: Facts, concerns: Sequence[str] = steps.CONCERNS
) -> tuple[Plan, Context]:
    """Return the plan and what executing it needs to know: the context of its concerns, with every step planned.

    ``concerns`` are those that are planned, in the order of ``steps.CONCERNS``; a task about one matter leaves the
    others, and their files, as they are.
    """
    actual = Actual(facts, desired["uplinks"])
    wanted = still_there(desired["interfaces"], actual) if desired.get("removing") else desired["interfaces"]
    interfaces, unmatched = match_interfaces(wanted, actual)
    context = Context(desired, actual, interfaces)
    notices = _unknown_uplinks(desired, actual) + remarks(actual, desired["pcie"]) + notices_of_owners(context)
    for name in concerns:
        if name == "naming":
            context = replace(context, earlier=(*context.earlier, *unmatched))
        if name in CONCERNS:
            context, said = _with_steps_of(CONCERNS[name], context)
            left = tuple(interface for interface in context.interfaces if not context.destroys(interface.nic))
            context = replace(context, interfaces=left)
            notices.extend(said)
    planned = judged(context.earlier, (facts.get("boot") or {}).get("awaited") or {})
    plan = {"format": FORMAT, "steps": planned, "notices": notices, "digest": steps.digest(planned)}
    return plan, replace(context, interfaces=interfaces)


def _with_steps_of(concern: Concern, context: Context) -> tuple[Context, list[str]]:
    """Return the context with what one more concern wants; each sees the steps of those before it."""
    found, notices = concern.plan(context)
    found = respecting(context, found)
    of_files = concern.staying if context.removing else concern.boot_files
    wanted = [] if of_files is None else list(of_files(context))
    earlier, files = (*context.earlier, *found), (*context.wanted_files, *wanted)
    return replace(context, earlier=earlier, wanted_files=files), notices


def _unknown_uplinks(desired: HostDesired, actual: Actual) -> list[str]:
    """Say which names of rdma_fabric_uplinks protect nothing, as a misspelt one would."""
    missing = sorted(set(desired["uplinks"]) - set(actual.netdevs))
    return [f"rdma_fabric_uplinks: {name} is not an interface of this host, so it protects nothing" for name in missing]
