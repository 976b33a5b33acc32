# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes out of a source of this collection what only its readers need: comments and docstrings.

A host gets the code without them. Lines keep their numbers, so that a traceback of the host is one of the sources.
"""

from __future__ import annotations

import re

# A docstring begins a line and ends one. That no other text of this collection does is tested with all its sources.
_TOKENS = re.compile(
    r"""
    ^(?P<indent>[ \t]*) r?(?P<docstring>\"\"\"(?:[^"\\]|\\.|"(?!""))*\"\"\") (?=[ \t]*$)
    | \"\"\"(?:[^"\\]|\\.|"(?!""))*\"\"\" | '''(?:[^'\\]|\\.|'(?!''))*'''
    | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'
    | (?P<comment>[ \t]*\#[^\n]*)
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)


def bare_source(source: str) -> str:
    """Return the source without comments and with empty docstrings; a bare source stays as it is.

    A source begins with its licence, which is a comment: one that does not is bare, as all are on a host.
    """
    return _TOKENS.sub(_without, source) if source.startswith("#") else source


def _without(token: re.Match[str]) -> str:
    if token["docstring"] is not None:
        return token["indent"] + '""' + "\n" * token["docstring"].count("\n")
    return "" if token["comment"] is not None else token[0]
