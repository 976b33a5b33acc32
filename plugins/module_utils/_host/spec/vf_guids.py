# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads which GUIDs the functions of an InfiniBand port shall have, and finds those that several would have.

A GUID is kept as eight octets in lower case, as ``ip`` prints it; sysfs writes the same number in four groups.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Sequence, TypeVar, Union

from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation

from . import syntax
from .functions import DETERMINISTIC
from .place import Place, kind_of, known_keys, shown, text_of

RANGE_KEYS = ("first", "last")
_OCTETS = 8
_LARGEST = 2 ** (8 * _OCTETS) - 1
_FORMS = re.compile(r"(?:[0-9a-f]{2}:){7}[0-9a-f]{2}|(?:[0-9a-f]{4}:){3}[0-9a-f]{4}|0x[0-9a-f]{16}")
# ``deterministic``, one GUID for each function, or the first and the last of a range.
VfGuids = Union[str, List[str], Dict[str, str]]
Owner = TypeVar("Owner")
_HINT = "a fabric needs each GUID once: give every host its own range in host_vars, or deterministic"


def guid_number(text: str) -> int | None:
    """Return the number that a GUID is, None for a text that is none."""
    lower = text.strip().lower()
    return int(lower.replace("0x", "").replace(":", ""), 16) if _FORMS.fullmatch(lower) else None


def guid_text(number: int) -> str:
    """Return a GUID as ``ip`` takes and prints it."""
    digits = f"{number:016x}"
    return ":".join(digits[index : index + 2] for index in range(0, 2 * _OCTETS, 2))


def canonical(text: str) -> str | None:
    """Return a GUID in this form whatever form it is in, None for a text that is none."""
    number = guid_number(text)
    return None if number is None else guid_text(number)


def vf_guids(place: Place, value: object, count: int | None) -> VfGuids | None:
    """Return the wanted GUIDs, None when none are given; ``count`` is the wanted number of functions."""
    if value is None:
        return None
    if value == DETERMINISTIC:
        return DETERMINISTIC
    if isinstance(value, Mapping):
        guids: VfGuids | None = _range(place, value)
    elif isinstance(value, list):
        guids = _list(place, value)
    else:
        place.violation(
            f"is {kind_of(value)} ({shown(value)}): {DETERMINISTIC}, a list of GUIDs, or a mapping with first and last "
            "is needed"
        )
        return None
    if guids is not None and count is not None and size_of(guids) < count:
        place.violation(
            f"holds {size_of(guids)} GUIDs for {count} functions", "add GUIDs, make the range longer or lower vfs"
        )
    return guids


def size_of(guids: VfGuids) -> int:
    """Return how many functions the GUIDs are enough for."""
    if isinstance(guids, dict):
        return (guid_number(guids["last"]) or 0) - (guid_number(guids["first"]) or 0) + 1
    return len(guids)


def spans_of(guids: VfGuids | None) -> list[tuple[int, int]]:
    """Return the GUIDs as numbers from and to which they go; deterministic ones are nobody else's."""
    if isinstance(guids, dict):
        return [(guid_number(guids["first"]) or 0, guid_number(guids["last"]) or 0)]
    numbers = [guid_number(guid) or 0 for guid in guids] if isinstance(guids, list) else []
    return [(number, number) for number in numbers]


def no_shared_guids(places: list[Place], wanted: Sequence[VfGuids | None]) -> None:
    """Note GUIDs that functions of two ports of the host would have."""
    owned = [(span, index) for index, guids in enumerate(wanted) for span in spans_of(guids)]
    for first, later, guid in doubled(owned):
        places[later].at("vf_guids").violation(
            f"gives {guid_text(guid)}, which {places[first].path} gives already", "each function needs its own GUID"
        )


def doubled(owned: Sequence[tuple[tuple[int, int], Owner]]) -> list[tuple[Owner, Owner, int]]:
    """Return what spans of different owners have in common: two owners, in their order, and the first GUID of both.

    Of many owners of one GUID each later one is told with an earlier one; one owner's own spans are left aside.
    """
    found: dict[tuple[Owner, Owner], int] = {}
    widest: tuple[int, Owner] | None = None
    for (first, last), owner in sorted(owned, key=lambda item: item[0]):
        if widest is not None and first <= widest[0] and owner != widest[1]:
            found.setdefault((widest[1], owner), first)
        if widest is None or last > widest[0]:
            widest = (last, owner)
    order = list(dict.fromkeys(owner for _span, owner in owned))
    pairs = [(one, other, guid) for (one, other), guid in found.items()]
    return [(a, b, guid) if order.index(a) < order.index(b) else (b, a, guid) for a, b, guid in pairs]


def _range(place: Place, value: Mapping[object, object]) -> dict[str, str] | None:
    known_keys(place, value, RANGE_KEYS)
    ends = {key: _guid(place.at(key), value.get(key)) for key in RANGE_KEYS}
    first, last = ends["first"], ends["last"]
    if first is None or last is None:
        return None
    if last < first:
        place.at("last").violation(f"{guid_text(last)} is below first, {guid_text(first)}")
        return None
    return {"first": guid_text(first), "last": guid_text(last)}


def _list(place: Place, value: list[object]) -> list[str]:
    guids: list[str] = []
    for index, item in enumerate(value):
        number = _guid(place.at(index), item)
        if number is None:
            continue
        if guid_text(number) in guids:
            place.at(index).violation(f"{guid_text(number)} is listed twice", "each function needs its own GUID")
        guids.append(guid_text(number))
    return guids


def _guid(place: Place, value: object) -> int | None:
    text = text_of(place, value, "a GUID", _problem)
    return None if text is None else guid_number(text)


def _problem(text: str) -> str:
    number = guid_number(text)
    if number is None:
        return "is not a GUID: eight octets such as 02:11:22:33:44:55:66:77 are needed"
    return "is not a GUID that a function can have" if number in (0, _LARGEST) else ""


def shared_guids(desired: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Violation]]:
    """Return what is wrong with the GUIDs of hosts together, by the later host; ``desired`` is by inventory name.

    GUIDs that one host gives twice are told with that host's own variables.
    """
    owned = [
        (span, (host, index))
        for host, wish in desired.items()
        for index, entry in enumerate(wish.get("interfaces") or ())
        for span in spans_of(entry.get("vf_guids"))
    ]
    found: dict[str, list[Violation]] = {}
    for (first, _first_index), (later, index), guid in doubled(owned):
        if first == later:
            continue
        source = f"host {syntax.one_line(later)}: rdma_fabric_interfaces"
        problem = f"gives {guid_text(guid)}, which host {syntax.one_line(first)} gives to functions of its own"
        found.setdefault(later, []).append(Violation(source, f"[{index}].vf_guids", problem, _HINT))
    return found
