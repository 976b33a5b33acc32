# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON that people wrote, parsed so that its mistakes can be named."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from .typography import repaired

MAX_LENGTH = 1024 * 1024
"""Longest text that is looked at, in characters: a ConfigMap or an object in etcd holds no more."""

_MOST_DIGITS = 100
# What other languages have at the place of a mistake, and what to do about it.
_NO_COMMENTS = "JSON has no comments: take it out; "
_OF_OTHERS = {"'": "JSON has double quotes only; ", "#": _NO_COMMENTS, "/": _NO_COMMENTS}


class Problem(NamedTuple):
    """One thing that is wrong: ``path`` inside the text (``ipam.range``), what and why, and the next step.

    ``unmet``: of what is no more than noted, that no pod starts with it.
    """

    path: str
    problem: str
    hint: str = ""
    unmet: bool = False


class _Defect(ValueError):
    """Something that Python's decoder accepts and that must not reach a program: a repeated key, NaN, a huge number."""


def parse_json(text: str, *, listed: bool = False) -> tuple[Any, list[Problem]]:
    """Return (value, []) or (None, [problem]) of a JSON text; line and column count from 1 inside the text.

    ``listed``: the text holds the items of a list, separated by commas, without its brackets. Go's decoder refuses NaN,
    replaces half a character by another one and silently keeps the last of two equal keys; here all are problems, as
    are numbers that Python cannot hold.
    """
    if len(text) > MAX_LENGTH:
        return None, [Problem("", f"is {len(text)} characters long", f"at most {MAX_LENGTH} can be stored")]
    source, shift = (f"[{text}]", 1) if listed else (text, 0)
    try:
        value = json.loads(
            source, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite, parse_int=_counted
        )
    except json.JSONDecodeError as error:
        position = min(max(error.pos - shift, 0), len(text))
        line, column = text.count("\n", 0, position) + 1, position - (text.rfind("\n", 0, position) + 1) + 1
        problem = f"is not valid JSON: {error.msg} at line {line}, column {column}"
        return None, [Problem("", problem, _near(text, position))]
    except _Defect as error:
        return None, [Problem("", str(error))]
    except RecursionError:
        return None, [Problem("", "is not valid JSON: nested too deep")]
    halves = half_characters(value, text)
    return (None if halves else value), halves


def compact(value: Any) -> str:
    """Return JSON on one line, keys in their order, characters as they are."""
    return json.dumps(value, ensure_ascii=False)


def pretty(value: Any) -> str:
    """Return JSON over several lines with a final newline, keys in their order."""
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Defect(f'holds the key "{key}" twice in one object')
        found[key] = value
    return found


def _no_constant(name: str) -> None:
    raise _Defect(f"is not valid JSON: {name} is not a number")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise _Defect(f"is not valid JSON: {digits[:40]} is too large for a number")
    return number


def _counted(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise _Defect(f"is not valid JSON: a number of {len(digits)} digits is too large")
    return int(digits)


def half_characters(value: Any, text: str = "\\u") -> list[Problem]:
    """Return what is wrong with a value that holds half of a character, which no file and no request can.

    ``text`` is the JSON text of the value, if it has one: most show that there is none.
    """
    if text.isascii() and "\\u" not in text:
        return []
    try:
        json.dumps(value, ensure_ascii=False, default=str, skipkeys=True).encode()
    except UnicodeEncodeError:
        return [Problem("", "holds half of a character (\\ud800 to \\udfff)", "write the character itself")]
    return []


def _near(text: str, position: int) -> str:
    if position >= len(text.rstrip()):
        return "the text ends too early: a bracket or quote is not closed"
    after = text[position:].lstrip(", \t\r\n")
    if (text[position] == "," or text[:position].rstrip().endswith(",")) and after[:1] in ("}", "]"):
        return f"take out the comma before {after[0]}"
    line = text[:position].rsplit("\n", 1)[-1] + text[position:].split("\n", 1)[0]
    if repaired(line):
        return f"write: {repaired(line)[:60]}"
    step = _OF_OTHERS.get(text[position:][:1] or " ", "")
    return f"{step}near: {line.strip()[:60]}"
