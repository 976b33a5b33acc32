# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of a proof as lines of JSON, written as they are found: what ``verify.rows.jsonl`` holds. Pure.

The first line says what was planned, the last one the verdict; a file without a verdict is of a run that was cut off.
The line of a pair that passes has what was measured alone, that of another one is its row.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any, Dict, Iterable, Mapping, NamedTuple, Sequence

from .side import GPU_TEST

Row = Dict[str, Any]

ROWS_FORMAT = "rdma.fabric/verify-rows/v1"
ROWS_FILE = "verify.rows.jsonl"
_OF_A_PAIR = ("network", "rail", "a", "b", "round", "verdict")
_RATES = (("bandwidth", ""), (GPU_TEST, "gpu_"))
_LIMITS = ("expected", "threshold", "limit")
_FIGURES = {"expected": "expected_gbps"}


class Written(NamedTuple):
    """What a file holds: the run that began it, its seed and the digest of its plan, pairs, and whether it ended."""

    run: str = ""
    seed: int = 0
    plan: str = ""
    rows: Sequence[Row] = ()
    ended: bool = False


def digest_of(*asked: Any) -> str:
    """Return what tells a plan, and how its pairs are tested, from others."""
    return sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:32]


def head_line(run: str, seed: int, plan: str) -> str:
    """Return the first line of a file."""
    return _line({"format": ROWS_FORMAT, "run": run, "seed": seed, "plan": plan})


def last_line(verdict: str) -> str:
    """Return the last line of a file."""
    return _line({"ended": verdict})


def row_line(row: Row) -> str:
    """Return the line of a pair."""
    return _line(_short(row) if row["verdict"] == "pass" else row)


def brief_row(row: Row) -> Row:
    """Return a row as it is read again from its line: all of them are held in memory, and most pass."""
    return _row(_short(row)) if row["verdict"] == "pass" else row


def read_lines(lines: Iterable[str]) -> Written:
    """Return what a file holds, as far as it can be read: the last line of a run that was cut off may be a part."""
    found, rows = Written(), []
    for line in lines:
        try:
            each = json.loads(line)
            if each.get("format") == ROWS_FORMAT:
                found = Written(str(each["run"]), int(each["seed"]), str(each["plan"]))
            elif "ended" in each:
                found = found._replace(ended=True)
            else:
                rows.append(each if "tests" in each else _row(each))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            break
    return found._replace(rows=rows)


def _line(content: Mapping[str, Any]) -> str:
    return json.dumps(content, separators=(",", ":"), sort_keys=True) + "\n"


def _short(row: Row) -> Row:
    short = {key: row[key] for key in _OF_A_PAIR if row[key] is not None}
    for name, prefix in _RATES:
        figures = [test["figures"] for test in row["tests"] if test["test"] == name and test["figures"]]
        if figures:
            short[f"{prefix}gbps"] = [each.get("measured_gbps") for each in figures]
            limits = {key: figures[0].get(_FIGURES.get(key, key)) for key in _LIMITS}
            short.update({prefix + key: value for key, value in limits.items() if value is not None})
    latency = [test["figures"] for test in row["tests"] if test["test"] == "latency" and test["figures"]]
    return {**short, "us": latency[0]["typical_us"]} if latency else short


def _row(short: Row) -> Row:
    pair = (short["a"], short["b"])
    tests = []
    for name, prefix in _RATES:
        limits = {_FIGURES.get(key, key): short.get(prefix + key) for key in _LIMITS}
        for ends, rate in zip((pair, pair[::-1]), short.get(f"{prefix}gbps", ())):
            tests.append(_test(name, ends, f"{rate} Gb/s measured", {"measured_gbps": rate, **limits}))
    if "us" in short:
        tests.append(_test("latency", pair, f"{short['us']} us typical", {"typical_us": short["us"]}))
    return {**{key: short.get(key) for key in _OF_A_PAIR}, "tests": tests}


def _test(name: str, ends: Sequence[str], summary: str, figures: Mapping[str, Any]) -> Row:
    told = {"problem": None, "command": None, "output": None, "seconds": 0.0, "verdict": "pass", "summary": summary}
    return {"test": name, "from": ends[0], "to": ends[1], **told, "figures": dict(figures)}
