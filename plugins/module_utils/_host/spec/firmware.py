# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what is wanted of the firmware of a card."""

from __future__ import annotations

import re
from typing import Dict

from .place import Place, kind_of, list_of, mapping_in, shown, text_of
from .spectrum_x import RELEASES, SPECTRUM_X

# In capitals but for EXP_ROM_UEFI_x86_ENABLE and its like (Mellanox/mstflint, mlxconfig_host.db).
_NAME = re.compile(r"[A-Z](?:[A-Z0-9_]|x86){1,63}")
_VALUE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_WORDS = {"true": "1", "false": "0"}

# By the parameter's name, as text: ``16``, ``True``, ``ETH``.
Parameters = Dict[str, str]


def firmware(place: Place, value: object) -> Parameters | None:
    """Return the wanted parameters in the words of mstconfig and mlxconfig, None when none are given.

    ``spectrum_x`` stands for those of a release of Spectrum-X.
    """
    given = None if value is None else mapping_in(place, value, "parameters to values")
    if given is None:
        return None
    wanted: Parameters = {}
    for name, item in given.items():
        if name == SPECTRUM_X:
            continue
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            place.violation(
                f"has the key {shown(name)}, which is no parameter of a firmware",
                "names are in capitals, as mstconfig shows them: NUM_OF_VFS, SRIOV_EN, LINK_TYPE_P1",
            )
            continue
        text = _text(place.at(name), item)
        if text is not None:
            wanted[name] = text
    if given.get(SPECTRUM_X) is not None:
        wanted = _with_spectrum_x(place.at(SPECTRUM_X), given[SPECTRUM_X], wanted)
    return wanted or None


def _with_spectrum_x(place: Place, release: object, wanted: Parameters) -> Parameters:
    """Return the parameters with those of a release of Spectrum-X, which an entry may name as well, but not change."""
    known = RELEASES.get(release) if isinstance(release, str) else None
    if known is None:
        place.violation(
            f"is {shown(release)}, which is no release of Spectrum-X's reference architecture that is known here",
            f"one of {', '.join(RELEASES)}, for cards that are not divided into planes",
        )
        return wanted
    for name in [name for name in known if name in wanted and not meanings(wanted[name]) & meanings(known[name])]:
        place.violation(
            f"is {release}, whose {name} is {known[name]}, and the same entry asks for {name}: {wanted[name]}",
            "leave one of both out",
        )
    return {**known, **wanted}


def firmware_allow(place: Place, value: object) -> list[str]:
    """Return the parameters that may be set although nothing here tells what they do."""
    names = []
    for index, item in enumerate(list_of(place, value, "parameters of a firmware")):
        name = text_of(place.at(index), item, "the name of a parameter", _name_problem)
        if name is not None and name not in names:
            names.append(name)
    return names


def _name_problem(name: str) -> str:
    return "" if _NAME.fullmatch(name) else "is no parameter of a firmware: names are in capitals"


def _text(place: Place, value: object) -> str | None:
    if isinstance(value, (bool, int)) and not (isinstance(value, int) and value < 0):
        return str(value)
    if isinstance(value, str) and _VALUE.fullmatch(value):
        return value
    place.violation(f"is {kind_of(value)} ({shown(value)}), a number, true, false or one word is needed")
    return None


def check_functions(place: Place, parameters: Parameters | None, vfs: int | None) -> None:
    """Note values with which the next boot can't have the virtual functions that the same entry asks for."""
    if not vfs or not parameters:
        return
    if "0" in meanings(parameters.get("SRIOV_EN", "")):
        place.at("SRIOV_EN").violation(
            f"switches SR-IOV off, and vfs of the same entry asks for {vfs} virtual functions",
            "set it to true, or leave vfs out",
        )
    offered = [int(meaning) for meaning in meanings(parameters.get("NUM_OF_VFS", "")) if meaning.isdecimal()]
    if offered and max(offered) < vfs:
        place.at("NUM_OF_VFS").violation(
            f"offers {max(offered)} virtual functions, and vfs of the same entry asks for {vfs}",
            "raise NUM_OF_VFS or lower vfs",
        )


def meanings(value: str) -> set[str]:
    """Return what a value is equal to: words in lower case, numbers as decimals; ``ETH(2)`` is ``eth`` and ``2``."""
    lower = value.lower()
    word, parenthesis, number = lower.rstrip(")").partition("(")
    parts = {word, number} if parenthesis else {lower}
    return {_decimal(_WORDS.get(part, part)) for part in parts}


def _decimal(text: str) -> str:
    try:
        return str(int(text, 0))
    except ValueError:
        return text
