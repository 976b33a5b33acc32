# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shape of the document of a fabric test, apart from the others: most runs read none, and need nothing of a proof."""

from __future__ import annotations

from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.document import FORMAT
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation

from .documents import problems_of

_TEST = {
    "test": "str",
    "from": "str",
    "to": "str",
    "verdict": "str",
    "summary": "str",
    "seconds": "number",
    "figures": "map?",
}
_FAILURE = dict.fromkeys(("pair", "network", "test", "direction", "problem", "cause", "next_step"), "str")
_VALIDATION = {
    "format": "str",
    "run": "str",
    "started_at": "str",
    "seconds": "number",
    "image": "str",
    "schedule": "str",
    "verdict": "str",
    "counts": {"total": "int", "pass": "int", "fail": "int", "reported": "int", "skipped": "int"},
    "failures": [_FAILURE],
    "left_out": [{"host": "str", "network": "str", "why": "str"}],
    "networks": [
        {
            "network": "str",
            "resource": "str",
            "rail": "int?",
            "nodes": ["str"],
            "accused": [{"says": "str", "nodes": ["str"], "sure": "bool"}],
            "pods": [{"node": "str", "rate_gbps": "number?", "software": "bool?"}],
        }
    ],
    "pairs": [{"network": "str", "a": "str", "b": "str", "verdict": "str", "tests": [_TEST]}],
}
_VERDICTS = ("pass", "fail", "reported", "skipped")
_PROVED_BY = "delete the file, or run rdma.fabric.verify again, which writes it"


def verification_violations(source: str, document: Any) -> list[Violation]:
    """Return every reason why ``document``, the parsed content of ``source``, is no result of a fabric test."""
    problems = problems_of(document, _VALIDATION, "")
    if not problems:
        if document["format"] != FORMAT:
            problems.append(("format", f"is {document['format']!r}; this release reads {FORMAT}"))
        tests = [test for row in document["pairs"] for test in row["tests"]]
        odd = {each["verdict"] for each in [*document["pairs"], *tests]} - set(_VERDICTS)
        problems += [("pairs", f"holds the verdict {verdict!r}, which there is not") for verdict in sorted(odd)]
    return [Violation(source, path, problem, _PROVED_BY) for path, problem in problems]
