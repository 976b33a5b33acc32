# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of NCCL tests (nccl-tests 2.0 to 2.19), printed or in JSON. Pure.

A printed row is size, count, type, then redop and root as far as the version and the collective print them, then two
groups of measures: out of place and in place. A group is time, algorithm bandwidth, bus bandwidth and wrong elements,
with -I four more columns. Up to 2.12 the last column was a deviation (``error``), not a count. Bandwidths are in GB/s.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Sequence

from .output_text import measure, whole_number

Row = Dict[str, Any]

_START = re.compile(
    r"(?<![\w.:+-])(\d{1,18})[ \t]{1,40}(\d{1,18})[ \t]{1,40}((?:u?int|half|float|double|bfloat|f8e|char|fp)\w{0,8})\s",
    re.ASCII,
)
_STAMP = re.compile(r"\s\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\s{0,40}$", re.ASCII)
# What a launcher puts before each part of a row that a rank wrote on its own: ``[0]``, ``[1,0]<stdout>:``.
_TAG = re.compile(r"\[\d{1,7}(?:,\d{1,7})?\](?:<std(?:out|err)>:?)?", re.ASCII)
_REDOP = re.compile(r"[A-Za-z]\w{0,15}", re.ASCII)
_GROUPS = (16, 8, 4)
_MOST_WORDS = 24


def is_row(line: str) -> bool:
    """Return whether a line begins like a row; it may be cut off all the same."""
    return not line.lstrip().startswith("#") and _START.search(line) is not None


def row_in(line: str, counts_wrong: bool) -> Row | None:
    """Return the row that a line holds, None when it is cut off or its measures are no numbers.

    ``counts_wrong`` says that the last column of a group counts wrong elements.
    """
    start = _START.search(line)
    if not start:
        return None
    words = _STAMP.sub("", _TAG.sub(" ", line[start.end() :])).split()[:_MOST_WORDS]
    meta = next((len(words) - group for group in _GROUPS if 0 <= len(words) - group <= 2), None)
    if meta is None:
        return None
    redop = next((word for word in words[:meta] if _REDOP.fullmatch(word)), None)
    groups = _groups(words[meta:])
    sides = [_side(group, counts_wrong) for group in groups]
    if None in sides:
        return None
    return {
        "bytes": int(start[1]),
        "count": int(start[2]),
        "type": start[3],
        "redop": None if redop == "none" else redop,
        "out_of_place": sides[0] if len(sides) == 2 else None,
        "in_place": sides[-1],
    }


def json_row(entry: Any) -> Row | None:
    """Return the row of one element of ``results``, None when it is none or holds no measure."""
    if not isinstance(entry, dict):
        return None
    size, count = whole_number(entry.get("size")), whole_number(entry.get("count"))
    sides = {key: _json_side(entry.get(key)) for key in ("out_of_place", "in_place")}
    if size is None or not any(sides.values()):
        return None
    redop = entry.get("redop")
    return {
        "bytes": size,
        "count": count,
        "type": str(entry.get("type"))[:16],
        "redop": None if redop in (None, "none") else str(redop)[:16],
        **sides,
    }


def json_documents(text: str) -> tuple[dict[str, Any] | None, list[Any]]:
    """Return the report in a text and, when it is cut off, the whole elements of its ``results``."""
    decoder = json.JSONDecoder()
    try:
        document, _end = decoder.raw_decode(text)
        return (document, []) if isinstance(document, dict) else (None, [])
    except (ValueError, RecursionError):
        pass
    key = re.search(r'"results"\s{0,8}:\s{0,8}\[\s{0,80}', text)
    elements: list[Any] = []
    place = key.end() if key else len(text)
    while place < len(text):
        try:
            element, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            break
        elements.append(element)
        gap = re.compile(r"\s{0,80},\s{0,80}").match(text, place)
        if not gap:
            break
        place = gap.end()
    return None, elements


def bus_bandwidth(row: Row) -> float:
    """Return the bus bandwidth of a row in GB/s: out of place where it was measured."""
    side = row["out_of_place"] or row["in_place"]
    value: float = side["busbw_gbytes"]
    return value


def wrong_elements(rows: Sequence[Row]) -> int | None:
    """Return how many elements were wrong, None when no row was checked."""
    counts = [side["wrong"] for row in rows for side in (row["out_of_place"], row["in_place"]) if side]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _groups(words: Sequence[str]) -> list[Sequence[str]]:
    if len(words) == _GROUPS[-1]:
        return [words]
    half = len(words) // 2
    return [words[:half], words[half:]]


def _side(words: Sequence[str], counts_wrong: bool) -> dict[str, Any] | None:
    values = [measure(word) for word in words[:3]]
    if None in values:
        return None
    wrong = words[3]
    count = None if wrong.upper() == "N/A" else measure(wrong)
    if count is None and wrong.upper() != "N/A":
        return None
    return {
        "time_us": values[0],
        "algbw_gbytes": values[1],
        "busbw_gbytes": values[2],
        "wrong": int(count) if counts_wrong and count is not None else None,
    }


def _json_side(entry: Any) -> dict[str, Any] | None:
    if not isinstance(entry, dict):
        return None
    values = [measure(entry.get(key)) for key in ("time", "alg_bw", "bus_bw")]
    if values[0] is None:
        values[0] = measure(entry.get("cpu_time"))
    wrong = measure(entry.get("nwrong"))
    if None in values:
        return None
    return {
        "time_us": values[0],
        "algbw_gbytes": values[1],
        "busbw_gbytes": values[2],
        "wrong": None if wrong is None else int(wrong),
    }
