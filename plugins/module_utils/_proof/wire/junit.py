# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The document of a proof as JUnit XML, which CI systems and AWX show. Pure.

One suite for what differs between ports, and one per network with one test case per pair and test.
"""

from __future__ import annotations

from typing import Any, Mapping

from ..junit_xml import content, seconds_text, start_tag
from .document import network_label


def junit_text(document: Mapping[str, Any]) -> str:
    """Return the XML of a document, one test case per pair, network and test."""
    suites = [_parity(document), *(_suite(document, network) for network in document["networks"])]
    total = [*document["parity"], *(test for row in document["pairs"] for test in row["tests"])]
    head = start_tag("testsuites", name="rdma.fabric.verify", **_counts(total), time=seconds_text(document["seconds"]))
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *suites, "</testsuites>", ""])


def _parity(document: Mapping[str, Any]) -> str:
    """Return the suite of what differs between ports; what is not known is skipped."""
    cases = []
    for each in document["parity"]:
        step = f"next: {each['next_step']}"
        inside = f"<system-out>{content(each['says'])}\n{content(step)}</system-out>"
        if each["verdict"] == "fail":
            head = start_tag("failure", message=each["says"], type=each["kind"])
            inside = f"{head}{content(step)}</failure>{inside}"
        elif each["verdict"] == "unknown":
            inside = f"{start_tag('skipped', message=each['says'])}</skipped>{inside}"
        case = start_tag("testcase", classname="ports", name=f"{each['kind']} {each['network']}".rstrip(), time="0")
        cases.append(f"{case}\n{inside}\n</testcase>")
    head = start_tag("testsuite", name="ports", **_counts(document["parity"]), time="0")
    return "\n".join([head, *cases, "</testsuite>"])


def _suite(document: Mapping[str, Any], network: Mapping[str, Any]) -> str:
    rows = [row for row in document["pairs"] if row["network"] == network["network"]]
    tests = [test for row in rows for test in row["tests"]]
    name, started = network_label(network), document["started_at"].rstrip("Z")
    head = start_tag("testsuite", name=name, **_counts(tests), time=seconds_text(_seconds(tests)), timestamp=started)
    cases = [_case(name, row, test) for row in rows for test in row["tests"]]
    return "\n".join([head, *cases, "</testsuite>"])


def _case(suite: str, row: Mapping[str, Any], test: Mapping[str, Any]) -> str:
    head = start_tag(
        "testcase",
        classname=f"{suite}.{row['a']} - {row['b']}",
        name=f"{test['test']} {test['from']} to {test['to']}",
        time=seconds_text(test["seconds"]),
    )
    inside = []
    if test["verdict"] == "fail":
        problem = test["problem"] or {}
        text = f"{test['summary']}\ncause: {problem.get('cause', '')}\nnext: {problem.get('next_step', '')}"
        inside.append(f"{start_tag('failure', message=test['summary'], type=test['test'])}{content(text)}</failure>")
    elif test["verdict"] == "skipped":
        inside.append(f"{start_tag('skipped', message=test['summary'])}</skipped>")
    shown = [part for part in (test["summary"], test["command"], test["output"]) if part]
    inside.append(f"<system-out>{content(chr(10).join(shown))}</system-out>")
    return "\n".join([head, *inside, "</testcase>"])


def _counts(tests: list[dict[str, Any]]) -> dict[str, str]:
    verdicts = [test["verdict"] for test in tests]
    return {
        "tests": str(len(verdicts)),
        "failures": str(verdicts.count("fail")),
        "errors": "0",
        "skipped": str(verdicts.count("skipped") + verdicts.count("unknown")),
    }


def _seconds(tests: list[dict[str, Any]]) -> float:
    return round(sum(float(test["seconds"]) for test in tests), 1)
