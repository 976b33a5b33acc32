# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The firmware image on a card's flash, and the step that waits for the card to start with it.

A burn interrupts nothing: the card runs its former image until it is reset, which a reboot does for most cards. One
card is burned after the other, and a failure ends the run, so no two are ever written at once. The former image is
saved if the tool can read it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple, Sequence

from ...engine.context import ConcernPlan, Context, Handler
from ...engine.failures import Fault
from ...engine.operations import Found, Operation, PutFile, Run, Work
from ...engine.steps import BOOT, NEEDS_REBOOT, NOTHING, Step, Wording, key_of, make_step
from ...facts.firmware import arm_side_refusal, flash_of, is_bare_half, restriction
from ...facts.firmware_image import SECURE, device_query, file_query, query_image
from ...facts.host_state import Interface
from ...facts.shapes import CardImage, Image
from ...machine.access import Host
from ...spec.firmware import FirmwareImage, version_numbers
from .refusals import CLOSED, NO_CARD, reset_by_hand, unreadable, uplink_refusal

CONCERN = "firmware_image"
PENDING = ":reboot"
_CONSENT = "firmware_burn"
_AT_START = "type, speed or state of its links, its functions and its mode"
_SAVED = "/var/lib/rdma-fabric/firmware"
# A flash of 32 MiB over PCI configuration cycles takes minutes.
_READ_SECONDS = 900.0
_BURN_SECONDS = 1800.0
_REJECTED = (
    "the card rejects the image (its signature, security version or a version that it forbids); the former image is "
    "still there; next: take an image from the vendor of this PSID that is no older than the card allows"
)
ERRORS = MappingProxyType(
    {
        "PSID": "the image is for another product; next: take the image of this card's PSID",
        "pending reset": (
            "another image waits on the flash for a reset of the card; next: reboot the host, or reset the card "
            "(mstfwreset), and run again"
        ),
        "Rejected authentication": _REJECTED,
        "Forbidden version": _REJECTED,
        "FW burn rejected": _REJECTED,
        "(y/n) [n] : n": (
            "the tool asked what only a person may answer, so nothing was burned; next: run the command yourself "
            "without --no, and read what it asks"
        ),
        "Cannot open Device": CLOSED,
        "flash semaphore": "another tool uses the flash; next: wait for it to end, and run again",
    }
)


class ImageCard(NamedTuple):
    """A card with an image in the spec: its first function, its entries, their image, the facts of the card and of the
    file. ``disagree``: the entries have different images."""

    key: str
    interfaces: tuple[Interface, ...]
    wanted: FirmwareImage
    disagree: bool
    read: CardImage
    file: Image | None

    @property
    def version(self) -> str:
        """Return the wanted version, empty while it is unknown."""
        return (self.file["version"] if self.file is not None else None) or self.wanted["version"] or ""

    @property
    def is_readable(self) -> bool:
        """Return whether the tool can read the image from the flash, which secure firmware prevents.

        Such cards are reached by their own firmware alone, whose commands read no image (Mellanox/mstflint,
        mlxfwops/lib/fsctrl_ops.cpp: FwReadData; fw_ops.cpp: mccUnsupported).
        """
        return SECURE not in self.read["security"]

    @property
    def saved(self) -> str:
        """Return the path of the saved former image, without a suffix."""
        return f"{_SAVED}/{self.key.replace(':', '-')}-{self.read['psid']}-{self.read['version']}"


def plan(context: Context) -> ConcernPlan:
    """Return a step for each card whose flash or running firmware differs from the spec."""
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
    """Return why the card's image can't be compared; empty if it can."""
    nic = card.interfaces[0].nic
    if card.disagree:
        return "its PCI functions share one flash, and their entries ask for different images"
    if nic is not None and is_bare_half(nic):
        return "it has neither an interface nor an RDMA device, and nothing tells which flash is behind it"
    if card.read["problem"]:
        command = f"mstflint -d {card.key} -i {card.wanted['file'] or 'FILE'} burn"
        return unreadable(context, nic, card.read["problem"], command)
    problem = card.file["problem"] if card.file is not None else ""
    if problem and card.wanted["version"] != card.read["version"]:
        return f"the image can't be read: {problem}"
    return _mismatch(card)


def _mismatch(card: ImageCard) -> str:
    """Return a mismatch of spec, image and card, empty if there is none."""
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
    """Return every reason against this burn; empty if there is none."""
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
    """Return why a card with secure firmware would reject the image; empty if it would not."""
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
        detail="takes effect when the card is reset, with a reboot or a power cycle; all of its PCI functions share it",
    )


def _waiting(context: Context, card: ImageCard) -> Step:
    """Return the step that needs a reset of the card; it is refused once a reboot has not done it."""
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
        detail=f"where a reboot does not bring it, {reset_by_hand(card.read['device'])}",
        refusal=_uplink_refusal(context, card),
    )


def _unread(device: str) -> CardImage:
    return {"device": device, "version": None, "running": None, "psid": None, "security": "", "problem": NO_CARD}


def image_cards(context: Context) -> list[ImageCard]:
    """Return the cards with an image in the spec, each once for all its functions."""
    images = context.actual.facts["firmware_images"]
    by_card: dict[str, list[tuple[Interface, FirmwareImage]]] = {}
    for interface in context.interfaces:
        image = interface.wanted["firmware_image"]
        if interface.nic is not None and image:
            by_card.setdefault(flash_of(context.actual, interface.key), []).append((interface, image))
    found = []
    for key, entries in sorted(by_card.items()):
        wanted = entries[0][1]
        read = images["cards"][key] if key in images["cards"] else _unread(key)
        found.append(
            ImageCard(
                key,
                tuple(interface for interface, _image in entries),
                wanted,
                any(image != wanted for _interface, image in entries),
                read,
                images["files"].get(wanted["file"] or ""),
            )
        )
    return found


def work(context: Context, step: Step) -> Work:
    """Return how a card is burned; its former image stays on the flash until the new one is complete."""
    card = next(card for card in image_cards(context) if card.key == key_of(step))
    tool, device = str(context.actual.facts["firmware_images"]["tool"]), card.read["device"]
    return Work(
        [*_saving(tool, device, card), Run(_burn_command(tool, device, card), _BURN_SECONDS)],
        verify=lambda host: _difference(host, device_query(tool, device), card.version, card.read["psid"]),
    )


def _burn_command(tool: str, device: str, card: ImageCard) -> tuple[str, ...]:
    # flint asks before it burns an older image (checkFwVersion of flint/subcommands.cpp), which downgrade has answered;
    # any other question is answered with no.
    is_older = version_numbers(card.version) < version_numbers(str(card.read["version"]))
    answer = "-y" if is_older else "--no"
    return (tool, answer, "-d", device, "-i", str(card.wanted["file"]), "burn")


def _saving(tool: str, device: str, card: ImageCard) -> Sequence[Operation]:
    if not card.is_readable:
        return ()
    image = f"{card.saved}.bin"
    return (
        PutFile(f"{card.saved}.txt", _note(card, image)),
        Run((tool, "-d", device, "ri", image), _READ_SECONDS),
        Found(
            f"save the image of {device}",
            lambda host: _nothing_if_saved(host, file_query(tool, image), card.read),
        ),
    )


def _note(card: ImageCard, image: str) -> str:
    """Return the note that is saved beside an image."""
    return (
        f"{image} is the firmware {card.read['version']} that rdma.fabric read from the card {card.key} (PSID "
        f"{card.read['psid']}) before it burned {card.version}. It has the addresses of this card in it and is for no "
        f"other one.\nBring it back: mstflint -d {card.read['device']} -i {image} burn\n"
    )


def _nothing_if_saved(host: Host, query: tuple[str, ...], read: CardImage) -> Sequence[Operation]:
    difference = _difference(host, query, str(read["version"]), str(read["psid"]))
    if difference:
        raise Fault(f"{query[2]} is not an image of the card: {difference}; next: look at the space on its file system")
    return ()


def _difference(host: Host, query: tuple[str, ...], version: str, psid: str | None) -> str:
    found = query_image(host, query)
    if found["problem"]:
        return found["problem"]
    wrong = [
        f"{what} is {has}, not {wanted}"
        for what, has, wanted in (("FW Version", found["version"], version), ("PSID", found["psid"], psid))
        if has != wanted
    ]
    return ", ".join(wrong)


HANDLER = Handler(work, ERRORS)
