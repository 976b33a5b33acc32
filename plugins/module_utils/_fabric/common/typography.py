# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What web pages and word processors make of a text that is pasted from them."""

from __future__ import annotations

import re
from html import unescape
from typing import NamedTuple, Sequence

# White space of Unicode that neither YAML nor JSON takes between tokens, and characters of no width.
_BLANKS = "\u00a0\u2002\u2003\u2007\u2009\u202f\u3000"
_INVISIBLE = "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
_DOUBLE = "\u201c\u201d\u201e\u201f\u00ab\u00bb"
_SINGLE = "\u2018\u2019\u201a\u201b"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_PLAIN = str.maketrans(
    {
        **dict.fromkeys(_BLANKS, " "),
        **dict.fromkeys(_INVISIBLE, ""),
        **dict.fromkeys(_DOUBLE, '"'),
        **dict.fromkeys(_SINGLE, "'"),
        **dict.fromkeys(_DASHES, "-"),
        "\uff1a": ":",
    }
)
_TYPESET = re.compile(f"[{_BLANKS}{_INVISIBLE}{_DOUBLE}{_SINGLE}{_DASHES}\uff1a]")
_BETWEEN_TOKENS = re.compile(
    rf"""(?P<kept>"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|(?<=\w)[{_BLANKS}](?=\w))|[{_BLANKS}{_INVISIBLE}]+""",
)
_ENTITY = re.compile(r"&(?:quot|apos|amp|lt|gt|nbsp|#\d+);", re.ASCII)
# What pages put before each line of a text.
_NUMBER = re.compile(r"\s*(\d{1,6})(?:[\s:|.)]|$)", re.ASCII)
_MARKS = (">", "+", "|")
_FEW_LINES = 2
_NO_BLANK = re.compile(r"\s*[\w.-]+:[^\s:]+$")
# Lines of pages, shells and mails that are no field, and what to do about each.
_STRAY = (
    (re.compile(r"\s*(?:```|~~~)"), "take out the fence of Markdown"),
    (re.compile(r"(?:.*[^<])?<<-?\s*[\"'\\]?\w"), "take out this command and the line that ends its text"),
    (re.compile(r"\s*(?:\$ |\[?[\w.-]+@\w)"), "take out this line of a shell"),
    (re.compile(r"\s*(?:[-_=*\u2014]{2,}|\u2014)\s*$"), "write --- at the left edge to begin another document"),
)
# A mapping or a block that begins at the left edge, and an item of a list.
_PARENT = re.compile(r"""["']?[\w./-]+["']?:\s*(?:[|>][-+]?\d?)?\s*(?:\#.*)?$""")


class Cleaned(NamedTuple):
    """A text without blanks that no parser takes, how many there were between tokens, and the line of the first."""

    text: str
    blanks: int
    line: int


def cleaned(text: str) -> Cleaned:
    """Take blanks of other kinds between tokens for plain ones, and drop characters of no width there."""
    matches = _BETWEEN_TOKENS.finditer(text) if _TYPESET.search(text) else ()
    found = [match for match in matches if match["kept"] is None]
    if not found:
        return Cleaned(text, 0, 0)
    plain = _BETWEEN_TOKENS.sub(lambda match: match["kept"] or match[0].translate(_PLAIN), text)
    return Cleaned(plain, sum(len(match[0]) for match in found), text.count("\n", 0, found[0].start()) + 1)


def hidden(text: str) -> list[int]:
    """Return the lines of a cleaned text with a character of no width, which stands inside quotes and may be meant."""
    return [number for number, line in enumerate(text.splitlines(), 1) if not set(_INVISIBLE).isdisjoint(line)]


def led_by(lines: Sequence[str]) -> str:
    """Return what a page or a mail has put before each line of a text, as ``its number``; else nothing."""
    filled = [line for line in lines if line.strip()]
    if len(filled) <= _FEW_LINES:
        return ""
    numbers = [int(match[1]) for match in map(_NUMBER.match, filled) if match]
    if numbers and numbers == list(range(numbers[0], numbers[0] + len(filled))):
        return "its number"
    return next((mark for mark in _MARKS if all(line.startswith(mark) for line in filled)), "")


def no_field(line: str, *, surely: bool) -> str:
    """Return what to do about a line that belongs to no document; ``surely``: whatever it looks like."""
    shown = line.strip()[:60]
    step = next((step for pattern, step in _STRAY if pattern.match(line)), "")
    if step or not surely or repaired(line):
        return f"{step}: {shown}" if step else ""
    if shown[:1] in ("{", "}", "[", "]", '"', "'"):
        return f"indent it further than the field whose text it is: {shown}"
    if _NO_BLANK.match(line):
        return f"put a blank after the colon: {shown}"
    return f"write a field (NAME: VALUE), or take the line out: {shown}"


def begins_typeset(text: str) -> str:
    """Return what a word begins with where a quote or a hyphen belongs, as ``a typographic quote``; else nothing."""
    if text[:1] in (*_DOUBLE, *_SINGLE):
        return f"a typographic quote ({text[0]})"
    return f"a dash ({text[0]}) that is no hyphen" if text[:1] in (*_DASHES,) else ""


def repaired(line: str) -> str:
    """Return how to write a line with typographic characters or entities of HTML, nothing where it has none."""
    if not _TYPESET.search(line) and not _ENTITY.search(line):
        return ""
    plain = unescape(line).translate(_PLAIN).strip()
    # Two hyphens that a word processor has joined: of an option no other is left.
    return re.sub(r"^- -(?=\w\w)", "- --", plain) if "\u2014" in line else plain


def lost_indentation(text: str) -> tuple[int, list[str]] | None:
    """Return the line of the first field with nothing below it, and all of them, where a text has no indentation left.

    One such field alone may be meant: it is empty then.
    """
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip() and line[0] != "#"]
    if any(line[0] in " \t" for _number, line in lines):
        return None
    childless = [
        (number, line.partition(":")[0])
        for (number, line), (_next, after) in zip(lines, lines[1:])
        if _PARENT.match(line) and not after.startswith("-")
    ]
    return (childless[0][0], [name for _number, name in childless]) if len(childless) > 1 else None
