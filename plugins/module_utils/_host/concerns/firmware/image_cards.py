# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings together what the entries of one card ask of its firmware's image. Pure."""

from __future__ import annotations

from typing import NamedTuple

from ...engine.context import Context
from ...facts.cards import flash_of
from ...facts.firmware_image import SECURE
from ...facts.interfaces import Interface
from ...facts.shapes import CardImage, Image
from ...spec.firmware_image import FirmwareImage

_SAVED = "/var/lib/rdma-fabric/firmware"


class ImageCard(NamedTuple):
    """A card whose image is asked for: its first function, its entries, what they want, what was read of it and of the
    file. ``disagree``: the entries ask for different ones."""

    key: str
    interfaces: tuple[Interface, ...]
    wanted: FirmwareImage
    disagree: bool
    read: CardImage
    file: Image | None

    @property
    def version(self) -> str:
        """Return the version that the card shall have; empty while nothing tells it."""
        return str((self.file["version"] if self.file is not None else None) or self.wanted["version"] or "")

    @property
    def is_readable(self) -> bool:
        """Say whether the tool reads the image from the flash, as it does of no card with secure firmware.

        Such cards are reached by their own firmware alone, whose commands read no image (Mellanox/mstflint,
        mlxfwops/lib/fsctrl_ops.cpp: FwReadData; fw_ops.cpp: mccUnsupported).
        """
        return SECURE not in self.read["security"]

    @property
    def saved(self) -> str:
        """Return where the image that the card has before is kept, without an ending."""
        return f"{_SAVED}/{self.key.replace(':', '-')}-{self.read['psid']}-{self.read['version']}"


def _unread(device: str) -> CardImage:
    problem = "it is no physical function of an NVIDIA card"
    return {"device": device, "version": None, "running": None, "psid": None, "security": "", "problem": problem}


def image_cards(context: Context) -> list[ImageCard]:
    """Return the cards that entries of the desired state ask an image of; functions of one card are one."""
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
