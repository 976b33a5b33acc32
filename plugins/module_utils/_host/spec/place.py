# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse single values of the input; violations are noted with their place, not raised."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Callable, Collection, Iterable, Mapping, Pattern, TypeVar

from ansible_collections.rdma.fabric.plugins.module_utils._violations import (
    UNKNOWN_FIELD,
    Notice,
    Violation,
    any_of,
    described,
    folded,
    hint_of_digits,
    mismatch,
    nearest,
    shown,
)

Check = Callable[[str], str]
Bounds = Callable[[int], str]
Keys = Mapping[str, Callable[[str], object]]
"""Mappings in the input by level, each with a check of its keys. A level is a place without its numbers:
``rdma_fabric_interfaces[].queues``."""

PREFIX = "rdma_fabric_"
_MAX_PLACES = 3
_NEAR = 0.6


@dataclass
class Found:
    """The violations and notices of one host.

    ``keys`` are all keys that the input may have, ``variables`` all variables, to suggest the right level for a
    misplaced key.
    """

    violations: list[Violation] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    keys: Keys = field(default_factory=dict)
    variables: Collection[str] = ()


@dataclass(frozen=True)
class Place:
    """A place in the input, where problems are noted."""

    found: Found
    source: str
    path: str = ""

    def at(self, key: str | int) -> Place:
        """Return the place of a member."""
        if isinstance(key, int):
            return Place(self.found, self.source, f"{self.path}[{key}]")
        name = key if re.fullmatch(r"[\w./-]{1,80}", key, re.ASCII) else shown(key)
        return Place(self.found, self.source, f"{self.path}.{name}" if self.path else name)

    @property
    def level(self) -> str:
        """Return the place without the host and without numbers of list entries."""
        variable = self.source.rpartition(": ")[2]
        path = re.sub(r"\[\d+\]", "[]", self.path)
        return f"{variable}.{path}" if path and not path.startswith("[") else f"{variable}{path}"

    def violation(self, problem: str, hint: str = "") -> None:
        """Add a violation, which prevents the run."""
        self.found.violations.append(Violation(self.source, self.path, problem, hint))

    def notice(self, problem: str, hint: str = "") -> None:
        """Add a notice."""
        self.found.notices.append(Notice(self.source, self.path, problem, hint))


V = TypeVar("V")
D = TypeVar("D", str, None)
Reader = Callable[[Place, object], V]
Readers = Mapping[str, Reader[object]]


def known_keys(place: Place, mapping: Iterable[object], known: Iterable[str]) -> None:
    """Note every key that is not in ``known``, with the nearest known one."""
    names = list(known)
    for key in mapping:
        if not isinstance(key, str):
            place.violation(f"has the key {shown(key)}, which is {described(key)}; a key is text")
        elif key not in names:
            belongs = "" if folded(key) in map(folded, names) else own_place(key, place.level, place.found)
            place.at(key).violation(UNKNOWN_FIELD, belongs or near_name(key, names))


def own_place(key: str, level: str, found: Found) -> str:
    """Return the hint with the right level of a misplaced key, empty if no level has it.

    Mappings below come first, then one around it, such as an interface around ``vf_settings``, then any other.
    """
    levels = [other for other, has in found.keys.items() if other != level and has(key)]
    below = [other[len(level) :].strip(".[]") for other in levels if other.startswith((f"{level}.", f"{level}["))]
    if below:
        return f"belongs under {' or '.join(below)}"
    for variable in found.variables:
        if variable in (key, f"{PREFIX}{key}"):
            return f"is a variable of its own: {variable}"
    around = [other for other in levels if level.startswith(f"{other}.")]
    if around:
        inner = level[len(max(around, key=len)) :].strip(".").partition(".")[0]
        return f"belongs beside {inner.strip('[]')}, not under it"
    return f"belongs in {' or '.join(levels[:_MAX_PLACES])}" if levels else ""


def near_name(name: str, known: Iterable[str]) -> str:
    """Return the hint for an unknown name: the nearest known one, or all of them.

    Names with the same words are nearer than those with similar letters: ``mac_address`` means ``mac``, ``numVfs``
    ``vfs``.
    """
    names, words = list(known), _words(name)
    same = [other for other in names if words <= _words(other) or _words(other) <= words]
    if same:
        return f"did you mean {max(same, key=lambda other: (len(words & _words(other)), -len(_words(other))))}?"
    return nearest(name, names, _NEAR) or f"known: {', '.join(names)}"


def _words(name: str) -> set[str]:
    return {word.rstrip("s") for word in folded(re.sub("(?<=[a-z])(?=[A-Z])", "_", name)).split("_")}


def text_of(place: Place, value: object, what: str, check: Check | None = None, *, lower: bool = False) -> str | None:
    """Return text that passes ``check``; ``None`` after noting a violation."""
    if not isinstance(value, str):
        place.violation(mismatch(value, what), _quoting_hint(value))
        return None
    text = value.lower() if lower else str(value)
    problem = check(text) if check else ("" if text else "is empty")
    if problem:
        place.violation(f"{shown(text)} {problem}")
        return None
    return text


def mapping_in(place: Place, value: object, what: str) -> Mapping[object, object] | None:
    """Return a mapping with keys of any type; ``None`` after noting a violation."""
    if isinstance(value, Mapping):
        return value
    place.violation(mismatch(value, f"a mapping of {what}"))
    return None


def mapping_of(place: Place, value: object, what: str) -> dict[str, object]:
    """Return the members of a mapping with text keys, empty if not set; anything else is noted."""
    given = None if value is None else mapping_in(place, value, what)
    if given is None:
        return {}
    for key in given:
        if not isinstance(key, str):
            place.violation(f"has the key {shown(key)}, which is {described(key)}; a key is text")
    return {str(key): item for key, item in given.items() if isinstance(key, str)}


def _quoting_hint(value: object) -> str:
    if isinstance(value, bool):
        return f'quote it: "{str(value).lower()}"'
    if isinstance(value, (int, float)):
        return "quote it: YAML reads digits and colons without quotes as a number"
    return ""


def record_of(place: Place, value: object, what: str, readers: Readers) -> dict[str, object]:
    """Return the result of each reader for its member of a mapping, or for ``None`` if not set.

    Other keys, and values that are not mappings, are noted.
    """
    given = mapping_of(place, value, what)
    known_keys(place, given, readers)
    return {key: read(place.at(key), given.get(key)) for key, read in readers.items()}


def record_in(place: Place, value: object, readers: Readers) -> dict[str, object] | None:
    """Return the same; ``None`` if not set, and after noting a value that is not a mapping."""
    given = None if value is None else mapping_in(place, value, ", ".join(readers))
    return None if given is None else record_of(place, given, "", readers)


def list_of(place: Place, value: object, what: str) -> list[object]:
    """Return a list, empty if not set; anything else is noted."""
    if value is None:
        return []
    if not isinstance(value, list):
        place.violation(mismatch(value, f"a list of {what}"))
        return []
    return list(value)


def switch_of(place: Place, value: object) -> bool | None:
    """Return a boolean; ``None`` if not set, and after noting anything else."""
    if value is None or isinstance(value, bool):
        return value
    place.violation(mismatch(value, "true or false"))
    return None


def whole_number(place: Place, value: object, check: Callable[[int], str]) -> int | None:
    """Return a number that passes ``check``; ``None`` after noting a violation."""
    if isinstance(value, bool) or not isinstance(value, int):
        place.violation(mismatch(value, "a whole number"), hint_of_digits(value, variable=True))
        return None
    problem = check(value)
    if problem:
        place.violation(f"{value} {problem}")
        return None
    return int(value)


def texts_in(
    place: Place, value: object, what: str, of_one: str, check: Check, *, lower: bool = False
) -> list[tuple[Place, str]]:
    """Return the members of a list that are text and pass ``check``, each with its place; violations are noted."""
    places = [(place.at(index), item) for index, item in enumerate(list_of(place, value, what))]
    read = [(here, text_of(here, item, of_one, check, lower=lower)) for here, item in places]
    return [(here, text) for here, text in read if text is not None]


def optional_text(what: str, check: Check | None = None) -> Reader[str | None]:
    """Return a reader of optional text."""
    return lambda place, value: None if value is None else text_of(place, value, what, check)


def optional_number(check: Bounds) -> Reader[int | None]:
    """Return a reader of an optional whole number."""
    return lambda place, value: None if value is None else whole_number(place, value, check)


def one_of(choices: Collection[str], default: D) -> Reader[str | D]:
    """Return a reader of one of ``choices``; its result is ``default`` if not set, and after noting anything else."""

    def read(place: Place, value: object) -> str | D:
        if isinstance(value, str) and value in choices:
            return value
        if value is not None:
            hint = near_name(value, choices) if isinstance(value, str) else ""
            place.violation(mismatch(value, any_of(choices)), hint)
        return default

    return read


def flag(default: bool = False) -> Reader[bool]:
    """Return a reader of a boolean; its result is ``default`` if not set, and after noting anything else."""

    def read(place: Place, value: object) -> bool:
        given = switch_of(place, value)
        return default if given is None else given

    return read


def matching(pattern: Pattern[str], otherwise: str) -> Check:
    """Return a check that text matches a pattern completely, with the problem of any other."""
    return lambda given: "" if pattern.fullmatch(given) else otherwise


def within(least: int, most: int, below: str, above: str) -> Bounds:
    """Return a check of a number from ``least`` to ``most``, with the problems of lower and of higher ones."""
    return lambda given: below if given < least else above if given > most else ""
