# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Orders renames so that each new name is free when its turn comes. Pure."""

from __future__ import annotations

from itertools import count
from typing import Callable, Container, Iterable, Mapping, NamedTuple

_TEMPORARY = "rdmatmp"


class Rename(NamedTuple):
    """A rename; ``key`` identifies its subject and is the default order."""

    key: str
    current: str
    wanted: str


class Parking(NamedTuple):
    """The holder of a name that a rename needs, and its temporary name until its own turn."""

    key: str
    holder: str
    temporary: str


class Turn(NamedTuple):
    """A rename in order: the subject's name at that moment, and the holder to park first."""

    rename: Rename
    current: str
    parking: Parking | None

    def exchange(self, what: str) -> list[str]:
        """Return a note about the holder that is parked first, if any; ``what`` names the renamed things."""
        if self.parking is None:
            return []
        return [f"two {what} exchange names: {self.parking.holder} is parked as {self.parking.temporary} first"]


def in_turn(renames: Iterable[Rename], taken: Container[str]) -> list[Turn]:
    """Return the renames in an order in which every wanted name is free; ``taken`` are all names of the host.

    Each current and each wanted name is given once. Of names that form a circle one holder is parked under a temporary
    name, as the kernel has no exchange of names (EEXIST).
    """
    by_name = {rename.current: rename for rename in renames}
    order, circles = _order(by_name)
    temporary = (f"{_TEMPORARY}{number}" for number in count())
    parkings: dict[str, Parking] = {}
    for name in circles:
        held = by_name[name].wanted
        free = next(candidate for candidate in temporary if candidate not in taken)
        parkings[name] = Parking(by_name[held].key, held, free)
    parked = {parking.holder: parking.temporary for parking in parkings.values()}
    return [Turn(by_name[name], parked.get(name, name), parkings.get(name)) for name in order]


def refusals_of(
    names: Iterable[str], refused: Mapping[str, str], reason: Callable[[str, Mapping[str, str]], str]
) -> dict[str, str]:
    """Return why renames of these current names can't be done: ``refused``, and those that fail because of them.

    ``reason`` returns why a rename can't be done given the refusals so far, empty if it can: a refused one keeps its
    name, so others may fall with it.
    """
    waiting, refusals = list(names), dict(refused)
    changed = True
    while changed:
        changed = False
        for name in waiting:
            why = "" if name in refusals else reason(name, refusals)
            if why:
                refusals[name] = why
                changed = True
    return refusals


def _order(renames: dict[str, Rename]) -> tuple[list[str], list[str]]:
    """Return the current names in order, and those whose wanted name must be freed by parking its holder."""
    order: list[str] = []
    circles: list[str] = []

    def visit(start: str) -> None:
        chain = []
        name = start
        while name in renames and name not in order and name not in chain:
            chain.append(name)
            name = renames[name].wanted
        if name in chain:
            circle = chain[chain.index(name) :]
            first = min(circle)
            turn = circle.index(first)
            # The wanted name of the last one in turn was freed by parking, so the circle is walked backwards.
            circle = circle[turn:] + circle[:turn]
            circles.append(first)
            order.extend([first, *reversed(circle[1:])])
            chain = chain[: chain.index(name)]
        order.extend(reversed(chain))

    for name in sorted(renames, key=lambda current: renames[current].key):
        visit(name)
    return order, circles
