# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shapes of the documents of tests, apart from the others: most runs read none, and need nothing of a proof."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.document import FORMAT, NCCL_FORMAT
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation

from .documents import Problem, problems_of

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
    "parity": [{**dict.fromkeys(("verdict", "kind", "network", "says", "next_step"), "str"), "ports": ["str"]}],
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
_NCCL = {
    "format": "str",
    "verdict": "str",
    "started_at": "str",
    "image": "str",
    "launcher": "str",
    "nodes": ["str"],
    "gpus_of_each": "int",
    "tests": [
        {
            **dict.fromkeys(("scope", "program", "verdict", "line"), "str"),
            **dict.fromkeys(("busbw_gbytes", "expected_gbytes", "minimum_gbytes"), "number?"),
        }
    ],
}
_PROVED_BY = "delete the file, or run rdma.fabric.%s again, which writes it"


def verification_violations(source: str, document: Any) -> list[Violation]:
    """Return every reason why ``document``, the parsed content of ``source``, is no result of a fabric test."""
    problems = problems_of(document, _VALIDATION, "")
    if not problems:
        problems += _of_another_release(document, FORMAT)
        tests = [test for row in document["pairs"] for test in row["tests"]]
        problems += _odd_verdicts("pairs", [*document["pairs"], *tests])
    return [Violation(source, path, problem, _PROVED_BY % "verify") for path, problem in problems]


def nccl_violations(source: str, document: Any) -> list[Violation]:
    """Return every reason why ``document``, the parsed content of ``source``, is no result of NCCL tests."""
    problems = problems_of(document, _NCCL, "")
    if not problems:
        problems += [*_of_another_release(document, NCCL_FORMAT), *_odd_verdicts("tests", document["tests"])]
    return [Violation(source, path, problem, _PROVED_BY % "nccl") for path, problem in problems]


def _of_another_release(document: Mapping[str, Any], known: str) -> list[Problem]:
    found = document["format"]
    return [] if found == known else [("format", f"is {found!r}; this release reads {known}")]


def _odd_verdicts(path: str, rows: Iterable[Mapping[str, Any]]) -> list[Problem]:
    odd = {each["verdict"] for each in rows} - set(_VERDICTS)
    return [(path, f"holds the verdict {verdict!r}, which there is not") for verdict in sorted(odd)]
