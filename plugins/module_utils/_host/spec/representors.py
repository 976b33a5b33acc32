# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads how representors of a port's functions shall be called.

With the prefix ``rail0_`` virtual function 3 is ``rail0_3`` (the form of the SR-IOV operator) and the sub-function of
number 88 is ``rail0_sf88``.
"""

from __future__ import annotations

import re
from typing import Sequence

from . import syntax
from .place import Place, shown, text_of

SUBFUNCTION = "sf"
# Numbers have up to three digits, and a name has room for 15 characters.
DIGITS = 3
_LONGEST = syntax.IFNAMSIZ - 1 - len(SUBFUNCTION) - DIGITS


def representor_prefix(place: Place, value: object) -> str | None:
    """Return the wanted prefix, None when none is given."""
    return None if value is None else text_of(place, value, "the beginning of interface names", _problem)


def check_prefix(place: Place, prefix: str | None, mode: str | None) -> None:
    """Note a prefix for an e-switch that is to have no representors."""
    if prefix is not None and mode == "legacy":
        place.violation("has no effect with eswitch_mode legacy: there are no representors then", "leave it out")


def no_shared_names(places: list[Place], given: Sequence[str | None], names: Sequence[str | None]) -> None:
    """Note names that representors of two ports, or a representor and an interface of another entry, would have.

    ``given`` are the prefixes of the entries at the ``places``, ``names`` those of their interfaces.
    """
    prefixes = [(place, prefix) for place, prefix in zip(places, given) if prefix is not None]
    for index, (place, prefix) in enumerate(prefixes):
        for first, other in prefixes[:index]:
            if prefix in (other, f"{other}{SUBFUNCTION}") or other == f"{prefix}{SUBFUNCTION}":
                place.at("representor_prefix").violation(
                    f"{shown(prefix)} gives names that {shown(other)} of {first.path} gives already",
                    "each port needs its own",
                )
    for place, name in zip(places, names):
        for other_place, prefix in prefixes:
            if _gives(prefix, name):
                place.at("name").violation(
                    f"{shown(name)} is a name that representors get from {other_place.path}",
                    "choose another name, or another representor_prefix",
                )


def _gives(prefix: str, name: str | None) -> bool:
    return (
        name is not None and re.fullmatch(rf"{re.escape(prefix)}(?:{SUBFUNCTION})?\d{{1,{DIGITS}}}", name) is not None
    )


def _problem(prefix: str) -> str:
    problem = syntax.new_name_problem(prefix)
    if problem:
        return problem
    if len(prefix) > _LONGEST:
        return f"is longer than {_LONGEST} characters, which leaves no room for numbers of functions"
    return "ends with a digit, so it would run into numbers of functions" if prefix[-1].isdigit() else ""
