# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an output of perftest (ib_write_bw, ib_read_lat, ...) says, as plain data. Pure.

It reads the tables of perftest 4.4 to 26.04, its JSON reports and its bare numbers (--output), and says what is
missing or wrong in a text instead of failing on it.
"""

from __future__ import annotations

import json
import re
from statistics import median
from typing import Any, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation

from . import perftest_table as table
from .output_text import measure, output_lines, quoted, whole_number
from .perftest_json import JsonReport, json_report
from .perftest_messages import notices_in, problems_in
from .problem import Problem, problem_of

UNITS = ("auto", "gbps", "mibps", "usec")
LARGE_MESSAGE = 64 * 1024
"""Bytes from which on a message shows the rate of the link, not of the sender's processor."""

_MOST_ROWS = 1000
_TABLE_UNITS = {"gbps": table.GBPS, "mibps": table.MIBPS}
_TITLE = re.compile(
    r"(RDMA_Write|RDMA_Read|Send|Atomic)(?:_imm)?[ _](?:CMP_AND_SWAP[ _]|FETCH_AND_ADD[ _])?(Bidirectional[ _])?"
    r"(?:Post[ _]List[ _])?(BW|Latency)[ _](?:forwarding[ _])?(?:Multicast[ _])?Test"
)
_PROGRAMS = {"RDMA_Write": "ib_write", "RDMA_Read": "ib_read", "Send": "ib_send", "Atomic": "ib_atomic"}
_INFO_KEYS = {
    "Device": "device",
    "Number of qps": "qps",
    "Transport type": "transport",
    "Connection type": "connection",
    "Mtu": "mtu",
    "Link type": "link_type",
    "GID index": "gid_index",
    "rdma cm QPs": "rdma_cm",
    "TOS": "tos",
    "Version": "version",
}
_INFO = re.compile(
    r"(?<![\w.])(Device|Number of qps|Transport type|Connection type|Mtu|Link type|GID index|rdma_cm QPs|TOS|Version)"
    r"\s{0,16}:\s{0,8}([\w.-]{1,64})",
    re.ASCII,
)
# Of these only the client prints a result.
_ONE_SIDED = ("ib_read_lat", "ib_atomic_lat")
_COUNTED = frozenset(("qps", "mtu", "gid_index", "tos"))
_LINK_TYPES = {"IB": "InfiniBand"}
_GPU_MEMORY = re.compile(
    r"CUDA device \d{1,4}: PCIe|cuMemAlloc\(\) of|allocated GPU buffer|using DMA-BUF for GPU"
    r"|Picking GPU number"
)
# Every GPU that this side sees, then the one that it takes (src/cuda_memory.c of perftest).
_GPU_LISTED = re.compile(r"CUDA device (\d{1,4}): PCIe address is ([0-9A-F]{2}):([0-9A-F]{2})\b")
_GPU_TAKEN = re.compile(r"Picking (?:device No\.|GPU number) (\d{1,4})\b", re.ASCII)
_DASHES = re.compile(r"-{20}")
_BARE_NUMBER = re.compile(r"\s{0,16}\d{1,12}\.\d{6}\s{0,16}", re.ASCII)
_SECTION = re.compile(r"(Local|Remote) results:\s{0,40}$")


def perftest_result(output: Any, unit: str = "auto") -> dict[str, Any]:
    """Return what an output of perftest says.

    ``output`` is the text of one run of one side (or its JSON report, as text or as a mapping); ``unit`` (one of UNITS)
    is the unit of numbers where neither the text nor the rate of messages tells it. The result is documented with the
    filter of the same name. Raises InvalidInput for what is no text.
    """
    if unit not in UNITS:
        raise InvalidInput([Violation("unit", "", f"{unit!r} is not a unit", f"one of {', '.join(UNITS)}")])
    lines = output_lines(json.dumps(output, indent=0) if isinstance(output, dict) else output)
    last, runs, rows = _last_run(lines)
    problems, ended = problems_in(lines)
    report = None if rows else json_report(lines)
    if report:
        run, count = _run_of(report), report.reports
    else:
        run, count = last, runs
        if not run.rows:
            run.take_bare_numbers(lines)
    run.settle(unit)
    if count > 1:
        cause = "the text holds the outputs of several runs or of both sides; the last is the one read"
        problems.append(problem_of(f"{count} outputs in one text", cause, "pass the output of each run on its own"))
    if not run.result_rows and not problems:
        problems.append(_why_empty(run, lines))
    problems += run.problems
    return {
        "test": run.program(),
        "kind": run.kind,
        "bidirectional": run.bidirectional,
        **{key: run.info.get(key) for key in _INFO_KEYS.values()},
        "cuda": run.cuda,
        "gpu": _gpu(lines),
        "unit": run.unit,
        "source": run.source if run.result_rows else None,
        "rows": run.result_rows,
        "directions": run.directions,
        "summary": _summary(run.kind, run.result_rows),
        "complete": bool(run.result_rows) and count == 1 and not run.damaged and not ended,
        "problems": problems,
        "notices": notices_in(lines) + run.notices,
    }


def _gpu(lines: Sequence[str]) -> str | None:
    """Return PCIe bus and device (``1b:00``) of the GPU that this side has taken; the output has no domain."""
    listed: dict[str, str] = {}
    taken = "0"
    for line in lines:
        if "CUDA" in line or "Picking" in line:
            found, choice = _GPU_LISTED.search(line), _GPU_TAKEN.search(line)
            if found:
                listed[found[1]] = f"{found[2]}:{found[3]}".lower()
            taken = choice[1] if choice else taken
    return listed.get(taken)


class _Run:
    """One run while its lines are read."""

    def __init__(self) -> None:
        self.verb: str | None = None
        self.measures: str | None = None
        self.bidirectional = False
        self.info: dict[str, Any] = {}
        self.cuda = False
        self.header: table.Header | None = None
        self.section: str | None = None
        self.rows: list[tuple[dict[str, Any], str]] = []
        self.section_rows: dict[str, list[tuple[dict[str, Any], str]]] = {}
        self.ended_table = False
        self.has_dashes = False
        self.too_many = False
        self.source = "table"
        self.problems: list[Problem] = []
        self.notices: list[str] = []
        self.damaged = False
        self.unit: str | None = None
        self.kind: str | None = None
        self.result_rows: list[table.Row] = []
        self.directions: dict[str, list[table.Row]] | None = None

    @property
    def closed(self) -> bool:
        """Whether the table ended; a text without any line of dashes lost them when it was copied."""
        return self.ended_table or (self.header is not None and not self.has_dashes)

    def program(self) -> str | None:
        if not self.verb:
            return None
        return _PROGRAMS[self.verb] + ("_bw" if self.measures == "BW" else "_lat")

    def take_title(self, title: Any) -> None:
        self.verb, self.bidirectional, self.measures = title[1], bool(title[2]), title[3]

    def take_info(self, name: str, value: Any) -> None:
        key = _INFO_KEYS.get(name.replace("_", " "))
        if key is None or isinstance(value, (dict, list)):
            return
        if key in _COUNTED:
            number = whole_number(value)
            if number is not None:
                self.info[key] = number
        elif key == "rdma_cm":
            self.info[key] = value == "ON"
        else:
            text = quoted(str(value))
            self.info[key] = _LINK_TYPES.get(text, text) if key == "link_type" else text

    def take_row(self, raw: dict[str, Any], line: str) -> None:
        rows = self.section_rows.setdefault(self.section, []) if self.section else self.rows
        if len(rows) < _MOST_ROWS:
            rows.append((raw, line))
        else:
            self.too_many = True

    def take_bare_numbers(self, lines: Sequence[str]) -> None:
        """Take the numbers of --output=bandwidth or latency, the only thing such an output holds."""
        numbers = [line for line in lines if _BARE_NUMBER.fullmatch(line)]
        if numbers and len(numbers) <= _MOST_ROWS:
            self.source = "number"
            self.rows = [({"number": line.strip()}, line) for line in numbers]
            self.ended_table = True

    def settle(self, unit: str) -> None:
        """Turn the raw rows into results, and say what is wrong with them."""
        if not self.rows:
            return
        if self.source == "number":
            self._settle_numbers(unit)
            return
        self.kind = "latency" if table.is_latency(self.rows[0][0]) else "bandwidth"
        self.unit = "us" if self.kind == "latency" else self._unit(unit)
        if self.unit is None and any(measure(raw.get("average")) for raw, _line in self.rows):
            text = "the unit of the numbers is not in the text"
            step = "give the unit: gbps for a run with --report_gbits, mibps without"
            self._object(text, "neither a header nor the rate of messages tells it", step)
            return
        self.result_rows = self._results(self.rows)
        if self.section_rows:
            self.directions = {name: self._results(rows) for name, rows in sorted(self.section_rows.items())}
        if self.source == "table" and self.header is None:
            self._object("the table has no header", "its beginning is lost", "keep the whole output of the run")
        elif self.header and self.header.unit is None and self.kind == "bandwidth":
            self.notices.append("the header names no unit; size and rate of messages, or the caller, tell it")
        if self.too_many:
            cause = f"the run prints a row again and again; the first {_MOST_ROWS} are read"
            self._object(f"more than {_MOST_ROWS} rows", cause, "leave out --run_infinitely")
        if not self.closed:
            cause = "the program was ended before it ended itself, or the connection to it broke"
            step = "run the test again with more time, and without --run_infinitely, which never ends itself"
            self._object("the output is cut off before its end", cause, step)
        elif not self.ended_table:
            self.notices.append("the lines of dashes are missing, so the output may be incomplete")

    def _unit(self, unit: str) -> str | None:
        if self.header and self.header.unit:
            return self.header.unit
        return table.agreed_unit([raw for raw, _line in self.rows]) or _TABLE_UNITS.get(unit)

    def _results(self, rows: Sequence[tuple[dict[str, Any], str]]) -> list[table.Row]:
        good: list[table.Row] = []
        for raw, line in rows:
            row = self._result(raw)
            if row is not None:
                good.append(row)
            elif not self.damaged:
                self._object(
                    f"a row makes no sense: {quoted(line)}",
                    "its numbers are not finite, or its bandwidth does not belong to its size and rate of messages",
                    "run the test again; lines of two programs in one file mix like this",
                )
        return good

    def _result(self, raw: dict[str, Any]) -> table.Row | None:
        if self.kind == "latency":
            return table.latency_row(raw) if table.is_latency(raw) else None
        if table.is_latency(raw) or self.unit is None or ("rate" in raw and self.unit not in table.units_of(raw)):
            return None
        return table.bandwidth_row(raw, self.unit)

    def _settle_numbers(self, unit: str) -> None:
        if unit == "auto":
            cause = "--output prints a number alone: Gb/s, MiB/s, million messages or microseconds"
            self._object("the unit of the number is not in the text", cause, "give the unit, or leave out --output")
            return
        self.kind = "latency" if unit == "usec" else "bandwidth"
        self.unit = "us" if unit == "usec" else _TABLE_UNITS[unit]
        factor = 1.0 if unit == "usec" else table.GIGABITS_PER[self.unit]
        for raw, _line in self.rows:
            number = (measure(raw["number"]) or 0.0) * factor
            row: table.Row = {"bytes": None, "iterations": None}
            if self.kind == "latency":
                row["average_us"] = number
            else:
                row.update(peak_gbps=None, average_gbps=round(number, 6), msg_rate_mpps=None)
            self.result_rows.append(row)

    def _object(self, problem: str, cause: str, next_step: str) -> None:
        self.damaged = True
        self.problems.append(problem_of(problem, cause, next_step))


def _last_run(lines: Sequence[str]) -> tuple[_Run, int, bool]:
    """Read the tables of a text; return the last run, the number of runs, and whether any of them has a row.

    A second title or a second table starts a second run.
    """
    run, count, rows = _Run(), 1, False
    for line in lines:
        title = _TITLE.search(line) if "Test" in line and '"' not in line and "test:" not in line else None
        header = None if title else table.header_in(line)
        again = (title and run.verb) or (header and run.header and run.rows and not run.section)
        if again or (run.ended_table and "Waiting for client" in line):
            rows = rows or bool(run.rows)
            run, count = _Run(), count + 1
        if title:
            run.take_title(title)
        elif header:
            run.header = header
        else:
            _take_line(run, line)
    return run, count, rows or bool(run.rows)


def _take_line(run: _Run, line: str) -> None:
    if ":" in line:
        section = _SECTION.search(line)
        run.section = section[1].lower() if section else run.section
        for name, value in _INFO.findall(line):
            run.take_info(name, value)
    if "GPU" in line or "CUDA" in line:
        run.cuda = run.cuda or bool(_GPU_MEMORY.search(line))
    raw = table.raw_row(line, run.header.columns) if run.header else table.headerless_row(line)
    if raw:
        run.take_row(raw, line)
        run.ended_table = False
    elif _DASHES.search(line):
        run.has_dashes, run.ended_table = True, bool(run.rows)


def _run_of(report: JsonReport) -> _Run:
    """Return the run that a JSON report describes."""
    run = _Run()
    run.source = "json"
    for name, value in report.info.items():
        run.take_info(name, value)
    title = _TITLE.search(str(report.info.get("test", "")))
    if title:
        run.take_title(title)
    run.cuda = "cuda device" in report.info
    run.ended_table = report.closed
    if "bytes" in report.row:
        run.rows = [(report.row, str(report.row))]
    elif report.row:
        number = report.row.get("average", report.row.get("average_us"))
        if measure(number) is not None:
            run.source, run.rows = "number", [({"number": number}, str(number))]
    if not report.strict:
        run.notices = ["the report is not valid JSON (perftest before 24.01 writes it so); it was read line by line"]
    return run


def _why_empty(run: _Run, lines: Sequence[str]) -> Problem:
    """Return the problem of an output without a row and without a message."""
    if run.rows:
        return run.problems.pop(0)
    if not lines:
        cause = "the program printed nothing: it hangs, was ended, or its output went elsewhere"
        return problem_of("the output is empty", cause, "run it again with a time limit, and keep both of its outputs")
    connected = any("remote address:" in line for line in lines)
    if connected and run.program() in _ONE_SIDED:
        cause = f"the server side of {run.program()} measures nothing"
        return problem_of("there is no row", cause, "pass the output of the client side")
    if not connected and any("Waiting for client" in line for line in lines):
        return problem_of("the server side waits", "no client connected to it", "start the client with its address")
    if run.verb or run.header or run.info:
        cause = "the test ended, or was ended, before its first row"
        return problem_of("there is no row", cause, "look at the other side's output, and give the test more time")
    return problem_of(
        "this is not output of perftest", "no title, no table and no report is in it", "pass the whole output"
    )


def _summary(kind: str | None, rows: Sequence[table.Row]) -> dict[str, Any] | None:
    if not rows:
        return None
    if kind == "latency":
        smallest = min(rows, key=lambda row: row["bytes"] or 0)
        return {key: smallest.get(key) for key in ("bytes", "typical_us", "average_us", "p99_us", "p999_us")}
    sizes = [row["bytes"] or 0 for row in rows]
    large = [row["average_gbps"] for row in rows if (row["bytes"] or 0) >= min(LARGE_MESSAGE, max(sizes))]
    best = max(rows, key=lambda row: row["average_gbps"])
    peaks = [row["peak_gbps"] for row in rows if row["peak_gbps"] is not None]
    return {
        "peak_gbps": max(peaks) if peaks else None,
        "average_gbps": round(median(large), 6),
        "largest_bytes": max(sizes) or None,
        "best_bytes": best["bytes"],
        "best_gbps": best["average_gbps"],
    }
