# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans which image of its firmware a card has on its flash, and what waits for the card to start with it.

A burn interrupts nothing: the card runs its former image until it is reset, which a reboot does for most cards. One
card is burned after the other, and a failed one ends the run, so no two are ever written at once.
"""

from __future__ import annotations

from ...engine.context import ConcernPlan, Context
from ...engine.steps import BOOT, NEEDS_REBOOT, NOTHING, Step, Wording, make_step
from ...facts.bluefield import arm_side_refusal, restriction
from ...facts.cards import is_bare_half
from ...facts.firmware_image import SECURE
from ...spec.firmware_image import version_numbers
from .image_cards import ImageCard, image_cards
from .refusals import lockdown, uplink_refusal

CONCERN = "firmware_image"
PENDING = ":reboot"
_CONSENT = "firmware_burn"
_AT_START = "type, speed or state of its links, its functions and its mode"


def plan(context: Context) -> ConcernPlan:
    """Return a step for each card whose flash or running firmware is another one than wanted."""
    return [step for card in image_cards(context) for step in _steps(context, card)], []


def _steps(context: Context, card: ImageCard) -> list[Step]:
    problem = _problem(context, card)
    if problem:
        return [_refused(context, card, problem)]
    if card.read["version"] != card.version:
        refusal = _refusal(context, card)
        return [_refused(context, card, refusal) if refusal else _burn(context, card)]
    return [_waiting(context, card)] if card.read["running"] != card.version else []


def _problem(context: Context, card: ImageCard) -> str:
    """Return why nothing can be said of the card's image; empty when it can."""
    nic = card.interfaces[0].nic
    if card.disagree:
        return "its functions share one flash, and their entries ask for different images"
    if nic is not None and is_bare_half(nic):
        return (
            "it has neither an interface nor an RDMA device, as the second half of a Socket Direct card, so nothing "
            "tells which flash is behind it: ask for the image in the entry of the half that has them, or load its "
            "driver"
        )
    if card.read["problem"]:
        command = f"mstflint -d {card.key} -i {card.wanted['file'] or 'FILE'} burn"
        restricted = restriction(context.actual, nic)
        return f"its firmware can't be read: {card.read['problem']}" + (
            f"; {restricted}" if restricted else lockdown(context, command)
        )
    problem = card.file["problem"] if card.file is not None else ""
    if problem and card.wanted["version"] != card.read["version"]:
        return f"the image can't be read: {problem}"
    return _mismatch(card)


def _mismatch(card: ImageCard) -> str:
    """Return what of the request, the image and the card does not fit together; empty when all does."""
    psid, image = card.read["psid"], card.file
    if card.wanted["psid"] not in (None, psid):
        return f"its PSID is {psid}, and psid asks for {card.wanted['psid']}: it is another product"
    if not image or image["problem"]:
        return ""
    if image["psid"] != psid:
        return (
            f"PSID mismatch: {card.wanted['file']} is for {image['psid']}, the card is {psid}; take the image of this "
            "product from its vendor"
        )
    if card.wanted["version"] not in (None, image["version"]):
        return f"{card.wanted['file']} is {image['version']}, and version asks for {card.wanted['version']}"
    return ""


def _refusal(context: Context, card: ImageCard) -> str:
    """Return everything that stands against this burn; empty when nothing does."""
    nic = card.interfaces[0].nic
    if not card.file:
        return "the entry has no file: copy an image of that version to the host, and give its path"
    has, wants = str(card.read["version"]), card.version
    reasons = [restriction(context.actual, nic) or arm_side_refusal(context.actual, nic), _unsigned(card)]
    if version_numbers(wants) < version_numbers(has) and not card.wanted["downgrade"]:
        reasons.append(f"{wants} is older than {has}: downgrade: true of firmware_image allows it")
    reasons.append(_uplink_refusal(context, card))
    return "; ".join(filter(None, reasons))


def _uplink_refusal(context: Context, card: ImageCard) -> str:
    return uplink_refusal(context, card.key, f"another image may change {_AT_START}")


def _unsigned(card: ImageCard) -> str:
    """Return why a card with secure firmware would reject the image; empty when it need not."""
    has, image = card.read["security"], card.file["security"] if card.file is not None else ""
    if SECURE not in has:
        return ""
    if SECURE not in image:
        return (
            f"the card takes signed images alone (Security Attributes: {has}), and this one is not ({image or 'none'})"
        )
    marks = [mark for mark in ("dev", "debug") if mark in _marks(image) and mark not in _marks(has)]
    return f"the image is marked {' and '.join(marks)}, and the card takes released ones alone ({has})" if marks else ""


def _marks(security: str) -> list[str]:
    return [mark.strip() for mark in security.split(",")]


def _wording(context: Context, card: ImageCard, action: str, before: str | None) -> Wording:
    return {
        "target": context.target_of(card.interfaces[0]),
        "action": action,
        "before": before,
        "after": card.version,
        "reason": "firmware_image of rdma_fabric_interfaces asks for it",
    }


def _refused(context: Context, card: ImageCard, detail: str) -> Step:
    has = card.read.get("version")
    action = f"burn {card.version or card.wanted['file']}" + (f" over {has}" if has else "")
    return make_step(CONCERN, card.key, **_wording(context, card, action, has), refusal=detail)


def _burn(context: Context, card: ImageCard) -> Step:
    has = card.read["version"]
    former = (
        f"the image that it has now is read to {card.saved}.bin before: burn that"
        if card.is_readable
        else f"its firmware is secure, so no tool reads it back: keep the image of {has} (PSID {card.read['psid']})"
    )
    return make_step(
        CONCERN,
        card.key,
        **_wording(context, card, f"burn {card.version} over {has} (PSID {card.read['psid']})", has),
        interrupts=f"{NOTHING} before the card starts with it, which may change {_AT_START}",
        undo=former,
        when=BOOT,
        **context.consent(_CONSENT),
        detail="takes effect when the card is reset, with a reboot or a power cycle; all of its functions share it",
    )


def _waiting(context: Context, card: ImageCard) -> Step:
    """Return the step that only a reset of the card can do; the run refuses it once a reboot has not done it."""
    runs = card.read["running"]
    action = f"reset the card: it runs {runs}, {card.version} is on its flash"
    return make_step(
        CONCERN,
        f"{card.key}{PENDING}",
        **_wording(context, card, action, runs),
        interrupts="everything on this node",
        when=BOOT,
        status=NEEDS_REBOOT,
        undo=f"burn {runs} before the next boot",
        detail=(
            f"where a reboot does not bring it, reset the card (mstfwreset -d {card.read['device']} reset, with no "
            "virtual functions and its ports down) or power cycle the machine"
        ),
        refusal=_uplink_refusal(context, card),
    )
