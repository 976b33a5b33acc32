# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds steps about what an operator of the cluster manages until taking it over is allowed. Pure.

Two that set one value set it back in turns, and functions are destroyed each time.
"""

from __future__ import annotations

from typing import Iterable

from ..engine.context import Context
from ..engine.steps import NEEDS_CONSENT, PLANNED, Step, as_planned, key_of, with_reason
from ..facts.devices import MELLANOX
from ..facts.owners import (
    ESWITCH,
    FUNCTIONS,
    MTU,
    NIC,
    NUMBER,
    PORT_STATES,
    SRIOV,
    nic_daemon,
    sriov_evidence,
    sriov_parts,
)
from ..spec.host import CONSENTS
from ..spec.pcie import READ_REQUEST

CONSENT = "takeover"
_SRIOV_FIRMWARE = {"SRIOV_EN", "NUM_OF_VFS", "LINK_TYPE_P1", "LINK_TYPE_P2"}
_OF_NIC_OPERATOR = ("firmware", "firmware_image", "qos", "queues")
_PARTS = {"eswitch": ESWITCH, "guids": FUNCTIONS}
_SPLIT = {"vfs": NUMBER, "mtu": MTU}


def hold_foreign_steps(context: Context, planned: Iterable[Step]) -> list[Step]:
    """Return the steps; those about what is an operator's wait for the consent to take it over."""
    if context.consents_to(CONSENT) or not context.actual.facts["owners"]:
        return list(planned)
    return [_held(step, _owner(context, step)) for step in planned]


def notices(context: Context) -> list[str]:
    """Tell what operators left here, and where both would name an interface."""
    found = context.actual.facts["owners"]
    sriov, named = found.get(SRIOV), set(found[NIC]["named"]) if NIC in found else set()
    said = []
    if sriov is not None and sriov["ports"] and sriov["daemon"] is None:
        said.append(
            f"{PORT_STATES} has the state of {', '.join(sorted(sriov['ports']))}, but no daemon of the SR-IOV operator "
            "runs here: it is taken as left over"
        )
    for interface in context.interfaces:
        both = interface.key in named and (interface.wanted.get("name") or interface.wanted.get("rdma_name"))
        if both:
            said.append(
                f"{context.target_of(interface)}: NVIDIA's NIC configuration operator names it as well, by a rule of "
                "udev that goes first; leave its names to one of the two (NicInterfaceNameTemplate)"
            )
    return said


def _held(step: Step, owner: str) -> Step:
    if not owner or step["status"] not in (PLANNED, NEEDS_CONSENT):
        return step
    return {**step, "status": NEEDS_CONSENT, "consent": CONSENTS[CONSENT], "detail": with_reason(step, owner)}


def _owner(context: Context, step: Step) -> str:
    """Return who manages what a step is about, and what to do about it; empty when nobody does."""
    nic = context.nic_of(step)
    if nic is None:
        return ""
    return _sriov_operator(context, step, nic["address"]) or _nic_operator(context, step, nic["vendor"])


def _sriov_operator(context: Context, step: Step, address: str) -> str:
    facts = context.actual.facts
    parts = sriov_parts(facts, address)
    concern, key = step["concern"], key_of(step)
    part = _PARTS.get(concern)
    if concern in _SPLIT:
        part = _SPLIT[concern] if key == address else FUNCTIONS
    if concern == "firmware" and _SRIOV_FIRMWARE & set(as_planned(step["to"], dict)):
        part = NUMBER
    if part not in parts:
        return ""
    return (
        f"the SR-IOV operator manages it ({sriov_evidence(facts, address)}) and will revert it: leave it to its "
        "SriovNetworkNodePolicy, or take the port out there"
    )


def _nic_operator(context: Context, step: Step, vendor: str) -> str:
    daemon = nic_daemon(context.actual.facts)
    reads = step["concern"] == "pcie" and READ_REQUEST in key_of(step)
    if not daemon or vendor != MELLANOX or not (step["concern"] in _OF_NIC_OPERATOR or reads):
        return ""
    return (
        f"NVIDIA's NIC configuration operator runs here (pod {daemon}) and sets firmware, QoS, MaxReadReq and rings "
        "by its templates: leave it to a NicConfigurationTemplate, or keep the operator's daemon off this node"
    )
