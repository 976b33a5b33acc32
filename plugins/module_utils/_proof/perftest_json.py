# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report that perftest writes with --out_json, also where it is no JSON. Pure.

Up to January 2024 (4.5 and before) keys and words have no quotes and lists end with a comma; later versions still
leave a comma in the reports of --output=bandwidth and message_rate, and the key ``sl`` without quotes. All of them
write one key a line. With -a the file is written anew for every size, so it holds one row: the last.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, Sequence

_RESULT_KEYS = {
    "MsgSize": "bytes",
    "n_iterations": "iterations",
    "sl": "service_level",
    "BW_peak": "peak",
    "BW_average": "average",
    "MsgRate": "rate",
    "CPU_util": "cpu_percent",
    "t_min": "min_us",
    "t_max": "max_us",
    "t_typical": "typical_us",
    "t_avg": "average_us",
    "t_stdev": "stdev_us",
    "percentile_99": "p99_us",
    "percentile_99.9": "p999_us",
    "tps_average": "transactions_per_second",
    "bw_avg": "average",
    "msgRate_avg": "rate",
    "avg_lat": "average_us",
}
_ENTRY = re.compile(
    r'^\s{0,16}"?([A-Za-z][\w .]{0,60}?)"?\s{0,4}:\s{0,4}"?([^",{}]{1,200}?)"?\s{0,4},?\s{0,16}$', re.ASCII
)
_SECTION = re.compile(r'^\s{0,16}"?(test_info|results)"?\s{0,4}:\s{0,4}\{', re.ASCII)
# A report has some thirty lines; whatever lies beyond is not one.
_MOST_LINES = 200


class JsonReport(NamedTuple):
    """What a report says: ``info`` by the words perftest prints, ``row`` by the keys of raw rows.

    ``closed`` is false when the text ends before the report does, ``strict`` when it is no valid JSON. ``reports`` is
    the number of reports in the text: the last is the one read.
    """

    info: dict[str, Any]
    row: dict[str, Any]
    closed: bool
    strict: bool
    reports: int


def json_report(lines: Sequence[str]) -> JsonReport | None:
    """Return the last report in the lines of a text, None when there is none."""
    starts = [number for number, line in enumerate(lines) if _section_name(line) == "test_info"]
    if not starts:
        return None
    body = list(lines[starts[-1] : starts[-1] + _MOST_LINES])
    document = _strict(body)
    info, results, closed = document if document else _loose(body)
    return JsonReport(
        info={key.replace("_", " "): value for key, value in info.items()},
        row={_RESULT_KEYS[key]: value for key, value in results.items() if key in _RESULT_KEYS},
        closed=closed,
        strict=document is not None,
        reports=len(starts),
    )


def _section_name(line: str) -> str | None:
    if "test_info" not in line and "results" not in line:
        return None
    found = _SECTION.match(line.replace("{", "", 1) if line.lstrip().startswith("{") else line)
    return found[1] if found else None


def _strict(body: list[str]) -> tuple[dict[str, Any], dict[str, Any], bool] | None:
    text = "\n".join(body)
    text = text if text.lstrip().startswith("{") else "{" + text
    try:
        document, _end = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return None
    info, results = document.get("test_info"), document.get("results")
    if not isinstance(info, dict) or not isinstance(results, dict):
        return None
    return info, results, True


def _loose(body: list[str]) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """Read a report line by line; what is no ``key: value`` is passed over."""
    sections: dict[str, dict[str, Any]] = {"test_info": {}, "results": {}}
    current, closings = "test_info", 0
    for line in body:
        section = _section_name(line)
        if section:
            current = section
            continue
        if line.strip() in ("}", "},"):
            closings += 1
            if closings == len(sections) + 1:
                break
            continue
        entry = _ENTRY.match(line)
        if entry:
            sections[current][entry[1].strip()] = entry[2].strip()
    return sections["test_info"], sections["results"], closings > len(sections)
