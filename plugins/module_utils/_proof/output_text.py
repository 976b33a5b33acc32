# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of a program's output as they were before a terminal, kubectl or mpirun added to them. Pure.

The parsers of test programs share this. Everything here takes time in proportion to the text, whatever the text is.
"""

from __future__ import annotations

import math
import re
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation, one_line

MOST_CHARACTERS = 32 * 1024 * 1024
"""A longer text is refused: no run of a test program prints that much."""
MOST_LINE_CHARACTERS = 2000
MOST_QUOTED_CHARACTERS = 160
MOST_DIGITS = 18

_COUNT = re.compile(rf"\d{{1,{MOST_DIGITS}}}", re.ASCII)
_ESCAPE = re.compile(r"\x1b\[[0-9;?]{0,32}[ -/]{0,8}[@-~]")
_LINE_END = re.compile(r"\r\n|\r|\n")
# A row of a table, or a number of a report.
_MEASURED = re.compile(
    r'\s{0,40}(?:\d[\d.]{0,40}\s|"?[A-Za-z][\w .]{0,60}"?\s{0,4}:\s{0,4}[\d.]{0,40}\s{0,40}\Z)', re.ASCII
)
# Rates of messages, and rates alone, are printed with six decimals, which tell whether the last of them is whole.
_WHOLE = re.compile(r"\d\.\d{6}\s{0,40}\Z", re.ASCII)
# Control characters, and the blanks that web pages and chats put in the place of ordinary ones.
_CONTROLS = [code for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n\r"]
_BLANKS = [0xA0, *range(0x2000, 0x200C), 0x202F, 0x205F, 0x2060, 0x3000, 0xFEFF]
_UNPRINTABLE = dict.fromkeys([*_CONTROLS, *_BLANKS], " ")
# What kubectl logs (--prefix, --timestamps), mpirun --tag-output and srun --label put before a line, and NCCL before
# its warnings (NCCL_DEBUG_TIMESTAMP_LEVELS).
_PREFIX = re.compile(
    r"(?:\[pod/[^\]\s]{1,200}\]\s"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\s"
    r"|\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\]\s"
    r"|\[\d{1,6},\d{1,6}\]<std(?:out|err)>:\s?"
    r"|\s{0,8}\d{1,6}:\s){1,4}"
)


def output_lines(text: Any) -> list[str]:
    """Return the lines of an output that are not blank, without escapes, unprintable characters and log prefixes.

    A last line of numbers without an end is left out: its last number may be cut off, and would be another one.

    Raises InvalidInput when ``text`` is no text or longer than any output of a test.
    """
    if not isinstance(text, str):
        raise InvalidInput([Violation("output", "", f"{type(text).__name__} given, the program's text is needed")])
    if len(text) > MOST_CHARACTERS:
        problem = f"{len(text)} characters are not output of a test, {MOST_CHARACTERS} are read at most"
        raise InvalidInput([Violation("output", "", problem, "pass the output of one run")])
    plain = _ESCAPE.sub("", text).translate(_UNPRINTABLE)
    found = _LINE_END.split(plain)
    lines = [_without_prefix(line[:MOST_LINE_CHARACTERS]) for line in found if line and not line.isspace()]
    is_cut = bool(lines and found[-1] and _MEASURED.match(lines[-1]) and not _WHOLE.search(lines[-1]))
    return lines[:-1] if is_cut else lines


def quoted(line: str) -> str:
    """Return a line of an output as a message may have it: printable, one blank between words, of bounded length."""
    words = one_line(" ".join(line.split())[: MOST_QUOTED_CHARACTERS + 1])
    return words if len(words) <= MOST_QUOTED_CHARACTERS else words[: MOST_QUOTED_CHARACTERS - 3] + "..."


def whole_number(value: Any) -> int | None:
    """Return a JSON value or a printed word as a count, None where it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if 0 <= value < 10**MOST_DIGITS else None
    if isinstance(value, str) and _COUNT.fullmatch(value.strip()):
        return int(value)
    return None


def measure(value: Any) -> float | None:
    """Return a JSON value or a printed word as a measured quantity: finite and not negative, None otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str) and len(value) > 40:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and number >= 0 else None


def is_positive(value: Any) -> bool:
    """Return whether a value is a finite number above zero."""
    return not isinstance(value, bool) and isinstance(value, (int, float)) and math.isfinite(value) and value > 0


def _without_prefix(line: str) -> str:
    found = _PREFIX.match(line)
    return line[found.end() :] if found else line
