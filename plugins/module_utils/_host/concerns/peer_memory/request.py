# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wanted of a host's peer memory, and what that means on it. Pure."""

from __future__ import annotations

from typing import NamedTuple, Sequence

from ...engine.context import Context
from ...engine.host_requests import requests_for
from ...engine.steps import NEEDS_CONSENT, PLANNED, as_planned
from ...spec.driver import ABSENT
from ...spec.driver_families import VENDOR_FLAVOURS
from ...spec.peer_memory import AUTO, NONE
from .decide import Decision, decide
from .status import loaded_mechanisms, operator_evidence, reachable_gpus, situation_of

VARIABLE = "rdma_fabric_peer_memory"


class Wish(NamedTuple):
    """What is asked for, decided for this host.

    ``operator`` shows that the GPU Operator's driver container owns the GPU driver. ``left_alone``: there is nothing
    here to set up, because it does, or because the host has no NIC of NVIDIA or no GPU that one could reach.
    """

    asked_by: str
    decision: Decision
    operator: Sequence[str]
    left_alone: bool


def wish_of(context: Context) -> Wish | None:
    """Return what is wanted of peer memory, None when nobody asks for anything."""
    own = context.desired["peer_memory"]
    requests = requests_for(context, "peer_memory")
    if own is None and not requests:
        return None
    asked_by = VARIABLE if own is not None else str(requests[0]["source"])
    wanted = AUTO if own is None else NONE if own["state"] == ABSENT else own["mechanism"]
    actual = context.actual
    labels = {**actual.facts["labels"], **context.desired["node_labels"]}
    operator = operator_evidence(actual, labels)
    decision = decide(wanted, situation_of(actual, _replaces_stack(context)))
    loaded = loaded_mechanisms(actual)
    if wanted == AUTO and len(loaded) == 1:
        # What works stays: a module that is loaded has found its symbols.
        decision = Decision(loaded[0], f"{loaded[0]} is loaded already")
    elif wanted in loaded:
        decision = Decision(wanted, f"{wanted} is asked for and loaded already")
    nothing_here = not reachable_gpus(actual) or not actual.nvidia_nics()
    return Wish(asked_by, decision, operator, bool(operator) or (nothing_here and decision.mechanism != NONE))


def _replaces_stack(context: Context) -> bool:
    """Return whether an earlier step loads a vendor's stack, which takes peer-memory clients."""
    loads = (step for step in context.earlier if step["id"] == "driver:load")
    return any(
        step["status"] in {PLANNED, NEEDS_CONSENT} and as_planned(step["to"], dict)["flavour"] in VENDOR_FLAVOURS
        for step in loads
    )
