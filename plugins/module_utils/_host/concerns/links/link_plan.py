# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans whether interfaces are up."""

from __future__ import annotations

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import ConcernPlan, Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import NOW, Step, make_step
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.interfaces import Interface


def plan(context: Context) -> ConcernPlan:
    """Return a step for each interface whose administrative state differs from the wanted one."""
    steps = []
    for interface in context.interfaces:
        wanted, netdev = interface.wanted["state"], interface.netdev
        if wanted is None or netdev is None or netdev["up"] == (wanted == "up"):
            continue
        steps.append(_up(context, interface) if wanted == "up" else _down(context, interface))
    return steps, []


def _up(context: Context, interface: Interface) -> Step:
    return make_step(
        "link",
        interface.key,
        target=context.target_of(interface),
        action="bring the link up",
        before="down",
        after="up",
        reason="it is administratively down, so its RDMA port is disabled",
        undo="take the link down again",
        when=NOW,
    )


def _down(context: Context, interface: Interface) -> Step:
    reason = context.actual.uplink_reason(interface.nic, interface.netdev)
    refusal = f"it carries the uplink ({reason}): the node would be cut off, so no variable allows this"
    target = context.target_of(interface)
    return make_step(
        "link",
        interface.key,
        target=target,
        action="take the link down",
        before="up",
        after="down",
        reason="rdma_fabric_interfaces asks for state down",
        interrupts=f"traffic on {target} until it is brought up again",
        undo="bring the link up again: routes over it and IPv6 addresses of it are its manager's to set again",
        when=NOW,
        refusal=refusal if reason is not None else "",
    )
