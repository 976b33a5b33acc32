# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans rings and channels of interfaces. Pure."""

from __future__ import annotations

from typing import Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import ConcernPlan, Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import (
    NOTHING,
    NOW,
    Step,
    make_step,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.interfaces import Interface
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.shapes import Queue

CONCERN = "queues"
_TITLES = {"rx_ring": "the receive ring", "tx_ring": "the transmit ring", "channels": "channels"}


def plan(context: Context) -> ConcernPlan:
    """Return a step for each interface whose rings or channels differ. The boot unit sets them at boot."""
    return [step for interface in context.interfaces for step in _steps(context, interface)], []


def found(context: Context, interface: Interface) -> Mapping[str, Queue]:
    """Return what the facts tell of the queues of an interface."""
    return context.actual.facts["queues"].get(interface.key, {})


def _steps(context: Context, interface: Interface) -> list[Step]:
    wanted = interface.wanted["queues"] or {}
    told = found(context, interface)
    differing = {key: value for key, value in wanted.items() if key not in told or told[key]["now"] != value}
    if not differing or interface.netdev is None:
        return []
    before = {key: told[key]["now"] if key in told else None for key in differing}
    shown = [f"{_TITLES[key]} to {value} (now {_shown(before[key])})" for key, value in differing.items()]
    name = context.name_of(interface.netdev)
    busy = bool(interface.netdev["up"])
    return [
        make_step(
            CONCERN,
            interface.key,
            target=context.target_of(interface),
            action=f"set {', '.join(shown)}",
            before=before,
            after=differing,
            reason="rdma_fabric_interfaces asks for other queues of the kernel's traffic",
            interrupts=f"traffic on {name} for a moment, RDMA's as well where the driver restarts" if busy else NOTHING,
            undo="set the former numbers",
            when=NOW,
            refusal=_refusal(differing, told) or context.uplink_refusal(interface.nic, interface.netdev),
        )
    ]


def _refusal(differing: Mapping[str, int], told: Mapping[str, Queue]) -> str:
    untold = [key for key in differing if key not in told]
    if untold:
        return f"its driver does not tell {', '.join(untold)}, or ethtool is not installed"
    above = [
        f"{key} {value} is above {told[key]['most']}" for key, value in differing.items() if value > told[key]["most"]
    ]
    return f"{'; '.join(above)}, the most that its driver has" if above else ""


def _shown(number: int | None) -> str:
    return "not known" if number is None else str(number)
