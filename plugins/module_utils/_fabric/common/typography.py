# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What web pages and word processors make of a text that is pasted from them."""

from __future__ import annotations

import re
from typing import NamedTuple

# White space of Unicode that neither YAML nor JSON takes between tokens, and characters of no width.
_BLANKS = "\u00a0\u2002\u2003\u2007\u2009\u202f\u3000"
_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"
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
    }
)
_TYPESET = re.compile(f"[{_BLANKS}{_INVISIBLE}{_DOUBLE}{_SINGLE}{_DASHES}]")
_BETWEEN_TOKENS = re.compile(
    rf"""(?P<kept>"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|(?<=\w)[{_BLANKS}](?=\w))|[{_BLANKS}{_INVISIBLE}]+""",
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


def begins_typeset(text: str) -> str:
    """Return what a word begins with where a quote or a hyphen belongs, as ``a typographic quote``; else nothing."""
    if text[:1] in (*_DOUBLE, *_SINGLE):
        return f"a typographic quote ({text[0]})"
    return f"a dash ({text[0]}) that is no hyphen" if text[:1] in (*_DASHES,) else ""


def repaired(line: str) -> str:
    """Return how to write a line with typographic characters, nothing where it has none."""
    if not _TYPESET.search(line):
        return ""
    plain = line.translate(_PLAIN).strip()
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
