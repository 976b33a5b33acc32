# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with an input, said so that its author can fix it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Iterable, Mapping, Sequence, TypeVar

_OF_HOST = re.compile(r"host (.+?): (.+)", re.DOTALL)
_DIGITS = re.compile(r"-?[0-9]{1,20}")
_MAX_NAMED = 3
_MAX_TOLD = 100
# Of each part of a finding. Lists of known names come near it; a value of a file can have a megabyte.
_MOST_CHARACTERS = 1000
_LONGEST_SHOWN = 60
_MOST_WITH_OR = 2
UNKNOWN_FIELD = "unknown field"
"""The problem of a key that nothing reads; its path says where it stands."""
_TYPE_NAMES = {bool: "true or false", int: "a number", float: "a number", str: "text", type(None): "nothing"}
_Remark = TypeVar("_Remark", bound="Finding")


@dataclass(frozen=True)
class Finding:
    """One remark about one place of an input.

    ``source`` is the file, variable or host variable as its author knows it, ``line`` counts from 1 where the source
    has lines, ``path`` leads to the value (``spec.ofedDriver.version``, ``configList[0].resourceName``; empty for the
    whole source), ``problem`` says what is there and why that matters, ``hint`` names the next step or the nearest
    known name.
    """

    source: str
    path: str
    problem: str
    hint: str = ""
    line: int | None = None

    def place(self) -> str:
        """Return ``source:line: path`` with the parts that are known."""
        source = _told(self.source)
        where = source if self.line is None else f"{source}:{self.line}"
        return f"{where}: {_told(self.path)}" if self.path else where

    def sentence(self) -> str:
        """Return the finding as one line for a person."""
        text = f"{self.place()}: {_told(self.problem)}"
        return f"{text} ({_told(self.hint)})" if self.hint else text

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as plain data for results and reports."""
        return {
            "source": _told(self.source),
            "line": self.line,
            "path": _told(self.path),
            "problem": _told(self.problem),
            "hint": _told(self.hint),
        }


class Violation(Finding):
    """A finding that forbids the run: nothing is touched while one is open."""


class Notice(Finding):
    """A finding that is only said: a retired field that was translated, a value that deserves a look."""


class Unmet(Notice):
    """A notice of what certainly keeps pods from starting: a run may go on, and does not lead to the next by itself."""


class InvalidInput(Exception):
    """An input that breaks at least one rule; it carries every violation found, not only the first.

    What is wrong with several hosts in the same way, as with a line of group_vars, is one violation.
    """

    def __init__(self, violations: Iterable[Violation]) -> None:
        found = sorted(violations, key=lambda v: (v.source, v.line or 0, v.path, v.problem))
        self.violations: list[Violation] = together(found)
        super().__init__(report(self.violations))


def report(findings: Iterable[Finding]) -> str:
    """Return findings as text, one per line, under a line that counts them; those beyond a hundred are only counted.

    Each host of thousands may have a problem in words of its own.
    """
    lines = [f"  - {finding.sentence()}" for finding in findings]
    noun = "problem" if len(lines) == 1 else "problems"
    rest = len(lines) - _MAX_TOLD
    more = [f"  - and {rest} more, among the violations of the result"] if rest > 0 else []
    return "\n".join([f"{len(lines)} {noun} in the input; nothing was changed:", *lines[:_MAX_TOLD], *more])


def together(findings: Iterable[_Remark]) -> list[_Remark]:
    """Return the findings: those of a source in a row, by line, and those that hosts share as one that names them.

    The source of a finding about a host is ``host NAME: VARIABLE``, of one about several ``hosts NAMES: VARIABLE``.
    """
    by_source: dict[str, list[_Remark]] = {}
    for finding in findings:
        by_source.setdefault(finding.source, []).append(finding)
    groups: dict[tuple[Any, ...], list[_Remark]] = {}
    in_order = (each for found in by_source.values() for each in sorted(found, key=lambda one: one.line or 0))
    for number, finding in enumerate(in_order):
        match = _OF_HOST.fullmatch(finding.source)
        what = (match[2], finding.path, finding.problem, finding.hint) if match else (number,)
        groups.setdefault(what, []).append(finding)
    return [group[0] if len(group) == 1 else _of_hosts(group) for group in groups.values()]


def _of_hosts(group: list[_Remark]) -> _Remark:
    matches = [match for match in (_OF_HOST.fullmatch(finding.source) for finding in group) if match]
    hosts = list(dict.fromkeys(match[1] for match in matches))
    if len(hosts) == 1:
        return group[0]
    return replace(group[0], source=f"hosts {named(hosts)}: {matches[0][2]}")


def hint_of_digits(value: object, *, variable: bool) -> str:
    """Return how a whole number is given that is text, "" for any other value.

    ``variable``: it may come from a template, which is always text before ansible-core 2.19, but for the literals of
    lists, mappings and booleans, and for a variable alone (``Templar.template``).
    """
    if not isinstance(value, str) or not _DIGITS.fullmatch(value.strip()):
        return ""
    of_templates = "; a template gives text before ansible-core 2.19, unless ansible.cfg has jinja2_native = true"
    return f"without quotes: {value.strip()}{of_templates if variable else ''}"


def shown(value: object) -> str:
    """Return a value as it can stand in a message: on one line, quoted if it is text, not too long."""
    plain = str(value).lower() if isinstance(value, bool) else str(value)
    text = one_line(f'"{value}"' if isinstance(value, str) else plain)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


def type_name(value: object) -> str:
    """Return what a value is, in words."""
    if isinstance(value, Mapping):
        return "a mapping"
    return "a list" if isinstance(value, (list, tuple)) else _TYPE_NAMES.get(type(value), type(value).__name__)


def described(value: object) -> str:
    """Return what a value is and, for a scalar, which: ``the number 11.0``, ``the text "x"``, ``a list``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"the number {shown(value)}"
    return f"the text {shown(value)}" if isinstance(value, str) else type_name(value)


def mismatch(value: object, wanted: str) -> str:
    """Return the problem of a value that is not what is wanted: ``is the text "x", not a whole number``."""
    return f"is {described(value)}, not {wanted}"


def any_of(choices: Iterable[str]) -> str:
    """Return what is wanted where one of some words is: ``a or b``, ``one of a, b, c``."""
    words = [choice for choice in choices if choice]
    return f"one of {', '.join(words)}" if len(words) > _MOST_WITH_OR else " or ".join(words)


def nearest(name: str, known: Iterable[str], share: float = 0.7) -> str:
    """Return ``did you mean X?`` with the nearest known name, empty if none has this share of the letters."""
    # Only needed for a misspelt name; on a host each import costs time.
    import difflib  # noqa: PLC0415

    names = {folded(other): other for other in known}
    found = difflib.get_close_matches(folded(name), list(names), n=1, cutoff=share)
    return f"did you mean {names[found[0]]}?" if found else ""


def folded(name: str) -> str:
    """Return a name as it is compared with others."""
    return name.lower().replace("-", "_")


def named(names: Sequence[str], most: int = _MAX_NAMED) -> str:
    """Return names, such as those of hosts, as a person says them: at most so many, and how many there are beside."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def one_line(text: str) -> str:
    """Return ``text`` with unprintable characters (line ends, escapes, direction marks, half surrogates) escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shortened(text: str) -> str:
    """Return text of a length that a message can have; a longer one ends in three dots.

    Its end goes and not its middle: what is hidden of a value is found by how it begins.
    """
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."


def _told(text: str) -> str:
    return shortened(one_line(text))
