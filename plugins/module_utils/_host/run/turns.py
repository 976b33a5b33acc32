# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leaves the reload of a NIC driver to the turn of its host. Pure.

A run works on many hosts at once, and a reload cuts all links of a host. So where the run asks for it, a host stops
before its reload. What is planned after the reload stands on the driver that it loads, and waits with it.
"""

from __future__ import annotations

from itertools import takewhile

from ..engine.steps import Plan, Step, is_executable, with_reason
from ..spec.host import CONSENTS

_CONSENT = CONSENTS["driver_reload"]
_TURN = (
    "it and every step after it wait until all hosts have come this far, and are then done one host after the other "
    "(rdma_fabric_reboot_parallel)"
)


def needs_turn(plan: Plan) -> bool:
    """Return whether a run that applies the plan would reload a driver that is in use."""
    return any(map(_reloads, plan["steps"]))


def before_turn(plan: Plan) -> Plan:
    """Return the plan without the reload and what follows it; one without a reload is as it was."""
    return {**plan, "steps": list(takewhile(lambda step: not _reloads(step), plan["steps"]))}


def telling_turn(plan: Plan) -> Plan:
    """Return the plan whose reload says when it is done."""
    told: list[Step] = [
        {**step, "detail": with_reason(step, _TURN)} if _reloads(step) else step for step in plan["steps"]
    ]
    return {**plan, "steps": told}


def _reloads(step: Step) -> bool:
    return step["consent"] == _CONSENT and is_executable(step)
