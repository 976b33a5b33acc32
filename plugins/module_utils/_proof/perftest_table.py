# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of perftest: which columns a header names, which numbers a line holds, in which unit. Pure.

perftest counts in 2^20 bytes where it prints MB/sec (up to 24.04) or MiB/sec (from 24.07), and in 10^9 bits with
--report_gbits. Each row also has the rate of messages, which has no such choice: size times rate tells the unit where
the text does not, and shows a row whose numbers do not belong together.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Dict, NamedTuple, Pattern, Sequence, Tuple

from .output_text import measure, whole_number

Row = Dict[str, Any]

GBPS = "Gb/s"
MIBPS = "MiB/s"
GIGABITS_PER: dict[str, float] = {GBPS: 1.0, MIBPS: 8 * 2**20 / 1e9}

_UNIT = re.compile(r"BW (?:peak|average)\[(\w{2,3})/sec\]")
_UNIT_NAMES = {"Gb": GBPS, "MiB": MIBPS, "MB": MIBPS}
# Printed column -> key of the raw row; the order of the alternatives matters, longer names first.
_COLUMNS = {
    "#bytes": "bytes",
    "#sl": "service_level",
    "#iterations": "iterations",
    "BW peak": "peak",
    "BW average": "average",
    "MsgRate Port1": "rate1",
    "MsgRate Port2": "rate2",
    "MsgRate": "rate",
    "BW Port1": "average1",
    "BW Port2": "average2",
    "CPU_Util": "cpu_percent",
    "t_min": "min_us",
    "t_max": "max_us",
    "t_typical": "typical_us",
    "t_avg": "average_us",
    "t_stdev": "stdev_us",
    "99.9% percentile": "p999_us",
    "99% percentile": "p99_us",
    "tps average": "transactions_per_second",
}
_COLUMN = re.compile("|".join(re.escape(name) for name in _COLUMNS))
_COUNTS = frozenset(("bytes", "service_level", "iterations"))
_COUNT_TEXT = r"(\d{1,18})"
_MEASURE_TEXT = r"([+-]?(?:\d{1,18}\.\d{1,9}|nan|inf))"
LATENCY_KEYS = ("min_us", "max_us", "typical_us", "average_us", "stdev_us", "p99_us", "p999_us")

Columns = Tuple[str, ...]
_BANDWIDTH: Columns = ("bytes", "iterations", "peak", "average", "rate")
_LATENCY: Columns = ("bytes", "iterations", *LATENCY_KEYS)
# Tables without a header, by their number of columns.
_HEADERLESS: dict[int, Columns] = {
    4: ("bytes", "iterations", "average_us", "transactions_per_second"),
    5: _BANDWIDTH,
    6: (*_BANDWIDTH, "cpu_percent"),
    9: _LATENCY,
    10: (*_LATENCY, "cpu_percent"),
}
_HEADERLESS_ROW = re.compile(
    rf"^\s{{0,16}}\d{{1,18}}[ \t]{{1,40}}\d{{1,18}}((?:[ \t]{{1,60}}{_MEASURE_TEXT}){{2,8}})\s{{0,80}}$", re.ASCII
)
# The rate is printed with six decimals and the bandwidth with two; beyond that a factor of 2.5 is no matter of
# rounding.
_RATE_STEP = 1e-6
_BANDWIDTH_STEP = 0.01
_TOLERANCE = 2.5


class Header(NamedTuple):
    """The columns of a table in order, and the unit of its bandwidth where it says so."""

    columns: Columns
    unit: str | None


def header_in(line: str) -> Header | None:
    """Return the header that a line is, None when it is none or is cut off before what a result needs."""
    if "#bytes" not in line:
        return None
    columns = tuple(_COLUMNS[name] for name in _COLUMN.findall(line[line.index("#bytes") :]))
    complete = {"bytes", "iterations"} < set(columns) and (
        {"average", "rate"} < set(columns) or "average_us" in columns
    )
    if not complete or len(set(columns)) != len(columns):
        return None
    unit = _UNIT.search(line)
    return Header(columns, _UNIT_NAMES.get(unit[1]) if unit else None)


def raw_row(line: str, columns: Columns) -> dict[str, str] | None:
    """Return the words of a row by column, wherever in the line they stand."""
    found = _row_pattern(columns).search(line)
    return dict(zip(columns, found.groups())) if found else None


def headerless_row(line: str) -> dict[str, str] | None:
    """Return the words of a line that looks like a row of a table whose header is lost."""
    if not _HEADERLESS_ROW.match(line):
        return None
    words = line.split()
    columns = _HEADERLESS.get(len(words))
    return dict(zip(columns, words)) if columns else None


def is_latency(raw: dict[str, str]) -> bool:
    """Return whether a raw row is of a latency test."""
    return "average_us" in raw


def latency_row(raw: dict[str, Any]) -> Row | None:
    """Return a row of a latency table in microseconds, None when a number is no measure or nothing was measured."""
    row = _counts(raw)
    keys = [key for key in (*LATENCY_KEYS, "transactions_per_second", "cpu_percent") if key in raw]
    values = [measure(raw[key]) for key in keys]
    if row is None or None in values or "average_us" not in keys:
        return None
    row.update(zip(keys, values))
    return row


def bandwidth_row(raw: dict[str, Any], unit: str) -> Row | None:
    """Return a row of a bandwidth table in Gb/s and million messages a second, None when a number makes no sense.

    A peak of zero is one that was not measured and becomes None.
    """
    row = _counts(raw)
    keys = [key for key in ("peak", "average", "rate", "cpu_percent") if key in raw]
    values = {key: measure(raw[key]) for key in keys}
    if row is None or None in values.values() or "average" not in values:
        return None
    factor = GIGABITS_PER[unit]
    row["peak_gbps"] = _scaled(values.get("peak") or None, factor)
    row["average_gbps"] = _scaled(values["average"], factor)
    row["msg_rate_mpps"] = values.get("rate")
    if "cpu_percent" in values:
        row["cpu_percent"] = values["cpu_percent"]
    if "service_level" in raw:
        row["service_level"] = whole_number(raw["service_level"])
    if "average1" in raw:
        row["ports"] = [_port(raw, number, factor) for number in ("1", "2")]
    return row


def units_of(raw: dict[str, Any]) -> list[str]:
    """Return the units in which a row's bandwidth agrees with its size and rate of messages; none: it is no real
    row."""
    size, average, rate = whole_number(raw.get("bytes")), measure(raw.get("average")), measure(raw.get("rate"))
    if size is None or average is None or rate is None:
        return []
    gigabits = size * 8 / 1000
    low, high = max(0.0, rate - _RATE_STEP) * gigabits, (rate + _RATE_STEP) * gigabits
    return [
        unit
        for unit, factor in GIGABITS_PER.items()
        if (average + _BANDWIDTH_STEP) * factor * _TOLERANCE >= low
        and max(0.0, average - _BANDWIDTH_STEP) * factor <= high * _TOLERANCE
    ]


def agreed_unit(rows: Sequence[dict[str, Any]]) -> str | None:
    """Return the only unit in which every row agrees with its own rate of messages, None when that is not told."""
    possible = set(GIGABITS_PER)
    for raw in rows:
        possible &= set(units_of(raw))
    return possible.pop() if rows and len(possible) == 1 else None


@lru_cache(maxsize=32)
def _row_pattern(columns: Columns) -> Pattern[str]:
    words = [_COUNT_TEXT if column in _COUNTS else _MEASURE_TEXT for column in columns]
    return re.compile(r"(?<![\w.:+-])" + r"[ \t]{1,60}".join(words) + r"(?![\d.])", re.ASCII)


def _counts(raw: dict[str, Any]) -> Row | None:
    size, iterations = whole_number(raw.get("bytes")), whole_number(raw.get("iterations"))
    return {"bytes": size, "iterations": iterations} if size is not None and iterations else None


def _port(raw: dict[str, Any], number: str, factor: float) -> Row:
    return {
        "average_gbps": _scaled(measure(raw[f"average{number}"]), factor),
        "msg_rate_mpps": measure(raw[f"rate{number}"]),
    }


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value if factor == 1.0 else round(value * factor, 6)
