# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results as JUnit XML, which CI systems and AWX show. Pure."""

from __future__ import annotations

import re
from typing import Mapping, NamedTuple, Sequence
from xml.sax.saxutils import escape, quoteattr

FAILURE, ERROR, SKIPPED = "failure", "error", "skipped"
# Outside of XML 1.0's production Char, a document holds nothing.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Case(NamedTuple):
    """One test case; ``element`` is what is wrong with it (FAILURE, ERROR, SKIPPED), empty where nothing is."""

    group: str
    name: str
    element: str = ""
    kind: str = ""
    message: str = ""
    text: str = ""
    output: str = ""
    seconds: float | None = None


def document_of(name: str, suites: Mapping[str, Sequence[Case]], at: str, seconds: float | None = None) -> str:
    """Return the XML of suites of cases by name, which began ``at`` a time in UTC and took so long together."""
    every = [case for cases in suites.values() for case in cases]
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', _start("testsuites", name=name, **_counts(every, seconds))]
    for suite, cases in suites.items():
        lines.append(_start("testsuite", name=suite, **_counts(cases), timestamp=at.rstrip("Z")))
        lines += [*map(_case, cases), "</testsuite>"]
    return "\n".join([*lines, "</testsuites>", ""])


def _case(case: Case) -> str:
    lines = [_start("testcase", classname=case.group, name=case.name, **_time(case.seconds))]
    if case.element:
        kind = {"type": case.kind} if case.kind else {}
        lines.append(f"{_start(case.element, message=case.message, **kind)}{_content(case.text)}</{case.element}>")
    if case.output:
        lines.append(f"<system-out>{_content(case.output)}</system-out>")
    return "\n".join([*lines, "</testcase>"])


def _counts(cases: Sequence[Case], seconds: float | None = None) -> dict[str, str]:
    elements, times = [case.element for case in cases], [case.seconds for case in cases if case.seconds is not None]
    return {
        "tests": str(len(cases)),
        "failures": str(elements.count(FAILURE)),
        "errors": str(elements.count(ERROR)),
        "skipped": str(elements.count(SKIPPED)),
        **_time(sum(times) if times and seconds is None else seconds),
    }


def _start(element: str, **attributes: str) -> str:
    told = "".join(f" {name}={quoteattr(_allowed(value))}" for name, value in attributes.items())
    return f"<{element}{told}>"


def _content(text: str) -> str:
    return escape(_allowed(text))


def _time(seconds: float | None) -> dict[str, str]:
    """Return seconds as the decimal that readers of JUnit files want: with up to three places, never an exponent."""
    return {} if seconds is None else {"time": f"{seconds:.3f}".rstrip("0").rstrip(".")}


def _allowed(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
