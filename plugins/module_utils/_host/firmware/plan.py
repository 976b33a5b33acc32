# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans values of cards' firmware: what is set for the next boot, and what waits for it. Private: it may change.

A value takes effect when the card is reset, which a reboot does for most cards. One that a reboot did not bring is not
waited for again: such cards need a reset of their own or a power cycle, and a host is never rebooted twice for it.
"""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._host.context import ConcernPlan, Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.desired import CONSENTS
from ansible_collections.rdma.fabric.plugins.module_utils._host.firmware.bluefield import (
    arm_side_refusal,
    remark,
    restriction,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.firmware.cards import (
    CURRENT,
    NEXT,
    Card,
    cards_of,
    same,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.firmware.read import card_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import (
    BOOT,
    NEEDS_CONSENT,
    NEEDS_REBOOT,
    PLANNED,
    Step,
    make_step,
    refused_step,
)

CONCERN = "firmware"
PENDING = ":reboot"
_LINK_TYPE = re.compile(r"LINK_TYPE_P\d+")
_OF_THE_MODE = "INTERNAL_CPU_"


def plan(context: Context) -> ConcernPlan:
    """Return a step for each card whose next boot has other values than wanted, or whose values wait for it."""
    steps: list[Step] = []
    for card in cards_of(context):
        steps += _steps(context, card)
    return steps, _remarks(context)


def _remarks(context: Context) -> list[str]:
    """Return what is to be said of each BlueField whose mode decides something."""
    said: dict[str, str] = {}
    for interface in context.interfaces:
        if interface.nic is not None and card_of(interface.key) not in said:
            sentence = remark(context.actual, interface.nic)
            said[card_of(interface.key)] = f"{context.target_of(interface)}: {sentence}" if sentence else ""
    return [sentence for sentence in said.values() if sentence]


def _steps(context: Context, card: Card) -> list[Step]:
    problem = _problem(context, card)
    if problem:
        return [_refused(context, card, list(card.wanted), problem)]
    changes = [name for name, value in card.wanted.items() if not same(str(card.value(name, NEXT)), value)]
    waiting = [
        name
        for name, value in card.wanted.items()
        if name not in changes and not same(str(card.value(name, CURRENT)), value)
    ]
    steps = []
    if changes:
        refusal = _refusal(context, card, changes)
        steps.append(_refused(context, card, changes, refusal) if refusal else _change(context, card, changes))
    if waiting:
        steps.append(_waiting(context, card, waiting))
    return steps


def _problem(context: Context, card: Card) -> str:
    """Return why nothing can be said of the card's parameters; empty when it can."""
    if card.read["problem"]:
        restricted = restriction(context.actual, card.interfaces[0].nic or {})
        cause = f"; {restricted}" if restricted else _lockdown(context, card)
        return f"its firmware can't be read: {card.read['problem']}{cause}"
    if card.contradictions:
        return f"its ports share one configuration, and their entries disagree: {', '.join(card.contradictions)}"
    unknown = [name for name in card.wanted if card.value(name, NEXT) is None]
    if unknown:
        return f"it has no {', '.join(f'{name}{_near(card, name)}' for name in unknown)}"
    return ""


def _near(card: Card, name: str) -> str:
    near = card.read["near"].get(name) or []
    return f" (nearest: {', '.join(near)})" if near else ""


def _lockdown(context: Context, card: Card) -> str:
    lockdown = context.actual.facts["system"].get("lockdown")
    if lockdown in (None, "none"):
        return ""
    pairs = " ".join(f"{name}={value}" for name, value in card.wanted.items())
    return (
        f"; the kernel's lockdown ({lockdown}, as with Secure Boot) forbids access to firmware: run mstconfig -y -d "
        f"{card.device} set {pairs} on a kernel without it"
    )


def _refusal(context: Context, card: Card, changes: list[str]) -> str:
    nic = card.interfaces[0].nic or {}
    refusal = restriction(context.actual, nic)
    if refusal:
        return refusal
    if not all(name.startswith(_OF_THE_MODE) for name in changes):
        refusal = arm_side_refusal(context.actual, nic)
        if refusal:
            return refusal
    if any(_LINK_TYPE.fullmatch(name) for name in changes):
        refusals = (context.uplink_refusal(entry.nic, entry.netdev) for entry in card.interfaces)
        return next(filter(None, refusals), "")
    return ""


def _wording(context: Context, card: Card, names: list[str], action: str) -> dict[str, Any]:
    return {
        "target": context.target_of(card.interfaces[0]),
        "action": action,
        "before": {name: card.value(name, NEXT) for name in names},
        "after": {name: card.wanted[name] for name in names},
        "reason": "firmware of rdma_fabric_interfaces asks for it",
    }


def _told(card: Card, names: list[str], column: int) -> str:
    return ", ".join(f"{name}={card.wanted[name]} (now {card.value(name, column)})" for name in names)


def _refused(context: Context, card: Card, names: list[str], detail: str) -> Step:
    wording = _wording(context, card, names, f"set {_told(card, names, NEXT)} in its firmware")
    return refused_step(CONCERN, card.device, **wording, detail=detail)


def _change(context: Context, card: Card, names: list[str]) -> Step:
    allowed = context.consents_to(CONCERN)
    return make_step(
        CONCERN,
        card.device,
        **_wording(context, card, names, f"set {_told(card, names, NEXT)} in its firmware for the next boot"),
        undo="set the former values",
        when=BOOT,
        status=PLANNED if allowed else NEEDS_CONSENT,
        consent=CONSENTS[CONCERN],
        detail="takes effect when the card is reset, with a reboot or a power cycle; all of its ports share it",
    )


def _waiting(context: Context, card: Card, names: list[str]) -> Step:
    """Return the step that only a reset of the card can do: refused once a reboot has not done it."""
    wording = _wording(context, card, names, f"reset the card: {_told(card, names, CURRENT)} for the next boot")
    wording["before"] = {name: card.value(name, CURRENT) for name in names}
    key = f"{card.device}{PENDING}"
    since = (context.actual.facts.get("firmware") or {}).get("set_since_boot") or {}
    if not set(names) <= set(since.get(card.device) or ()):
        return refused_step(
            CONCERN,
            key,
            **wording,
            detail=(
                "it was set before this host started, or by somebody else since, and a reboot alone may not bring it: "
                f"reset the card (mstfwreset -d {card.device} reset, with no virtual functions and its ports down) or "
                "power cycle the machine, and run again"
            ),
        )
    return make_step(
        CONCERN,
        key,
        **wording,
        interrupts="everything on this node",
        when=BOOT,
        status=NEEDS_REBOOT,
        undo=f"set {', '.join(f'{name}={card.value(name, CURRENT)}' for name in names)} before the next boot",
    )
