# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a lab with a cluster would have to make first on this machine, told without making anything."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Mapping, NamedTuple, Sequence

from ..gobuild import build_key, cache_root
from ..node_bundle import bundle_key
from ..node_programs import NODE_RECIPES
from .identity import LONGEST_SOCKET, longest_control_path
from .layout import plan_guests
from .node_disk import SCRIPT, disk_key
from .qemu import Image
from .recipe import GUEST, QEMU, recipe_key
from .requirements import look, missing


class Part(NamedTuple):
    """Something that is made once: its name, where it is kept, and the minutes it takes on two cores when it is not."""

    name: str
    place: Path
    minutes: float


def cached_parts(environ: Mapping[str, str]) -> list[Part]:
    """Give what the guests and their nodes are made of, in the order in which it is made."""
    cache = cache_root(environ)
    image = Image(guest=cache / "guests" / recipe_key(GUEST), qemu=cache / "guests" / recipe_key(QEMU))
    programs = {recipe.name: cache / "bin" / build_key(recipe, platform.machine()) for recipe in NODE_RECIPES}
    bundle = cache / "node" / bundle_key(programs, image.guest)
    disk = cache / "guests" / disk_key(bundle.name, image, SCRIPT.read_text(encoding="utf-8"))
    return [
        Part("guest image", image.guest, 4),
        Part("QEMU", image.qemu, 2),
        *(Part(f"{name} for the nodes", place, 1.5) for name, place in programs.items()),
        Part("container images", bundle, 1),
        Part("the nodes' disk", disk, 1),
    ]


def unmade(parts: Sequence[Part]) -> list[Part]:
    """Give those parts that are not there yet."""
    return [part for part in parts if not part.place.is_dir()]


def reasons_against(directory: Path) -> list[str]:
    """Say all at once why no lab can be had in a directory of this machine; empty when it can be tried."""
    flaws = missing(look())
    if len(longest_control_path(directory, plan_guests(2, 1))) > LONGEST_SOCKET:
        flaws.append(f"the path {directory} is too long for the lab's sockets: move the checkout to a shorter one")
    return flaws
