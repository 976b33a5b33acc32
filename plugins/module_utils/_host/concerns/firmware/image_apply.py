# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Burns an image of a card's firmware, after the one that it has was saved where the tool reads it."""

from __future__ import annotations

from types import MappingProxyType
from typing import Sequence

from ...engine.context import Context
from ...engine.failures import LOCKDOWN, Fault
from ...engine.operations import Found, Operation, PutFile, Run, Work
from ...engine.steps import Step, key_of
from ...facts.firmware_image import device_query, file_query, query_image
from ...facts.shapes import CardImage
from ...machine.access import Host
from ...spec.firmware_image import version_numbers
from .image_cards import ImageCard, image_cards

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
        "Cannot open Device": (
            f"the tool does not reach the card; next: run as root, look at {LOCKDOWN}, and close other tools that use "
            "it"
        ),
        "flash semaphore": "another tool uses the flash; next: wait for it to end, and run again",
    }
)


def work(context: Context, step: Step) -> Work:
    """Return how a card is burned; its former image stays on the flash until the new one is complete."""
    card = next(card for card in image_cards(context) if card.key == key_of(step))
    tool, device = str(context.actual.facts["firmware_images"]["tool"]), str(card.read["device"])
    return Work(
        [*_saving(tool, device, card), Run(_burn_command(tool, device, card), _BURN_SECONDS)],
        verify=lambda host: _difference(host, device_query(tool, device), card.version, card.read["psid"]),
    )


def _burn_command(tool: str, device: str, card: ImageCard) -> tuple[str, ...]:
    # It asks before it burns an older image (checkFwVersion of flint/subcommands.cpp), which downgrade has answered;
    # whatever else it asks is answered by no.
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
    """Return what stands beside a saved image, for whoever finds it."""
    return (
        f"{image} is the firmware {card.read['version']} that rdma.fabric read from the card {card.key} (PSID "
        f"{card.read['psid']}) before it burned {card.version}. It has the addresses of this card in it and is for no "
        f"other one.\nBring it back: mstflint -d {card.read['device']} -i {image} burn\n"
    )


def _nothing_if_saved(host: Host, query: tuple[str, ...], read: CardImage) -> Sequence[Operation]:
    difference = _difference(host, query, str(read["version"]), str(read["psid"]))
    if difference:
        raise Fault(f"{query[2]} is no image of the card: {difference}; next: look at the space on its file system")
    return ()


def _difference(host: Host, query: tuple[str, ...], version: str, psid: str | None) -> str:
    found = query_image(host, query)
    if found["problem"]:
        return str(found["problem"])
    wrong = [
        f"{what} is {has}, not {wanted}"
        for what, has, wanted in (("FW Version", found["version"], version), ("PSID", found["psid"], psid))
        if has != wanted
    ]
    return ", ".join(wrong)
