# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The document of a proof as JUnit XML, which CI systems and AWX show. Pure.

One suite for what differs between ports, and one per network with one test case per pair and test.
"""

from __future__ import annotations

from typing import Any, Mapping

from ..junit_xml import FAILURE, SKIPPED, Case, document_of
from .document import network_label

_ELEMENTS = {"fail": FAILURE, "skipped": SKIPPED, "unknown": SKIPPED}


def junit_text(document: Mapping[str, Any]) -> str:
    """Return the XML of a document, one test case per pair, network and test, and one for what ports differ by."""
    suites = {"ports": [_of_ports(each) for each in document["parity"]]}
    for network in document["networks"]:
        label = network_label(network)
        rows = [row for row in document["pairs"] if row["network"] == network["network"]]
        suites[label] = [_of_test(label, row, test) for row in rows for test in row["tests"]]
    return document_of("rdma.fabric.verify", suites, document["started_at"], document["seconds"])


def _of_ports(finding: Mapping[str, Any]) -> Case:
    says, step = finding["says"], f"next: {finding['next_step']}"
    element, kind = _ELEMENTS.get(finding["verdict"], ""), finding["kind"]
    return Case("ports", f"{kind} {finding['network']}".rstrip(), element, kind, says, step, f"{says}\n{step}", 0)


def _of_test(label: str, row: Mapping[str, Any], test: Mapping[str, Any]) -> Case:
    problem, summary = test["problem"] or {}, test["summary"]
    return Case(
        f"{label}.{row['a']} - {row['b']}",
        f"{test['test']} {test['from']} to {test['to']}",
        _ELEMENTS.get(test["verdict"], ""),
        test["test"],
        summary,
        f"{summary}\ncause: {problem['cause']}\nnext: {problem['next_step']}" if problem else "",
        "\n".join(filter(None, (summary, test["command"], test["output"]))),
        test["seconds"],
    )
