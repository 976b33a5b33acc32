# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The document of a comparison as JUnit XML, which CI systems and AWX show. Pure.

One suite for the hosts and one for the objects, one test case for each. A difference is a failure, what could not be
read or compared an error; objects that a comparison did not reach are skipped.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._proof.junit_xml import content, start_tag
from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import counted
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import Json

from .comparison import UNREACHABLE, host_line, object_lines
from .objects import FAILED, NOT_COMPARED, SAME

_NAME = "rdma.fabric.drift"
_FAILURE, _ERROR, _SKIPPED = "failure", "error", "skipped"


class _Case(NamedTuple):
    """One test case; ``element`` is what is wrong with it, empty where nothing is."""

    group: str
    name: str
    element: str = ""
    kind: str = ""
    message: str = ""
    text: str = ""


def junit_text(document: Mapping[str, Any]) -> str:
    """Return the XML of a document."""
    suites = {"hosts": [_host(row) for row in document["hosts"]]}
    cluster = document["cluster"]
    if cluster is not None:
        errors = [_cluster_error(cluster["server"], error) for error in cluster["errors"]]
        suites["objects"] = [*errors, *(_object(row) for row in cluster["objects"])]
    together = [case for cases in suites.values() for case in cases]
    at = document["generated_at"].rstrip("Z")
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', start_tag("testsuites", name=_NAME, **_counts(together))]
    for name, cases in suites.items():
        lines.append(start_tag("testsuite", name=name, **_counts(cases), timestamp=at))
        lines += [*map(_xml, cases), "</testsuite>"]
    return "\n".join([*lines, "</testsuites>", ""])


def _host(row: Json) -> _Case:
    group = f"{_NAME}.hosts"
    if row["state"] == SAME:
        return _Case(group, row["host"])
    if row["state"] in (UNREACHABLE, FAILED):
        return _Case(group, row["host"], _ERROR, row["state"], row["why"], row["why"])
    lines = [host_line(each) for each in row["differences"]]
    return _Case(group, row["host"], _FAILURE, row["state"], counted(len(lines), "difference"), "\n".join(lines))


def _object(row: Json) -> _Case:
    group, name = f"{_NAME}.objects.{row['kind']}", "/".join(filter(None, (row["namespace"], row["name"])))
    if row["state"] == SAME:
        return _Case(group, name)
    if row["state"] == NOT_COMPARED:
        return _Case(group, name, _SKIPPED, message="the comparison did not reach it")
    head, *fields = object_lines(row)
    element = _ERROR if row["state"] == FAILED else _FAILURE
    return _Case(group, name, element, row["state"], head, "\n".join([head, *fields]))


def _cluster_error(server: str, error: Json) -> _Case:
    text = "\n".join(filter(None, (error["message"], error["next_step"] and f"next: {error['next_step']}")))
    return _Case(f"{_NAME}.cluster", server or "API server", _ERROR, error["fault"], error["message"], text)


def _xml(case: _Case) -> str:
    head = start_tag("testcase", classname=case.group, name=case.name)
    if not case.element:
        return f"{head}</testcase>"
    kind = {"type": case.kind} if case.kind else {}
    inner = start_tag(case.element, message=case.message, **kind)
    return f"{head}\n{inner}{content(case.text)}</{case.element}>\n</testcase>"


def _counts(cases: Sequence[_Case]) -> dict[str, str]:
    elements = [case.element for case in cases]
    return {
        "tests": str(len(cases)),
        "failures": str(elements.count(_FAILURE)),
        "errors": str(elements.count(_ERROR)),
        "skipped": str(elements.count(_SKIPPED)),
    }
